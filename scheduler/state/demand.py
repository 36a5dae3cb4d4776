"""Demand: how many of the known pods ask for which devices, with how many cores, on which nodes.

For plugins that look ahead to what may come next.  All pods count that have not ended, pending and placed, of every scheduler;
it is a function of what is known now, so a restart loses nothing.  Pods without extended resources are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from scheduler.model import Pod


class Ask(NamedTuple):
    """What a pod asks for: equal for pods that equal nodes suit."""

    #: Millicores.
    cpu: int
    #: Extended resources by name with their amounts, sorted.
    devices: tuple[tuple[str, int], ...]
    #: The node selector, sorted, and the required node affinity as bytes; empty if any node will do.
    selector: tuple[tuple[str, str], ...] = ()
    affinity: bytes = b""


class Demand:
    """Counts by what is asked."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.counts: dict[Ask, int] = {}
        #: Some pod of each kind, to ask nodes with whether they suit.
        self.examples: dict[Ask, Pod] = {}
        self.total = 0
        #: Grows by one for each pod that is counted in or out.
        self.changes = 0

    def replace(self, former: Pod | None, pod: Pod | None) -> None:
        """Count a pod in place of its former view; None for what is not there. O(1)."""
        before, after = _ask_of(former), _ask_of(pod)
        if before == after:
            return
        if before is not None:
            self._add(before, -1)
        if after is not None and pod is not None:
            self.examples.setdefault(after, pod)
            self._add(after, 1)

    def _add(self, ask: Ask, by: int) -> None:
        self.total += by
        self.changes += 1
        left = self.counts.get(ask, 0) + by
        if left:
            self.counts[ask] = left
        else:
            del self.counts[ask], self.examples[ask]


def _ask_of(pod: Pod | None) -> Ask | None:
    """Return what a pod asks for; None if it asks for no device or has ended."""
    if pod is None or pod.is_terminal:
        return None
    devices = [item for item in pod.requests.items() if "/" in item[0] and item[1] > 0]
    if not devices:
        return None
    affinity = pod.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return Ask(
        pod.requests.get("cpu", 0),
        tuple(sorted(devices)),
        tuple(sorted(pod.node_selector.items())) if pod.node_selector else (),
        b"" if required is None else msgspec.json.encode(required),
    )
