"""What is left of each GPU of one node, and which GPUs its pods have.

For the plugin beside it; the one place that knows, so that another source of truth (devices allocated by DRA) takes its place here.
What is known of a pod's GPUs, best first: the annotation it was bound with; the set remembered since Reserve; for any other pod, the
best fit in what is left then, in the order in which the pods came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.topology import GPUS_ANNOTATION, TopologyError, gpus_of_mask, mask_of_gpus, parse_gpus

from .asks import WHOLE, best_fit, share_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.model import Node, Pod
    from scheduler.state.rows import Row

#: Nodes with more GPUs are looked at as if they had so many.
MOST_GPUS = 64
#: With fewer remembered pods, nobody looks for those that are not needed any more.
LEAST_REMEMBERED = 256


def gpu_count(node: Node, whole: str, shares: str) -> tuple[int, bool]:
    """Return how many GPUs a node offers, and whether it offers them in thousandths."""
    milli = node.allocatable.get(shares, 0)
    if milli >= WHOLE:
        return min(milli // WHOLE, MOST_GPUS), True
    return min(max(node.allocatable.get(whole, 0), 0), MOST_GPUS), False


def left_on(row: Row, whole: str, shares: str, remembered: Mapping[str, int]) -> list[int]:
    """Return thousandths left by GPU; where only whole GPUs are counted, the idle ones come last.

    `remembered` is uid to mask.  O(1) where only whole GPUs are counted, else O(pods of the row).
    """
    count, has_shares = gpu_count(row.node, whole, shares)
    if not has_shares:
        used = min(max(row.requested.get(whole, 0), 0), count)
        return [0] * used + [WHOLE] * (count - used)
    return divide(count, row.pods.values(), shares, remembered)[0]


def fitted_on(row: Row, pod: Pod, shares: str, remembered: Mapping[str, int]) -> int:
    """Return the mask of GPUs that a pod gets on a row, whether it is placed there already or not; 0 if none."""
    pods = row.pods.values() if pod.uid in row.pods else (*row.pods.values(), pod)
    return divide(gpu_count(row.node, "", shares)[0], pods, shares, remembered)[1].get(pod.uid, 0)


def divide(
    count: int, pods: Iterable[Pod], shares: str, remembered: Mapping[str, int]
) -> tuple[list[int], dict[str, int]]:
    """Return what pods leave of so many GPUs, in thousandths, and the masks of those that got the best fit, by uid.

    A pod for which too little is left gets nothing; a GPU that more is claimed of than it has is empty.
    """
    left = [WHOLE] * count
    fitted: dict[str, int] = {}
    unsettled = []
    for pod in pods:
        ask = share_asked(pod.requests.get(shares, 0))
        if ask is None:
            continue
        mask = remembered.get(pod.uid, 0) or _told(pod, count)
        if not mask:
            unsettled.append((pod.uid, ask))
            continue
        for gpu in gpus_of_mask(mask):
            if gpu < count:
                left[gpu] = max(left[gpu] - ask.milli, 0)
    for uid, ask in unsettled:
        gpus = best_fit(left, ask)
        if len(gpus) == ask.gpus:
            fitted[uid] = mask_of_gpus(gpus)
            for gpu in gpus:
                left[gpu] -= ask.milli
    return left, fitted


def _told(pod: Pod, count: int) -> int:
    """Return the mask of GPUs that a bound pod's annotation tells; 0 if it tells none that can be read."""
    text = pod.annotations.get(GPUS_ANNOTATION) if pod.node_name else None
    if text is None:
        return 0
    try:
        return parse_gpus(text, count)[0]
    except TopologyError:
        return 0


class Remembered:
    """The GPUs of pods that were given some and are not seen with their annotation yet."""

    def __init__(self) -> None:
        """Start with none."""
        #: Uid to mask.
        self.masks: dict[str, int] = {}
        self._sweep_at = LEAST_REMEMBERED

    def keep(self, uid: str, mask: int, pods: Mapping[str, Pod]) -> None:
        """Remember a pod's GPUs; `pods` are all known pods by uid. O(1) in the mean."""
        if len(self.masks) >= self._sweep_at:
            for known in [known for known in self.masks if not _is_needed(pods.get(known))]:
                del self.masks[known]
            self._sweep_at = max(LEAST_REMEMBERED, 2 * len(self.masks))
        self.masks[uid] = mask

    def forget(self, uid: str) -> bool:
        """Drop a pod's GPUs; return whether there were some."""
        return self.masks.pop(uid, None) is not None


def _is_needed(pod: Pod | None) -> bool:
    """Tell whether a pod is still there and does not tell its GPUs itself."""
    return pod is not None and not pod.is_terminal and not (pod.node_name and GPUS_ANNOTATION in pod.annotations)
