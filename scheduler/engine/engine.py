"""Engine: inputs in, effects out. It decides where pods go, and does nothing else.

For the edges (`kube`, `sim`), which drive it:

    for happened in inputs: engine.handle(happened)
    while engine.step(): ...            # may be paused between steps
    for effect in engine.take_effects(): carry it out and report back
    wait for inputs, or until engine.next_deadline()

It is synchronous and pure: time comes from the clock it is given, chance from the seed.  One engine serves all profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.framework.runtime import PluginError
from scheduler.framework.status import Reason, Status
from scheduler.state.groups import is_loose

from .commit import OUTDATED, Commit, flight_key
from .core import Core
from .cycle import Cycle
from .gangs import condition_of, counts_of, phase_of
from .health import REASON as BELOW_MINIMUM
from .health import Health
from .intake import Intake
from .outcome import Outcome, Quota
from .pending import PendingWorkload
from .quality import summary_of_members
from .recording import record
from .rollback import Rollback
from .room import largest_gangs
from .workloads import workload_key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from scheduler.config import SchedulerConfiguration
    from scheduler.framework.effects import Effect, PlacementSummary, QueuePlace
    from scheduler.framework.workload import Workload
    from scheduler.model import Gang, GangKey, Pod
    from scheduler.state.cluster import ClusterState

    from .decision import Decision
    from .flights import Seat
    from .inputs import Input
    from .placement import Placer
    from .queue import Entry
    from .room import LevelRoom

DEFAULT_WORK_UNITS = 20_000
#: What an attempt counts besides the node evaluations that it makes: a pod of a known shape needs one or two of them.
ATTEMPT_UNITS = 100


@dataclass(slots=True)
class Attempt:
    """The attempt under way."""

    entry: Entry
    #: The workload as it was when the attempt began, with the pods that are tried.
    workload: Workload
    #: None for a look ahead for a workload that was refused.
    placer: Placer | None
    steps: Generator[int, None, Any]


class Engine:
    """The decision core of one scheduler process."""

    def __init__(
        self, configuration: SchedulerConfiguration, clock: Callable[[], float], seed: int = 0,
        on_decision: Callable[[Decision], None] | None = None, *, shows_scores: bool = True,
    ) -> None:  # fmt: skip
        """Make an engine; `clock` returns seconds since the epoch. RegistryError if a plugin cannot be had.

        Without `shows_scores` Decisions are the same but for the scores of the best nodes, which take a twentieth of the work.
        """
        self._core = Core(configuration, clock, seed)
        self._rollback = Rollback(self._core)
        self._commit = Commit(self._core, self._rollback)
        self._health = Health(self._core)
        self._intake = Intake(self._core, self._commit, self._rollback, self._health)
        self._clock = clock
        self._on_decision = on_decision
        self._shows_scores = shows_scores
        self._cycle_number = 0
        self._attempt: Attempt | None = None
        self.scheduler_names = frozenset(self._core.runtimes)

    @property
    def state(self) -> ClusterState:
        """The live state, to be read only."""
        return self._core.cluster

    def handle(self, happened: Input) -> None:
        """Take one input; cheap."""
        self._intake.handle(happened)

    def step(self, work_units: int = DEFAULT_WORK_UNITS) -> bool:
        """Work for about so many node evaluations; return whether there is more to do at once."""
        core, now = self._core, self._clock()
        self._expire(now)
        core.settle(now)
        left = work_units
        while left > 0:
            if self._attempt is None and not self._begin(now):
                break
            left -= ATTEMPT_UNITS + self._go_on(left)
            core.settle(now)
        self._commit.advance_all()
        core.settle(now)
        self._write_due(now)
        return self._attempt is not None or core.queue.has_active(now)

    def take_effects(self) -> list[Effect]:
        """Return what the outside world has to do, in order, and forget it."""
        effects, self._core.reporter.effects = self._core.reporter.effects, []
        return effects

    def next_deadline(self) -> float | None:
        """Return when `step` must be called again even if nothing happens, in seconds since the epoch."""
        core = self._core
        if core.stale or core.changes or core.cluster.released:
            return self._clock()
        times = (
            core.queue.next_time(), core.flights.next_deadline(), core.preempting.next_deadline(), core.reporter.next_time(),
            core.topologies.next_time(), core.queue_statuses.next_time(), core.moves.next_deadline(), core.backfill.next_time(),
            min(core.partial.values(), default=None), self._health.next_deadline(),
            min((until for nodes in core.access.shunned.values() for until in nodes.values()), default=None),
        )  # fmt: skip
        return min((time for time in times if time is not None), default=None)

    def pending(self) -> list[PendingWorkload]:
        """Return all workloads that are not bound yet, by priority, then key."""
        self._core.settle(self._clock())
        found = [self._pending_in_queue(entry) for entry in self._core.queue]
        for flight in self._core.flights:
            phase = {"permit": "waiting", "pre-bind": "binding", "bind": "binding"}[flight.phase]
            first = next(iter(flight.seats.values())).pod
            found.append(_pending(flight.workload, phase, len(flight.seats), first.namespace, first.name, None))
        return sorted(found, key=lambda p: (-p.priority, p.key, p.phase))

    def queue_positions(self) -> dict[str, list[QueuePlace]]:
        """Return what waits in each queue, in the order in which it will be tried; nothing without queues."""
        core = self._core
        return core.queue_statuses.positions(core.backfill.promised_start) if core.queues.is_on else {}

    def largest_gangs(self, shapes: Sequence[Mapping[str, int]]) -> list[list[LevelRoom]]:
        """Return the largest gangs that would fit now for each shape, which is what a pod requests (`room`); changes nothing."""
        core = self._core
        if self._attempt is None:
            core.access.snapshot = core.cluster.snapshot()
        return largest_gangs(core.cluster, core.access.snapshot, core.access.fabric(), shapes)

    def _begin(self, now: float) -> bool:
        """Take the next workload; False if there is none."""
        core = self._core
        while (entry := core.queue.pop(now, core.could_cure, core.choose)) is not None:
            live = entry.workload
            self._cycle_number += 1
            core.ties.cycle = self._cycle_number
            if (accident := self._accident(live)) is not None:
                core.queue.conclude(entry)
                core.set_aside(live, accident, (), now)
                continue
            admission = core.queues.admit(live, core.workloads.ready_pods(live))
            pods = list(admission.pods)
            attempted = live.with_pods({pod.uid: pod for pod in pods})
            core.access.snapshot = core.cluster.snapshot()
            core.preempting.adopt(attempted, now)
            core.backfill.begin(entry, attempted)
            try:
                placer = core.access.placer(attempted, pods)
            except PluginError as error:
                core.queue.conclude(entry)
                core.set_aside(live, error.status, (), now)
                continue
            left = core.preempting.waits_for(live.key, now)
            kept = core.backfill.quota_refusal(entry, attempted) if admission.status is None else None
            quota = Quota(core.queues.is_on, admission.status, kept)
            delays = core.backfill.delays(attempted)
            cycle = Cycle(core.runtime_of(attempted), core.access.snapshot, attempted, placer, left, quota, delays)
            self._attempt = Attempt(entry, attempted, placer, cycle.run())
            return True
        return False

    def _accident(self, workload: Workload) -> Status | None:
        """Ask plugins again that failed at a workload before it could be tried; return the Error if they still do."""
        core = self._core
        if core.workloads.accident(workload) is not None:
            core.ask_again(workload)
        try:
            core.runtime_of(workload).sort_key(workload)
        except PluginError as error:
            return error.status
        return core.workloads.accident(workload)

    def _go_on(self, budget: int) -> int:
        """Advance the attempt by at most about `budget` node evaluations; return how many it took."""
        assert self._attempt is not None
        used = 0
        try:
            while used < budget:
                used += max(1, next(self._attempt.steps))
        except StopIteration as stop:
            attempt, self._attempt = self._attempt, None
            if attempt.placer is None:
                self._core.backfill.planned(attempt.workload, stop.value)
            else:
                self._conclude(attempt, attempt.placer, stop.value)
        return max(1, used)

    def _conclude(self, attempt: Attempt, placer: Placer, outcome: Outcome) -> None:
        """Carry out what an attempt decided, unless the workload left or may not be tried any more meanwhile."""
        core, live = self._core, attempt.entry.workload
        core.settle(self._clock())
        facts = None
        if self._on_decision is not None:
            facts = record(attempt.workload, placer, outcome, has_scores=self._shows_scores)
        generation = placer.snapshot.generation
        if not core.queue.conclude(attempt.entry) or attempt.entry.gate is not None:
            placer.clear()
            core.queue.retry(attempt.workload.key, self._clock())
            return
        seats: Sequence[Seat] = ()
        promised = core.backfill.promised_start(live.key)
        if outcome.status is None:
            result, seats = self._commit.place(live, attempt.workload, placer, outcome)
        else:
            placer.clear()
            result = self._commit.refuse(live, attempt.workload, placer, outcome)
            self._refused(attempt.entry, placer, outcome)
        if self._on_decision is not None and facts is not None and result != OUTDATED:
            self._on_decision(facts.decision(self._cycle_number, self._clock(), generation, result, seats, promised))

    def _refused(self, entry: Entry, placer: Placer, outcome: Outcome) -> None:
        """Look ahead for a workload that was refused for want of room, if it is due."""
        backfill, workload, status = self._core.backfill, entry.workload, outcome.status
        if status is None or self._core.queue.get(workload.key) is not entry:
            return
        has_plan = outcome.room is not None or bool(self._core.preempting.victims_left(workload.key))
        if backfill.refused(entry, status, placer, has_plan=has_plan):
            attempted = workload.with_pods(dict(workload.pods))
            self._attempt = Attempt(entry, attempted, None, backfill.look_ahead(attempted))

    def _expire(self, now: float) -> None:
        """Act on everything whose patience has ended."""
        core = self._core
        for flight, status in core.flights.late(now):
            self._commit.abandon(flight, status)
        core.moves.expire(now)
        core.backfill.expire(now)
        for key in core.preempting.late(now):
            core.queue.retry(key, now)
        for flight in self._rollback.expire(now):
            reason = Reason("GangRolledBack", "the gang could not be completed in time")
            self._commit.abandon(flight, Status.unschedulable(reason))
        for flight in self._health.expire(now):
            reason = Reason(BELOW_MINIMUM, "the gang stayed below its minimum and was evicted")
            self._commit.abandon(flight, Status.unschedulable(reason))
        for gang_key in core.access.shun_no_more(now):
            core.queue.retry(workload_key_of(gang_key), now)

    def _write_due(self, now: float) -> None:
        """Write waits that lasted, and the statuses of groups that changed."""
        core = self._core
        for key, status in core.reporter.due_waits(now):
            workload = core.workloads.get(key)
            if workload is not None:
                core.reporter.gated(workload, workload.ordered(), status)
                continue
            for flight in core.flights.open():
                if flight_key(flight) == key and flight.phase == "permit":
                    core.reporter.gated(flight.workload, [seat.pod for seat in flight.seats.values()], status)
        for gang_key in core.reporter.due_gangs(now):
            self._write_gang(gang_key)
        core.topologies.write(now)
        core.queue_statuses.write(now)

    def _write_gang(self, key: GangKey) -> None:
        core = self._core
        gang = core.cluster.gangs.get(key)
        if gang is None:
            return
        members = core.cluster.members(key)
        if not core.is_ours(members):
            self._health.forget(key)
            return
        if is_loose(gang) and not any(map(core.cluster.counts_as_placed, members)):
            return
        entry = core.queue.get(workload_key_of(key))
        counts = counts_of(members)
        self._rollback.saw(gang, members)
        in_flight = key in core.partial or any(core.flights.of(pod.uid) is not None for pod in members)
        refusal = entry.status if entry is not None else None
        core.reporter.gang_status(
            gang,
            phase_of(gang, members, core.cluster, in_flight=in_flight),
            counts,
            condition_of(
                gang,
                members,
                core.cluster,
                refusal,
                told=self._health.told_to_go(members),
                was_complete=key in core.completed,
            ),
            self._health.saw(gang, members),
            self._placement_of(gang, members),
            core.backfill.promised_start(workload_key_of(key)),
        )

    def _placement_of(self, gang: Gang, members: Sequence[Pod]) -> PlacementSummary | None:
        """Return where a gang is: as when it was placed, else as its members are found."""
        core = self._core
        if gang.key in core.placements:
            return core.placements[gang.key]
        if self._attempt is None:
            core.access.snapshot = core.cluster.snapshot()
        try:
            return summary_of_members(core.access, gang, members)
        except PluginError as error:
            core.plugin_failed(members[0], error)
            return None

    def _pending_in_queue(self, entry: Entry) -> PendingWorkload:
        workload = entry.workload
        first = next(iter(workload.pods.values()))
        phase = "nominated" if self._core.preempting.is_nominated(workload.key) else entry.state.value
        return _pending(workload, phase, len(workload.pods), first.namespace, first.name, entry.status)


def _pending(
    workload: Workload, phase: str, pods: int, namespace: str, name: str, status: Status | None
) -> PendingWorkload:
    """Return the view of a workload."""
    gang = workload.gang
    if gang is None and workload.key.startswith("gang:"):
        name = workload.key.rpartition("/")[2]
    elif gang is not None:
        name = gang.key.name
    return PendingWorkload(
        key=f"{namespace}/{name}",
        kind="gang" if workload.key.startswith("gang:") else "pod",
        namespace=namespace,
        name=name,
        phase=phase,
        priority=workload.priority,
        pods=pods,
        needed=workload.needed,
        since=workload.since,
        attempts=workload.attempts,
        reason=status.reasons[0].code if status and status.reasons else "",
        message=status.reasons[0].text if status and status.reasons else "",
        parts=_parts_of(workload),
    )


def _parts_of(workload: Workload) -> tuple[str, ...]:
    """Return the names of the groups that a gang is made of, as far as its pods name them; none for a gang of one group."""
    if not workload.key.startswith("gang:"):
        return ()
    named = {pod.membership.key for pod in workload.pods.values() if pod.membership is not None}
    return tuple(sorted({key.name for key in named if workload.key != workload_key_of(key)}))
