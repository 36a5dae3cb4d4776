"""The conditions of Kubernetes' own PodGroups and CompositePodGroups, for gangs of our pods.

For the binder.  They mean what kube-scheduler means by them: True once the minimum was on nodes for the first time, and for
ever; before that False, with Unschedulable or SchedulerError, once it was tried.  A group that waits for members was not
tried.  In a tree each group has its own condition.  kube-scheduler 1.37 gives none to CompositePodGroups; their API says what
it would be, and that is what is written here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scheduler.model import GangKey
from scheduler.model.dialects.native import COMPOSITE_NAME, NAME

from .client import STRATEGIC_PATCH, Client
from .writer import now_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from scheduler.framework.effects import SetGangStatus
    from scheduler.model import Gang
    from scheduler.state.cluster import ClusterState

UNSCHEDULABLE, SCHEDULER_ERROR, SCHEDULED = "Unschedulable", "SchedulerError", "Scheduled"
#: Reasons of gangs that were not tried, or that had been complete before.
NOT_TRIED = ("MissingPodGroup", "WaitingForMembers", "SchedulingGated", "WaitingAtPermit", "BelowMinimum")
#: Reasons that kube-scheduler would call an error: it cannot tell what is meant.
ERRORS = ("SchedulerError", "InvalidPodGroup")
#: How many groups' last conditions are remembered.
REMEMBERED = 20_000
PLURALS = {"PodGroup": "podgroups", "CompositePodGroup": "compositepodgroups"}


class NativeGroup(NamedTuple):
    """A group object of a gang, and whether its own minimum is on nodes."""

    gang: Gang
    is_placed: bool


class Said(NamedTuple):
    """What a condition says; the message of one that is True does not matter."""

    status: str
    reason: str = ""
    message: str = ""


class Known(NamedTuple):
    """What a condition is known to say, and since when it has its status."""

    said: Said
    since: str = ""


class OwnWriter(Protocol):
    """Writes the status of PodGroups of ours."""

    async def set_status(self, effect: SetGangStatus) -> bool:
        """Write it unless it says that already; tell whether there was something to write."""

    def seen(self, group: Mapping[str, Any]) -> SetGangStatus | None:
        """Return the effect to carry out again if somebody overwrote what was written."""


class GroupWriters:
    """Writes the status of a gang where its object is: ours, or a native one."""

    def __init__(self, own: OwnWriter, native: NativeGroupWriter) -> None:
        """Keep both."""
        self._own = own
        self._native = native
        self.seen = own.seen

    async def set_status(self, effect: SetGangStatus) -> bool:
        """Write what an effect means; tell whether there was something to write."""
        groups = self._native.groups_of(effect)
        if groups is None:
            return await self._own.set_status(effect)
        return await self._native.set_conditions(effect, groups)


class NativeGroupWriter:
    """Writes conditions, each once."""

    def __init__(
        self,
        client: Client,
        groups_of: Callable[[SetGangStatus], list[NativeGroup] | None],
        now: Callable[[], str] = now_text,
    ) -> None:
        """Keep the client; `groups_of` returns the objects of a native gang, and None for a gang of ours."""
        self._client = client
        self.groups_of = groups_of
        self._now = now
        self._written: OrderedDict[str, Known] = OrderedDict()

    async def set_conditions(self, effect: SetGangStatus, groups: list[NativeGroup]) -> bool:
        """Write what an effect means for each object of a gang; tell whether there was something to write."""
        count = 0
        for group in groups:
            if (said := said_of(group, effect)) is not None:
                count += await self._write(group.gang, said)
        return count > 0

    async def _write(self, gang: Gang, said: Said) -> bool:
        """Write one condition unless it says that already, or has been True.

        A refusal is compared with what the object says, which is read once.  What the watch would show is enough for True.
        """
        known = self._written.get(gang.uid)
        if known is None and said.status != "True":
            known = await self._read(gang)
        if known is not None and (known.said == said or known.said.status == "True"):
            return False
        since = known.since if known is not None and known.said.status == said.status else ""
        changed = {
            "type": condition_type(gang),
            "status": said.status,
            "reason": said.reason,
            "message": said.message,
            "observedGeneration": gang.generation,
            "lastTransitionTime": since or self._now(),
        }
        body = {"metadata": {"uid": gang.uid}, "status": {"conditions": [changed]}}
        await self._client.patch(f"{_path(gang)}/status", body, STRATEGIC_PATCH)
        self._remember(gang.uid, Known(said, str(changed["lastTransitionTime"])))
        return True

    async def _read(self, gang: Gang) -> Known:
        """Return what a condition says now."""
        condition = _condition(await self._client.get(_path(gang)), condition_type(gang))
        said = Said(condition.get("status", ""), condition.get("reason", ""), condition.get("message", ""))
        known = Known(said, condition.get("lastTransitionTime") or "")
        self._remember(gang.uid, known)
        return known

    def _remember(self, uid: str, known: Known) -> None:
        self._written[uid] = known
        self._written.move_to_end(uid)
        while len(self._written) > REMEMBERED:
            self._written.popitem(last=False)


def native_groups(
    state: ClusterState, scheduler_names: Collection[str], effect: SetGangStatus
) -> list[NativeGroup] | None:
    """Return the group objects of a native gang, none unless some of its pods are ours; None for a gang that is not native."""
    if effect.dialect not in (NAME, COMPOSITE_NAME):
        return None
    groups, root = state.groups, GangKey(effect.dialect, effect.namespace, effect.name)
    pods = (state.pods.get(uid) for uid in groups.uids(root))
    if not any(pod is not None and pod.scheduler_name in scheduler_names for pod in pods):
        return []
    return list(_with_placed(state, root, effect))


def _with_placed(state: ClusterState, root: GangKey, effect: SetGangStatus) -> Iterator[NativeGroup]:
    """Yield the objects of a gang; the effect tells of the root, pods tell of leaves, and leaves of what is between."""
    objects = state.groups.objects_of(root)
    placed: dict[GangKey, bool] = {}
    for gang in reversed(objects):
        if gang.key == root:
            placed[gang.key] = effect.scheduled == "True"
        elif gang.is_composite:
            parts = [placed[part.key] for part in objects if part.parent == gang.key.name and part.key in placed]
            needed = len(parts) if gang.min_subgroups is None else gang.min_subgroups
            placed[gang.key] = any(parts) and sum(parts) >= needed
        else:
            placed[gang.key] = _placed_pods(state, gang) >= max(1, gang.min_member)
    for gang in objects:
        yield NativeGroup(gang, placed[gang.key])


def _placed_pods(state: ClusterState, gang: Gang) -> int:
    """Return how many pods of one group are on nodes or have succeeded."""
    pods = (state.pods.get(uid) for uid in state.groups.uids(gang.key))
    return sum(
        pod is not None and (pod.phase == "Succeeded" or (pod.node_name != "" and state.counts_as_placed(pod)))
        for pod in pods
    )


def said_of(group: NativeGroup, effect: SetGangStatus) -> Said | None:
    """Return what the condition of a group has to say; None if it stays as it is."""
    if group.gang.was_complete:
        return None
    if group.is_placed:
        return Said("True", SCHEDULED, f"at least {max(1, group.gang.min_member)} pods are on nodes or have succeeded")
    if effect.scheduled == "True" or effect.reason in NOT_TRIED or effect.reason == SCHEDULED:
        return None
    return Said("False", SCHEDULER_ERROR if effect.reason in ERRORS else UNSCHEDULABLE, effect.message)


def condition_type(gang: Gang) -> str:
    """Return what a group's version calls the condition."""
    if gang.is_composite:
        return "CompositePodGroupInitiallyScheduled"
    return "PodGroupScheduled" if gang.api_version.endswith("/v1alpha2") else "PodGroupInitiallyScheduled"


def _path(gang: Gang) -> str:
    return f"/apis/{gang.api_version}/namespaces/{gang.key.namespace}/{PLURALS[gang.kind]}/{gang.key.name}"


def _condition(obj: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition of an object as it is, or an empty mapping."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: dict[str, Any] = condition
            return found
    return {}
