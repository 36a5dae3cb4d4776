"""Pods of other schedulers that wait for a node: the least that is read of them, as a gang of ours may have one among its own.

For the feeds.  Of such a pod nothing is decided here, so of all that it asks for nothing is decoded and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .api import ApiPod, ObjectMeta, PodSpec, SchedulingGroup
from .dialects import DIALECTS, Dialect, membership_of
from .pod import Pod
from .times import parse_time
from .volume_api import ApiStruct

if TYPE_CHECKING:
    from collections.abc import Sequence


class ForeignSpec(ApiStruct, frozen=True):
    """Who is to place the pod, and the group that it names."""

    scheduler_name: str = ""
    scheduling_group: SchedulingGroup | None = None


class ApiForeignPod(ApiStruct, frozen=True):
    """A pending pod of another scheduler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ForeignSpec = ForeignSpec()


def foreign_member(api: ApiForeignPod, dialects: Sequence[Dialect] = DIALECTS) -> Pod | None:
    """Return the view of a pod that says it is in a gang: with its names and its gang alone; None for any other pod."""
    meta, spec = api.metadata, api.spec
    said = PodSpec(scheduler_name=spec.scheduler_name, scheduling_group=spec.scheduling_group)
    membership = membership_of(ApiPod(metadata=meta, spec=said), dialects)
    if membership is None:
        return None
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace or "default",
        name=meta.name,
        created=parse_time(meta.creation_timestamp) or 0.0,
        is_terminating=meta.deletion_timestamp is not None,
        scheduler_name=spec.scheduler_name,
        membership=membership,
    )


def pending_member(api: ApiPod, dialects: Sequence[Dialect] = DIALECTS) -> Pod | None:
    """Return what `foreign_member` does of a pod that was read whole."""
    said = ForeignSpec(scheduler_name=api.spec.scheduler_name, scheduling_group=api.spec.scheduling_group)
    return foreign_member(ApiForeignPod(metadata=api.metadata, spec=said), dialects)
