"""Assumed: claims as they will be once what was decided is written, and the devices that are in use by then.

For the plugin beside it.  What the API server says counts; beside it stands what was decided and is not seen there yet.

| an assumption | ends |
|---|---|
| made by Reserve | when the claim is seen allocated, deleted or made anew |
| given up before anything was written | at once |
| given up after | when the claim is seen as it is after the undoing (`ClaimReleased`), or `LONGEST_LINGER_SECONDS` later |

A claim for extended resources is made only after Reserve: an assumption about one does not end because it is not there, but when it
is seen allocated; when it is gone after it was given up; or, if it is never seen, so long after its pod, which was bound, has ended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from scheduler.devices.ledger import Ledger
from scheduler.model.device_claims import ClaimReleased, DeviceClaim
from scheduler.state.change_log import ChangeLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.devices.allocator import Given
    from scheduler.devices.pools import PoolId
    from scheduler.model.device_claims import AllocatedDevice
    from scheduler.state.change_log import Mark
    from scheduler.state.objects import Objects

Key = tuple[str, str]
#: After so long, an undoing of which nothing was heard is taken to have failed, and what the API server says counts.
LONGEST_LINGER_SECONDS = 120.0


@dataclass(slots=True)
class Hold:
    """What a claim is assumed to be given, and for which pods."""

    uid: str
    given: Given
    pods: set[str]
    #: When the last pod gave it up after something was written, and which; None before.
    since: float | None = None
    last_pod: str = ""
    #: The claim as it is known, and as it will be.
    seen: DeviceClaim | None = None
    shown: DeviceClaim | None = None
    #: A claim that is not there before PreBind: as it will be made; and whether it was seen.
    made: DeviceClaim | None = None
    was_seen: bool = False
    #: Its pod was bound: `since` is when that pod was first found to have ended.
    is_bound: bool = False


@dataclass(slots=True)
class Assumed:
    """Claims with assumptions, and the ledger of devices in use."""

    objects: Objects
    #: Whether a pod, by its uid, is there and has not ended.
    is_alive: Callable[[str], bool]
    ledger: Ledger = field(default_factory=Ledger)
    #: Grows whenever some claim is, or seems, another one.
    generation: int = 0
    #: Grows, by pool, with each change of what is in use there.
    versions: Counter[PoolId] = field(default_factory=Counter)
    #: Claims that are, or seem, others than before; and the pools of devices that they had or have, also where only their users changed.
    changed_claims: ChangeLog[Key] = field(default_factory=ChangeLog)
    changed_pools: ChangeLog[PoolId] = field(default_factory=ChangeLog)
    _holds: dict[Key, Hold] = field(default_factory=dict)
    #: Assumptions that changed since the last `sync`.
    _fresh: set[Key] = field(default_factory=set)
    _lingering: set[Key] = field(default_factory=set)
    _counted: dict[Key, tuple[DeviceClaim | None, tuple[AllocatedDevice, ...]]] = field(default_factory=dict)
    _synced_at: tuple[int, int] = (-1, -1)
    #: How far the logs of claims, and of what was released, were read.
    _read: tuple[Mark | None, Mark | None] = (None, None)
    #: The claims that are there for extended resources, by the uid of their pod; whose each is; those that are to be made.
    _extended: dict[str, dict[Key, DeviceClaim]] = field(default_factory=dict)
    _owners: dict[Key, str] = field(default_factory=dict)
    _made: dict[str, Key] = field(default_factory=dict)

    def sync(self, now: float) -> None:
        """Bring everything in line with what is known; O(claims that changed + assumptions given up)."""
        objects = self.objects
        at = (objects.generation(DeviceClaim), objects.generation(ClaimReleased))
        if at == self._synced_at and not self._lingering and not self._fresh:
            return
        self._synced_at = at
        changed, claims_read = objects.changes(DeviceClaim).since(self._read[0])
        released, releases_read = objects.changes(ClaimReleased).since(self._read[1])
        self._read = claims_read, releases_read
        known = objects.all(DeviceClaim)
        if changed is None or released is None:
            changed, suspects = dict.fromkeys((*self._counted, *known)), set(self._holds)
        else:
            suspects = self._holds.keys() & {*changed, *released, *self._fresh, *self._lingering}
        self._fresh.clear()
        for key in [key for key in suspects if self._is_over(key, self._holds[key], now)]:
            self._forget(key)
            self.generation += 1
            changed[key] = None
        for key in changed:
            self._count(key, known.get(key))

    def claim(self, namespace: str, name: str) -> DeviceClaim | None:
        """Return a claim as it will be; None if there is none."""
        known = self.objects.get(DeviceClaim, namespace, name)
        return None if known is None else self._shown((namespace, name), known)

    def extended_claim(self, pod_uid: str) -> DeviceClaim | None:
        """Return a claim that is there and was made for a pod's extended resources; None if there is none."""
        return next(iter(self._extended.get(pod_uid, {}).values()), None)

    def is_making(self, pod_uid: str) -> bool:
        """Tell whether a claim for a pod's extended resources is assumed, and not seen allocated yet."""
        hold = self._holds.get(self._made.get(pod_uid, ("", "")))
        return hold is not None and pod_uid in hold.pods

    def given(self, key: Key) -> Given | None:
        """Return what a claim is assumed to be given; None if nothing is assumed."""
        hold = self._holds.get(key)
        return hold.given if hold is not None else None

    def assume(self, claim: DeviceClaim, given: Given, pod_uid: str, *, is_made: bool = False) -> None:
        """Take a claim to be given something for a pod; further pods may share it. `is_made`: it is not there yet."""
        hold = self._holds.get(claim.key)
        if hold is None or hold.uid != claim.uid:
            hold = self._holds[claim.key] = Hold(claim.uid, given, set(), made=claim if is_made else None)
        if is_made:
            self._made[pod_uid] = claim.key
        hold.pods.add(pod_uid)
        hold.since = None
        self._lingering.discard(claim.key)
        self._changed(claim.key)

    def give_up(self, key: Key, pod_uid: str, *, is_written: bool, now: float) -> None:
        """Take an assumption back for a pod; idempotent. `is_written`: something may have been written, and is being undone."""
        hold = self._holds.get(key)
        if hold is None or pod_uid not in hold.pods:
            return
        hold.pods.discard(pod_uid)
        if hold.pods:
            return
        hold.last_pod, hold.is_bound = pod_uid, False
        if is_written:
            hold.since = now
            self._lingering.add(key)
        else:
            self._forget(key)
        self._changed(key)

    def _forget(self, key: Key) -> None:
        hold = self._holds.pop(key)
        self._lingering.discard(key)
        for uid in (*hold.pods, hold.last_pod):
            if self._made.get(uid) == key:
                del self._made[uid]

    def pod_bound(self, key: Key) -> None:
        """Take that the pod of a claim that had to be made is bound: it was made, and is seen some day if it was not yet."""
        hold = self._holds.get(key)
        if hold is not None and hold.made is not None and hold.pods:
            hold.is_bound = True
            self._lingering.add(key)

    def _is_over(self, key: Key, hold: Hold, now: float) -> bool:
        claim = self.objects.get(DeviceClaim, *key)
        if hold.made is not None:
            return self._is_made_over(key, hold, claim, now)
        if claim is None or claim.uid != hold.uid:
            return True
        if hold.since is None:
            return claim.allocation is not None
        released = self.objects.get(ClaimReleased, *key)
        is_heard = released is not None and (released.uid, released.pod_uid) == (hold.uid, hold.last_pod)
        if is_heard and released is not None and claim.resource_version == released.resource_version:
            return True
        return now - hold.since > LONGEST_LINGER_SECONDS

    def _is_made_over(self, key: Key, hold: Hold, claim: DeviceClaim | None, now: float) -> bool:
        """Tell the same of a claim that is made after Reserve."""
        is_gone = hold.was_seen and claim is None
        hold.was_seen = hold.was_seen or claim is not None
        if hold.is_bound or hold.since is None:
            if claim is not None and claim.allocation is not None:
                return True
            if not hold.is_bound or (not is_gone and any(map(self.is_alive, hold.pods))):
                return False
            hold.since = now if hold.since is None else hold.since
            return is_gone or now - hold.since > LONGEST_LINGER_SECONDS
        released = self.objects.get(ClaimReleased, *key)
        is_heard = released is not None and released.pod_uid == hold.last_pod
        return is_gone or is_heard or now - hold.since > LONGEST_LINGER_SECONDS

    def _changed(self, key: Key) -> None:
        self.generation += 1
        self._fresh.add(key)
        self._count(key, self.objects.get(DeviceClaim, *key))

    def _shown(self, key: Key, known: DeviceClaim) -> DeviceClaim:
        """Return a known claim with what it is assumed to be given."""
        hold = self._holds.get(key)
        if hold is None or (hold.made is None and hold.uid != known.uid) or known.allocation is not None:
            return known
        if hold.seen is not known or hold.shown is None:
            hold.seen, hold.shown = known, replace(known, allocation=hold.given.allocation)
        return hold.shown

    def _to_be_made(self, key: Key) -> DeviceClaim | None:
        """Return a claim that is not there as it will be; None if none is to be made."""
        hold = self._holds.get(key)
        return None if hold is None or hold.made is None else self._shown(key, hold.made)

    def _note_owner(self, key: Key, known: DeviceClaim | None) -> None:
        """Note whose extended resources a claim is for."""
        if former := self._owners.pop(key, ""):
            self._extended[former].pop(key)
            if not self._extended[former]:
                del self._extended[former]
        if known is not None and known.is_for_extended and known.controller is not None:
            self._owners[key] = known.controller.uid
            self._extended.setdefault(known.controller.uid, {})[key] = known

    def _count(self, key: Key, known: DeviceClaim | None) -> None:
        """Bring the ledger in line with one claim."""
        self._note_owner(key, known)
        shown = self._to_be_made(key) if known is None else self._shown(key, known)
        before, former = self._counted.get(key, (None, ()))
        if shown is before:
            return
        devices = shown.allocation.devices if shown is not None and shown.allocation is not None else ()
        if shown is None:
            self._counted.pop(key, None)
        else:
            self._counted[key] = shown, devices
        pools = {*_pools_of(former), *_pools_of(devices)}
        self.changed_claims.note(key)
        for pool in pools:
            self.changed_pools.note(pool)
        if former != devices:
            self.ledger.remove(former)
            self.ledger.add(devices)
            for pool in pools:
                self.versions[pool] += 1
            self.generation += 1


def _pools_of(devices: tuple[AllocatedDevice, ...]) -> list[PoolId]:
    """Return the pools of some devices."""
    return [(device.driver, device.pool) for device in devices]
