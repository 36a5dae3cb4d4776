"""Snapshot: one pod of a cluster as objects describe it, explained by one profile of a configuration.

For `ai-scheduler explain --snapshot`; the objects have been read and checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from scheduler.engine.core import Core
from scheduler.model.device_claims import DeviceClaim
from scheduler.model.dialects import dialects_of

from .explaining import explain, waiting
from .objects import kinds_of
from .queueing import queue_note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.config import Profile, SchedulerConfiguration
    from scheduler.model.api import ApiPod
    from scheduler.model.volume_api import ApiStruct
    from scheduler.state.objects import Objects

    from .explanation import Explanation
    from .objects import GroupKind


def explain_in(
    configuration: SchedulerConfiguration, profile: Profile, objects: Iterable[tuple[GroupKind, ApiStruct]], pod: ApiPod
) -> Explanation:
    """Return what a profile says of a pod that waits among other objects; the latest time among them is now.

    The objects are of kinds that are read with the configuration's `groupKinds`.  RegistryError if a plugin of the profile cannot be had.
    """
    times = [0.0]
    dialects = dialects_of(configuration.group_kinds)
    kinds = kinds_of(dialects)
    one = configuration.model_copy(update={"profiles": [profile]})
    core = Core(one, lambda: max(times) + 1.0, 0)
    for group_kind, api in objects:
        kinds[group_kind].put(core.cluster, api)
    view = structs.replace(waiting(pod, dialects), node_name="", scheduler_name=profile.scheduler_name)
    if pod.spec.node_name:
        _without_extended(core.cluster.objects, view.uid)
    times += [moment for p in (*core.cluster.pods.values(), view) for moment in (p.created, p.started or 0.0)]
    found = explain(core, view)
    names = {view.scheduler_name, *(other.scheduler_name for other in configuration.profiles)}
    found.queue = queue_note(core.cluster, structs.replace(view, node_name=""), names)
    return found


def _without_extended(objects: Objects, uid: str) -> None:
    """Forget the claims that were made for a pod's extended resources: were it not on its node, there would be none."""
    for key, claim in list(objects.all(DeviceClaim).items()):
        if claim.is_for_extended and claim.controller is not None and claim.controller.uid == uid:
            objects.drop(DeviceClaim, key)
