"""Cycle: one attempt to place one workload, from PreFilter to a plan.

For the engine, which commits what it returns.  A cycle is a generator: it yields node evaluations, so that it can be
paused, and returns an Outcome.  It leaves its placements on the snapshot; the engine takes them back when the plan is
committed or dropped.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.runtime import PluginError
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status

from .bounds import places
from .certificates import shortfall_of
from .lack import Before, Lack, before_of, room_for
from .making_room import RoomMaker
from .messages import fit_message, gang_message, halt_message
from .outcome import Outcome, Quota
from .search import Search

if TYPE_CHECKING:
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.model import TopologyConstraint
    from scheduler.state.snapshot import Ints, Snapshot

    from .candidates import Candidate
    from .certificates import Shortfall
    from .delays import Delays
    from .placement import Placer

Steps = Generator[int, None, Outcome]

_NO_ROOM_CURES = ClusterEvent.NODE_ANY | ClusterEvent.POD_REMOVED
_NEVER_CURES = ClusterEvent.NODE_ANY
#: Room, where domains are, and who else asks for them.
_DOMAIN_CURES = _NO_ROOM_CURES | ClusterEvent.TOPOLOGY_CHANGED | ClusterEvent.GANG_CHANGED
_LEVEL_CURES = ClusterEvent.NODE_ANY | ClusterEvent.GANG_CHANGED | ClusterEvent.TOPOLOGY_CHANGED


class Cycle:
    """One attempt of one workload on one snapshot."""

    def __init__(
        self, runtime: Runtime, snapshot: Snapshot, workload: Workload, placer: Placer, victims_left: int = 0,
        quota: Quota | None = None, delays: Delays | None = None,
    ) -> None:  # fmt: skip
        """Take everything that the attempt depends on; `victims_left` of an earlier plan are still there.

        `delays` tells whom a placement would keep from starting when it was promised.
        """
        self._victims_left = victims_left
        self._quota = quota or Quota()
        self._runtime = runtime
        self._snapshot = snapshot
        self._workload = workload
        self._placer = placer
        state = CycleState()
        self._search = Search(runtime, snapshot, workload, placer, state, delays)
        self._room = RoomMaker(runtime, snapshot, workload, placer, state, as_gang=self._quota.is_on)
        #: The part of a gang that no domain has the room for.
        self._short: Shortfall | None = None

    def run(self) -> Steps:
        """Try to place the workload; PluginError becomes an Error status."""
        try:
            outcome = yield from self._attempt()
        except PluginError as error:
            self._placer.clear()
            outcome = Outcome(status=error.status)
        outcome.evaluations = self._placer.evaluations
        outcome.retry_at = outcome.retry_at or self._room.retry_at
        return outcome

    def _attempt(self) -> Steps:
        if self._placer.problem:
            text = f"{self._workload.key.rpartition(':')[2]}: {self._placer.problem}"
            return Outcome(Status.unresolvable(Reason("UnknownLevel", text, _LEVEL_CURES, Kind.NOT_NOW)))
        yield from self._placer.evaluate()
        if self._quota.kept is not None:
            kept = self._quota.kept
            return Outcome(status=kept.status, shown=self._missing(), retry_at=kept.retry_at)
        if self._quota.refusal is not None:
            return (yield from self._beyond_quota(self._quota.refusal))
        return (yield from self._place())

    def bound(self) -> Status | None:
        """Return why the workload cannot be placed, as far as that is known without a search."""
        return self._early() or self._bounds()

    def fit(self) -> Generator[int, None, bool]:
        """Place as many pods as the workload needs, and no more; False leaves nothing placed."""
        return self._search.fits()

    def _place(self) -> Steps:
        refusal = (early := self._early()) or self._bounds()
        if refusal is None:
            if (where := (yield from self._search.run())) is not None:
                return Outcome(placed=dict(self._placer.placed), domain=where, shown=self._placer.candidates[0])
            if self._search.delayed:
                return Outcome(status=_would_delay(self._search.delayed), shown=self._placer.candidates[0])
            yield from self._placer.evaluate()
        shown = self._missing()
        status = self._refusal(refusal, shown)
        outcome = Outcome(status=status, shown=shown, blame=self._blame())
        is_never = refusal is not None and any(reason.kind is Kind.NEVER for reason in refusal.reasons)
        message = "" if is_never else self._waiting_for_victims(shown)
        if not message:
            outcome.room, message = yield from self._room.run(shown, early, is_never=is_never)
        if is_never and not message:
            return outcome
        outcome.lack = self._lack(self._room.reachable)
        if self._asks_for_domains():  # what cures that is more than room, and no plugin's business
            if outcome.lack is not None:
                outcome.lack.blame = outcome.blame
            outcome.blame = ()
        if message:
            head = _with_text(status.reasons[0], f"{status.reasons[0].text} {message}")
            outcome.status = Status(status.code, (head, *status.reasons[1:]), status.plugin)
        return outcome

    def _beyond_quota(self, refusal: Status) -> Steps:
        """Refuse a workload that its queue has no quota for, unless others of the queue may make room for it.

        What no quota would help is told of that instead, so that none is kept for it.
        """
        shown = self._missing()
        if refusal.code is Code.UNSCHEDULABLE and self._is_hopeless(shown):
            return (yield from self._place())
        outcome = Outcome(status=refusal, shown=shown)
        if refusal.code is Code.UNSCHEDULABLE:
            message = self._waiting_for_victims(shown)
            if not message:
                outcome.room, message = yield from self._room.run(shown, None)
            if message:
                head = _with_text(refusal.reasons[0], f"{refusal.reasons[0].text}. {message}")
                outcome.status = Status(refusal.code, (head, *refusal.reasons[1:]))
        return outcome

    def _is_hopeless(self, shown: Candidate) -> bool:
        """Tell whether there is no place for the workload, whatever of the cluster was free."""
        if self._workload.gang is None:
            return not shown.curable().any()
        bound = self.bound()
        return bound is not None and bound.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def _waiting_for_victims(self, shown: Candidate) -> str:
        """Return why no room is made while victims of an earlier plan are still there; nothing if it may be made elsewhere."""
        if not self._victims_left:
            return ""
        if self._workload.gang is not None:
            return f"preemption: waiting for {self._victims_left} victims of an earlier plan to terminate."
        rows = self._placer.nominated_rows()
        if rows is not None and not (rows & shown.curable()).any():
            return ""
        return "preemption: not eligible due to a terminating pod on the nominated node."

    def _early(self) -> Status | None:
        """Return what PreFilter said if it leaves too few pods to be placed."""
        left, early = 0, None
        for candidate in self._placer.candidates:
            if candidate.early is None:
                left += self._placer.count(candidate)
            else:
                early = early or candidate.early
        return early if left < self._workload.needed else None

    def _bounds(self) -> Status | None:
        """Refuse at once what cannot fit by resources alone, now or ever."""
        if self._workload.gang is None:
            return None
        nodes, needed = self._snapshot.nodes, self._workload.needed
        now = ever = 0
        kinds = self._kinds()
        for wanted, kind in kinds:
            anywhere = np.logical_or.reduce([c.feasible for c in kind])
            now += min(wanted, int(places(kind[0].asks, nodes, anywhere).sum()))
        if now >= needed:
            return self._domain_bound()
        for wanted, kind in kinds:
            anywhere = np.logical_or.reduce([c.curable() for c in kind])
            ever += min(wanted, int(places(kind[0].asks, nodes, anywhere, is_empty=True).sum()))
        numbers = (("needed", needed), ("now", now), ("ever", ever))
        if ever < needed:
            return Status.unresolvable(
                Reason("NeverFits", gang_message(self._workload, numbers), _NEVER_CURES, Kind.NEVER, numbers)
            )
        return Status.unschedulable(
            Reason("NoRoom", gang_message(self._workload, numbers), _NO_ROOM_CURES, Kind.NOT_NOW, numbers)
        )

    def _domain_bound(self) -> Status | None:
        """Refuse at once a gang of which some part has to be in one domain and cannot be."""
        self._short = short = shortfall_of(self._placer)
        if short is None:
            return None
        numbers = (("needed", short.needed), ("now", short.now), ("ever", short.ever), ("domain", short.domain))
        text = f"{gang_message(self._workload, (('needed', self._workload.needed),))} {short.text}."
        if short.ever < short.needed:
            cures = _DOMAIN_CURES  # members that go may free it of the domain that it is in
            return Status.unresolvable(Reason("NeverFitsDomain", text, cures, Kind.NEVER, numbers))
        return Status.unschedulable(Reason("NoRoomInDomain", text, _DOMAIN_CURES, Kind.NOT_NOW, numbers))

    def _asks_for_domains(self) -> bool:
        """Tell whether the gang, or a role of it, asks for levels of the fabric."""
        return any(constraint.levels for constraint in self._constraints())

    def _is_spread(self) -> bool:
        """Tell whether the gang, or a role of it, is divided evenly among domains."""
        return any(constraint.spread for constraint in self._constraints())

    def _constraints(self) -> list[TopologyConstraint]:
        """Return what the gang and its roles ask of the fabric."""
        gang = self._workload.gang
        parts = (gang.topology, *(subgroup.topology for subgroup in gang.subgroups)) if gang is not None else ()
        return [constraint for constraint in parts if constraint is not None]

    def _kinds(self) -> list[tuple[int, list[Candidate]]]:
        """Return the candidates by what they ask for, with how many pods they are: equal ones compete for the same places."""
        kinds: dict[tuple[tuple[str, int], ...] | None, list[Candidate]] = {}
        for candidate in self._placer.candidates:
            key = None if candidate.asks is None else tuple(sorted(candidate.asks.items()))
            kinds.setdefault(key, []).append(candidate)
        return [(sum(self._placer.count(c) for c in kind), kind) for kind in kinds.values()]

    def _lack(self, reachable: int) -> Lack | None:
        """Return how many places a gang lacks, beyond those it has or could have by evictions."""
        if self._workload.gang is None or any(c.asks is None or c.early for c in self._placer.candidates):
            return None
        if any(constraint.exclusive for constraint in self._constraints()):
            return None  # who leaves may free a domain, whatever room that makes
        can_evict = all(pod.preemption_policy != "Never" for pod in self._workload.pods.values())
        priority = self._workload.priority if can_evict else None
        nodes, most = self._snapshot.nodes, 0
        found: list[Before] = []
        reach: dict[Candidate, Ints] = {}
        for candidate in self._placer.candidates:
            free, reach[candidate] = room_for(candidate, nodes, priority)
            most += min(self._placer.count(candidate), int(reach[candidate].sum()))
            found.append(before_of(candidate, free, reach[candidate]))
        missing = max(1, self._workload.needed - max(most, reachable))
        domains = None
        if self._short is not None and reachable <= most:  # else a plugin reaches further than priorities
            domains = self._short.missing(self._placer, reach)
        is_stuck = max(most, reachable) >= self._workload.needed or reachable > most
        return Lack(missing, found, self._snapshot.row_of, priority, is_stuck, domains, self._is_spread())

    def _refusal(self, bound: Status | None, shown: Candidate) -> Status:
        """Return the status with every reason that some node gave, each with its cures, and one sentence in front."""
        counts = shown.reasons()
        total = len(self._snapshot.all_rows)
        reasons = [reason for _, reason in counts]
        sentence = fit_message(total, counts, narrowed=shown)
        cures = ClusterEvent.NODE_ADDED
        for reason in reasons:
            cures |= reason.cures
        if self._workload.gang is None:
            head = Reason("Unschedulable", sentence, cures, Kind.NOT_NOW)
        elif bound is not None and bound.reasons[0].text:
            first = bound.reasons[0]
            head = _with_text(first, f"{first.text} {sentence}" if counts else first.text)
        else:
            text = gang_message(self._workload, (("needed", self._workload.needed),))
            if (halt := self._placer.halt) is not None:
                counts, sentence = halt.counts, halt_message(total, halt)
                reasons = list(dict.fromkeys(reason for _, reason in counts))
                for reason in reasons:
                    cures |= reason.cures
            cures |= _DOMAIN_CURES if self._asks_for_domains() else _NO_ROOM_CURES
            if self._is_spread():
                cures |= ClusterEvent.POD_ASSIGNED
            if self._placer.gave_up:
                head = Reason("GaveUpSearching", f"{text} {sentence}", cures, Kind.GAVE_UP)
            else:
                head = Reason("NoPlacement", f"{text} {sentence}", cures, Kind.NOT_NOW)
        plugins = {plugin for plugin, _ in counts}
        code_ = bound.code if bound is not None else Code.UNSCHEDULABLE
        return Status(code_, (head, *(r for r in reasons if r.code != head.code)), ",".join(sorted(plugins)))

    def _blame(self) -> tuple[tuple[str, Reason], ...]:
        """Return who refused what, over all shapes."""
        halted = self._placer.halt.counts if self._placer.halt is not None else {}
        return tuple(dict.fromkeys((*halted, *(entry for c in self._placer.candidates for entry in c.reasons()))))

    def _missing(self) -> Candidate:
        """Return the candidate that has the fewest feasible nodes: the one to explain."""
        return min(self._placer.candidates, key=lambda c: int(np.count_nonzero(c.feasible)))


def _would_delay(whom: str) -> Status:
    """Return the refusal of a workload that has room only where it would spoil a promise."""
    text = f"wherever there is room, {whom} could not start when it was promised"
    return Status.unschedulable(Reason("WouldDelay", text, _NO_ROOM_CURES, Kind.NOT_NOW))


def _with_text(reason: Reason, text: str) -> Reason:
    return Reason(reason.code, text, reason.cures, reason.kind, reason.numbers)
