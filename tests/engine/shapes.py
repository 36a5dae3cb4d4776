"""Equal nodes and members, and a way to say "and so it stays", for tests of the engine over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.config import SchedulerConfiguration
from tests.builders import a_node, a_pod

if TYPE_CHECKING:
    from .world import World


def nodes(count: int, gpus: int = 8, prefix: str = "n") -> list[Any]:
    """Return equal GPU nodes."""
    return [a_node(f"{prefix}{k}").gpus(gpus).cpu("64").memory("512Gi").pods(110) for k in range(count)]


def members(gang: str, count: int, gpus: int = 8, priority: int = 0, start: int = 0) -> list[Any]:
    """Return equal members of a gang."""
    numbers = range(start, start + count)
    return [a_pod(f"{gang}-{k}").gang(gang).gpus(gpus).cpu(1).priority(priority) for k in numbers]


def running(name: str, node: str, gpus: int = 8, priority: int = 0) -> Any:
    """Return a pod on a node."""
    return a_pod(name).gpus(gpus).cpu(1).priority(priority).on(node)


def stays(world: World, minutes: float = 3) -> World:
    """Let time pass, and hold that nothing moves: same places, nobody evicted, nothing bound."""
    placed, evicted, effects = world.placed, list(world.evicted), len(world.of_moves())
    for _ in range(6):
        world.wait(minutes * 10)
        assert world.placed == placed
        assert world.evicted == evicted
        assert len(world.of_moves()) == effects
    return world


def profile(**fields: Any) -> SchedulerConfiguration:
    """Return a configuration with one profile."""
    return SchedulerConfiguration.model_validate({"profiles": [fields]})


def without_phase(pod: Any) -> Any:
    """Return a pod as it was when it was created."""
    return msgspec.structs.replace(pod, conditions=(), nominated_node_name="")
