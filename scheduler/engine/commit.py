"""Commit: carries out what a cycle decided: reserve, permit, bind, or set aside; and mends what goes wrong after.

For the engine.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.runtime import PluginError
from scheduler.framework.status import ClusterEvent, Code, Reason, Status
from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS

from .flights import Flight, Seat
from .gangs import is_enough, wishes_of
from .reporter import pod_ref
from .workloads import workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.plugin import PostFilterResult
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.state.snapshot import Undo

    from .core import Core
    from .outcome import Outcome
    from .placement import Placer
    from .rollback import Rollback

OUTDATED = "outdated"
#: Where a member of a gang publishes the domain that it is in.
DOMAIN_ANNOTATION = "scheduling.ai-scheduler.io/domain"
_OUTDATED = Status.unschedulable(Reason("Outdated", "the cluster changed while the workload was being placed"))


class Commit:
    """From a plan to bound pods."""

    def __init__(self, core: Core, rollback: Rollback) -> None:
        """Take the parts to work on."""
        self._core = core
        self._rollback = rollback
        self._is_stale = False

    def place(
        self, live: Workload, attempted: Workload, placer: Placer, outcome: Outcome
    ) -> tuple[str, Sequence[Seat]]:
        """Reserve what was placed and let it through; return the decision's result, and the places that were reserved.

        `live` is the workload now, `attempted` as it was when the cycle began; the snapshot is left as it was, and the
        outcome gets the status of a plugin that refused.
        """
        core, now = self._core, self._core.clock()
        nodes = {uid: placer.snapshot.all_rows[row].node.name for uid, (_, row) in outcome.placed.items()}
        summary = placer.summary() if live.gang is not None else None
        kept = self._still_true(live, attempted, placer, outcome, nodes)
        if not is_enough(live, kept):
            placer.clear()
            is_news = core.cluster.generation != placer.snapshot.generation or live.pods.keys() != attempted.pods.keys()
            if len(kept) == len(outcome.placed) and not is_news and live.needed == attempted.needed:
                outcome.status = Status.error("the plan places fewer pods than the gang needs")
                core.set_aside(live, outcome.status, (), now)
                return "error", ()
            core.queue.fail(live.key, _OUTDATED, now, rests=live.attempts > 0)
            return OUTDATED, ()
        states = {candidate: candidate.state.clone() for candidate in placer.candidates}
        seats = {uid: Seat(live.pods[uid], nodes[uid], states[placer.candidate(pod)]) for uid, pod in kept.items()}
        for uid, (_, row) in outcome.placed.items():
            if uid in seats and (domain := placer.domain_of(row)):
                seats[uid].state.write(("annotations", uid), {DOMAIN_ANNOTATION: domain})
        timeout = live.gang.schedule_timeout_seconds if live.gang else 2 * DEFAULT_SCHEDULE_TIMEOUT_SECONDS
        flight = Flight(attempted, core.runtime_of(attempted), seats, now + timeout)
        self._board(flight, placer)
        try:
            status = core.flights.reserve(flight) or core.flights.permit(flight, now)
        except PluginError as error:
            status = error.status
        if status is not None:
            outcome.status = status
            core.flights.release(flight)
            core.set_aside(live, status, self._blame(status), now, rests=True)
            return "error" if status.code is Code.ERROR else "unschedulable", ()
        reserved = tuple(seats.values())
        if live.gang is not None:
            core.cluster.former_nodes.pop(live.gang.key, None)
            if summary is not None:
                core.placements[live.gang.key] = summary
        core.preempting.placed(live.key, seats)
        core.backfill.placed(live, nodes.values())
        self._leave_queue(live, seats, now)
        if flight.phase == "permit":
            names = sorted({n for s in seats.values() if s.waiting for n in s.waiting.pending})
            reason = Reason("WaitingAtPermit", f"waits at Permit for {', '.join(names)}")
            core.reporter.waits(flight_key(flight), Status(Code.WAIT, (reason,)), now)
            return "waiting", reserved
        outcome.status = self.advance(flight)
        return ("scheduled", reserved) if outcome.status is None else ("error", ())

    def _board(self, flight: Flight, placer: Placer) -> None:
        """Assume all pods; the snapshot shows them, which a lone pod that is on it already need not be put on again for."""
        self._core.flights.board(flight)
        if not placer.keep(self._core.cluster):
            placer.clear()
        self._core.access.snapshot = self._core.cluster.snapshot()

    def refuse(self, live: Workload, attempted: Workload, placer: Placer, outcome: Outcome) -> str:
        """Set a workload aside, with the evictions that make room for it if there is a plan; return the result."""
        core, now = self._core, self._core.clock()
        status = outcome.status
        assert status is not None
        if outcome.room is not None and not self._would_fit(live, placer, outcome.room):
            core.queue.fail(live.key, _OUTDATED, now, rests=live.attempts > 0)
            return OUTDATED
        if outcome.room is not None:
            controller = next(iter(live.pods.values())).scheduler_name
            for uid in core.preempting.begin(attempted, outcome.room, now, controller, self._can_be_released):
                flight = core.flights.of(uid)
                if flight is not None:
                    reason = Reason("Preempted", f"preempted by {live.key} while it waited")
                    self.abandon(flight, Status.unschedulable(reason), at_once=True)
        elif not core.preempting.waits_for(live.key, now):
            core.preempting.end(live.key)
            named = [uid for uid, pod in live.pods.items() if pod.preemption_policy != "Never"]
            core.preempting.clear([uid for uid in named if core.cluster.nominations.get(uid)])
        core.set_aside(live, status, outcome.blame, now, lack=outcome.lack, retry_at=outcome.retry_at)
        if outcome.room is not None and not core.preempting.victims_left(live.key):
            core.queue.retry(live.key, now)
        if status.code is Code.ERROR:
            return "error"
        return "nominated" if outcome.room is not None else "unschedulable"

    def advance(self, flight: Flight) -> Status | None:
        """Let a flight that waits for nobody go on to PreBind and Bind; return why it was abandoned, if it was."""
        core = self._core
        if flight.phase != "pre-bind":
            return None
        core.reporter.moved(flight_key(flight))
        try:
            done = core.flights.pre_bind(flight, core.clock(), core.emit)
            if done is True:
                for effect in core.flights.bind(flight):
                    core.emit(effect)
        except PluginError as error:
            done = error.status
        if not isinstance(done, Status):
            return None
        self.abandon(flight, done)
        return done

    def advance_all(self) -> None:
        """Carry out what plugins asked for, and let go who is free."""
        core = self._core
        if self._is_stale:
            self._recheck()
        rejections, core.access.rejections = core.access.rejections, []
        for uid, plugin, text in rejections:
            flight = core.flights.of(uid)
            if flight is not None and flight.phase == "permit":
                self.abandon(flight, Status.unschedulable(Reason("Rejected", text)).stamped(plugin))
        for flight in core.flights.open():
            self.advance(flight)
        activations, core.access.activations = core.access.activations, []
        for uid in dict.fromkeys(activations):
            workload = core.workloads.of(uid)
            if workload is not None:
                core.ask_again(workload)
                core.queue.retry(workload.key, core.clock())

    def abandon(self, flight: Flight, status: Status, *, at_once: bool = False) -> None:
        """Give everything that a flight holds back, and its pods to the queue, to rest unless they may go `at_once`."""
        core, now = self._core, self._core.clock()
        pods = [seat.pod for seat in flight.seats.values()]
        nodes = [seat.node_name for seat in flight.seats.values()]
        core.flights.release(flight)
        core.reporter.moved(flight_key(flight))
        for name in dict.fromkeys(nodes):
            core.changed(ClusterEvent.POD_REMOVED, name)
        core.changed(ClusterEvent.PERMIT_RESOLVED)
        core.settle(now)  # before it is refused: what it gave back itself is no cure
        workload = core.put_back(flight.workload, pods, now)
        if workload is None:
            return
        if at_once:
            core.reporter.refused(workload, pods, status, pods[0].scheduler_name)
            core.queue.retry(workload.key, now)
        else:
            core.set_aside(workload, status, self._blame(status), now, rests=True)

    def lost(self, uid: str) -> None:
        """A pod in flight is gone, or somebody else bound it: below the minimum the others are released too."""
        core = self._core
        flight = core.flights.of(uid)
        if flight is None:
            return
        seat = flight.seats[uid]
        core.flights.release_seat(flight, seat)
        core.changed(ClusterEvent.POD_REMOVED, seat.node_name, uid)
        if flight.is_binding:
            self._rollback.watch(flight.workload)
        elif flight.seats and not is_enough(flight.workload, flight.seats):
            reason = Reason("MemberLost", f"pod {seat.pod.key} left while the gang waited")
            self.abandon(flight, Status.unschedulable(reason), at_once=True)

    def landed(self, uid: str) -> None:
        """A binding succeeded."""
        core, now = self._core, self._core.clock()
        seat = core.flights.land(uid)
        if seat is None:
            return
        core.access.bound_or_gone(uid)
        note = f"Successfully assigned {seat.pod.key} to {seat.node_name}"
        core.reporter.event(pod_ref(seat.pod), "Normal", "Scheduled", "Binding", note, seat.pod.scheduler_name)
        core.reporter.forget_pod(uid)
        key = core.cluster.gang_of(seat.pod)
        if key is None:
            core.reporter.forget_workload(workload_key(None, seat.pod))
            if seat.pod.membership is not None:  # of a group that is no gang, which tells that it has started
                core.reporter.gang_changed(core.cluster.groups.root_of(seat.pod.membership.key), now)
        else:
            core.reporter.gang_changed(key, now)

    def binding_failed(self, uid: str, message: str) -> None:
        """A binding failed: the pod is placed again, elsewhere if it can; a gang that stays incomplete is rolled back."""
        core, now = self._core, self._core.clock()
        flight = core.flights.of(uid)
        if flight is None:
            return
        seat = flight.seats[uid]
        core.flights.release_seat(flight, seat)
        core.changed(ClusterEvent.POD_REMOVED, seat.node_name, uid)
        core.settle(now)
        core.access.binding_failed(uid, seat.node_name)
        note = f"binding to {seat.node_name} failed: {message}"
        core.reporter.event(pod_ref(seat.pod), "Warning", "FailedBinding", "Binding", note, seat.pod.scheduler_name)
        self._rollback.watch(flight.workload)
        workload = core.put_back(flight.workload, [seat.pod], now)
        if workload is not None:
            core.queue.fail(workload.key, Status.error(note), now, rests=True)

    def awaited(self, uid: str, key: str, failure: str) -> None:
        """The effects that a PreBind plugin asked for are done, or failed; then its check has the say."""
        flight = self._core.flights.of(uid)
        if flight is None or key not in flight.seats[uid].awaited:
            return
        if failure:
            self.abandon(flight, Status.error(failure))
            return
        self._ask(flight, lambda: self._core.flights.carried_out(flight.seats[uid], key))

    def recheck(self) -> None:
        """Something changed that is only read: whoever waits for such a thing before it is bound is asked at the next step."""
        self._is_stale = True

    def _recheck(self) -> None:
        self._is_stale = False
        for flight in self._core.flights.open():
            for seat in list(flight.seats.values()):
                if seat.carried_out and self._core.flights.of(seat.pod.uid) is flight:
                    self._ask(flight, partial(self._core.flights.recheck, seat))

    def _ask(self, flight: Flight, question: Callable[[], Status | None]) -> None:
        try:
            refusal = question()
        except PluginError as error:
            refusal = error.status
        if refusal is not None:
            self.abandon(flight, refusal)

    def _can_be_released(self, uid: str) -> bool:
        """Tell whether a pod is in a flight that is not being bound yet: then it need not be evicted."""
        flight = self._core.flights.of(uid)
        return flight is not None and not flight.is_binding

    def _still_true(
        self, live: Workload, attempted: Workload, placer: Placer, outcome: Outcome, nodes: dict[str, str]
    ) -> dict[str, Pod]:
        """Return the pods whose places still hold: the pods wait as they did, and pass every Filter as the cluster is now.

        Only a lone pod is left on the snapshot, and only if nothing happened to the cluster.
        """
        core = self._core
        if live.gang is not None or core.cluster.generation != placer.snapshot.generation:
            placer.clear()
        if wishes_of(live.gang) != wishes_of(attempted.gang):
            return {}
        ready = {pod.uid: pod for pod in core.workloads.ready_pods(live)}
        kept = {
            uid: pod
            for uid, (pod, _) in outcome.placed.items()
            if uid in ready and ready[uid].shape == pod.shape and ready[uid].labels == pod.labels
        }
        if core.cluster.generation == placer.snapshot.generation:
            return kept
        snapshot, runtime = core.cluster.snapshot(), core.runtime_of(live)
        held, undo = {}, []
        for uid, pod in kept.items():
            row = snapshot.row_of.get(nodes[uid])
            if row is None:
                continue
            state = placer.candidate(pod).state
            if runtime.filter(state, pod, snapshot.nodes.select(np.array([row]))).passes()[0]:
                undo.append(snapshot.place(pod, row))
                held[uid] = pod
        for step in reversed(undo):
            step()
        return held

    def _would_fit(self, live: Workload, placer: Placer, room: PostFilterResult) -> bool:
        """Tell whether a plan still holds, if the cluster changed while it was made: its pods fit once its victims are gone."""
        if not set(room.nominations) <= live.pods.keys():
            return False
        if self._core.cluster.generation == placer.snapshot.generation:
            return True
        snapshot, runtime = self._core.cluster.snapshot(), self._core.runtime_of(live)
        undo: list[Undo] = []
        try:
            for victim in room.victims:
                row = snapshot.row_of.get(victim.node_name)
                if row is not None and victim.pod.uid in snapshot.all_rows[row].pods:
                    undo.append(snapshot.remove(victim.pod.uid, row))
            for uid, name in room.nominations.items():
                pod, row = live.pods[uid], snapshot.row_of.get(name)
                if row is None:
                    return False
                state = placer.candidate(pod).state
                if not runtime.filter(state, pod, snapshot.nodes.select(np.array([row]))).passes()[0]:
                    return False
                undo.append(snapshot.place(pod, row))
        finally:
            for step in reversed(undo):
                step()
        return True

    def _leave_queue(self, live: Workload, seats: dict[str, Seat], now: float) -> None:
        """Take the reserved pods out of the queue; those that are left are tried by themselves, and so told what would help them."""
        core = self._core
        for uid in seats:
            core.workloads.drop(uid)
        core.stale.pop(live.key, None)
        if not live.pods:
            core.forget(live.key)
            core.reporter.moved(live.key)
        else:
            core.update(live, now)
            core.queue.retry(live.key, now)
        if live.gang is not None:
            core.reporter.gang_changed(live.gang.key, now)

    def _blame(self, status: Status) -> tuple[tuple[str, Reason], ...]:
        return tuple((status.plugin, reason) for reason in status.reasons)


def flight_key(flight: Flight) -> str:
    """Return the key under which a flight's wait is reported: a gang can wait in the queue and in flight at once."""
    return f"flight:{flight.workload.key}"
