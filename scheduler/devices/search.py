"""Search: gives claims devices one after the other, and goes back where that leads nowhere; the first whole solution counts.

For the allocator.  It finds a solution exactly where `structured/internal/incubating/allocator_incubating.go` (Kubernetes
1.37) does, whatever the order in which devices of a request are tried.  Beyond it, devices that nobody can tell apart are
tried once; and steps are counted, so that it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .amounts import consumed_by
from .constraints import attribute_of, constraints_of
from .errors import AllocationError, GaveUpError
from .requests import MOST_DEVICES, may_give
from .usage import Usage

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from .cel import Evaluator
    from .constraints import Constraint
    from .pools import Candidate
    from .requests import Want, Wants

#: One of the devices that are tried, at most, per allocation.
MOST_STEPS = 100_000
#: Most searches end before; from this step on, dead ends are remembered.
_REMEMBERS_FROM = 300
#: Then each claim is tried alone, in so many steps at most.
_STEPS_ALONE = 5_000


class _Hopeless(Exception):  # noqa: N818 - a way out, not an error
    """Some part cannot be served even if it has everything for itself."""


class _TooMany(Exception):  # noqa: N818 - a way back, not an error
    """A claim would get more devices than it may: alternatives with fewer may still do."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A device for a request; `consumed` is None unless it is a share."""

    want: Want
    candidate: Candidate
    consumed: dict[str, str] | None = None


@dataclass(slots=True)
class Search:
    """Claims, what they want, and what has been chosen so far."""

    wants: Sequence[Wants]
    usage: Usage
    evaluator: Evaluator
    #: Puts the devices of a request in the order in which they are tried.
    order: Callable[[Search, Want, list[Candidate]], list[Candidate]]
    most_steps: int = MOST_STEPS
    chosen: list[list[Chosen]] = field(default_factory=list)
    steps: int = 0
    _constraints: list[list[Constraint]] = field(default_factory=list)
    _kinds: dict[Candidate, Hashable] = field(default_factory=dict)
    #: Where the search was in vain already, and the turn of each want.
    _dead_ends: set[Hashable] = field(default_factory=set)
    _turns: dict[Want, int] = field(default_factory=dict)
    _is_touchy: bool = False

    def run(self) -> bool:
        """Tell whether there is a solution, which then is in `chosen`; GaveUpError if it takes too long to tell."""
        self.chosen = [[] for _ in self.wants]
        self._constraints = [constraints_of(wants.claim) for wants in self.wants]
        self._is_touchy = self._touchy() is not None
        all_wants = (want for wants in self.wants for alternatives in wants.requests for want in alternatives)
        self._turns = {want: turn for turn, want in enumerate(all_wants)}
        try:
            return self._claim(0)
        except _Hopeless:
            return False
        except _TooMany:
            raise AllocationError(f"a claim would get more than {MOST_DEVICES} devices") from None
        except RecursionError:
            raise GaveUpError("too many devices at once") from None

    def _step(self) -> None:
        self.steps += 1
        if self.steps == _REMEMBERS_FROM and self._is_hopeless():
            raise _Hopeless
        if self.steps > self.most_steps:
            raise GaveUpError(f"gave up after {self.most_steps} steps")

    def _is_hopeless(self) -> bool:
        """Tell whether some claim, or some request of the only claim, cannot be served even alone: then all cannot."""
        parts = self._parts()
        if not self._is_sound(parts):
            return False
        for part in parts:
            alone = Search([part], Usage(self.usage.ledger), self.evaluator, self.order, _STEPS_ALONE)
            try:
                if not alone.run():
                    return True
            except (AllocationError, GaveUpError):
                continue  # the whole search will say so, or find out
        return False

    def _parts(self) -> list[Wants]:
        """Return what can be tried alone: less than all, and nothing that comes to a touchy want, which may be an error."""
        touchy = self._touchy()
        if touchy is not None:
            claim, request = touchy
            before = replace(self.wants[claim], requests=self.wants[claim].requests[:request])
            return [*self.wants[:claim], before] if request else list(self.wants[:claim])
        if len(self.wants) > 1:
            return list(self.wants)
        only = self.wants[0]
        return [replace(only, requests=[request]) for request in only.requests] if len(only.requests) > 1 else []

    def _is_sound(self, parts: Sequence[Wants]) -> bool:
        """Tell whether no device can be an error for parts, whatever is chosen; else the search has to come to it, or not."""
        try:
            for wants in parts:
                for want in (want for alternatives in wants.requests for want in alternatives):
                    for candidate in (c for pool in wants.pools for c in pool.devices):
                        if want.fits(candidate, self.evaluator):
                            may_give(want, candidate, {})
        except AllocationError:
            return False
        return True

    def _touchy(self) -> tuple[int, int] | None:
        """Return the first want, by claim and request, of "all devices" of which a constraint may refuse one; None if none is.

        That is an error, if the search comes to such a device before it comes to one that is taken.
        """
        for claim, wants in enumerate(self.wants):
            for turn, alternatives in enumerate(wants.requests):
                for want in alternatives:
                    if want.all_devices is not None and any(c.applies(want.names) for c in self._constraints[claim]):
                        return claim, turn
        return None

    def _claim(self, claim: int) -> bool:
        """Serve all claims from one on."""
        return claim >= len(self.wants) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        """Serve all requests of a claim from one on, then the claims after it."""
        self._step()
        if self.steps < _REMEMBERS_FROM:
            return self._serve(claim, request)
        state = (claim, request, self._state())
        if state in self._dead_ends:
            return False
        if self._serve(claim, request):
            return True
        self._dead_ends.add(state)
        return False

    def _serve(self, claim: int, request: int) -> bool:
        requests = self.wants[claim].requests
        if request >= len(requests):
            try:
                return self._claim(claim + 1)
            except _TooMany:  # an earlier claim with other alternatives may help
                return False
        alternatives = requests[request]
        if not alternatives[0].alternative:
            return self._devices(claim, request, alternatives[0], 0, None, 0)
        all_too_many = True
        for want in alternatives:
            try:
                if self._devices(claim, request, want, 0, None, 0):
                    return True
            except _TooMany:
                continue
            all_too_many = False
        if all_too_many:
            raise _TooMany
        return False

    def _state(self) -> Hashable:
        """Return what is equal for choices after which the same can still be served: who has devices of which kind."""
        of_device: dict[Candidate, list[tuple[int, int]]] = {}
        for claim, chosen in enumerate(self.chosen):
            for choice in chosen:
                of_device.setdefault(choice.candidate, []).append((claim, self._turns[choice.want]))
        return frozenset(Counter((self._static(c), tuple(users)) for c, users in of_device.items()).items())

    def _devices(
        self, claim: int, request: int, want: Want, turn: int, ordered: list[Candidate] | None, start: int
    ) -> bool:
        """Choose the device of a turn and all after it, from a place in the order on."""
        self._step()
        if want.all_devices is not None and not want.all_devices:
            return False
        if turn >= want.count:
            return self._request(claim, request + 1)
        if want.count - turn > MOST_DEVICES - len(self.chosen[claim]):
            raise _TooMany
        if want.all_devices is not None:
            return self._try(claim, request, want, turn, want.all_devices, turn, must=True)
        if ordered is None:
            ordered = self._tried(claim, want)
        return self._each(claim, request, want, turn, ordered, start)

    def _each(self, claim: int, request: int, want: Want, turn: int, ordered: list[Candidate], start: int) -> bool:
        """Try one device after the other for a turn; one that looks like a failed one is not tried."""
        failed = set[Any]()
        for place in range(start, len(ordered)):
            candidate = ordered[place]
            if failed and self._kind(candidate) in failed:
                continue
            if not self._is_free(claim, want, candidate):
                continue
            if self._try(claim, request, want, turn, ordered, place, must=False):
                return True
            if not want.is_admin:  # which of two that are looked at only is taken matters to those who want one of them
                failed.add(self._kind(candidate))
        return False

    def _tried(self, claim: int, want: Want) -> list[Candidate]:
        """Return the devices of a request in the order to try them; pools that are not whole have none."""
        found = []
        for pool in self.wants[claim].pools:
            if not pool.is_incomplete and not pool.problem:
                found += pool.devices
        return self.order(self, want, found)

    def _is_free(self, claim: int, want: Want, candidate: Candidate) -> bool:
        """Tell whether a device is nobody's, is selected, and has room."""
        self._step()
        taken = self.usage.is_given_to(candidate.id, claim) if want.is_admin else self.usage.is_taken(candidate.id)
        if taken or not want.fits(candidate, self.evaluator):
            return False
        return may_give(want, candidate, *self.usage.consumed(candidate.id))

    def _try(
        self, claim: int, request: int, want: Want, turn: int, ordered: list[Candidate], place: int, *, must: bool
    ) -> bool:
        """Choose a device and go on; False, and everything as it was, if that leads nowhere."""
        undo = self._allocate(claim, want, ordered[place], must=must)
        if undo is None:
            return False
        try:
            done = self._devices(claim, request, want, turn + 1, ordered, place + 1)
        except BaseException:
            undo()
            raise
        if not done:
            undo()
        return done

    def _allocate(self, claim: int, want: Want, candidate: Candidate, *, must: bool) -> Callable[[], None] | None:
        """Choose a device if it is free, tolerated and satisfies the constraints; return how to undo that, None if not.

        `must`: the request wants this very device, so that a constraint against it is an error.
        """
        if not self._may_have(claim, want, candidate):
            return None
        undos = list[Callable[[], object]]()

        def undo() -> None:
            for step in reversed(undos):
                step()

        try:
            done = self._charge(candidate, undos) and not _is_kept_off(want, candidate)
            done = done and self._constrain(claim, want, candidate, undos, must=must)
            done = done and may_give(want, candidate, *self.usage.consumed(candidate.id))
        except AllocationError:
            undo()
            raise
        if not done:
            undo()
            return None
        self._give(claim, want, candidate, undos)
        return undo

    def _may_have(self, claim: int, want: Want, candidate: Candidate) -> bool:
        """Tell whether nobody has a device, or it is looked at only and was not before by the same claim."""
        if not want.is_admin:
            return not self.usage.is_taken(candidate.id)
        return candidate.device.allows_multiple or not self.usage.is_given_to(candidate.id, claim)

    def _charge(self, candidate: Candidate, undos: list[Callable[[], object]]) -> bool:
        """Count a device against shared counters; a further share of one was paid for with the first."""
        device, usage = candidate.device, self.usage
        if not device.consumes or (device.allows_multiple and usage.is_shared(candidate.id)):
            return True
        if not usage.charge(candidate):
            return False
        undos.append(partial(usage.refund, candidate))
        return True

    def _constrain(
        self, claim: int, want: Want, candidate: Candidate, undos: list[Callable[[], object]], *, must: bool
    ) -> bool:
        for constraint in self._constraints[claim]:
            if not constraint.add(want.names, candidate.id[0], candidate.device):
                if must:
                    raise AllocationError(
                        f"claim {want.claim.label}, request {want.exact.name}: cannot add device "
                        f"{'/'.join(candidate.id)} because a claim constraint would not be satisfied"
                    )
                return False
            undos.append(partial(constraint.remove, want.names))
        return True

    def _give(self, claim: int, want: Want, candidate: Candidate, undos: list[Callable[[], object]]) -> None:
        """Note that a device, or a share of it, is a claim's."""
        usage, device = self.usage, candidate.device
        consumed = None
        if device.allows_multiple:
            consumed = consumed_by(want.exact.capacity, device.capacity, is_fractional=want.is_fractional)
        if consumed is None:
            usage.give(candidate.id, claim)
            undos.append(partial(usage.take, candidate.id, claim))
        else:
            usage.give_share(candidate.id, consumed)
            undos.append(partial(usage.take_share, candidate.id, consumed))
        self.chosen[claim].append(Chosen(want, candidate, consumed))
        undos.append(self.chosen[claim].pop)

    def _kind(self, candidate: Candidate) -> Hashable:
        """Return what is equal for devices that no request, constraint or counter here can tell apart now."""
        kind = self._static(candidate)
        if not candidate.device.allows_multiple:
            return kind
        in_use, being_given = self.usage.consumed(candidate.id)
        is_shared = self.usage.is_shared(candidate.id)
        return kind, is_shared, frozenset(in_use.items()), frozenset((n, v) for n, v in being_given.items() if v)

    def _static(self, candidate: Candidate) -> Hashable:
        """Return what is equal for devices that nobody could tell apart if nothing were chosen."""
        kind = self._kinds.get(candidate)
        if kind is None:
            kind = self._kinds[candidate] = self._kind_of(candidate)
        return kind

    def _kind_of(self, candidate: Candidate) -> Hashable:
        device, usage = candidate.device, self.usage.ledger
        if self._is_touchy:
            return candidate  # it matters which of those that are alike is taken
        try:
            fits = tuple(
                want.fits(candidate, self.evaluator) if candidate.pool in wants.pools else None
                for wants in self.wants
                for alternatives in wants.requests
                for want in alternatives
            )
        except AllocationError:
            return candidate  # a search that comes to it says so
        attributes = tuple(
            attribute_of(candidate.id[0], device, constraint.attribute)
            for constraints in self._constraints
            for constraint in constraints
        )
        capacity = tuple(sorted((name, repr(each)) for name, each in device.capacity.items()))
        used = (
            usage.is_exclusive(candidate.id),
            usage.is_shared(candidate.id),
            frozenset(usage.consumed(candidate.id).items()),
        )
        return (
            candidate.pool,
            fits,
            attributes,
            device.consumes,
            device.taints,
            capacity,
            used,
            device.allows_multiple,
        )


def _is_kept_off(want: Want, candidate: Candidate) -> bool:
    """Tell whether some taint of a device is not tolerated; effects that are not known keep nobody off."""
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(t.covers(taint) for t in want.exact.tolerations)
        for taint in candidate.device.taints
    )
