"""Flights: workloads between their decision and their last binding: reserved, waiting at Permit, being bound.

For the engine.  A flight holds what was assumed for each pod and knows how to give it back.

| phase | means | ends by |
|---|---|---|
| permit | all pods are reserved; some plugin waits | all allowed; one rejected, late, deleted, or its node gone |
| pre-bind | PreBind plugins wait for something outside | `AwaitedDone`, deadline |
| bind | bindings are under way | an answer for each pod |
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from scheduler.framework.effects import BindPod, PrepareBinding
from scheduler.framework.handle import WaitingPod
from scheduler.framework.plugin import AwaitEffects
from scheduler.framework.runtime import PluginError, answer, call
from scheduler.framework.status import Code, Reason, Status

from .reporter import pod_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.effects import Effect
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState


#: A plugin's name, and its question whether what it waits for has come true.
Check: TypeAlias = "tuple[str, Callable[[], Status | None]]"


@dataclass(slots=True)
class Seat:
    """One pod of a flight."""

    pod: Pod
    node_name: str
    state: CycleState
    waiting: WaitingPod | None = None
    #: PreBind keys that are still awaited, with their deadlines.
    awaited: dict[str, float] = field(default_factory=dict)
    #: What to ask, by PreBind key, once the effects of a key are done.
    checks: dict[str, Check] = field(default_factory=dict)
    #: The keys whose effects are done.
    carried_out: set[str] = field(default_factory=set)
    #: How many PreBind plugins have been called.
    pre_bound: int = 0


@dataclass(slots=True)
class Flight:
    """A workload whose pods are assumed."""

    workload: Workload
    runtime: Runtime
    #: Pod uid to seat.
    seats: dict[str, Seat]
    #: When everything is released, whatever is missing (seconds).
    deadline: float
    is_binding: bool = False

    @property
    def phase(self) -> str:
        """Where the flight is: permit, pre-bind or bind."""
        if self.is_binding:
            return "bind"
        return "permit" if any(seat.waiting is not None for seat in self.seats.values()) else "pre-bind"


class Flights:
    """All flights, by pod and by workload."""

    def __init__(
        self, cluster: ClusterState, permit_max_seconds: float,
        on_accident: Callable[[Pod, PluginError], None] = lambda *_: None,
    ) -> None:  # fmt: skip
        """Take the state in which pods are assumed, and the longest wait at Permit.

        `on_accident` learns of plugins that fail where nothing can be refused any more: Unreserve and PostBind.
        """
        self._cluster = cluster
        self._permit_max = permit_max_seconds
        self._on_accident = on_accident
        #: In the order of their decision. A gang can have several flights: late members fly by themselves.
        self._open: dict[int, Flight] = {}
        self._binding: dict[int, Flight] = {}
        self._by_uid: dict[str, Flight] = {}

    def __iter__(self) -> Iterator[Flight]:
        """Walk over the flights: those that still wait for something, then those that are being bound."""
        return iter([*self._open.values(), *self._binding.values()])

    def open(self) -> list[Flight]:
        """Return the flights that are not being bound yet, in the order of their decision."""
        return list(self._open.values())

    def of(self, uid: str) -> Flight | None:
        """Return the flight of a pod."""
        return self._by_uid.get(uid)

    def waiting(self) -> list[WaitingPod]:
        """Return the pods that wait at Permit, by namespace and name."""
        pods = [seat.waiting for flight in self._open.values() for seat in flight.seats.values() if seat.waiting]
        return sorted(pods, key=lambda w: (w.pod.namespace, w.pod.name, w.pod.uid))

    def board(self, flight: Flight) -> None:
        """Assume all pods."""
        for uid, seat in flight.seats.items():
            self._cluster.assume(uid, seat.node_name)
            self._by_uid[uid] = flight
        self._open[id(flight)] = flight

    def reserve(self, flight: Flight) -> Status | None:
        """Run Reserve for each pod; a refusal is returned, nothing is released."""
        for seat in flight.seats.values():
            for plugin in flight.runtime.plugins("reserve"):
                if hasattr(plugin, "reserve"):
                    status = answer(plugin, "reserve", seat.state, seat.pod, seat.node_name)
                    if status is not None:
                        return status
        return None

    def permit(self, flight: Flight, now: float) -> Status | None:
        """Run Permit for each pod; a refusal is returned (nothing is released), waits are kept in the seats."""
        for seat in flight.seats.values():
            pending: dict[str, float] = {}
            for plugin in flight.runtime.plugins("permit"):
                status = answer(plugin, "permit", seat.state, seat.pod, seat.node_name)
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
        plugins = flight.runtime.plugins("pre_bind")
        for seat in flight.seats.values():
            while not seat.awaited and seat.pre_bound < len(plugins):
                plugin = plugins[seat.pre_bound]
                seat.pre_bound += 1
                said = call(plugin, "pre_bind", seat.state, seat.pod, seat.node_name)
                if isinstance(said, AwaitEffects):
                    seat.awaited[said.until_key] = now + said.timeout_seconds
                    if said.check is not None:
                        seat.checks[said.until_key] = plugin.NAME, said.check
                    emit(PrepareBinding(pod_key(seat.pod), said.until_key, said.effects))
                elif said is not None and not isinstance(said, Status):
                    raise PluginError(plugin.NAME, "PreBind", f"the answer is no status: {said!r}")
                elif said is not None and said.code not in (Code.SUCCESS, Code.SKIP):
                    return said.stamped(plugin.NAME)
        return not any(seat.awaited for seat in flight.seats.values())

    def carried_out(self, seat: Seat, key: str) -> Status | None:
        """Note that the effects of a PreBind key are done, and ask its check; return a refusal if there is one."""
        seat.carried_out.add(key)
        name, check = seat.checks.get(key, ("", None))
        said = None if check is None else ask(name, check)
        if said is None or said.code is Code.SUCCESS:
            seat.awaited.pop(key, None)
            return None
        return None if said.code is Code.WAIT else said

    def recheck(self, seat: Seat) -> Status | None:
        """Ask the checks of a seat that still wait; return a refusal if there is one."""
        for key in [key for key in seat.awaited if key in seat.carried_out]:
            if (refusal := self.carried_out(seat, key)) is not None:
                return refusal
        return None

    def bind(self, flight: Flight) -> list[Effect]:
        """Return the bindings of all pods; PluginError if no plugin binds one."""
        effects: list[Effect] = [self._bind(flight, seat) for seat in flight.seats.values()]
        flight.is_binding = True
        self._open.pop(id(flight), None)
        self._binding[id(flight)] = flight
        return effects

    def _bind(self, flight: Flight, seat: Seat) -> BindPod:
        for plugin in flight.runtime.plugins("bind"):
            said = call(plugin, "bind", seat.state, seat.pod, seat.node_name)
            if isinstance(said, BindPod):
                return said
            if not isinstance(said, Status) or said.code is not Code.SKIP:
                raise PluginError(plugin.NAME, "Bind", getattr(said, "message", f"no binding: {said!r}"))
        raise PluginError("", "Bind", "every Bind plugin skipped the pod")

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
        """Give one pod's place back; a plugin that fails at it hinders nobody."""
        for plugin in reversed(flight.runtime.plugins("reserve")):
            if hasattr(plugin, "unreserve"):
                try:
                    call(plugin, "unreserve", seat.state, seat.pod, seat.node_name)
                except PluginError as error:
                    self._on_accident(seat.pod, error)
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
            try:
                call(plugin, "post_bind", seat.state, seat.pod, seat.node_name)
            except PluginError as error:
                self._on_accident(seat.pod, error)
        return seat

    def late(self, now: float) -> list[tuple[Flight, Status]]:
        """Return the flights whose patience has ended, with the reason; O(pods that wait)."""
        found = []
        for flight in self._open.values():
            status = self._lateness(flight, now)
            if status is not None:
                found.append((flight, status))
        return found

    def next_deadline(self) -> float | None:
        """Return when the next patience ends, in seconds; flights that are being bound have no deadline."""
        times: list[float] = []
        for flight in self._open.values():
            times.append(flight.deadline)
            for seat in flight.seats.values():
                times += seat.waiting.pending.values() if seat.waiting else ()
                times += seat.awaited.values()
        return min(times, default=None)

    def _lateness(self, flight: Flight, now: float) -> Status | None:
        for seat in flight.seats.values():
            for name, until in seat.waiting.pending.items() if seat.waiting else ():
                if until <= now:
                    text = f'pod "{seat.pod.name}" rejected due to timeout after waiting at plugin {name}'
                    return Status.unschedulable(Reason("PermitTimeout", text)).stamped(name)
            for key, until in seat.awaited.items():
                if until <= now:
                    return Status.error(f'pod "{seat.pod.name}" waited too long for {key}')
        if flight.deadline <= now:
            return Status.unschedulable(
                Reason("ScheduleTimeout", "scheduleTimeoutSeconds ended before all members were let through")
            )
        return None

    def _drop(self, flight: Flight) -> None:
        self._open.pop(id(flight), None)
        self._binding.pop(id(flight), None)


def ask(name: str, check: Callable[[], Status | None]) -> Status | None:
    """Ask a plugin's check; an exception, or an answer that is no status, becomes PluginError."""
    try:
        said = check()
    except Exception as error:
        raise PluginError(name, "PreBind", repr(error), traceback.format_exc()) from error
    if said is not None and not isinstance(said, Status):
        raise PluginError(name, "PreBind", f"the check's answer is no status: {said!r}")
    return said.stamped(name) if said is not None else None
