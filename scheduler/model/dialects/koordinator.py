"""Koordinator's gangs: a PodGroup (scheduling.sigs.k8s.io) with annotations, or annotations of pods alone.

For the list of dialects; `koordinator_topology` reads the network topology.  The two labels of the old light Coscheduling,
`pod-group.scheduling.sigs.k8s.io/name` and `/min-available`, are read as Koordinator reads them.  Both modes, Strict and
NonStrict, bind nobody before the minimum is reached; they differ in what is held while waiting, and nothing is held here.
Not honoured: `total-number` (waiting is for the minimum), `timeout` (Koordinator's own note), and of `match-policy` all but what
`once-satisfied`, the default, says of a gang group: that was complete once, it waits no more for gangs whose PodGroups are gone.
With each policy members that are bound count.  Gang groups are groups of groups, of which all are needed, as far as PodGroups of one namespace
tell of them; told by pods alone, or across namespaces, they are a problem, as splitting one breaks it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from scheduler.model.api import ApiPodGroup
from scheduler.model.gang import COMPLETE_PHASES, DEFAULT_SCHEDULE_TIMEOUT_SECONDS, FAILED, Gang, GangKey, Membership

from .counts import HIGHEST_INT32, checked, number_of, shown
from .dialect import Dialect, GroupSource
from .koordinator_topology import topology_of
from .ranks import rank_of
from .reading import annotation, identity, label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.api import ApiPod

NAME = "koordinator"
GROUP = "scheduling.sigs.k8s.io"
GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
LIGHT_NAME_LABEL = f"{GROUP_LABEL}/name"
LIGHT_MINIMUM_LABEL = f"{GROUP_LABEL}/min-available"

PREFIX = "gang.scheduling.koordinator.sh"
NAME_ANNOTATION = f"{PREFIX}/name"
MINIMUM_ANNOTATION = f"{PREFIX}/min-available"
WAITING_ANNOTATION = f"{PREFIX}/waiting-time"
GROUPS_ANNOTATION = f"{PREFIX}/groups"
INDEX_ANNOTATION = f"{PREFIX}/network-topology-index"
POLICY_ANNOTATION = f"{PREFIX}/match-policy"
ONCE_SATISFIED = "once-satisfied"
#: Annotations that have a few values: which ones.
CHOICES = {
    f"{PREFIX}/mode": ("Strict", "NonStrict"),
    POLICY_ANNOTATION: (ONCE_SATISFIED, "only-waiting", "waiting-and-running"),
}


def member(pod: ApiPod) -> Membership | None:
    """Read the labels and annotations of a pod; one that states a minimum implies its gang."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    name = labels.get(GROUP_LABEL) or labels.get(LIGHT_NAME_LABEL) or annotations.get(NAME_ANNOTATION)
    if not name:
        return None
    key = GangKey(NAME, pod.metadata.namespace or "default", name)
    problems: list[str] = []
    implied = None
    minimum = _minimum(labels, annotations, problems)
    if minimum is not None:
        timeout = _waiting_seconds(annotations, problems)
        _check(annotations, problems)
        if _gang_group(key, annotations, problems):
            problems.append(
                f"{annotation(GROUPS_ANNOTATION)}: pods alone cannot tell of it; allowed is to make PodGroups"
            )
        topology = topology_of(annotations, problems)
        implied = Gang(key=key, min_member=minimum, schedule_timeout_seconds=timeout, topology=topology)
    return Membership(
        key=key,
        rank=_rank(annotations) or rank_of(pod),
        implied=implied if not problems else None,
        problems=tuple(problems),
    )


def read(api: ApiPodGroup) -> tuple[Gang, ...]:
    """Return the gang that a PodGroup is, and its gang group, if it has one; with `minMember` 0 its pods go one by one."""
    problems: list[str] = []
    shared = identity(NAME, api.api_version, api.metadata)
    minimum = checked(api.spec.min_member, "spec.minMember", problems, 0)
    timeout = DEFAULT_SCHEDULE_TIMEOUT_SECONDS
    if (stated := api.spec.schedule_timeout_seconds) is not None:
        timeout = checked(stated, "spec.scheduleTimeoutSeconds", problems)
    _check(shared["annotations"], problems)
    names = _gang_group(shared["key"], shared["annotations"], problems)
    gang = Gang(
        **shared,
        parent="+".join(names),
        min_member=minimum,
        schedule_timeout_seconds=timeout,
        topology=topology_of(shared["annotations"], problems),
        was_complete=api.status.phase in (*COMPLETE_PHASES, FAILED),
        is_once_enough=bool(names)
        and (shared["annotations"].get(POLICY_ANNOTATION) or ONCE_SATISFIED) == ONCE_SATISFIED,
        problems=tuple(problems),
    )
    if not names:
        return (gang,)
    key = GangKey(f"{NAME}-composite", gang.key.namespace, gang.parent)
    return gang, Gang(key=key, kind="gang group", is_composite=True, min_member=0, expected_parts=names)


def _minimum(labels: Mapping[str, str], annotations: Mapping[str, str], problems: list[str]) -> int | None:
    """Return the minimum that a pod states; None if it leaves that to an object."""
    if text := labels.get(LIGHT_MINIMUM_LABEL):
        return number_of(text, label(LIGHT_MINIMUM_LABEL), problems, 0)
    if (text := annotations.get(MINIMUM_ANNOTATION)) is not None:
        return number_of(text, annotation(MINIMUM_ANNOTATION), problems, 0)
    return None


def _waiting_seconds(annotations: Mapping[str, str], problems: list[str]) -> int:
    """Return how long the gang may hold reservations, in whole seconds."""
    text = annotations.get(WAITING_ANNOTATION)
    if not text:
        return DEFAULT_SCHEDULE_TIMEOUT_SECONDS
    from scheduler.config.duration import parse_duration  # noqa: PLC0415 - pydantic is slow to import

    try:
        seconds = math.ceil(parse_duration(text).total_seconds())
    except ValueError:
        seconds = 0
    if 1 <= seconds <= HIGHEST_INT32:
        return seconds
    problems.append(f"{annotation(WAITING_ANNOTATION)}: {shown(text)} is out of range; allowed are durations from 1s")
    return DEFAULT_SCHEDULE_TIMEOUT_SECONDS


def _check(annotations: Mapping[str, str], problems: list[str]) -> None:
    """Look at what is read for nothing but whether it makes sense, and can be kept."""
    for choice, allowed in CHOICES.items():
        if (text := annotations.get(choice)) and text not in allowed:
            problems.append(f"{annotation(choice)}: {shown(text)} is unknown; allowed are {' and '.join(allowed)}")


def _gang_group(key: GangKey, annotations: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    """Return the names of the gangs that are placed together with this one, itself among them; none if it is alone."""
    if not (text := annotations.get(GROUPS_ANNOTATION)):
        return ()
    field = annotation(GROUPS_ANNOTATION)
    try:
        names = sorted({*msgspec.json.decode(text, type=list[str])})
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        problems.append(f'{field}: it cannot be read; allowed is a JSON list of texts such as "namespace/name"')
        return ()
    if not names or names == [str(key)]:
        return ()
    if str(key) not in names:
        problems.append(f"{field}: {shown(', '.join(names))} lacks the gang itself; allowed are lists with {key}")
        return ()
    if strange := [name for name in names if name.rpartition("/")[0] != key.namespace]:
        problems.append(
            f"{field}: {shown(', '.join(strange))} is in another namespace; allowed are gangs of {key.namespace}"
        )
        return ()
    return tuple(name.rpartition("/")[2] for name in names)


def _rank(annotations: Mapping[str, str]) -> tuple[int, ...]:
    """Return the index among the gang; empty if it has none that can be read: it then comes after those that have."""
    if not (text := annotations.get(INDEX_ANNOTATION)):
        return ()
    faults: list[str] = []
    index = number_of(text, INDEX_ANNOTATION, faults, 0)
    return () if faults else (index,)


KOORDINATOR = Dialect(
    NAME,
    member,
    (GroupSource(GROUP, ("v1alpha1",), "podgroups", "PodGroup", ApiPodGroup, read),),
    keys=frozenset({GROUP_LABEL, LIGHT_NAME_LABEL, NAME_ANNOTATION}),
)
