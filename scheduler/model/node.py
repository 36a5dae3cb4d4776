"""Node: the immutable view of a node that plugins, state and engine work on; quantities are integers.

For everyone who schedules.  The edges make it from the API object once (`node_from_api`).
"""

from __future__ import annotations

import msgspec

from .api import ApiNode, ResourceList, Taint
from .quantity import QuantityError, amount
from .times import parse_time


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What scheduling needs to know of a node."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    created: float = 0.0
    is_unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    #: Resource name to amount: millicores for cpu, bytes for memory, pieces otherwise.
    allocatable: dict[str, int] = {}
    #: Image name to bytes.
    images: dict[str, int] = {}
    #: Features that the kubelet says it has.
    declared_features: frozenset[str] = frozenset()
    #: What is wrong with the object; such values count as zero.
    problems: tuple[str, ...] = ()


def node_from_api(api: ApiNode) -> Node:
    """Return the view of an API object; impossible values become zero and a problem, never an exception."""
    meta = api.metadata
    allocatable, problems = _possible(
        api.status.allocatable if api.status.allocatable is not None else api.status.capacity
    )
    return Node(
        name=meta.name,
        uid=meta.uid or meta.name,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        created=parse_time(meta.creation_timestamp) or 0.0,
        is_unschedulable=api.spec.unschedulable,
        taints=tuple(api.spec.taints or ()),
        allocatable=allocatable,
        images=_images(api),
        declared_features=frozenset(api.status.declared_features or ()),
        problems=problems,
    )


def _images(api: ApiNode) -> dict[str, int]:
    """Return image sizes by name; the first of a name counts."""
    images: dict[str, int] = {}
    for image in api.status.images or ():
        for name in image.names or ():
            images.setdefault(name, image.size_bytes)
    return images


def _possible(resources: ResourceList | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the amounts that make sense, and a sentence for each that does not."""
    amounts, problems = {}, []
    for name, text in (resources or {}).items():
        try:
            count = amount(name, text)
        except QuantityError as error:
            problems.append(f"status.allocatable[{name}]: {error}; it counts as 0")
            count = 0
        if count < 0:
            problems.append(f"status.allocatable[{name}]: {text!r} is negative; it counts as 0")
        amounts[name] = max(0, count)
    return amounts, tuple(problems)
