"""Commit: carries out what a cycle decided: reserve, permit, bind, or set aside; and mends what goes wrong after.

For the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.effects import EvictPod
from scheduler.framework.runtime import PluginError
from scheduler.framework.status import ClusterEvent, Code, Kind, Reason, Status
from scheduler.model import gang_key_of
from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS

from .flights import Flight, Seat
from .reporter import gang_ref, pod_key, pod_ref
from .workloads import counts_as_placed

if TYPE_CHECKING:
    from scheduler.framework.workload import Workload
    from scheduler.model import Gang

    from .core import Core
    from .cycle import Outcome
    from .placement import Placer

_RETRY = Status.unschedulable(Reason("Outdated", "the cluster changed while the workload was being placed"))


class Commit:
    """From a plan to bound pods."""

    def __init__(self, core: Core) -> None:
        """Take the parts to work on."""
        self._core = core

    def place(self, workload: Workload, placer: Placer, outcome: Outcome) -> str:
        """Reserve what was placed and let it through; return the decision's result. The snapshot is left as it was."""
        core, now = self._core, self._core.clock()
        nodes = {uid: placer.snapshot.all_rows[row].node.name for uid, (_, row) in outcome.placed.items()}
        if not self._still_true(workload, placer, outcome, nodes):
            placer.clear()
            core.queue.retry(workload.key, now, with_backoff=workload.attempts > 0)
            workload.attempts += 1
            return "outdated"
        seats = {
            uid: Seat(core.cluster.pods[uid], nodes[uid], placer.candidate(pod).state)
            for uid, (pod, _) in outcome.placed.items()
        }
        timeout = workload.gang.schedule_timeout_seconds if workload.gang else DEFAULT_SCHEDULE_TIMEOUT_SECONDS * 2
        flight = Flight(workload, core.runtime_of(workload), seats, now + timeout, now)
        try:
            status = core.flights.reserve(flight) or core.flights.permit(flight, now)
        except PluginError as error:
            status = error.status
        placer.clear()
        if status is not None:
            core.flights.release(flight)
            core.refuse(workload, status, self._blame(status), now)
            return "error" if status.code is Code.ERROR else "unschedulable"
        core.preempting.placed(workload.key)
        self._leave_queue(workload, seats, now)
        if flight.phase == "permit":
            names = sorted({n for s in seats.values() if s.waiting for n in s.waiting.pending})
            waiting = Status(Code.WAIT, (Reason("WaitingAtPermit", f"waits at Permit for {', '.join(names)}"),))
            core.reporter.waits(workload, waiting, now)
            return "waiting"
        self.advance(flight)
        return "scheduled"

    def refuse(self, workload: Workload, outcome: Outcome) -> str:
        """Set a workload aside, with the evictions that make room for it if there is a plan; return the result."""
        core, now = self._core, self._core.clock()
        status = outcome.status
        assert status is not None
        if outcome.room is not None:
            controller = next(iter(workload.pods.values())).scheduler_name
            for uid in core.preempting.begin(workload, outcome.room, now, controller):
                flight = core.flights.of(uid)
                if flight is not None:
                    reason = Reason("Preempted", f"preempted by {workload.key} while it waited")
                    self.abandon(flight, Status.unschedulable(reason), retry=True)
        elif not core.preempting.victims_left(workload.key, now):
            core.preempting.end(workload.key)
            core.preempting.clear([uid for uid in workload.pods if core.cluster.nominations.get(uid)])
        if status.code is Code.ERROR:
            core.reporter.refused(workload, core.workloads.ready_pods(workload), status, "ai-scheduler")
            core.queue.retry(workload.key, now, with_backoff=True)
            return "error"
        core.refuse(workload, status, outcome.blame, now)
        return "nominated" if outcome.room is not None else "unschedulable"

    def advance(self, flight: Flight) -> None:
        """Let a flight that waits for nobody go on to PreBind and Bind."""
        core = self._core
        if flight.phase != "pre-bind":
            return
        try:
            done = core.flights.pre_bind(flight, core.clock(), core.emit)
            if isinstance(done, Status):
                self.abandon(flight, done)
            elif done:
                core.reporter.moved(flight.workload.key)
                for effect in core.flights.bind(flight):
                    core.emit(effect)
        except PluginError as error:
            self.abandon(flight, error.status)

    def advance_all(self) -> None:
        """Carry out what plugins asked for at Permit, and let go who is free."""
        core = self._core
        rejections, core.access.rejections = core.access.rejections, []
        for uid, plugin, text in rejections:
            flight = core.flights.of(uid)
            if flight is not None and flight.phase == "permit":
                self.abandon(flight, Status.unschedulable(Reason("Rejected", text)).stamped(plugin))
        for flight in core.flights:
            self.advance(flight)
        activations, core.access.activations = core.access.activations, []
        for uid in activations:
            workload = core.workloads.of(uid)
            if workload is not None and self._core.workloads.refresh(workload) is None:
                core.queue.retry(workload.key, core.clock(), with_backoff=False)

    def abandon(self, flight: Flight, status: Status, *, retry: bool = False) -> None:
        """Give everything that a flight holds back, and its pods to the queue."""
        core, now = self._core, self._core.clock()
        pods = [seat.pod for seat in flight.seats.values()]
        nodes = [seat.node_name for seat in flight.seats.values()]
        core.flights.release(flight)
        for name in dict.fromkeys(nodes):
            core.changed(ClusterEvent.POD_REMOVED, name)
        core.changed(ClusterEvent.PERMIT_RESOLVED)
        workload = core.put_back(flight.workload, pods, now)
        if workload is None:
            return
        if core.workloads.refresh(workload) is None:
            core.reporter.refused(workload, pods, status, pods[0].scheduler_name)
            if retry:
                core.queue.retry(workload.key, now, with_backoff=False)
            elif status.code is Code.ERROR:
                core.queue.retry(workload.key, now, with_backoff=True)
            else:
                core.queue.refuse(workload.key, status, self._blame(status), now, core.could_cure)

    def lost(self, uid: str) -> None:
        """A pod in flight is gone, or somebody else bound it: below the minimum the others are released too."""
        core = self._core
        flight = core.flights.of(uid)
        if flight is None:
            return
        seat = flight.seats[uid]
        phase = flight.phase
        core.flights.release_seat(flight, seat)
        core.changed(ClusterEvent.POD_REMOVED, seat.node_name, uid)
        if phase != "bind" and flight.seats and len(flight.seats) < flight.workload.needed:
            reason = Reason("MemberLost", f"pod {seat.pod.key} left while the gang waited")
            self.abandon(flight, Status.unschedulable(reason), retry=True)

    def landed(self, uid: str) -> None:
        """A binding succeeded."""
        core, now = self._core, self._core.clock()
        seat = core.flights.land(uid)
        if seat is None:
            return
        note = f"Successfully assigned {seat.pod.key} to {seat.node_name}"
        core.reporter.event(pod_ref(seat.pod), "Normal", "Scheduled", "Binding", note, seat.pod.scheduler_name)
        core.reporter.forget_pod(uid)
        key = gang_key_of(seat.pod)
        if key is not None:
            core.reporter.gang_changed(key, now)

    def binding_failed(self, uid: str, message: str) -> None:
        """A binding failed: the pod is placed again at once; a gang that stays below its minimum is rolled back."""
        core, now = self._core, self._core.clock()
        flight = core.flights.of(uid)
        if flight is None:
            return
        seat = flight.seats[uid]
        core.flights.release_seat(flight, seat)
        core.changed(ClusterEvent.POD_REMOVED, seat.node_name, uid)
        note = f"binding to {seat.node_name} failed: {message}"
        core.reporter.event(pod_ref(seat.pod), "Warning", "FailedBinding", "Binding", note, seat.pod.scheduler_name)
        gang = flight.workload.gang
        if gang is not None and self._placed(gang) < gang.min_member:
            core.partial.setdefault(gang.key, now + gang.schedule_timeout_seconds)
        workload = core.put_back(flight.workload, [seat.pod], now)
        if workload is not None and core.workloads.refresh(workload) is None:
            core.queue.retry(workload.key, now, with_backoff=True)

    def awaited(self, uid: str, key: str, failure: str) -> None:
        """What a PreBind plugin waited for has happened, or failed."""
        flight = self._core.flights.of(uid)
        if flight is None or key not in flight.seats[uid].awaited:
            return
        del flight.seats[uid].awaited[key]
        if failure:
            self.abandon(flight, Status.unschedulable(Reason("PreBindFailed", failure)))

    def roll_back_late(self, now: float) -> None:
        """Evict the bound members of gangs that could not be repaired in time, unless they reached their minimum."""
        core = self._core
        for key, deadline in list(core.partial.items()):
            gang = core.cluster.gangs.get(key)
            if gang is None or self._bound(gang) >= gang.min_member:
                del core.partial[key]
            elif deadline <= now:
                del core.partial[key]
                self._roll_back(gang)

    def _roll_back(self, gang: Gang) -> None:
        core = self._core
        message = f"gang {gang.key} could not be completed after a failed binding"
        core.reporter.event(gang_ref(gang), "Warning", "GangRolledBack", "Scheduling", message, "ai-scheduler")
        for pod in core.cluster.members(gang.key):
            if pod.node_name and not pod.is_terminal and not pod.is_terminating:
                core.emit(EvictPod(pod_key(pod), "GangRolledBack", message, pod.grace_period_seconds))

    def _placed(self, gang: Gang) -> int:
        return sum(1 for pod in self._core.cluster.members(gang.key) if counts_as_placed(pod, self._core.cluster))

    def _bound(self, gang: Gang) -> int:
        """Count members that are on nodes for the API server, or done."""
        members = self._core.cluster.members(gang.key)
        return sum(
            1 for p in members if (p.node_name or p.phase == "Succeeded") and counts_as_placed(p, self._core.cluster)
        )

    def _still_true(self, workload: Workload, placer: Placer, outcome: Outcome, nodes: dict[str, str]) -> bool:
        """Check a plan against the live state, if that changed since the snapshot: pods, nodes, and every Filter."""
        core = self._core
        gone = [uid for uid in outcome.placed if uid not in workload.pods]
        if gone and len(outcome.placed) - len(gone) < workload.needed:
            return False
        for uid in gone:
            del outcome.placed[uid]
        if core.cluster.generation == placer.snapshot.generation and not gone:
            return True
        placer.clear()
        snapshot = core.cluster.snapshot()
        runtime = core.runtime_of(workload)
        undo = []
        holds = True
        for uid, (pod, _) in outcome.placed.items():
            row = snapshot.row_of.get(nodes[uid])
            state = placer.candidate(pod).state
            if row is None or not runtime.filter(state, pod, snapshot.nodes.select(np.array([row]))).passes()[0]:
                holds = False
                break
            undo.append(snapshot.place(pod, row))
        if not holds:
            for step in reversed(undo):
                step()
            return False
        placer.placed.update({uid: (pod, snapshot.row_of[nodes[uid]]) for uid, (pod, _) in outcome.placed.items()})
        return True

    def _leave_queue(self, workload: Workload, seats: dict[str, Seat], now: float) -> None:
        """Take the reserved pods out of the queue; surplus members that found no place stay, refused."""
        core = self._core
        for uid in seats:
            core.workloads.drop(uid)
            core.reporter.forget_pod(uid)
        if not workload.pods:
            core.queue.remove(workload.key)
            core.reporter.forget_workload(workload.key)
        elif core.workloads.refresh(workload) is None:
            text = f"{len(workload.pods)} members above the minimum found no place yet"
            reason = Reason("SurplusWaits", text, ClusterEvent.NODE_ANY | ClusterEvent.POD_REMOVED, Kind.NOT_NOW)
            core.refuse(workload, Status.unschedulable(reason), (), now)
        if workload.gang is not None:
            core.reporter.gang_changed(workload.gang.key, now)

    def _blame(self, status: Status) -> tuple[tuple[str, Reason], ...]:
        return tuple((status.plugin, reason) for reason in status.reasons)
