"""Drives a simulation: the real engine against the embedded cluster, from one moment to the next, until nothing happens.

For the command line, benchmarks and tests.  A simulation ends when nothing is left that could happen: no pod will start or
end, nothing will be submitted, and the engine only tries again what it has refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from scheduler.framework.effects import AnnotatePod, BindPod, EvictPod, NominatePod

from .cluster import Cluster
from .ending import outcome_of
from .kubelets import KubeletTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.config import SchedulerConfiguration
    from scheduler.engine.decision import Decision
    from scheduler.engine.inputs import Input
    from scheduler.engine.pending import PendingWorkload
    from scheduler.framework.effects import Effect

    from .outcome import Outcome
    from .world import World

_PATIENCE_SECONDS = 660.0
_MOST_ROUNDS_AT_ONCE = 100_000
_SHORTEST_STEP_SECONDS = 0.001
_PROGRESS = (AnnotatePod, BindPod, EvictPod, NominatePod)


class SchedulingEngine(Protocol):
    """What a simulation needs of an engine."""

    def handle(self, happened: Input, /) -> None:
        """Take in what happened."""

    def step(self, work_units: int = ...) -> bool:
        """Go on deciding; True: there is more to do now."""

    def take_effects(self) -> list[Effect]:
        """Return what is to be done, in order, and forget it."""

    def next_deadline(self) -> float | None:
        """Return when to step again even if nothing happens."""

    def pending(self) -> Sequence[PendingWorkload]:
        """Return the workloads that wait."""


class StuckError(RuntimeError):
    """The engine keeps the simulation at one moment for ever: a fault, never the input's."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a simulation runs."""

    times: KubeletTimes = field(default_factory=KubeletTimes)
    #: The simulation is cut after so many seconds; None: it ends by itself.
    until_seconds: float | None = None
    #: How long the engine may try again, with nothing else happening, before its refusals count as final; it covers its
    #: longest backoff and its periodic flush, and comes on top of the longest schedule timeout of a gang.
    patience_seconds: float = _PATIENCE_SECONDS


class Simulation:
    """One run; `advance` takes it from one moment to the next."""

    def __init__(
        self,
        world: World,
        scheduler_names: frozenset[str],
        make_engine: Callable[[Callable[[], float], Callable[[Decision], None]], SchedulingEngine],
        options: RunOptions | None = None,
    ) -> None:
        """Set everything up; the engine is made with the virtual clock and a place to send its decisions."""
        self._options = options or RunOptions()
        self.world = world
        self.cluster = Cluster(world, scheduler_names, self._options.times)
        self.decisions: list[Decision] = []
        self.engine = make_engine(self.cluster.clock, self._decided)
        self._last_progress = world.start
        self.is_cut = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.cluster.clock.elapsed

    def advance(self) -> bool:
        """Go to the next moment at which something happens, and settle it; False when there is none."""
        clock, agenda = self.cluster.clock, self.cluster.agenda
        moment, retry = agenda.next_moment(), self.engine.next_deadline()
        if moment is None and (retry is None or retry > self._last_progress + self._patience()):
            return False
        following = min(time for time in (moment, retry) if time is not None)
        until = self._options.until_seconds
        if until is not None and following > self.world.start + until:
            clock.advance_to(self.world.start + until)
            self._last_progress = clock()
            self.is_cut = True
            return False
        if moment is None or following < moment:
            # A deadline of the engine that has passed must not hold the clock.
            following = max(following, clock() + _SHORTEST_STEP_SECONDS)
        clock.advance_to(following)
        if agenda.run_due(clock()):
            self._last_progress = clock()
        self._settle()
        return True

    def outcome(self) -> Outcome:
        """Return what the simulation has come to so far."""
        return outcome_of(
            self.cluster.history,
            self.engine.pending(),
            start=self.world.start,
            end=self._last_progress,
            is_cut=self.is_cut,
            notes=self.world.notes,
            objects=self.cluster.storage.objects,
        )

    def _settle(self) -> None:
        """Let engine and cluster answer each other until both are content."""
        for _ in range(_MOST_ROUNDS_AT_ONCE):
            inputs = self.cluster.take_inputs()
            for change in inputs:
                self.engine.handle(change)
            has_more = self.engine.step()
            effects = self.engine.take_effects()
            for effect in effects:
                self.cluster.apply(effect)
                if isinstance(effect, _PROGRESS):
                    self._last_progress = self.cluster.clock()
            if not (inputs or has_more or effects):
                self.cluster.history.take_sample()
                return
        raise StuckError(f"the engine does not come to rest {self.elapsed:g} seconds after the start")

    def _decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        for victim in decision.victims:
            self.cluster.history.preempted(victim.uid, decision.workload, is_gang=decision.is_gang)

    def _patience(self) -> float:
        """Return how long retries alone may go on."""
        timeouts = [gang.schedule_timeout_seconds for gang in self.cluster.gangs.values()]
        return self._options.patience_seconds + max(timeouts, default=0)


def simulate(
    world: World,
    configuration: SchedulerConfiguration,
    options: RunOptions | None = None,
    *,
    on_moment: Callable[[Simulation], None] | None = None,
) -> Outcome:
    """Run a simulation with the real engine to its end; `on_moment` is called after every moment."""
    simulation = simulation_of(world, configuration, options)
    while simulation.advance():
        if on_moment is not None:
            on_moment(simulation)
    return simulation.outcome()


def simulation_of(world: World, configuration: SchedulerConfiguration, options: RunOptions | None = None) -> Simulation:
    """Return a simulation with the real engine, not yet begun."""
    from scheduler.engine.engine import Engine  # noqa: PLC0415 - numpy and networkx are slow to import

    names = frozenset(profile.scheduler_name for profile in configuration.profiles)
    patience = 2.0 * (configuration.unschedulable_flush_seconds + configuration.pod_max_backoff_seconds)
    options = replace(options or RunOptions(), patience_seconds=patience)
    return Simulation(
        world,
        names,
        lambda clock, on_decision: Engine(configuration, clock, on_decision=on_decision),
        options,
    )
