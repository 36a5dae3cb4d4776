"""Reading the object of a workload: how many of its pods start together, in which roles, and how near together.

For `owners`.  The spec is whatever somebody's CRD lets through, so nothing in it is believed: what makes no sense becomes a
problem of the gang, which then waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.model.api import ObjectMeta
from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS, PREFIX, Gang, GangKey, Subgroup
from scheduler.model.times import parse_time
from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.model.volume_api import ApiStruct

from .counts import MOST_PODS, count_in, count_of, index_in, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .owner_kinds import Count, OwnerKind, Roles

#: How many pods start together, whatever the object's spec says.
MIN_MEMBER_ANNOTATION = f"{PREFIX}/min-member"
#: One object tells of at most so many gangs, and a role of so many parts.
MOST_GANGS = 10_000


class ApiOwner(ApiStruct, frozen=True):
    """An object of any kind; only its metadata have a known shape."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] | None = None


class _Role(NamedTuple):
    """What the object says of one role."""

    name: str
    min_member: int
    #: It starts after others.
    is_after: bool
    parts: tuple[Subgroup, ...]


def split_name(name: str, index: object) -> str:
    """Return the name of one of the gangs of an object; no object's name has a slash."""
    return f"{name}/{index}"


def part_name(role: str, index: object) -> str:
    """Return the name of a part of a role."""
    return f"{role}/{index}" if role else str(index)


def gangs_of(api: ApiOwner, kind: OwnerKind, dialect: str) -> tuple[Gang, ...]:
    """Return the gangs that an object tells of: one, or one for each index.  Never raises for what a spec says."""
    problems: list[str] = []
    number = _splits(api, kind, problems)
    gang = _gang(api, kind, dialect, problems)
    if number is None:
        return (gang,)
    space, name = gang.key.namespace, gang.key.name
    return tuple(
        msgspec.structs.replace(gang, key=GangKey(dialect, space, split_name(name, index))) for index in range(number)
    )


def _gang(api: ApiOwner, kind: OwnerKind, dialect: str, problems: list[str]) -> Gang:
    """Return the gang, or the pattern of those that one object stands for."""
    meta, root = api.metadata, {"spec": api.spec}
    annotations = meta.annotations or {}
    roles = _roles(root, kind, annotations, problems)
    minimum, min_subgroups = _minimum(root, kind, annotations, roles, problems)
    level = annotations.get(kind.exclusive, "") if kind.exclusive else ""
    timeout = _at(root, kind.schedule_timeout, "", problems)
    seconds = None if timeout is None else count_of(timeout, kind.schedule_timeout, problems, lowest=1)
    priority_class = _text(_at(root, kind.priority_class, "", problems), kind.priority_class, problems)
    is_whole = minimum >= sum(role.min_member for role in roles) or min_subgroups is not None
    subgroups = {subgroup.name: subgroup for subgroup in _subgroups(roles, problems, is_whole=is_whole)}
    return Gang(
        key=GangKey(dialect, meta.namespace or "default", meta.name),
        uid=meta.uid,
        api_version=api.api_version or "/".join(filter(None, (kind.api_group, kind.versions[0]))),
        kind=kind.kind,
        generation=meta.generation,
        created=parse_time(meta.creation_timestamp) or 0.0,
        min_member=minimum,
        min_subgroups=min_subgroups,
        subgroups=tuple(subgroups.values()),
        topology=_alone_in(level) if level else None,
        schedule_timeout_seconds=seconds or DEFAULT_SCHEDULE_TIMEOUT_SECONDS,
        priority_class_name=priority_class,
        annotations=annotations,
        labels=meta.labels or {},
        deadline_seconds=_deadline(root, kind),
        problems=tuple(dict.fromkeys(problems)),
    )


def _deadline(root: object, kind: OwnerKind) -> int | None:
    """Return after how many seconds the object is ended; what is no such number is no reason to wait, but tells nothing."""
    seconds = _at(root, kind.deadline, "", [])
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else None


def _minimum(
    root: object, kind: OwnerKind, annotations: Mapping[str, str], roles: list[_Role], problems: list[str]
) -> tuple[int, int | None]:
    """Return how many pods, and how many roles (None: all), must start together."""
    total = sum(role.min_member for role in roles)
    if total > MOST_PODS:
        problems.append(f"spec: {total} pods are out of range; allowed are {MOST_PODS} in all")
    if (text := annotations.get(MIN_MEMBER_ANNOTATION)) is not None:
        return count_in(text, f"annotation {MIN_MEMBER_ANNOTATION}", problems) or 1, None
    if (value := _at(root, kind.minimum, "", problems)) is not None:
        return count_of(value, kind.minimum, problems, lowest=1) or 1, None
    if _is_led(kind, annotations) and kind.led_by == kind.exclusive:
        return 1, None
    if any(role.is_after for role in roles) or _holds(root, kind.in_order):
        if all(role.name for role in roles):
            return min((role.min_member for role in roles if role.min_member), default=1), 1
        return 1, None
    return max(total, 1), None


def _subgroups(roles: list[_Role], problems: list[str], *, is_whole: bool) -> Iterator[Subgroup]:
    """Yield roles and their parts; if fewer pods than all roles need are enough, no role must have any."""
    names = {role.name for role in roles}
    for role in roles:
        if role.name:
            yield Subgroup(name=role.name, min_member=role.min_member if is_whole else 0)
        for part in role.parts:
            if part.name in names:
                problems.append(
                    f"spec: the role {shown(part.name)} has the name of a part; allowed: names of their own"
                )
            else:
                yield part if is_whole else msgspec.structs.replace(part, min_member=0)


def _roles(root: object, kind: OwnerKind, annotations: Mapping[str, str], problems: list[str]) -> list[_Role]:
    """Return the roles, each name once; no more of them once they have more parts together than one object may have."""
    found: dict[str, _Role] = {}
    parts = 0
    for roles in kind.roles:
        for name, where, entry in _entries(root, roles, problems):
            if name in found:
                problems.append(f"{where}: the role {shown(name)} is there twice; allowed: each once")
                continue
            found[name] = role = _role(entry, kind, roles, name, where, annotations, problems)
            parts += len(role.parts)
            if parts > MOST_GANGS:
                problems.append(
                    f"{where}: {parts} parts with those before it are out of range; allowed are {MOST_GANGS}"
                )
                return list(found.values())
    return list(found.values())


def _role(
    entry: object,
    kind: OwnerKind,
    roles: Roles,
    name: str,
    where: str,
    annotations: Mapping[str, str],
    problems: list[str],
) -> _Role:
    number = 1
    for count in roles.counts:
        number *= _number(entry, count, where, problems)
    if roles.suspended and _at(entry, roles.suspended, where, problems) is True:
        number = 0
    own = _at(entry, roles.annotations, where, problems)
    both = {**annotations, **own} if isinstance(own, dict) else annotations
    parts = _parts(entry, kind, name, where, number, both, problems)
    if parts and _is_led(kind, both) and kind.led_by == kind.part_exclusive:
        number = len(parts)
        parts = [msgspec.structs.replace(part, min_member=1) for part in parts]
    is_after = bool(roles.after and _at(entry, roles.after, where, problems))
    return _Role(name, number, is_after, tuple(parts))


def _parts(
    entry: object,
    kind: OwnerKind,
    role: str,
    where: str,
    pods: int,
    annotations: Mapping[str, Any],
    problems: list[str],
) -> list[Subgroup]:
    """Return the parts that each have a domain for themselves; a pod above a whole number of parts is of the first, or of none."""
    level = annotations.get(kind.part_exclusive) if kind.part_size else None
    if kind.part_size is None or not isinstance(level, str) or not level:
        return []
    size = _number(entry, kind.part_size, where, problems)
    number = pods // size if size else 0
    if number > MOST_GANGS:
        problems.append(f"{where}: {number} parts are out of range; allowed are {MOST_GANGS}")
        return []
    #: Parts of one pod have no minimum: LeaderWorkerSet may leave the first one empty, and the gang's minimum covers them.
    minimum = size if size > 1 else 0
    return [
        Subgroup(name=part_name(role, index), parent=role, min_member=minimum, topology=_alone_in(level))
        for index in range(number)
    ]


def _entries(root: object, roles: Roles, problems: list[str]) -> Iterator[tuple[str, str, object]]:
    """Yield the name of each role in small letters, where it stands, and what stands there."""
    found = _at(root, roles.path, "", problems)
    if roles.form == "one":
        yield roles.name.lower(), roles.path, found
    elif isinstance(found, list) and roles.form == "list":
        for index, entry in enumerate(found):
            where = f"{roles.path}[{index}]"
            name = _text(_at(entry, roles.name, where, problems), f"{where}.{roles.name}", problems)
            if name:
                yield name.lower(), where, entry
            else:
                problems.append(f"{where}.{roles.name}: is missing; allowed: the role's name")
    elif isinstance(found, dict) and roles.form == "map":
        for name, entry in found.items():
            yield str(name).lower(), f"{roles.path}.{name}", entry
    elif found is not None:
        problems.append(f"{roles.path}: {shown(found)} is no {roles.form}; allowed: a {roles.form}")


def _splits(api: ApiOwner, kind: OwnerKind, problems: list[str]) -> int | None:
    """Return how many gangs the object stands for; None for one without an index."""
    if not kind.split_label or kind.splits is None:
        return None
    root = {"spec": api.spec}
    number = _number(root, kind.splits, "", problems)
    more = _at(root, kind.more_splits, "", problems)
    percent = index_in(more[:-1]) if isinstance(more, str) and more.endswith("%") else None
    if percent is not None:
        number += -(-number * percent // 100)
    elif more is not None:
        number += count_of(more, kind.more_splits, problems) or 0
    if number > MOST_GANGS:
        problems.append(f"{kind.splits.fields[0]}: {number} gangs are out of range; allowed are {MOST_GANGS}")
    return min(number, MOST_GANGS)


def _number(start: object, count: Count, where: str, problems: list[str]) -> int:
    """Return the number that a Count stands for; its default, with a problem, where no number is."""
    found = [_count_at(start, path, where, problems) for path in count.fields]
    there = [number for number in found if number is not None]
    number = next(filter(None, there), 0 if there else count.default)
    bound = _count_at(start, count.at_most, where, problems)
    return number if bound is None else min(number, bound)


def _count_at(start: object, path: str, where: str, problems: list[str]) -> int | None:
    value = _at(start, path, where, problems)
    return None if value is None else count_of(value, f"{where}.{path}".lstrip("."), problems)


def _at(start: object, path: str, where: str, problems: list[str]) -> object:
    """Return what stands at a path; None if nothing does, or for no path."""
    value = start if path else None
    for name in path.split("."):
        if value is None:
            return None
        if not isinstance(value, dict):
            problems.append(f"{where}: {shown(value)} is no mapping; allowed: a mapping")
            return None
        where, value = f"{where}.{name}".lstrip("."), value.get(name)
    return value


def _text(value: object, where: str, problems: list[str]) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    problems.append(f"{where}: {shown(value)} is no text; allowed: text")
    return ""


def _holds(root: object, condition: str) -> bool:
    """Tell whether `path=value` is so; booleans are `true` and `false`."""
    path, _, wanted = condition.partition("=")
    value = _at(root, path, "", [])
    return value is not None and (str(value).lower() if isinstance(value, bool) else str(value)) == wanted


def _is_led(kind: OwnerKind, annotations: Mapping[str, Any]) -> bool:
    return bool(kind.led_by) and kind.led_by in annotations and kind.not_led_by not in annotations


def _alone_in(level: str) -> TopologyConstraint:
    return TopologyConstraint(required=level, exclusive=level)
