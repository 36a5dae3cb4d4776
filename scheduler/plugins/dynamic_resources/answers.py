"""Answers: what a pod's claims get on a node, with everybody counted who is placed there in a what-if as well.

For the plugin beside it.  Claims of pods that stand on a node and have no devices yet are served together with the pod's own,
so that of a gang all get devices, or the node is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scheduler.devices.allocator import allocate
from scheduler.devices.errors import AllocationError, GaveUpError, NodeAllocationError
from scheduler.devices.pools import reaches
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.model.devices import Where

from .claims import is_exclusive, needed_claims

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from scheduler.devices.allocator import Given
    from scheduler.devices.ledger import Ledger
    from scheduler.model import Node, Pod
    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.snapshot import Snapshot

    from .world import Place, World

CURES = (
    ClusterEvent.NODE_ADDED
    | ClusterEvent.NODE_LABELS
    | ClusterEvent.NODE_ALLOCATABLE
    | ClusterEvent.DRA_ANY
    | ClusterEvent.POD_UPDATED
)
#: Where preemption frees devices, the going of a pod may be a cure.
WITH_VICTIMS = CURES | ClusterEvent.POD_REMOVED
UNAVAILABLE = Reason("ClaimNotHere", "resourceclaim not available on the node", CURES)
FULL = Reason("NoDevices", "cannot allocate all claims", CURES)
FULL_FOR_NOW = Reason("NoDevices", "cannot allocate all claims", WITH_VICTIMS)
BROKEN_POOLS = Reason("BrokenPools", "invalid resource pools were encountered", CURES)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node can do for a pod: what its unallocated claims are given, in order, or why not."""

    given: tuple[Given, ...] = ()
    status: Status | None = None
    #: The search took too many steps.
    gave_up: bool = False

    @property
    def is_error(self) -> bool:
        """It cannot be told; the status names the claim."""
        return self.status is not None and self.status.code is Code.ERROR


class Asked(NamedTuple):
    """The answers about all nodes that Filter looked at, by row, and what of the snapshot's log was known then."""

    epoch: int
    seen: int
    answers: dict[int, Answer]

    def still(self, snapshot: Snapshot) -> dict[int, Answer]:
        """Return the answers that hold yet: those about rows that have not changed since."""
        if self.epoch != snapshot.epoch:
            return {}
        for row in snapshot.changed_rows[self.seen :]:
            self.answers.pop(row, None)
        return self.answers


class Claimant(NamedTuple):
    """A pod that is placed and has no devices yet, where it is, and its unallocated claims."""

    pod: Pod
    node: Node
    claims: tuple[DeviceClaim, ...]


def waiting(world: World, placed: Iterable[tuple[Pod, Node]]) -> list[Claimant]:
    """Return those of placed pods whose claims have no devices yet."""
    found = []
    for pod, node in placed:
        claims = [c for c in needed_claims(pod, world.assumed.claim).claims if c.allocation is None]
        if (extended := world.extended.waiting(pod, node)) is not None:
            claims.append(extended)
        if claims:
            found.append(Claimant(pod, node, tuple(claims)))
    return found


class Answers:
    """Asks the allocator, and remembers what it said of a node until something there changes."""

    def __init__(self, world: World) -> None:
        """Start without memory."""
        self._world = world
        self._kept: dict[tuple[str, Hashable], tuple[Hashable, Answer]] = {}

    def ask(
        self,
        claims: Sequence[DeviceClaim],
        place: Place,
        others: Sequence[Claimant] = (),
        freed: Sequence[DeviceClaim] = (),
    ) -> Answer:
        """Return what the unallocated ones of a pod's claims get on a node.

        `others` are served as well, before the pod; `freed` are claims whose devices are taken to be free.
        """
        if others or freed:
            return self.serve(claims, place, others, freed)
        key = (place.site.name, tuple(self._world.wish(claim) for claim in claims))
        stamp = (self._world.stamp(place), id(place))
        known = self._kept.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        answer = self.serve(claims, place, others)
        if answer.is_error:  # it names the claim
            return answer
        if len(self._kept) > _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (stamp, answer)
        return answer

    def serve(
        self, claims: Sequence[DeviceClaim], place: Place, others: Sequence[Claimant],
        freed: Sequence[DeviceClaim] = (), *, is_first: bool = False,
    ) -> Answer:  # fmt: skip
        """Serve a pod's claims and others together; `is_first`: the pod's before the others."""
        world = self._world
        own = [(claim, place) for claim in claims]
        theirs, shared = self._of_others(others, {} if not is_first else {claim.key: place for claim in claims})
        asked = [*own, *theirs] if is_first else [*theirs, *(pair for pair in own if pair[0].key not in shared)]
        ledger = world.assumed.ledger
        if freed:
            ledger = without(ledger, freed, {id(where): where for _, where in asked}.values())
        try:
            found = allocate(
                [(claim, where.site, where.pools) for claim, where in asked],
                ledger,
                world.class_of,
                world.evaluator,
                order=world.order([where for _, where in asked]),
                most_steps=MOST_STEPS,
                is_fractional=world.is_fractional,
            )
        except (AllocationError, GaveUpError) as error:
            reason = Reason("SchedulerError", str(error))
            return Answer(status=Status(Code.ERROR, (reason,)), gave_up=isinstance(error, GaveUpError))
        except NodeAllocationError:
            return Answer(status=Status.unresolvable(BROKEN_POOLS))
        if found is None:
            return Answer(status=Status.unresolvable(FULL))
        return self._own_part(claims, place, asked, found, is_first=is_first)

    def _own_part(
        self, claims: Sequence[DeviceClaim], place: Place, asked: Sequence[tuple[DeviceClaim, Place]],
        found: Sequence[Given], *, is_first: bool,
    ) -> Answer:  # fmt: skip
        """Return what a pod's own claims got; a claim that another pod shares must reach this node, too."""
        pairs = list(zip(asked, found, strict=True))
        given = []
        for claim in claims:
            options = [g for (c, _), g in (pairs if is_first else reversed(pairs)) if c.key == claim.key]
            selector = options[0].allocation.node_selector
            if selector is not None and not reaches(Where(selector=selector), place.site):
                return Answer(status=Status.unresolvable(UNAVAILABLE))
            given.append(options[0])
        return Answer(tuple(given))

    def _of_others(
        self, others: Sequence[Claimant], known: dict[tuple[str, str], Place]
    ) -> tuple[list[tuple[DeviceClaim, Place]], set[tuple[str, str]]]:
        """Return the claims of other pods with their nodes, shared ones once, and the keys of the shared ones."""
        asked, shared = list[tuple["DeviceClaim", "Place"]](), set(known)
        for other in others:
            for claim in other.claims:
                if is_exclusive(other.pod, claim):
                    asked.append((claim, self._world.place(other.node)))
                elif claim.key not in shared:
                    shared.add(claim.key)
                    asked.append((claim, self._world.place(other.node)))
        return asked, shared - set(known)


def without(ledger: Ledger, freed: Iterable[DeviceClaim], places: Iterable[Place]) -> Ledger:
    """Return what is in use on some nodes if claims were free."""
    gone = [device for claim in freed if claim.allocation is not None for device in claim.allocation.devices]
    return ledger.without(gone, (device for place in places for device in place.devices()))


def freed_claims(gone: Sequence[Pod], world: World) -> list[DeviceClaim]:
    """Return the claims that would be free if some pods went: allocated ones that nobody else has reserved."""
    uids, found = {pod.uid for pod in gone}, {}
    for pod in gone:
        extended = world.assumed.extended_claim(pod.uid) if pod.extended_claim else None
        for claim in (*needed_claims(pod, world.assumed.claim).claims, *((extended,) if extended is not None else ())):
            users = {consumer.uid for consumer in claim.reserved_for}
            if claim.allocation is not None and users and users <= uids:
                found[claim.key] = claim
    return list(found.values())


MOST_STEPS = 50_000
_MOST_KEPT = 65_536
