"""Feeds: which resources are reflected, and which inputs their changes become.

For the process.  Pending pods and our own PodGroups are not here: they come through Kopf (`operator.py`).  Objects that are
only read are in `object_feeds`, groups of other dialects in `group_feeds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from scheduler.engine.inputs import (
    BudgetChanged,
    BudgetRemoved,
    NodeChanged,
    NodeRemoved,
    PriorityClassChanged,
    PriorityClassRemoved,
)
from scheduler.engine.run_times import run_of
from scheduler.model import (
    budget_from_api,
    node_from_api,
    pod_from_api,
    priority_class_from_api,
)
from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPriorityClass
from scheduler.model.foreign import ApiForeignPod, foreign_member

from .device_feeds import device_feeds
from .group_feeds import group_feeds, numa_feed, queue_feeds, topology_feeds
from .object_feeds import object_feeds
from .reflector import HasMetadata, Reflector, Resource, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from scheduler.model.dialects import Dialect

    from .client import Client
    from .discovery import Discovery, Served
    from .inbox import Put
    from .views import PodViews
    from .wire import ObjectKey

log = structlog.stdlib.get_logger("feeds")

PODS = "/api/v1/pods"
ASSIGNED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
#: Field selectors know no "or", so the phases of pods that have not ended are left out one by one.
FINISHED = "spec.nodeName!=,status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
#: Of pods without a node, those that have not ended; the names of schedulers are left out one by one as well.
UNASSIGNED = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"

T = TypeVar("T", bound=HasMetadata)


class Feed(Generic[T]):
    """A sink made of two functions; it logs what is refused, once per object and problem."""

    def __init__(
        self,
        name: str,
        changed: Callable[[T], None],
        removed: Callable[[ObjectKey, T | None], None],
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Keep the functions; `on_refused` gets the resource's name, for counting."""
        self.changed = changed
        self._name = name
        self._removed = removed
        self._on_refused = on_refused
        self._problems: dict[tuple[str, str], str] = {}

    def removed(self, key: ObjectKey, last: T | None) -> None:
        """Pass it on."""
        self._problems.pop(key.name_key, None)
        self._removed(key, last)

    def refused(self, key: ObjectKey, problem: str) -> None:
        """Log an object that cannot be used."""
        self._on_refused(self._name)
        if self._problems.get(key.name_key) != problem:
            self._problems[key.name_key] = problem
            log.warning("object_unusable", resource=self._name, namespace=key.namespace, name=key.name, problem=problem)


class _Make:
    """Makes reflectors that share a client and the way of counting what is refused."""

    def __init__(self, client: Client, timing: Timing | None, on_refused: Callable[[str], None]) -> None:
        self._client = client
        self._timing = timing
        self._on_refused = on_refused

    def __call__(
        self,
        resource: Resource[T],
        changed: Callable[[T], None],
        removed: Callable[[ObjectKey, T | None], None],
        served: Served | None = None,
    ) -> Reflector[T]:
        feed = Feed(resource.name, changed, removed, self._on_refused)
        return Reflector(self._client, resource, feed, self._timing, served)


def feeds(
    client: Client,
    put: Put,
    views: PodViews,
    discovery: Discovery,
    dialects: Sequence[Dialect],
    scheduler_names: Collection[str],
    *,
    learns: bool = False,
    timing: Timing | None = None,
    on_refused: Callable[[str], None] = lambda _: None,
) -> list[Reflector[Any]]:
    """Return a reflector for each resource that is read besides pending pods and our PodGroups, not yet running.

    `discovery` must run beside them. `learns`: how long pods ran that have ended is told as well.
    """
    make = _Make(client, timing, on_refused)
    return [
        *_pods(make, views, dialects, scheduler_names, put if learns else None),
        *_others(make, put),
        *object_feeds(make, put),
        *group_feeds(make, put, discovery, dialects),
        *topology_feeds(make, put, discovery),
        numa_feed(make, put, discovery),
        *queue_feeds(make, put, discovery),
        *device_feeds(make, put, discovery),
    ]


def _pods(
    make: _Make, views: PodViews, dialects: Sequence[Dialect], scheduler_names: Collection[str], learn: Put | None
) -> list[Reflector[Any]]:
    """Return the assigned pods of everybody, the ended members of our gangs, and pending members that name other schedulers.

    What makes a pod a member is in labels, annotations and fields, which no selector can tell: of our ended pods all are read,
    and of pending pods of others the names alone, once or twice each; only members are kept.
    """

    def ended(api: ApiPod) -> None:
        pod = pod_from_api(api, dialects)
        if pod.membership is not None:
            views.finished_changed(pod)
        elif learn is not None and (run := run_of(pod)) is not None:
            learn(run)

    def foreign(api: ApiForeignPod) -> None:
        pod = foreign_member(api, dialects)
        if pod is not None:
            views.pending_changed(pod)

    others = ",".join(f"spec.schedulerName!={name}" for name in scheduler_names)
    return [
        make(
            Resource("assigned pods", PODS, ApiPod, ASSIGNED),
            lambda api: views.assigned_changed(pod_from_api(api, dialects)),
            lambda key, _: views.assigned_left(key.uid),
        ),
        *(
            make(
                Resource(
                    f"finished pods ({name})", PODS, ApiPod, f"spec.schedulerName={name},{FINISHED}", is_optional=True
                ),
                ended,
                lambda key, _: views.finished_left(key.uid),
            )
            for name in scheduler_names
        ),
        make(
            Resource("pending pods of others", PODS, ApiForeignPod, f"{others},{UNASSIGNED}", is_optional=True),
            foreign,
            lambda key, _: views.pending_left(key.uid) if key.uid in views.pending else None,
        ),
    ]


def _others(make: _Make, put: Put) -> list[Reflector[Any]]:
    """Return nodes, priority classes and budgets."""
    return [
        make(
            Resource("nodes", "/api/v1/nodes", ApiNode),
            lambda api: put(NodeChanged(node_from_api(api))),
            lambda key, _: put(NodeRemoved(key.name)),
        ),
        make(
            Resource("priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses", ApiPriorityClass),
            lambda api: put(PriorityClassChanged(priority_class_from_api(api))),
            lambda key, _: put(PriorityClassRemoved(key.name)),
        ),
        make(
            Resource("disruption budgets", "/apis/policy/v1/poddisruptionbudgets", ApiBudget, is_optional=True),
            lambda api: put(BudgetChanged(budget_from_api(api))),
            lambda key, _: put(BudgetRemoved(key.namespace, key.name)),
        ),
    ]
