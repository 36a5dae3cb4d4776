"""RunTimes: how long pods are expected to run, and when those that run are expected to end.

For backfill.  What is stated goes before what is learned, and nothing is enforced: a pod that outlives its time counts on, for longer
and longer.

| order | source | counts |
|---|---|---|
| 1 | annotation `expected-run-seconds` of the pod, its group or its owner | as stated, but no longer than 2 |
| 2 | Kueue's maximum execution time, `activeDeadlineSeconds` of the pod and of its Job | the shortest of them |
| 3 | what earlier workloads of the same owner ran for, where that is learned | their median; the longest of them for who runs ahead |
"""

from __future__ import annotations

import re
from bisect import insort
from collections import OrderedDict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.gang import GangKey
from scheduler.model.run_time import EXPECTED_RUN_SECONDS, MAX_EXEC_SECONDS, seconds_at

from .inputs import RunEnded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState

ANNOTATION, DEADLINE, LEARNED = "annotation", "deadline", "learned"
#: Whose pods run until somebody deletes them.
_ENDLESS = frozenset(("DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet", "Node"))
#: So many ends are remembered of one owner, and so many owners; fewer than the least tell nothing.
MOST_SAMPLES, LEAST_SAMPLES, _MOST_OWNERS = 32, 3, 4096
#: So many pods are known to have been learned from, so that none is twice.
_MOST_SEEN = 50_000
#: A pod that outlives its time is expected to run for a tenth of it more (at least a second), then for two tenths, four, …
OVERRUN = 0.1
_LEAST_OVERRUN_SECONDS = 1.0
#: The parts of a name that a controller makes up, or counts up: suffixes without vowels (as Kubernetes draws them), and digits.
_DRAWN = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}$")
_DIGITS = re.compile(r"[0-9]+")


class RunTime(NamedTuple):
    """How long a pod is expected to run, in seconds."""

    seconds: float
    #: No longer than this, as far as is known: what those who run ahead of a reservation count with.
    longest: float
    #: annotation, deadline or learned.
    source: str
    #: Of a learned one, how many ends it is the median of, and the shortest of them.
    samples: int = 0
    shortest: float = 0.0

    def __str__(self) -> str:
        """Return it in words."""
        if self.source == LEARNED:
            return f"{self.seconds:g} s, the median of {self.samples} ends between {self.shortest:g} and {self.longest:g} s"
        return f"{self.seconds:g} s by its {self.source}"


class RunTimes:
    """Run times of pods."""

    def __init__(self, cluster: ClusterState, *, learns: bool = False) -> None:
        """Take the state, which knows groups and owners, and whether ends are learned from."""
        self._cluster = cluster
        self._learns = learns
        #: By owner the ends and the lengths of the last runs, in the order of the ends.
        self._ends: OrderedDict[tuple[str, str, str], list[tuple[float, float]]] = OrderedDict()
        self._seen: OrderedDict[str, None] = OrderedDict()
        #: Some pod or group has stated a run time, or one was learned: without any, nothing can be planned.
        self.are_known = False

    def saw(self, pod: Pod) -> None:
        """Note whether a pod states a run time; O(1)."""
        if not self.are_known:
            self.are_known = pod.deadline_seconds is not None or _states(pod.annotations, pod.labels)

    def saw_group(
        self, annotations: Mapping[str, str], labels: Mapping[str, str], deadline_seconds: int | None
    ) -> None:
        """Note whether a group or an owner states a run time; O(1)."""
        self.are_known |= deadline_seconds is not None or _states(annotations, labels)

    def ended(self, former: Pod | None, pod: Pod, now: float) -> None:
        """Learn from a pod that ended well: one that was seen to, or one that a new process finds and that says when it did."""
        if not self._learns or (former is not None and former.is_terminal):
            return
        run = run_of(pod, now if former is not None else None)
        if run is not None:
            self.learn(run)

    def learn(self, run: RunEnded) -> None:
        """Learn from a run, once; of one owner the runs that ended last count, in whatever order they are told."""
        if not self._learns or run.uid in self._seen:
            return
        self._seen[run.uid] = None
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        samples = self._ends.setdefault(run.pattern, [])
        insort(samples, (run.moment, run.seconds))
        del samples[:-MOST_SAMPLES]
        self._ends.move_to_end(run.pattern)
        self.are_known |= len(samples) >= LEAST_SAMPLES
        while len(self._ends) > _MOST_OWNERS:
            self._ends.popitem(last=False)

    def of(self, pod: Pod) -> RunTime | None:
        """Return how long a pod is expected to run; None if nobody says."""
        places = list(self._places(pod))
        stated = next((n for keys, _, _ in places if (n := seconds_at(keys, EXPECTED_RUN_SECONDS)) is not None), None)
        limits = [n for _, labels, n in places if n is not None]
        limits += [n for _, labels, _ in places if (n := seconds_at(labels, MAX_EXEC_SECONDS)) is not None]
        if stated is not None:
            seconds = float(min((stated, *limits)))
            return RunTime(seconds, seconds, ANNOTATION)
        if limits:
            return RunTime(float(min(limits)), float(min(limits)), DEADLINE)
        return self._learned(pod)

    def longest_of(self, pods: Iterable[Pod]) -> float | None:
        """Return after how many seconds all pods have ended; None if that of one is not known."""
        longest = 0.0
        for pod in pods:
            found = self.of(pod)
            if found is None:
                return None
            longest = max(longest, found.longest)
        return longest

    def of_workload(self, workload: Workload) -> RunTime | None:
        """Return the longest of the run times of a workload's pods; None if that of one is not known."""
        found = [self.of(pod) for pod in workload.pods.values()]
        known = [one for one in found if one is not None]
        return max(known) if known and len(known) == len(found) else None

    def end_of(self, pod: Pod, now: float) -> float | None:
        """Return when a pod on a node is expected to end, after `now`; None if nobody says."""
        if pod.is_terminating or pod.uid in self._cluster.evicted:
            ends = pod.deletes_at if pod.deletes_at is not None else now + pod.grace_period_seconds
            return _later(ends, _LEAST_OVERRUN_SECONDS, now)
        found = self.of(pod)
        if found is None:
            return None
        start = pod.started if pod.started is not None else now
        return _later(start + found.seconds, max(_LEAST_OVERRUN_SECONDS, found.seconds * OVERRUN), now)

    def _learned(self, pod: Pod) -> RunTime | None:
        if not self._learns or (key := pattern_of(pod)) is None:
            return None
        samples = [seconds for _, seconds in self._ends.get(key, ())]
        if len(samples) < LEAST_SAMPLES:
            return None
        return RunTime(float(median(samples)), max(samples), LEARNED, len(samples), min(samples))

    def _places(self, pod: Pod) -> Iterator[tuple[Mapping[str, str], Mapping[str, str], int | None]]:
        """Yield annotations, labels and deadline of a pod, its group and its Job, in this order."""
        yield pod.annotations, pod.labels, pod.deadline_seconds
        gangs = self._cluster.gangs
        if pod.membership is not None and (key := self._cluster.gang_of(pod)) is not None and key in gangs:
            yield gangs[key].annotations, gangs[key].labels, gangs[key].deadline_seconds
        for owner in pod.owners:
            if owner.kind == "Job" and (job := gangs.get(GangKey("job", pod.namespace, owner.name))) is not None:
                yield job.annotations, job.labels, job.deadline_seconds


def runs_on(pod: Pod) -> bool:
    """Tell whether a pod's controller keeps it, or one like it, running until somebody deletes it."""
    return any(owner.kind in _ENDLESS for owner in pod.owners)


def run_of(pod: Pod, seen: float | None = None) -> RunEnded | None:
    """Return what can be learned from a pod that ended well; `seen` is when it was seen to end, where it does not say."""
    moment = pod.ended if pod.ended is not None else seen
    if pod.phase != "Succeeded" or pod.started is None or moment is None or moment <= pod.started:
        return None
    pattern = pattern_of(pod)
    return RunEnded(pod.uid, pattern, moment, moment - pod.started) if pattern is not None else None


def pattern_of(pod: Pod) -> tuple[str, str, str] | None:
    """Return what workloads of one kind have in common: namespace, kind of owner, and its name without what is counted or drawn."""
    owner = next((owner for owner in pod.owners if owner.controller), None)
    if owner is None or owner.kind in _ENDLESS:
        return None
    return pod.namespace, owner.kind, _DIGITS.sub("#", _DRAWN.sub("-*", owner.name))


def _states(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return EXPECTED_RUN_SECONDS in annotations or MAX_EXEC_SECONDS in labels


def _later(end: float, overrun: float, now: float) -> float:
    """Return an expected end, or if that has passed, the first of end + overrun · 1, 2, 4, … that has not."""
    more = overrun
    if end > now:
        return end
    while end + more <= now:
        more *= 2
    return end + more
