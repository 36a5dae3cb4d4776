"""Feeds: which resources are reflected, and which inputs their changes become.

For the process.  Pending pods and our own PodGroups are not here: they come through Kopf (`operator.py`).  Objects that are
only read are in `object_feeds`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from scheduler.engine.inputs import (
    BudgetChanged,
    BudgetRemoved,
    GangChanged,
    GangRemoved,
    NodeChanged,
    NodeRemoved,
    PriorityClassChanged,
    PriorityClassRemoved,
)
from scheduler.model import (
    GangKey,
    budget_from_api,
    gang_from_api,
    node_from_api,
    pod_from_api,
    priority_class_from_api,
)
from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPodGroup, ApiPriorityClass
from scheduler.model.dialects import GROUPS
from scheduler.model.dialects.coscheduling import GROUP_LABEL as COSCHEDULING_LABEL
from scheduler.model.dialects.own import GROUP_LABEL

from .object_feeds import object_feeds
from .reflector import HasMetadata, Reflector, Resource, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client
    from .inbox import Put
    from .views import PodViews
    from .wire import ObjectKey

log = structlog.stdlib.get_logger("feeds")

PODS = "/api/v1/pods"
COSCHEDULING_GROUPS = f"/apis/{GROUPS['coscheduling']}/v1alpha1/podgroups"
ASSIGNED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
FINISHED = "spec.nodeName!=,status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

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
        self, resource: Resource[T], changed: Callable[[T], None], removed: Callable[[ObjectKey, T | None], None]
    ) -> Reflector[T]:
        return Reflector(self._client, resource, Feed(resource.name, changed, removed, self._on_refused), self._timing)


def feeds(
    client: Client,
    put: Put,
    views: PodViews,
    timing: Timing | None = None,
    on_refused: Callable[[str], None] = lambda _: None,
) -> list[Reflector[Any]]:
    """Return a reflector for each resource that is read besides pending pods and our PodGroups, not yet running."""
    make = _Make(client, timing, on_refused)
    return [*_pods(make, views), *_others(make, put), *object_feeds(make, put)]


def _pods(make: _Make, views: PodViews) -> list[Reflector[Any]]:
    """Return the assigned pods of everybody, and the ended members of gangs in each dialect."""
    labels = {"ai-scheduler": GROUP_LABEL, "coscheduling": COSCHEDULING_LABEL}
    return [
        make(
            Resource("assigned pods", PODS, ApiPod, ASSIGNED),
            lambda api: views.assigned_changed(pod_from_api(api)),
            lambda key, _: views.assigned_left(key.uid),
        ),
        *(
            make(
                Resource(f"finished members ({dialect})", PODS, ApiPod, FINISHED, label, is_optional=True),
                lambda api: views.finished_changed(pod_from_api(api)),
                lambda key, _: views.finished_left(key.uid),
            )
            for dialect, label in labels.items()
        ),
    ]


def _others(make: _Make, put: Put) -> list[Reflector[Any]]:
    """Return nodes, priority classes, budgets and Coscheduling's groups."""
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
        make(
            Resource("pod groups (coscheduling)", COSCHEDULING_GROUPS, ApiPodGroup, is_optional=True),
            lambda api: put(GangChanged(gang_from_api(api, "coscheduling"))),
            lambda key, _: put(GangRemoved(GangKey("coscheduling", key.namespace, key.name))),
        ),
    ]
