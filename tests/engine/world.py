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
    BindPod,
    Effect,
    EmitEvent,
    EvictPod,
    NominatePod,
    SetGangStatus,
    SetPodScheduled,
)
from scheduler.model import Budget, Gang, Node, Pod, PriorityClass, gang_key_of

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
        self.leaving: list[tuple[float, str]] = []
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
                    self.engine.handle(i.NodeChanged(item))
                case Pod():
                    self.pods[item.uid] = item
                    self.engine.handle(i.PodChanged(item))
                case Gang():
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

    def remove_node(self, name: str) -> World:
        self.engine.handle(i.NodeRemoved(name))
        return self

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
            times = [t for t in (self.engine.next_deadline(), *(t for t, _ in self.leaving)) if t is not None]
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

    @property
    def evicted(self) -> list[str]:
        return [effect.pod.name for effect in self.of(EvictPod)]

    def conditions(self, name: str) -> list[tuple[str, str]]:
        return [(e.reason, e.message) for e in self.of(SetPodScheduled) if e.pod.name == name]

    def events(self, reason: str) -> list[EmitEvent]:
        return [event for event in self.of(EmitEvent) if event.reason == reason]

    def gang_phases(self, name: str) -> list[str]:
        return [status.phase for status in self.of(SetGangStatus) if status.name == name]

    def pending(self, name: str) -> Any:
        return next(p for p in self.engine.pending() if p.name == name)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case BindPod():
                pod = self.pods.get(effect.pod.uid)
                if pod is None:
                    self.engine.handle(i.BindingFailed(effect.pod.uid, "not found", is_gone=True))
                elif self.failing.get(pod.name):
                    self.engine.handle(i.BindingFailed(pod.uid, self.failing[pod.name].pop(0)))
                else:
                    annotations = {**pod.annotations, **effect.annotations}
                    bound = msgspec.structs.replace(pod, node_name=effect.node_name, annotations=annotations, shape=b"")
                    self.pods[pod.uid] = bound
                    self.engine.handle(i.BindingSucceeded(pod.uid))
                    self.engine.handle(i.PodChanged(bound))
            case EvictPod():
                pod = self.pods[effect.pod.uid]
                terminating = msgspec.structs.replace(pod, is_terminating=True)
                self.pods[pod.uid] = terminating
                self.engine.handle(i.PodChanged(terminating))
                if self.grace is not None:
                    self.leaving.append((self.now + self.grace, pod.uid))
                    self._let_leave()
            case NominatePod():
                pod = self.pods.get(effect.pod.uid)
                if pod is not None:
                    nominated = msgspec.structs.replace(pod, nominated_node_name=effect.node_name)
                    self.pods[pod.uid] = nominated
                    self.engine.handle(i.PodChanged(nominated))

    def _let_leave(self) -> None:
        for time, uid in list(self.leaving):
            if time <= self.now:
                self.leaving.remove((time, uid))
                if self.pods.pop(uid, None) is not None:
                    self.engine.handle(i.PodRemoved(uid))

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
            if node in state.nodes:
                assert count <= state.nodes[node].allocatable.get(resource, 0), (node, resource, count)

    def bound_members(self, gang_name: str) -> int:
        keys = [gang_key_of(pod) for pod in self.pods.values() if pod.node_name]
        return sum(1 for key in keys if key is not None and key.name == gang_name)
