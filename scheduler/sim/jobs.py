"""The Job controller: parallelism, completions, indexes, failures, deadlines and suspension, as Kubernetes has them.

For the embedded cluster.  As in Kubernetes, a pod that is evicted counts as a failure of its Job, unless a podFailurePolicy
ignores the condition DisruptionTarget; a gang of more pods than `backoffLimit` does not survive an eviction without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.times import parse_time

from .defaults import suffix_of
from .workloads import Controller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cluster import Cluster, SimPod
    from .objects import ApiJob, PodTemplate
    from .world import ControllerObject

INDEX_KEY = "batch.kubernetes.io/job-completion-index"
JOB_NAME_KEY = "batch.kubernetes.io/job-name"
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 600.0


class JobController(Controller):
    """A Job."""

    def __init__(self, item: ControllerObject, api: ApiJob, cluster: Cluster) -> None:
        """Go on where the status of the Job says that it is."""
        super().__init__(item.owner, item.root, cluster)
        self._spec = api.spec
        self._run_seconds = item.run_seconds
        self._has_policy = api.spec.pod_failure_policy is not None
        #: How often a pod has succeeded, and which indexes have.
        self._succeeded = api.status.succeeded
        self._indexes_done = set(_indexes(api.status.completed_indexes))
        self.failures = api.status.failed
        self._started = parse_time(api.status.start_time)
        #: No pod is made before this moment.
        self._not_before = 0.0
        #: Pods that were asked to go and are replaced only once they are gone, by uid.
        self._leaving: set[str] = set()

    @property
    def wanted(self) -> int:
        """How many pods it runs at once."""
        parallelism = 1 if self._spec.parallelism is None else self._spec.parallelism
        completions = self._completions
        return parallelism if completions is None else min(parallelism, completions)

    @property
    def template(self) -> PodTemplate:
        """The template."""
        return self._spec.template

    @property
    def is_suspended(self) -> bool:
        """The Job makes no pods."""
        return self._spec.suspend

    @property
    def is_indexed(self) -> bool:
        """Each completion has an index."""
        return self._spec.completion_mode == "Indexed"

    @property
    def _completions(self) -> int | None:
        """How many pods must succeed; None: any success is enough, once all pods have ended (a work queue)."""
        if self._spec.completions is None and self._spec.parallelism is None:
            return 1
        return self._spec.completions

    def begin(self) -> None:
        """Make the first pods, and mind the deadline."""
        deadline = self._spec.active_deadline_seconds
        if deadline is not None and not self.is_suspended:
            since = self.cluster.clock() if self._started is None else self._started
            moment = max(self.cluster.clock(), since + deadline)
            text = f"DeadlineExceeded: the Job was active longer than its activeDeadlineSeconds of {deadline}"
            self.cluster.agenda.at(moment, lambda: self._fail(text))
        self.reconcile()

    def pod_ended(self, sim: SimPod) -> None:
        """Count a success or a failure."""
        self.active.pop(sim.pod.uid, None)
        if sim.pod.phase == "Succeeded":
            self._succeeded += 1
            self._indexes_done.add(_index_of(sim))
        else:
            self._count_failure(sim)
        self.reconcile()

    def pod_terminating(self, sim: SimPod) -> None:
        """Replace a pod as soon as it is asked to go; with a podFailurePolicy, only once it is gone."""
        if self.active.pop(sim.pod.uid, None) is None or self.ended:
            return
        if self._has_policy:
            self._leaving.add(sim.pod.uid)
        else:
            self._count_failure(sim)
            self.reconcile()

    def pod_removed(self, sim: SimPod) -> None:
        """Count a pod that went without an end, unless that was done when it was asked to go."""
        is_new = sim.pod.uid in self._leaving or sim.pod.uid in self.active
        self.active.pop(sim.pod.uid, None)
        self._leaving.discard(sim.pod.uid)
        if is_new and not self.ended:
            self._count_failure(sim)
        self.reconcile()

    def reconcile(self) -> None:
        """Finish the Job if it is done, else make the missing pods."""
        if self.ended or self.is_suspended:
            return
        if self.failures > self._spec.backoff_limit:
            self._fail(self._too_many_failures())
        elif self._is_complete():
            self._end("Succeeded", "")
        elif self.cluster.clock() >= self._not_before:
            self._make_missing()

    def _make_missing(self) -> None:
        completions = self._completions
        present = len(self.active) + len(self._leaving)
        if completions is None:
            missing = 0 if self._succeeded else self.wanted - present
        else:
            missing = min(self.wanted, completions - self._done) - present
        indexes: Sequence[int | None] = [None] * max(0, missing)
        if self.is_indexed:
            indexes = self._free_indexes(missing)
        for index in indexes:
            parts = (*self.owner, self.made) if index is None else (*self.owner, self.made, index)
            labels = {JOB_NAME_KEY: self.owner.name, "job-name": self.owner.name}
            infix, extra = ("", {}) if index is None else (f"-{index}", {INDEX_KEY: str(index)})
            name = f"{self.owner.name}{infix}-{suffix_of(*parts)}"
            self.make_pod(name, self._run_seconds, labels | extra, extra)

    @property
    def _done(self) -> int:
        return len(self._indexes_done - {None}) if self.is_indexed else self._succeeded

    def _is_complete(self) -> bool:
        completions = self._completions
        if completions is None:
            return self._succeeded > 0 and not self.active and not self._leaving
        return self._done >= completions

    def _free_indexes(self, count: int) -> Sequence[int | None]:
        """Return the lowest indexes that are neither done nor being worked on."""
        taken = self._indexes_done | {_index_of(sim) for sim in self.active.values()}
        return [index for index in range(self._completions or 0) if index not in taken][: max(0, count)]

    def _count_failure(self, sim: SimPod) -> None:
        """Count a failed or evicted pod, and wait before the next one is made."""
        if sim.is_evicted and self._ignores_disruption():
            return
        self.failures += 1
        if sim.is_evicted:
            return
        wait = min(_LONGEST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(self.failures - 1, 10))
        self._not_before = self.cluster.clock() + wait
        self.cluster.agenda.at(self._not_before, self.reconcile)

    def _ignores_disruption(self) -> bool:
        """Tell whether the podFailurePolicy ignores evictions."""
        policy = self._spec.pod_failure_policy
        return policy is not None and any(
            rule.action == "Ignore" and any(c.type == "DisruptionTarget" for c in rule.on_pod_conditions or ())
            for rule in policy.rules or ()
        )

    def _too_many_failures(self) -> str:
        limit = self._spec.backoff_limit
        text = (
            f"BackoffLimitExceeded: {self.failures} pods failed or were evicted, more than the backoffLimit of {limit}"
        )
        if self._ignores_disruption() or not self.cluster.history.was_evicted(self):
            return text
        return f"{text}; a podFailurePolicy that ignores DisruptionTarget keeps evictions from counting"

    def _fail(self, reason: str) -> None:
        if not self.ended:
            self._end("Failed", reason)

    def _end(self, phase: str, reason: str) -> None:
        """End the Job; pods that still run are deleted."""
        self.ended = phase
        self.cluster.history.controller_ended(self, phase, reason)
        for sim in list(self.active.values()):
            self.cluster.delete_pod(sim)


def _index_of(sim: SimPod) -> int | None:
    text = sim.pod.annotations.get(INDEX_KEY) or sim.pod.labels.get(INDEX_KEY)
    return int(text) if text is not None and text.isdigit() else None


def _indexes(text: str) -> list[int | None]:
    """Return the indexes of `status.completedIndexes`, such as "0,2-4"."""
    indexes: list[int | None] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            indexes += range(int(first), int(last or first) + 1)
    return indexes
