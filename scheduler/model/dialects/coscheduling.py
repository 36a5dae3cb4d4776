"""Coscheduling's PodGroup (scheduling.x-k8s.io), and the label by which pods belong to it.

For the list of dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.api import ApiPodGroup
from scheduler.model.gang import GangKey, Membership

from .dialect import Dialect, GroupSource
from .own import gang_from_api
from .ranks import rank_of

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod
    from scheduler.model.gang import Gang

NAME = "coscheduling"
GROUP = "scheduling.x-k8s.io"
GROUP_LABEL = f"{GROUP}/pod-group"


def member(pod: ApiPod) -> Membership | None:
    """Read the label `pod-group`."""
    labels = pod.metadata.labels
    if not labels or not (name := labels.get(GROUP_LABEL)):
        return None
    return Membership(key=GangKey(NAME, pod.metadata.namespace or "default", name), rank=rank_of(pod))


def read(api: ApiPodGroup) -> tuple[Gang, ...]:
    """Return the one gang that a PodGroup is."""
    return (gang_from_api(api, NAME),)


COSCHEDULING = Dialect(
    NAME,
    member,
    (GroupSource(GROUP, ("v1alpha1",), "podgroups", "PodGroup", ApiPodGroup, read),),
    keys=frozenset({GROUP_LABEL}),
)
