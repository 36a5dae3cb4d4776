"""Who made which pods, in a dump: links pods to controllers, and tells which controllers have nothing to do.

For the loader.  A Deployment whose ReplicaSets are in the input leaves the pods to them; a Job that had finished is history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.api import ApiNode, ApiPod
from scheduler.model.times import parse_time

from .objects import ApiJob, ApiReplicas
from .world import Owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.api import ObjectMeta

    from .kinds import Loaded


class Owners:
    """The ownership that the input tells."""

    def __init__(self, loaded: Sequence[Loaded], *, replay_finished: bool) -> None:
        """Link everything. O(objects)."""
        self.controllers: dict[Owner, ApiJob | ApiReplicas] = {}
        self.jobs: dict[Owner, ApiJob] = {}
        self._owners: dict[Owner, Owner] = {}
        #: Controllers that make no pods.
        self.idle: set[Owner] = set()
        #: Finished Jobs that run again.
        self.replayed: set[Owner] = set()
        self.finished = 0
        for entry in loaded:
            if isinstance(entry.api, ApiJob | ApiReplicas):
                self._add(entry.kind.kind, entry.api, replay_finished=replay_finished)
        self.idle |= {parent for child, parent in self._owners.items() if child.kind == "ReplicaSet"}
        nodes = {entry.api.metadata.name for entry in loaded if isinstance(entry.api, ApiNode)}
        bound = [entry.api for entry in loaded if isinstance(entry.api, ApiPod) and entry.api.spec.node_name]
        self.with_bound_pods = {owner for pod in bound if (owner := self.owner_of(pod))}
        self.pods_on_unknown_nodes = sum(1 for pod in bound if pod.spec.node_name not in nodes)

    def owner_of(self, api: ApiPod) -> Owner | None:
        """Return the controller of a pod, whether it is in the input or not."""
        return controller_of(api.metadata)

    def root_of(self, owner: Owner) -> Owner:
        """Return the topmost owner in the input: the Deployment of a ReplicaSet."""
        return self._owners.get(owner, owner)

    def _add(self, kind: str, api: ApiJob | ApiReplicas, *, replay_finished: bool) -> None:
        owner = Owner(kind, api.metadata.namespace, api.metadata.name)
        self.controllers[owner] = api
        parent = controller_of(api.metadata)
        if parent is not None:
            self._owners[owner] = parent
        if isinstance(api, ApiJob):
            self.jobs[owner] = api
            if has_finished(api) and replay_finished:
                self.replayed.add(owner)
            elif has_finished(api):
                self.idle.add(owner)
                self.finished += 1


def controller_of(meta: ObjectMeta) -> Owner | None:
    """Return the owner that is marked as the controller."""
    for owner in meta.owner_references or ():
        if owner.controller:
            return Owner(owner.kind, meta.namespace, owner.name)
    return None


def has_finished(job: ApiJob) -> bool:
    """Tell whether a Job of a dump had ended."""
    ends = ("Complete", "Failed")
    return any(condition.type in ends and condition.status == "True" for condition in job.status.conditions or ())


def run_seconds_of_job(job: ApiJob) -> float | None:
    """Return how long a Job ran in truth, else its deadline, else None."""
    started, ended = parse_time(job.status.start_time), parse_time(job.status.completion_time)
    if ended is None and has_finished(job):
        times = [parse_time(condition.last_transition_time) for condition in job.status.conditions or ()]
        ended = max((moment for moment in times if moment is not None), default=None)
    if started is not None and ended is not None:
        return max(0.0, ended - started)
    deadline = job.spec.active_deadline_seconds
    return None if deadline is None else float(deadline)
