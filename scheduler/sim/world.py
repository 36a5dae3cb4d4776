"""World: what a simulation starts from: checked objects, each with the moment of its creation, and notes about the input.

Made by the loader, brought to life by the embedded cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scheduler.model.dialects import DIALECTS

from .clock import DEFAULT_START

if TYPE_CHECKING:
    from scheduler.model import Budget, Gang, Node, PriorityClass
    from scheduler.model.api import ApiBudget, ApiPod
    from scheduler.model.dialects import Dialect
    from scheduler.model.storage_api import ApiClaim, ApiPersistentVolume
    from scheduler.state.objects import Keyed

    from .objects import ApiJob, ApiReplicas


class Owner(NamedTuple):
    """What makes pods: kind, namespace and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod of the input."""

    api: ApiPod
    #: How long it runs once it has started; None: it runs on.
    run_seconds: float | None = None
    #: Its controller, in the input or not.
    owner: Owner | None = None
    #: The workload that a user knows it by: the topmost owner in the input.
    root: Owner | None = None


@dataclass(frozen=True, slots=True)
class ControllerObject:
    """A Job, ReplicaSet, Deployment, StatefulSet or DaemonSet of the input."""

    owner: Owner
    root: Owner
    api: ApiJob | ApiReplicas
    run_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetObject:
    """A PodDisruptionBudget of the input; the cluster counts what it allows."""

    api: ApiBudget
    budget: Budget


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object of the input that the scheduler only reads: a namespace, an owner of pods, something of storage."""

    thing: Keyed


@dataclass(frozen=True, slots=True)
class StorageObject:
    """A claim or a volume of the input; the cluster binds them to each other."""

    api: ApiClaim | ApiPersistentVolume


Item: TypeAlias = (
    "Node | PriorityClass | Gang | BudgetObject | KnownObject | StorageObject | ControllerObject | PodObject"
)


@dataclass(frozen=True, slots=True)
class Submitted:
    """An object and when it is created, in seconds after the start."""

    seconds: float
    item: Item


@dataclass(frozen=True, slots=True)
class World:
    """What a simulation starts from."""

    submitted: tuple[Submitted, ...]
    #: Seconds since the epoch.
    start: float = DEFAULT_START
    notes: tuple[str, ...] = field(default=())
    #: The StorageClass of claims that name none.
    default_storage_class: str = ""
    #: How pods name their gangs.
    dialects: tuple[Dialect, ...] = DIALECTS
