"""YuniKorn's task groups: pods of an application that name their task group; one of them, or each, lists all groups.

For the list of dialects.  YuniKorn holds room for pods that do not exist yet; here a gang waits until its pods exist.  A Spark
driver makes its executors only once it runs, so in a Spark application each task group starts by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS, Gang, GangKey, Membership, Subgroup

from .counts import count_of, index_in, shown
from .dialect import Dialect
from .ranks import rank_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.api import ApiPod

NAME = "yunikorn"
PREFIX = "yunikorn.apache.org"
TASK_GROUP_ANNOTATION = f"{PREFIX}/task-group-name"
TASK_GROUPS_ANNOTATION = f"{PREFIX}/task-groups"
PARAMETERS_ANNOTATION = f"{PREFIX}/schedulingPolicyParameters"
#: A label and, second, an annotation.
APPLICATION = f"{PREFIX}/app-id"
LEGACY_APPLICATION_LABEL = "applicationId"
SPARK_APPLICATION_LABEL = "spark-app-selector"
SPARK_ROLE_LABEL = "spark-role"
_TIMEOUT_PARAMETER = "placeholderTimeoutInSeconds"
_LONGEST_TIMEOUT_SECONDS = 86_400


class TaskGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of the list, as far as it is read: resources and placement stand on the pods."""

    name: str = ""
    min_member: int = 0


def member(pod: ApiPod) -> Membership | None:
    """Read the application, the task group, and the list of groups if this pod carries it."""
    annotations = pod.metadata.annotations
    if not annotations or not (role := annotations.get(TASK_GROUP_ANNOTATION)):
        return None
    labels = pod.metadata.labels or {}
    problems: list[str] = []
    name = _application(labels, annotations)
    if not name:
        problems.append(f"label {APPLICATION}: is missing beside {TASK_GROUP_ANNOTATION}; allowed: an application's id")
    key = GangKey(NAME, pod.metadata.namespace or "default", name)
    groups = _task_groups(annotations, problems)
    if groups and role not in [group.name for group in groups]:
        problems.append(f"annotation {TASK_GROUP_ANNOTATION}: {shown(role)} is not in {TASK_GROUPS_ANNOTATION}")
    is_spark = SPARK_ROLE_LABEL in labels
    return Membership(
        key=key,
        role=role,
        rank=rank_of(pod),
        implied=_gang(key, groups, is_spark, _timeout_seconds(annotations)) if groups and not problems else None,
        problems=tuple(problems),
    )


def _gang(key: GangKey, groups: list[TaskGroup], is_spark: bool, timeout: int) -> Gang:
    minima = [group.min_member for group in groups]
    return Gang(
        key=key,
        min_member=min(minima) if is_spark else sum(minima),
        min_subgroups=1 if is_spark else None,
        subgroups=tuple(Subgroup(name=group.name, min_member=group.min_member) for group in groups),
        schedule_timeout_seconds=timeout,
    )


def _application(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the application's id, sought where YuniKorn seeks it, in its order."""
    return (
        labels.get(APPLICATION)
        or annotations.get(APPLICATION)
        or labels.get(LEGACY_APPLICATION_LABEL)
        or labels.get(SPARK_APPLICATION_LABEL, "")
    )


def _task_groups(annotations: Mapping[str, str], problems: list[str]) -> list[TaskGroup]:
    """Return the list of groups; an empty one if the pod carries none, or none that makes sense."""
    if not (text := annotations.get(TASK_GROUPS_ANNOTATION)):
        return []
    where = f"annotation {TASK_GROUPS_ANNOTATION}"
    try:
        groups = msgspec.json.decode(text, type=list[TaskGroup])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problems.append(f"{where}: {error}; allowed: a JSON list of {{name, minMember}}")
        return []
    names = [group.name for group in groups]
    for index, group in enumerate(groups):
        if not group.name or group.name in names[:index]:
            problems.append(f"{where}[{index}].name: {shown(group.name)} is empty or there twice; allowed: a name each")
        count_of(group.min_member, f"{where}[{index}].minMember", problems, lowest=1)
    return groups


def _timeout_seconds(annotations: Mapping[str, str]) -> int:
    """Return how long placeholders would be held: `key=value` pairs between blanks; what makes no sense counts for nothing."""
    for pair in annotations.get(PARAMETERS_ANNOTATION, "").split():
        name, _, text = pair.partition("=")
        seconds = index_in(text) if name == _TIMEOUT_PARAMETER else None
        if seconds and seconds <= _LONGEST_TIMEOUT_SECONDS:
            return seconds
    return DEFAULT_SCHEDULE_TIMEOUT_SECONDS


YUNIKORN = Dialect(NAME, member, keys=frozenset({TASK_GROUP_ANNOTATION}))
