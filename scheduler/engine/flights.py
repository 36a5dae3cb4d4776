"""Flights: workloads between their decision and their last binding: reserved, waiting at Permit, being bound.

For the engine.  A flight holds what was assumed for each pod and knows how to give it back.

| phase | means | ends by |
|---|---|---|
| permit | all pods are reserved; some plugin waits | all allowed; one rejected, late, deleted, or its node gone |
| pre-bind | PreBind plugins wait for something outside | `AwaitedDone`, deadline |
| bind | bindings are under way | an answer for each pod |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.framework.handle import WaitingPod
from scheduler.framework.plugin import AwaitEffects
from scheduler.framework.runtime import PluginError, call
from scheduler.framework.status import Code, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.effects import Effect
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState


@dataclass(slots=True)
class Seat:
    """One pod of a flight."""

    pod: Pod
    node_name: str
    state: CycleState
    waiting: WaitingPod | None = None
    #: PreBind keys that are still awaited, with their deadlines.
    awaited: dict[str, float] = field(default_factory=dict)
    #: How many PreBind plugins have been called.
    pre_bound: int = 0
    is_binding: bool = False
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Flight:
    """A workload whose pods are assumed."""

    workload: Workload
    runtime: Runtime
    #: Pod uid to seat.
    seats: dict[str, Seat]
    #: When everything is released, whatever is missing (seconds).
    deadline: float
    began: float

    @property
    def phase(self) -> str:
        """Where the flight is: permit, pre-bind or bind."""
        if any(seat.waiting is not None for seat in self.seats.values()):
            return "permit"
        return "bind" if any(seat.is_binding for seat in self.seats.values()) else "pre-bind"


class Flights:
    """All flights, by pod and by workload."""

    def __init__(self, cluster: ClusterState, permit_max_seconds: float) -> None:
        """Take the state in which pods are assumed, and the longest wait at Permit."""
        self._cluster = cluster
        self._permit_max = permit_max_seconds
        #: Workload key to flight; a gang can have several: late members fly by themselves.
        self._flights: list[Flight] = []
        self._by_uid: dict[str, Flight] = {}

    def __iter__(self) -> Iterator[Flight]:
        """Walk over the flights in the order of their decision."""
        return iter(list(self._flights))

    def of(self, uid: str) -> Flight | None:
        """Return the flight of a pod."""
        return self._by_uid.get(uid)

    def waiting(self) -> list[WaitingPod]:
        """Return the pods that wait at Permit, by namespace and name."""
        pods = [seat.waiting for flight in self._flights for seat in flight.seats.values() if seat.waiting]
        return sorted(pods, key=lambda w: (w.pod.namespace, w.pod.name, w.pod.uid))

    def reserve(self, flight: Flight) -> Status | None:
        """Assume all pods and run Reserve for each; on a refusal everything is given back."""
        for seat in flight.seats.values():
            self._cluster.assume(seat.pod.uid, seat.node_name)
        self._flights.append(flight)
        for uid, seat in flight.seats.items():
            self._by_uid[uid] = flight
            for plugin in flight.runtime.plugins("reserve"):
                status = _answer(plugin, "reserve", seat)
                if status is not None:
                    self.release(flight)
                    return status
        return None

    def permit(self, flight: Flight, now: float) -> Status | None:
        """Run Permit for each pod; a refusal is returned (nothing is released), waits are kept in the seats."""
        for seat in flight.seats.values():
            pending: dict[str, float] = {}
            for plugin in flight.runtime.plugins("permit"):
                status = _answer(plugin, "permit", seat)
                if status is None:
                    continue
                if status.code is not Code.WAIT:
                    return status
                patience = self._permit_max if status.wait_seconds is None else status.wait_seconds
                pending[plugin.NAME] = now + min(patience, self._permit_max)
            if pending:
                seat.waiting = WaitingPod(seat.pod, seat.node_name, pending)
        return None

    def pre_bind(self, flight: Flight, now: float, emit: Callable[[Effect], None]) -> Status | bool:
        """Run the PreBind plugins that are left; True when all is done, False while something is awaited."""
        for seat in flight.seats.values():
            plugins = flight.runtime.plugins("pre_bind")
            while not seat.awaited and seat.pre_bound < len(plugins):
                plugin = plugins[seat.pre_bound]
                seat.pre_bound += 1
                answer = call(plugin, "pre_bind", seat.state, seat.pod, seat.node_name)
                if isinstance(answer, AwaitEffects):
                    for effect in answer.effects:
                        emit(effect)
                    seat.awaited[answer.until_key] = now + answer.timeout_seconds
                elif answer is not None and answer.code not in (Code.SUCCESS, Code.SKIP):
                    refusal: Status = answer.stamped(plugin.NAME)
                    return refusal
        return not any(seat.awaited for seat in flight.seats.values())

    def bind(self, flight: Flight) -> list[Effect]:
        """Return the bindings of all pods; PluginError if no plugin binds one."""
        effects: list[Effect] = []
        for seat in flight.seats.values():
            for plugin in flight.runtime.plugins("bind"):
                answer = call(plugin, "bind", seat.state, seat.pod, seat.node_name)
                if isinstance(answer, Status):
                    if answer.code is Code.SKIP:
                        continue
                    raise PluginError(plugin.NAME, "Bind", answer.message)
                seat.is_binding = True
                seat.annotations = dict(answer.annotations)
                effects.append(answer)
                break
            else:
                raise PluginError("", "Bind", "every Bind plugin skipped the pod")
        return effects

    def allow(self, uid: str, plugin: str) -> None:
        """End one plugin's wait for a pod."""
        flight = self._by_uid.get(uid)
        seat = flight.seats[uid] if flight else None
        if seat is not None and seat.waiting is not None:
            seat.waiting.pending.pop(plugin, None)
            if not seat.waiting.pending:
                seat.waiting = None

    def release(self, flight: Flight) -> None:
        """Give everything back: Unreserve of all plugins in reverse, for all pods in reverse, then forget them."""
        for seat in reversed(list(flight.seats.values())):
            self.release_seat(flight, seat)
        self._drop(flight)

    def release_seat(self, flight: Flight, seat: Seat) -> None:
        """Give one pod's place back."""
        for plugin in reversed(flight.runtime.plugins("reserve")):
            if hasattr(plugin, "unreserve"):
                call(plugin, "unreserve", seat.state, seat.pod, seat.node_name)
        self._cluster.forget(seat.pod.uid)
        flight.seats.pop(seat.pod.uid, None)
        self._by_uid.pop(seat.pod.uid, None)
        if not flight.seats:
            self._drop(flight)

    def land(self, uid: str) -> Seat | None:
        """Take a bound pod out of its flight and run PostBind; None if it was in no flight."""
        flight = self._by_uid.pop(uid, None)
        if flight is None:
            return None
        seat = flight.seats.pop(uid)
        if not flight.seats:
            self._drop(flight)
        for plugin in flight.runtime.plugins("post_bind"):
            call(plugin, "post_bind", seat.state, seat.pod, seat.node_name)
        return seat

    def late(self, now: float) -> list[tuple[Flight, Status]]:
        """Return the flights whose patience has ended, with the reason; O(flights)."""
        found = []
        for flight in self._flights:
            status = self._lateness(flight, now)
            if status is not None:
                found.append((flight, status))
        return found

    def next_deadline(self) -> float | None:
        """Return when the next patience ends, in seconds; flights that are being bound have no deadline."""
        times: list[float] = []
        for flight in self._flights:
            if flight.phase == "bind":
                continue
            times.append(flight.deadline)
            for seat in flight.seats.values():
                times += seat.waiting.pending.values() if seat.waiting else ()
                times += seat.awaited.values()
        return min(times, default=None)

    def _lateness(self, flight: Flight, now: float) -> Status | None:
        if flight.phase == "bind":
            return None
        for seat in flight.seats.values():
            for name, until in seat.waiting.pending.items() if seat.waiting else ():
                if until <= now:
                    text = f'pod "{seat.pod.name}" rejected due to timeout after waiting at plugin {name}'
                    return Status.unschedulable(Reason("PermitTimeout", text)).stamped(name)
            for key, until in seat.awaited.items():
                if until <= now:
                    return Status.unschedulable(
                        Reason("PreBindTimeout", f'pod "{seat.pod.name}" waited too long for {key}')
                    )
        if flight.deadline <= now:
            return Status.unschedulable(
                Reason("ScheduleTimeout", "scheduleTimeoutSeconds ended before all members were let through")
            )
        return None

    def _drop(self, flight: Flight) -> None:
        if flight in self._flights:
            self._flights.remove(flight)


def _answer(plugin: object, point: str, seat: Seat) -> Status | None:
    """Call a point for a seat; None for success."""
    status: Status | None = call(plugin, point, seat.state, seat.pod, seat.node_name)  # type: ignore[arg-type]
    return None if status is None or status.code is Code.SUCCESS else status.stamped(plugin.NAME)  # type: ignore[attr-defined]
