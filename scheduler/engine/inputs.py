"""Inputs: everything that can happen outside, as values that the engine takes.

For the edges, which make them, and for `Engine.handle`.  They are in the past tense: the world has already changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Budget, Gang, GangKey, Node, Pod, PriorityClass
    from scheduler.state.objects import Key, Keyed


@dataclass(frozen=True, slots=True)
class Input:
    """Base of all inputs."""


@dataclass(frozen=True, slots=True)
class NodeChanged(Input):
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeRemoved(Input):
    """A node is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class PodChanged(Input):
    """A pod was added or changed: a pending one of ours, or an assigned one of anybody."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodRemoved(Input):
    """A pod is gone from the API server."""

    uid: str


@dataclass(frozen=True, slots=True)
class RunEnded(Input):
    """A pod that is shown in no other way, as it is in no gang, has ended well; `run_of` makes it."""

    uid: str
    #: What tells pods of one kind: namespace, kind of owner, and what its names have in common.
    pattern: tuple[str, str, str]
    #: When, in seconds since the epoch, and how long it ran.
    moment: float
    seconds: float


@dataclass(frozen=True, slots=True)
class PendingPodLeft(Input):
    """A pod left the view of pending pods: it was bound or deleted, and the view cannot tell.

    The engine forgets it unless it is assigned or assumed: then the view of assigned pods has the say.
    """

    uid: str


@dataclass(frozen=True, slots=True)
class GangChanged(Input):
    """A PodGroup was added or changed."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class GangRemoved(Input):
    """A PodGroup is gone."""

    key: GangKey


@dataclass(frozen=True, slots=True)
class PriorityClassChanged(Input):
    """A PriorityClass was added or changed."""

    priority_class: PriorityClass


@dataclass(frozen=True, slots=True)
class PriorityClassRemoved(Input):
    """A PriorityClass is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class BudgetChanged(Input):
    """A PodDisruptionBudget was added or changed."""

    budget: Budget


@dataclass(frozen=True, slots=True)
class BudgetRemoved(Input):
    """A PodDisruptionBudget is gone."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ObjectChanged(Input):
    """An object that is only read was added or changed: a namespace, an owner of pods, something of storage."""

    thing: Keyed


@dataclass(frozen=True, slots=True)
class ObjectRemoved(Input):
    """Such an object is gone."""

    kind: type
    key: Key


@dataclass(frozen=True, slots=True)
class BindingSucceeded(Input):
    """The API server took a binding; the assigned pod will follow as PodChanged."""

    uid: str


@dataclass(frozen=True, slots=True)
class BindingFailed(Input):
    """A binding failed for good: the edge has already repeated what may be repeated.

    `is_gone`: the pod no longer exists (404, or another uid).  `is_taken`: it is bound to another node already (409).
    """

    uid: str
    message: str
    is_gone: bool = False
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class EvictionFailed(Input):
    """A victim could not be deleted; `is_gone` if it had gone by itself."""

    uid: str
    message: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class AwaitedDone(Input):
    """What a PreBind plugin waits for has happened, or failed with a message."""

    uid: str
    key: str
    failure: str = ""
