"""What each NUMA node has free: what was reported, less the pods that the report does not tell of yet.

For `columns`.  A report lags behind the scheduler, so a pod that it does not count is deducted from every NUMA node of its
machine, as nobody knows which it will be in; that refuses too much for a moment, and never sends a pod where a kubelet rejects
it (scheduler-plugins calls that over-reserving).  Which pods are counted:

| the report | counts |
|---|---|
| has a fingerprint of pods that are known | exactly these; it takes the place of the one before |
| has another fingerprint | nobody: the one before counts on, until pods or report change |
| is the first one, or has no fingerprint | the pods that started before it was written |
| does not tell when it was written | the pods that were known when it came; of the first also those that have not started |

A fingerprint that fits nobody for `PATIENCE_SECONDS` after it was written is taken as none (the exporter may hash other pods),
and so is a report that was not written anew for so long after a pod started: that pod changed nothing in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.containers import steady_requests
from scheduler.model.node_resource_topology import NodeResourceTopology

from .exclusive import held_for_itself
from .fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import Row

    from .args import NodeResourceTopologyMatchArgs

PATIENCE_SECONDS = 120.0
#: Times of the API are whole seconds, and a report is read a moment before it is written.
DOUBT_SECONDS = 2.0
ONLY_EXCLUSIVE, WITHOUT_ENDED = "with-exclusive-resources", "exclude-terminal"


class Room(NamedTuple):
    """What is known of a node's NUMA nodes just now."""

    #: The report whose amounts count.
    report: NodeResourceTopology
    #: The kubelet's.
    policy: str
    scope: str
    #: What pods ask that the report does not count: resource to amount.
    unreported: dict[str, int]
    #: What pods that a what-if took away had for themselves, in whatever NUMA node they were.
    freed: dict[str, int]


class _Known(NamedTuple):
    report: NodeResourceTopology
    #: Uids of the pods that it counts; None if they are told by time.
    counted: frozenset[str] | None
    #: Its fingerprint is that of these pods.
    is_sure: bool


class Reports:
    """The reports that count, by node."""

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        """Read objects and live pods through the handle."""
        self._args = args
        self._handle = handle
        self._deducts = args.cache_resync_period_seconds > 0 and not args.discard_reserved_nodes
        self._known: dict[str, _Known] = {}
        #: Node to the time from which it has to be looked at again though nothing happens, and a time before which none has.
        self._due: dict[str, float] = {}
        self._earliest = math.inf

    def room(self, row: Row) -> Room | None:
        """Return what is known of a node, None if nothing is reported; O(pods of the node)."""
        name = row.node.name
        self._due.pop(name, None)
        newest = self._handle.cluster.objects.get(NodeResourceTopology, "", name)
        if newest is None:
            self._known.pop(name, None)
            return None
        if not self._deducts:
            return Room(newest, newest.policy, newest.scope, {}, {})
        known = self._settled(newest, row)
        told = newest if self._args.cache.resync_scope == "All" else known.report
        unreported = [pod for pod in row.pods.values() if self._is_unreported(known, pod)]
        gone = [pod for pod in self._taken_away(row) if not self._is_unreported(known, pod)]
        reported = _resources(known.report)
        return Room(
            known.report,
            told.policy,
            told.scope,
            _sum(item for pod in unreported for item in steady_requests(pod.containers).items()),
            _sum(item for pod in gone for item in held_for_itself(pod, reported)),
        )

    def overdue(self, now: float) -> list[str]:
        """Return the nodes that have to be looked at again because of the time; O(1) while there are none."""
        if now < self._earliest:
            return []
        found = [name for name, end in self._due.items() if end <= now]
        self._earliest = min((end for end in self._due.values() if end > now), default=math.inf) if not found else now
        return found

    def _settled(self, newest: NodeResourceTopology, row: Row) -> _Known:
        """Return the report that counts, after looking whether the newest one may take its place."""
        name, known = row.node.name, self._known.get(row.node.name)
        if known is not None and known.report is newest and (known.is_sure or not newest.fingerprint):
            return known
        if not self._is_live(row) and known is not None:
            return known
        counted = self._by_fingerprint(newest, row) if newest.fingerprint else None
        if counted is not None:
            known = _Known(newest, counted, is_sure=True)
        elif known is None or not newest.fingerprint or (newest.written and self._is_over(name, newest.written)):
            known = _Known(newest, self._by_arrival(newest, row, is_first=known is None), is_sure=False)
        self._known[name] = known
        return known

    def _by_fingerprint(self, report: NodeResourceTopology, row: Row) -> frozenset[str] | None:
        """Return the pods whose fingerprint a report has; None if it is of others."""
        here = [pod for pod in row.pods.values() if pod.node_name]
        started = [pod for pod in here if pod.phase != "Pending"]
        if self._counts_exclusive_only(report):
            reported = _resources(report)
            choices = [[pod for pod in some if any(held_for_itself(pod, reported))] for some in (started, here)]
        else:
            ended = self._handle.cluster.ended_on(row.node.name)
            choices = [started + ended, started, here + ended, here]
            if report.fingerprint_method == WITHOUT_ENDED:
                choices = [started, here]
        for pods in choices:
            if fingerprint((pod.namespace, pod.name) for pod in pods) == report.fingerprint:
                return frozenset(pod.uid for pod in pods)
        return None

    def _by_arrival(self, report: NodeResourceTopology, row: Row, *, is_first: bool) -> frozenset[str] | None:
        """Return the pods that a report counts which tells no time: those that were known when it came."""
        if report.written:
            return None
        return frozenset(pod.uid for pod in row.pods.values() if pod.node_name and (is_first or pod.started))

    def _is_unreported(self, known: _Known, pod: Pod) -> bool:
        """Tell whether a pod has to be deducted."""
        report, detect = known.report, self._args.cache.foreign_pods_detect
        if known.counted is not None:
            if pod.uid in known.counted:
                return False
        elif (
            pod.node_name
            and pod.started is not None
            and (report.written > pod.started + DOUBT_SECONDS or self._is_over(report.name, pod.started))
        ):
            return False
        if known.is_sure and self._counts_exclusive_only(report):
            return any(held_for_itself(pod, _resources(report)))
        if detect == "All" or self._handle.is_ours(pod):
            return True
        return detect == "OnlyExclusiveResources" and any(held_for_itself(pod, _resources(report)))

    def _is_over(self, name: str, since: float) -> bool:
        """Tell whether patience since a time has come to its end; if not, note when it will."""
        end = since + PATIENCE_SECONDS
        if end <= self._handle.now():
            return True
        self._due[name] = min(end, self._due.get(name, end))
        self._earliest = min(end, self._earliest)
        return False

    def _counts_exclusive_only(self, report: NodeResourceTopology) -> bool:
        method = self._args.cache.resync_method
        return method == "OnlyExclusiveResources" or (
            method == "Autodetect" and report.fingerprint_method == ONLY_EXCLUSIVE
        )

    def _is_live(self, row: Row) -> bool:
        """Tell whether a row has the pods that the node really has: no what-if changed it."""
        live = self._handle.cluster.view(row.node.name)
        return live is not None and live.pods.keys() == row.pods.keys()

    def _taken_away(self, row: Row) -> Iterator[Pod]:
        """Yield the pods of a node that a what-if took away."""
        live = self._handle.cluster.view(row.node.name)
        if live is not None and not live.pods.keys() <= row.pods.keys():
            yield from (pod for uid, pod in live.pods.items() if uid not in row.pods)


def _resources(report: NodeResourceTopology) -> frozenset[str]:
    return frozenset(resource for zone in report.zones for resource in zone.available)


def _sum(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resource, count in items:
        total[resource] = total.get(resource, 0) + count
    return total
