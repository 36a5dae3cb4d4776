"""Kueue's plain pod groups: pods that carry the name and the size of their group, and what topology they ask for.

For the list of dialects.  Kueue's scheduling gates (`kueue.x-k8s.io/admission`, `kueue.x-k8s.io/topology`) are gates like any
other: SchedulingGates holds such pods until Kueue has admitted the group.  Not read: groups that serve (their pods come one
by one, so waiting for all would never end) and slices within slices (one pod cannot tell of more than one layer here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.gang import Gang, GangKey, Membership
from scheduler.model.topology_constraint import TopologyConstraint

from .counts import count_in, index_in
from .dialect import Dialect
from .ranks import rank_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.api import ApiPod

NAME = "kueue"
PREFIX = "kueue.x-k8s.io"
#: A label; an annotation where the name is too long for one.
GROUP_NAME = f"{PREFIX}/pod-group-name"
TOTAL_COUNT_ANNOTATION = f"{PREFIX}/pod-group-total-count"
SERVING_ANNOTATION = f"{PREFIX}/pod-group-serving"
INDEX_LABEL = f"{PREFIX}/pod-group-pod-index"
REQUIRED_ANNOTATION = f"{PREFIX}/podset-required-topology"
PREFERRED_ANNOTATION = f"{PREFIX}/podset-preferred-topology"
SLICE_REQUIRED_ANNOTATION = f"{PREFIX}/podset-slice-required-topology"
SLICE_SIZE_ANNOTATION = f"{PREFIX}/podset-slice-size"


def member(pod: ApiPod) -> Membership | None:
    """Read the group's name, size and topology; all pods of a group start together."""
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    name = annotations.get(GROUP_NAME) or labels.get(GROUP_NAME)
    if not name or annotations.get(SERVING_ANNOTATION) == "true":
        return None
    problems: list[str] = []
    key = GangKey(NAME, pod.metadata.namespace or "default", name)
    topology = _topology(annotations, problems)
    total = count_in(annotations.get(TOTAL_COUNT_ANNOTATION), f"annotation {TOTAL_COUNT_ANNOTATION}", problems)
    index = index_in(labels.get(INDEX_LABEL))
    return Membership(
        key=key,
        rank=rank_of(pod) if index is None else (index,),
        implied=None if total is None else Gang(key=key, min_member=total, topology=topology),
        problems=tuple(problems),
    )


def _topology(annotations: Mapping[str, str], problems: list[str]) -> TopologyConstraint | None:
    """Return what the pod set asks for; levels are keys of node labels."""
    preferred = annotations.get(PREFERRED_ANNOTATION, "")
    slices, size_text = annotations.get(SLICE_REQUIRED_ANNOTATION, ""), annotations.get(SLICE_SIZE_ANNOTATION)
    size = None
    if slices:
        size = count_in(size_text, f"annotation {SLICE_SIZE_ANNOTATION}", problems)
    elif size_text is not None:
        problems.append(
            f"annotation {SLICE_REQUIRED_ANNOTATION}: is missing beside the slice size; allowed: a node label"
        )
    found = TopologyConstraint(
        required=annotations.get(REQUIRED_ANNOTATION, ""),
        preferred=(preferred,) if preferred else (),
        segment_size=size or 0,
        segment_required=slices if size else "",
    )
    return found if found != TopologyConstraint() else None


KUEUE = Dialect(NAME, member, keys=frozenset({GROUP_NAME}))
