"""Assumed: claims as they will be once what was decided is written, and the devices that are in use by then.

For the plugin beside it.  What the API server says counts; beside it stands what was decided and is not seen there yet.

| an assumption | ends |
|---|---|
| made by Reserve | when the claim is seen allocated, deleted or made anew |
| given up before anything was written | at once |
| given up after | when the claim is seen as it is after the undoing (`ClaimReleased`), or `LONGEST_LINGER_SECONDS` later |
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from scheduler.devices.ledger import Ledger
from scheduler.model.device_claims import ClaimReleased, DeviceClaim

if TYPE_CHECKING:
    from scheduler.devices.allocator import Given
    from scheduler.devices.pools import PoolId
    from scheduler.model.device_claims import AllocatedDevice
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


@dataclass(slots=True)
class Assumed:
    """Claims with assumptions, and the ledger of devices in use."""

    objects: Objects
    ledger: Ledger = field(default_factory=Ledger)
    #: Grows whenever some claim is, or seems, another one.
    generation: int = 0
    #: Grows, by pool, with each change of what is in use there.
    versions: Counter[PoolId] = field(default_factory=Counter)
    _holds: dict[Key, Hold] = field(default_factory=dict)
    _lingering: set[Key] = field(default_factory=set)
    _counted: dict[Key, tuple[DeviceClaim | None, tuple[AllocatedDevice, ...]]] = field(default_factory=dict)
    _synced_at: tuple[int, int, int] = (-1, -1, -1)

    def sync(self, now: float) -> None:
        """Bring everything in line with what is known; O(claims) if some changed, else O(assumptions given up)."""
        objects, lingering = self.objects, self._lingering
        at = (objects.generation(DeviceClaim), objects.generation(ClaimReleased), self.generation)
        if at == self._synced_at and not lingering:
            return
        ended = [
            key
            for key in (self._holds if at != self._synced_at else lingering)
            if self._is_over(key, self._holds[key], now)
        ]
        for key in ended:
            del self._holds[key]
            lingering.discard(key)
            self.generation += 1
        known = objects.all(DeviceClaim)
        if at[0] != self._synced_at[0]:
            for key in [key for key in self._counted if key not in known]:
                self._count(key, None)
            for key, claim in known.items():
                if key not in self._counted or self._counted[key][0] is not self._shown(key, claim):
                    self._count(key, claim)
        else:
            for key in ended:
                self._count(key, known.get(key))
        self._synced_at = (at[0], at[1], self.generation)

    def claim(self, namespace: str, name: str) -> DeviceClaim | None:
        """Return a claim as it will be; None if there is none."""
        known = self.objects.get(DeviceClaim, namespace, name)
        return None if known is None else self._shown((namespace, name), known)

    def given(self, key: Key) -> Given | None:
        """Return what a claim is assumed to be given; None if nothing is assumed."""
        hold = self._holds.get(key)
        return hold.given if hold is not None else None

    def assume(self, claim: DeviceClaim, given: Given, pod_uid: str) -> None:
        """Take a claim to be given something for a pod; further pods may share it."""
        hold = self._holds.get(claim.key)
        if hold is None or hold.uid != claim.uid:
            hold = self._holds[claim.key] = Hold(claim.uid, given, set())
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
        if is_written:
            hold.since, hold.last_pod = now, pod_uid
            self._lingering.add(key)
        else:
            del self._holds[key]
        self._changed(key)

    def _is_over(self, key: Key, hold: Hold, now: float) -> bool:
        claim = self.objects.get(DeviceClaim, *key)
        if claim is None or claim.uid != hold.uid:
            return True
        if hold.since is None:
            return claim.allocation is not None
        released = self.objects.get(ClaimReleased, *key)
        is_heard = released is not None and (released.uid, released.pod_uid) == (hold.uid, hold.last_pod)
        if is_heard and released is not None and claim.resource_version == released.resource_version:
            return True
        return now - hold.since > LONGEST_LINGER_SECONDS

    def _changed(self, key: Key) -> None:
        self.generation += 1
        self._count(key, self.objects.get(DeviceClaim, *key))

    def _shown(self, key: Key, known: DeviceClaim) -> DeviceClaim:
        """Return a known claim with what it is assumed to be given."""
        hold = self._holds.get(key)
        if hold is None or hold.uid != known.uid or known.allocation is not None:
            return known
        if hold.seen is not known or hold.shown is None:
            hold.seen, hold.shown = known, replace(known, allocation=hold.given.allocation)
        return hold.shown

    def _count(self, key: Key, known: DeviceClaim | None) -> None:
        """Bring the ledger in line with one claim."""
        shown = None if known is None else self._shown(key, known)
        _, former = self._counted.get(key, (None, ()))
        devices = shown.allocation.devices if shown is not None and shown.allocation is not None else ()
        if shown is None:
            self._counted.pop(key, None)
        else:
            self._counted[key] = shown, devices
        if former != devices:
            self.ledger.remove(former)
            self.ledger.add(devices)
            for device in {*_pools_of(former), *_pools_of(devices)}:
                self.versions[device] += 1
            self.generation += 1


def _pools_of(devices: tuple[AllocatedDevice, ...]) -> list[PoolId]:
    """Return the pools of some devices."""
    return [(device.driver, device.pool) for device in devices]
