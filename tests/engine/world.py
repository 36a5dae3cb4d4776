"""A world around an engine: a clock to turn, a cluster that does what effects say, and what was seen.

For engine tests and scenarios.  Invariants are checked after every step.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.config import SchedulerConfiguration, default
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import (
    AnnotatePod,
    BindPod,
    Effect,
    EmitEvent,
    EvictPod,
    NominatePod,
    SetGangStatus,
    SetPodScheduled,
    SetPromisedStart,
)
from scheduler.model import Budget, Gang, Node, Pod, PriorityClass, gang_key_of
from scheduler.model.api import Condition
from scheduler.model.gang import COMPLETE_PHASES
from scheduler.model.promise import PROMISED_START, promise_text
from scheduler.state.device_classes import DeviceClasses

if TYPE_CHECKING:
    from scheduler.engine.decision import Decision

START = 1_000_000.0


class World:
    """An engine and an obedient cluster."""

    def __init__(self, *things: Any, configuration: SchedulerConfiguration | None = None, seed: int = 0) -> None:
        self.now = START
        self.decisions: list[Decision] = []
        self.engine = Engine(configuration or default(), lambda: self.now, seed, self.decisions.append)
        self.pods: dict[str, Pod] = {}
        self.effects: list[Effect] = []
        #: Pod names whose next bindings fail, with the message; taken off one by one.
        self.failing: dict[str, list[str]] = {}
        #: Victims stay for so long after their eviction, in seconds; None means for ever.
        self.grace: float | None = 0.0
        #: Bindings are answered, but not seen on the pod, before so many seconds have passed.
        self.view_lag = 0.0
        #: Names of pods whose evictions the API server refuses.
        self.unevictable: set[str] = set()
        self.leaving: list[tuple[float, str]] = []
        self.lagging: list[tuple[float, Pod]] = []
        #: Uids of the pods whose bindings were taken.
        self.taken: set[str] = set()
        self.gangs: dict[Any, Gang] = {}
        self.nodes: dict[str, Node] = {}
        self.work_units = 20_000
        self.add(*things)

    def add(self, *things: Any) -> World:
        """Bring objects into the world, or change them; builders are built."""
        for thing in things:
            item = thing.build() if hasattr(thing, "build") else thing
            match item:
                case list():
                    self.add(*item)
                case Node():
                    self.nodes[item.name] = item
                    self.engine.handle(i.NodeChanged(item))
                case Pod():
                    self.pods[item.uid] = item
                    self.engine.handle(i.PodChanged(item))
                case Gang():
                    self.gangs[item.key] = item
                    self.engine.handle(i.GangChanged(item))
                case PriorityClass():
                    self.engine.handle(i.PriorityClassChanged(item))
                case Budget():
                    self.engine.handle(i.BudgetChanged(item))
                case _:
                    raise TypeError(item)
        return self

    def remove(self, *names: str) -> World:
        """Delete pods by name."""
        for name in names:
            uid = self.pod(name).uid
            del self.pods[uid]
            self.engine.handle(i.PodRemoved(uid))
        return self

    def change(self, name: str, **fields: Any) -> World:
        """Change fields of a pod by name, as somebody else would."""
        pod = msgspec.structs.replace(self.pod(name), **fields)
        return self.add(msgspec.structs.replace(pod, shape=b"") if pod.node_name else pod)

    def remove_node(self, name: str) -> World:
        del self.nodes[name]
        self.engine.handle(i.NodeRemoved(name))
        return self

    def restart(self, configuration: SchedulerConfiguration | None = None) -> World:
        """Let a new engine take over, with nothing but the objects as they are now."""
        self.engine = Engine(configuration or default(), lambda: self.now, 0, self.decisions.append)
        return self.add(*self.nodes.values(), *self.gangs.values(), *self.pods.values())

    def crash(self, after: int) -> World:
        """Let the engine decide; its process dies when so many bindings are carried out, and a new one takes over."""
        for _ in range(100):
            more = self.engine.step(self.work_units)
            for effect in self.engine.take_effects():
                if isinstance(effect, BindPod):
                    after -= 1
                    if after < 0:
                        return self.restart()
                self._carry_out(effect)
            if not more:
                break
        return self.restart()

    def run(self, *, most_steps: int = 10_000) -> World:
        """Let the engine work until it has nothing more to do now."""
        for _ in range(most_steps):
            more = self.engine.step(self.work_units)
            self._check()
            effects = self.engine.take_effects()
            self.effects += effects
            for effect in effects:
                self._carry_out(effect)
            if not more and not effects:
                return self
        raise AssertionError("the engine does not come to rest")

    def wait(self, seconds: float) -> World:
        """Turn the clock, stopping at every deadline of the engine and of leaving pods."""
        end = self.now + seconds
        self.run()
        while True:
            due = (self.engine.next_deadline(), *(t for t, _ in self.leaving), *(t for t, _ in self.lagging))
            times = [t for t in due if t is not None]
            if not times or (nearest := min(times)) > end:
                break
            self.now = max(self.now, nearest)
            self._let_leave()
            self.run()
            if self.engine.next_deadline() is not None and self.engine.next_deadline() <= self.now:
                self.now += 0.001
        self.now = end
        return self.run()

    def pod(self, name: str) -> Pod:
        return next(pod for pod in self.pods.values() if pod.name == name)

    def node_of(self, name: str) -> str:
        return self.pod(name).node_name

    @property
    def placed(self) -> dict[str, str]:
        """Pod name to node name, of all pods on nodes."""
        return {pod.name: pod.node_name for pod in self.pods.values() if pod.node_name}

    @property
    def waiting(self) -> set[str]:
        return {pod.name for pod in self.pods.values() if not pod.node_name}

    def of(self, kind: type[Effect]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def of_moves(self) -> list[Effect]:
        """Return the effects that move pods or keep room for them."""
        return [effect for effect in self.effects if isinstance(effect, BindPod | EvictPod | NominatePod)]

    @property
    def evicted(self) -> list[str]:
        return [effect.pod.name for effect in self.of(EvictPod)]

    def conditions(self, name: str) -> list[tuple[str, str]]:
        return [(e.reason, e.message) for e in self.of(SetPodScheduled) if e.pod.name == name]

    def events(self, reason: str) -> list[EmitEvent]:
        return [event for event in self.of(EmitEvent) if event.reason == reason]

    def gang_status(self, name: str) -> SetGangStatus:
        """Return the last status of a group."""
        return next(status for status in reversed(self.of(SetGangStatus)) if status.name == name)

    def gang_phases(self, name: str) -> list[str]:
        return [status.phase for status in self.of(SetGangStatus) if status.name == name]

    def pending(self, name: str) -> Any:
        return next(p for p in self.engine.pending() if p.name == name)

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901 - one branch for each kind of effect
        match effect:
            case BindPod():
                self._bind(effect)
            case EvictPod():
                self._evict(effect)
            case AnnotatePod():
                self._annotate(effect)
            case SetPromisedStart():
                pod = self.pods.get(effect.pod.uid)
                if pod is not None and not pod.node_name:
                    self.add(_promised(pod, effect))
            case NominatePod() | SetPodScheduled():
                pod = self.pods.get(effect.pod.uid)
                if pod is not None and not pod.node_name:
                    self.add(_written(pod, effect))
            case SetGangStatus():
                gang = next((g for g in self.gangs.values() if g.uid == effect.uid), None)
                if gang is not None:
                    was_complete = effect.phase in COMPLETE_PHASES or effect.satisfied in ("True", "False")
                    told = {
                        "phase": effect.phase,
                        "was_complete": was_complete,
                        "short_since": None,
                        "is_shrunk": False,
                        "promised_start": effect.promised_start,
                    }
                    if effect.satisfied == "False":
                        since = self.now if gang.short_since is None else gang.short_since
                        told |= {"short_since": since, "is_shrunk": effect.satisfied_reason == "Shrunk"}
                    self.add(msgspec.structs.replace(gang, **told))

    def _bind(self, effect: BindPod) -> None:
        pod = self.pods.get(effect.pod.uid)
        assert effect.pod.uid not in self.taken, f"{effect.pod.name} is bound twice"
        if pod is None:
            self.engine.handle(i.BindingFailed(effect.pod.uid, "not found", is_gone=True))
        elif pod.node_name:
            self.engine.handle(i.BindingFailed(pod.uid, f"bound to {pod.node_name}", is_taken=True))
        elif self.failing.get(pod.name):
            self.engine.handle(i.BindingFailed(pod.uid, self.failing[pod.name].pop(0)))
        else:
            annotations = {**pod.annotations, **effect.annotations}
            bound = msgspec.structs.replace(pod, node_name=effect.node_name, annotations=annotations, shape=b"")
            self.taken.add(pod.uid)
            self.engine.handle(i.BindingSucceeded(pod.uid))
            if self.view_lag:
                self.lagging.append((self.now + self.view_lag, bound))
            else:
                self.add(bound)

    def _annotate(self, effect: AnnotatePod) -> None:
        pod = self.pods.get(effect.pod.uid)
        if pod is not None:
            told = {**pod.annotations, **effect.annotations}
            kept = {key: value for key, value in told.items() if value is not None}
            self.add(msgspec.structs.replace(pod, annotations=kept))

    def _evict(self, effect: EvictPod) -> None:
        pod = self.pods.get(effect.pod.uid)
        if pod is None:
            self.engine.handle(i.EvictionFailed(effect.pod.uid, "not found", is_gone=True))
        elif pod.name in self.unevictable:
            self.engine.handle(i.EvictionFailed(pod.uid, "refused"))
        else:
            condition = Condition(type="DisruptionTarget", status="True", reason=effect.reason)
            self.add(msgspec.structs.replace(pod, is_terminating=True, conditions=(*pod.conditions, condition)))
            if self.grace is not None:
                self.leaving.append((self.now + self.grace, pod.uid))
                self._let_leave()

    def _let_leave(self) -> None:
        for time, uid in list(self.leaving):
            if time <= self.now:
                self.leaving.remove((time, uid))
                if self.pods.pop(uid, None) is not None:
                    self.engine.handle(i.PodRemoved(uid))

        for time, pod in list(self.lagging):
            if time <= self.now:
                self.lagging.remove((time, pod))
                if pod.uid in self.pods:
                    self.add(pod)

    def is_served_by_devices(self, resource: str, node: Node) -> bool:
        """Tell whether a node that offers none of a resource may have devices for it, as a class stands for it."""
        served = DeviceClasses(self.engine.state.objects).serving(resource)
        return served is not None and not node.allocatable.get(resource)

    def _check(self) -> None:
        """Hold the invariants: state equals a rebuild, and no node is over-committed by what we decided."""
        state = self.engine.state
        assert state.validate() == []
        used: Counter[tuple[str, str]] = Counter()
        for uid, pod in state.pods.items():
            node = state.node_of(uid)
            if node and not pod.is_terminal:
                for resource, count in pod.requests.items():
                    used[node, resource] += count
        for (node, resource), count in used.items():
            if node in state.nodes and not self.is_served_by_devices(resource, state.nodes[node]):
                assert count <= state.nodes[node].allocatable.get(resource, 0), (node, resource, count)

    def bound_members(self, gang_name: str) -> int:
        keys = [gang_key_of(pod) for pod in self.pods.values() if pod.node_name]
        return sum(1 for key in keys if key is not None and key.name == gang_name)


def _promised(pod: Pod, effect: SetPromisedStart) -> Pod:
    """Return a pod with the condition that tells its start."""
    told = {"status": "False"} if effect.start is None else {"status": "True", "message": promise_text(effect.start)}
    others = [condition for condition in pod.conditions if condition.type != PROMISED_START]
    return msgspec.structs.replace(pod, conditions=(*others, Condition(type=PROMISED_START, **told)))


def _written(pod: Pod, effect: NominatePod | SetPodScheduled) -> Pod:
    """Return a pod with what an effect writes into its status."""
    if isinstance(effect, NominatePod):
        return msgspec.structs.replace(pod, nominated_node_name=effect.node_name)
    condition = Condition(type="PodScheduled", status="False", reason=effect.reason, message=effect.message)
    others = [c for c in pod.conditions if c.type != "PodScheduled"]
    return msgspec.structs.replace(pod, conditions=(*others, condition))
