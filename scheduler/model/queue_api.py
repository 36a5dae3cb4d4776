"""Queue objects of our own kind as they come over the wire, and their reader.

For the edges, which watch or load them.  The API server has checked most by the schema; what it let through, or what comes from a
file, becomes a problem of the queue.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from .api import LabelSelector, ObjectMeta
from .checkpoints import MOST_NOTICE_SECONDS
from .label_tests import Selector, SelectorError, selector_of
from .quantity import QuantityError, amount
from .queue import ORDERINGS, OWN, Queue, Quota
from .volume_api import ApiStruct

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiQuota(ApiStruct, frozen=True):
    """What a queue may use of one resource."""

    name: str = ""
    guaranteed: str | int | float | None = None
    limit: str | int | float | None = None
    weight: int | float | None = None


class ApiQueueSpec(ApiStruct, frozen=True):
    """The spec of a Queue."""

    parent: str = ""
    resources: list[ApiQuota] | None = None
    priority: int = 0
    reclaimable: bool = True
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""
    eviction_notice: str = ""
    scheduler_name: str = ""
    ordering: str = ""
    namespace_selector: LabelSelector | None = None


class ApiQueue(ApiStruct, frozen=True):
    """A Queue of ours."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ApiQueueSpec = ApiQueueSpec()


def queue_from_api(api: ApiQueue) -> Queue:
    """Return the view of an object; what makes no sense is named in its problems."""
    spec, problems = api.spec, list[str]()
    quotas: dict[str, Quota] = {}
    for index, resource in enumerate(spec.resources or ()):
        path = f"spec.resources[{resource.name or index}]"
        if not resource.name:
            problems.append(f"{path}.name: it is empty; allowed is the name of a resource")
        elif resource.name in quotas:
            problems.append(f"{path}: {resource.name} stands twice; allowed is each resource once")
        else:
            quotas[resource.name] = _quota(resource, path, problems)
    if spec.parent == api.metadata.name:
        problems.append("spec.parent: it is the queue itself; allowed is another queue")
    if (ordering := spec.ordering or ORDERINGS[0]) not in ORDERINGS:
        problems.append(f"spec.ordering: {ordering!r} is unknown; allowed are {', '.join(ORDERINGS)}")
    return Queue(
        name=api.metadata.name,
        dialect=OWN,
        uid=api.metadata.uid,
        generation=api.metadata.generation,
        parent=spec.parent,
        quotas=quotas,
        priority=spec.priority,
        is_reclaimable=spec.reclaimable,
        preempt_min_seconds=seconds_of(spec.preempt_min_runtime, "spec.preemptMinRuntime", problems),
        reclaim_min_seconds=seconds_of(spec.reclaim_min_runtime, "spec.reclaimMinRuntime", problems),
        notice_seconds=_notice(spec.eviction_notice, "spec.evictionNotice", problems),
        scheduler_name=spec.scheduler_name,
        ordering=ordering,
        namespaces=selector_or_problem(spec.namespace_selector, "spec.namespaceSelector", problems),
        problems=tuple(problems),
    )


def _quota(resource: ApiQuota, path: str, problems: list[str]) -> Quota:
    guaranteed = amount_of(resource.name, resource.guaranteed, f"{path}.guaranteed", problems) or 0
    limit = amount_of(resource.name, resource.limit, f"{path}.limit", problems)
    if limit is not None and guaranteed > limit:
        problems.append(
            f"{path}.guaranteed: {resource.guaranteed} is above the limit; allowed is {resource.limit} at most"
        )
    weight = Fraction(1 if resource.weight is None else resource.weight)
    if weight < 0:
        problems.append(f"{path}.weight: {resource.weight} is negative; allowed are numbers from 0 on")
    return Quota(guaranteed, limit, weight)


def amount_of(resource: str, value: str | float | None, path: str, problems: list[str]) -> int | None:
    """Return how much of a resource a quantity is; None if there is none, or it makes no sense, which becomes a problem."""
    if value is None:
        return None
    try:
        found = amount(resource, value)
    except QuantityError as error:
        problems.append(f"{path}: {error}")
        return None
    if found < 0:
        problems.append(f"{path}: {value} is negative; allowed are quantities from 0 on")
        return None
    return found


def amounts_of(values: Mapping[str, str | int | float] | None, path: str, problems: list[str]) -> dict[str, int]:
    """Return amounts by resource; those that make no sense are left out and become problems."""
    found = {name: amount_of(name, value, f"{path}[{name}]", problems) for name, value in (values or {}).items()}
    return {name: count for name, count in found.items() if count is not None}


def seconds_of(text: str, path: str, problems: list[str]) -> float:
    """Return a duration such as 10m in seconds; one that makes no sense is 0 and becomes a problem."""
    if not text:
        return 0.0
    from scheduler.config.duration import parse_duration  # noqa: PLC0415 - pydantic is slow to import

    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        problems.append(f"{path}: {error}")
        return 0.0
    if seconds < 0:
        problems.append(f"{path}: {text} is negative; allowed are durations from 0s on")
    return max(0.0, seconds)


def _notice(text: str, path: str, problems: list[str]) -> float | None:
    """Return a notice in seconds; None if there is none, or it makes no sense, which becomes a problem."""
    seconds = seconds_of(text, path, problems)
    if seconds > MOST_NOTICE_SECONDS:
        problems.append(f"{path}: {text} is too long; allowed are durations up to {MOST_NOTICE_SECONDS:.0f}s")
    return seconds if text else None


def selector_or_problem(selector: LabelSelector | None, path: str, problems: list[str]) -> Selector | None:
    """Return a selector of namespaces; None if there is none, or it makes no sense, which becomes a problem."""
    try:
        return selector_of(selector)
    except SelectorError as error:
        problems.append(f"{path}: {error}")
        return None
