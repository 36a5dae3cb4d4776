"""Owners without a PodGroup (Job, JobSet, LeaderWorkerSet, Kubeflow's jobs, RayCluster, …): one dialect for each kind.

For whoever puts the list of dialects together.  What is particular to a kind stands in the table (`owner_kinds`), how its
objects are read in `owner_objects`; here pods are recognised.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduler.model.gang import PREFIX, GangKey, Membership

from .counts import index_in
from .dialect import Dialect, GroupSource
from .owner_kinds import OWNER_KINDS
from .owner_objects import ApiOwner, gangs_of, part_name, split_name
from .ranks import rank_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model.api import ApiPod

    from .owner_kinds import OwnerKind

#: "true" on a pod makes it a member where that has to be asked for; "false" keeps it out anywhere.
GANG_LABEL = f"{PREFIX}/gang"


def owner_dialects(kinds: Sequence[OwnerKind] = OWNER_KINDS) -> tuple[Dialect, ...]:
    """Return a dialect for each kind, in their order.

    Its name is the kind in small letters, with the API group where an earlier one has that name already.
    """
    dialects: dict[str, Dialect] = {}
    for kind in kinds:
        name = kind.kind.lower()
        if name in dialects:
            name = f"{name}.{kind.api_group}"
        read = partial(gangs_of, kind=kind, dialect=name)
        source = GroupSource(kind.api_group, kind.versions, kind.resource, kind.kind, ApiOwner, read)
        keys = frozenset({kind.name_label}) if kind.name_label else None
        dialects[name] = Dialect(name, partial(_member, kind, name), (source,), keys)
    return tuple(dialects.values())


def _member(kind: OwnerKind, dialect: str, pod: ApiPod) -> Membership | None:
    """Return the gang of a pod of this kind; for other pods this takes one look at the labels, or at the owners."""
    labels = pod.metadata.labels or {}
    name = labels.get(kind.name_label) if kind.name_label else _controller(pod, kind)
    if not name or not _takes_part(kind, labels):
        return None
    problems: tuple[str, ...] = ()
    if kind.split_label:
        if not (index := labels.get(kind.split_label, "")):
            problems = (f"label {kind.split_label}: is missing; allowed: the index of the pod's group",)
        name = split_name(name, index)
    return Membership(
        key=GangKey(dialect, pod.metadata.namespace or "default", name),
        role=_role(kind, labels, pod.metadata.annotations or {}),
        rank=_rank(kind, labels) if kind.rank_labels else rank_of(pod),
        problems=problems,
    )


def _takes_part(kind: OwnerKind, labels: Mapping[str, str]) -> bool:
    """Tell whether the pod's own labels let it be a member."""
    wish = labels.get(GANG_LABEL)
    is_wanted = wish == "true" if kind.needs_opt_in else wish != "false"
    return is_wanted and all(labels.get(key) in values for key, values in kind.pod_labels)


def _controller(pod: ApiPod, kind: OwnerKind) -> str:
    """Return the name of the pod's controller if it is of this kind, of any version."""
    for owner in pod.metadata.owner_references or ():
        if owner.controller and owner.kind == kind.kind and owner.api_version.rpartition("/")[0] == kind.api_group:
            return owner.name
    return ""


def _role(kind: OwnerKind, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the role, or the part of it; controllers copy the annotation that asks for parts to their pods."""
    role = next((text.lower() for key in kind.role_labels if (text := labels.get(key))), "")
    if kind.part_label and annotations.get(kind.part_exclusive) and (part := labels.get(kind.part_label)):
        return part_name(role, part)
    return role


def _rank(kind: OwnerKind, labels: Mapping[str, str]) -> tuple[int, ...]:
    digits = [index for key in kind.rank_labels if (index := index_in(labels.get(key))) is not None]
    return tuple(digits) if len(digits) == len(kind.rank_labels) else ()
