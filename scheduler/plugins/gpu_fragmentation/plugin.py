"""GPUFragmentation keeps GPUs whole: it prefers nodes where a pod leaves the most idle GPUs of use to the popular shapes.

At Score for every pod, as long as some pod asks for GPUs; pods without GPUs are kept off cores that idle GPUs need.  For pods
that ask for a share of a GPU, also at Filter, where one GPU must have as much left, and at Reserve, where it chooses the GPU (best
fit) and publishes it as annotation of the binding.  Which GPU such a pod gets is *assumed*: whatever shares GPUs on the node decides.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.state.demand import Demand
from scheduler.topology import GPUS_ANNOTATION, Basis, format_gpus

from .asks import WHOLE, gpus_asked, share_asked
from .popular import Popular
from .shares import Remembered, fitted_on
from .worth import Worth

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints, Nodes

NAME = "GPUFragmentation"
SHARES = "scheduling.ai-scheduler.io/gpu-milli"
#: First part of the key under which DefaultBinder finds what to publish; the second is the pod's uid.
ANNOTATIONS = "annotations"


class GPUFragmentationArgs(ConfigurationModel):
    """Arguments of GPUFragmentation."""

    resource_name: str = Field(default="nvidia.com/gpu", min_length=1)
    """The resource that counts whole GPUs."""
    share_resource_name: str = Field(default=SHARES, min_length=1)
    """The resource that counts thousandths of GPUs: below 1000 a share of one GPU, multiples of 1000 whole ones."""


@lru_cache(maxsize=4096)
def no_gpu(milli: int, count: int) -> Reason:
    """Return the reason for GPUs none of which has enough left."""
    text = f"no GPU has {milli} thousandths left" if count == 1 else f"fewer than {count} GPUs are idle"
    cures = ClusterEvent.POD_REMOVED | ClusterEvent.NODE_ADDED | ClusterEvent.NODE_ALLOCATABLE
    return Reason("NoGPUShare", text, cures, Kind.NOT_NOW, (("milli", milli), ("count", count)))


class GPUFragmentation(Plugin):
    """Leave whole what can stay whole."""

    NAME: ClassVar[str] = NAME
    Args = GPUFragmentationArgs
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: GPUFragmentationArgs | None, handle: Handle) -> None:
        """Start without memory: after a restart, the annotations of bound pods tell as much."""
        super().__init__(args or GPUFragmentationArgs(), handle)
        self._whole: str = self.args.resource_name
        self._shares: str = self.args.share_resource_name
        self._remembered = Remembered()
        self._popular = Popular(Demand(), self._whole, self._shares)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone that ask for no share; refuse a share of more than one GPU."""
        milli = pod.requests.get(self._shares, 0)
        if milli <= 0:
            return Status.skip()
        if milli > WHOLE and milli % WHOLE:
            text = f"requests {milli} of {self._shares}; allowed are 1 to {WHOLE - 1}, or multiples of {WHOLE}"
            return Status.unresolvable(Reason("OddGPUShare", text, ClusterEvent.POD_UPDATED, Kind.NEVER))
        return None

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes that offer shares, but no GPU with enough left; all others are NodeResourcesFit's concern."""
        verdicts, ask = Verdicts(len(nodes)), share_asked(pod.requests.get(self._shares, 0))
        if ask is not None:
            verdicts.reject(self._worth(nodes).refuses(ask, nodes), Code.UNSCHEDULABLE, no_gpu(ask.milli, ask.gpus))
        return verdicts

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Learn from the pods that are known, if many came or went; nothing to do while none asks for GPUs."""
        if self._popular.is_stale(self.handle.cluster.demand):
            self._popular = Popular(self.handle.cluster.demand, self._whole, self._shares)
        state.write(NAME, self._popular)
        return None if len(self._popular) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return 50 where as much stays of use as before, more or less by how much that changes (`worth`)."""
        ask = gpus_asked(pod.requests, self._whole, self._shares)
        scores = self._worth(nodes).scores(ask, pod.requests.get("cpu", 0), state.read(NAME, self._popular))
        return nodes.at(scores).copy()

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether there was nothing to learn since: Filter looks at one node, Score at what is popular, too."""
        return point == "filter" or (
            state.read(NAME) is self._popular and not self._popular.is_stale(self.handle.cluster.demand)
        )

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Choose the GPUs of a pod that asks for shares, remember them, and leave them for the Binding to publish."""
        index = self.handle.snapshot.row_of.get(node_name)
        if index is None or not pod.requests.get(self._shares):
            return
        self.unreserve(state, pod, node_name)
        mask = fitted_on(self.handle.snapshot.all_rows[index], pod, self._shares, self._remembered.masks)
        annotations = state.read((ANNOTATIONS, pod.uid), {})
        if mask and GPUS_ANNOTATION not in annotations:
            self._remembered.keep(pod.uid, mask, self.handle.cluster.pods)
            chosen = {GPUS_ANNOTATION: format_gpus(mask, Basis.ASSUMED)}
            state.write((ANNOTATIONS, pod.uid), {**annotations, **chosen})

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget the GPUs, and take back the annotation that Reserve added."""
        if self._remembered.forget(pod.uid):
            published = state.read((ANNOTATIONS, pod.uid), {})
            kept = {key: text for key, text in published.items() if key != GPUS_ANNOTATION}
            state.write((ANNOTATIONS, pod.uid), kept)

    def _worth(self, nodes: Nodes) -> Worth:
        """Return what is kept of the rows, up to date."""
        make = partial(Worth, self._whole, self._shares, self._remembered.masks)
        return nodes.snapshot.follower((NAME, self), make)
