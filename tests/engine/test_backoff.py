"""Backoff: who rests, for how long, and when a rest is cut short."""

from __future__ import annotations

from tests.builders import a_node, a_pod

from . import plugins as p
from .shapes import nodes, profile
from .world import World


def attempts(world: World, name: str) -> int:
    """Return how often a pod was tried."""
    return sum(d.workload.startswith(f"pod:default/{name}:") or f"/{name}:" in d.workload for d in world.decisions)


def test_rest_is_cut_short_when_there_is_nothing_else_to_do() -> None:
    """A pod that Permit refused rests; woken by an event it is tried before its rest ends, as the scheduler is idle."""
    world = World(nodes(1), a_pod("p").gpus(1).label("refuse"), configuration=profile(**p.named(p.Holder))).run()
    assert attempts(world, "p") == 1
    world.wait(0.1).add(a_node("n9").gpus(8)).run()
    assert attempts(world, "p") == 2


def test_rest_is_kept_while_others_wait() -> None:
    """What is active goes first, whatever its priority."""
    world = World(
        nodes(1), a_pod("p").gpus(1).label("refuse").priority(9), configuration=profile(**p.named(p.Holder))
    ).run()
    world.wait(0.1).add(a_node("n9").gpus(8), [a_pod(f"q{k}").gpus(1) for k in range(3)]).run()
    order = [d.workload for d in world.decisions]
    last_of_others = max(i for i, w in enumerate(order) if "/q" in w)
    assert order.index(next(w for w in order[1:] if "/p:" in w), 1) > last_of_others


def test_rest_after_an_accident_is_kept() -> None:
    """However idle the scheduler is, a plugin that failed is not asked again in a circle."""
    world = World(
        nodes(1), a_pod("p").gpus(1).label("raise", "pre_filter"), configuration=profile(**p.named(p.Raises))
    ).run()
    before = attempts(world, "p")
    world.wait(0.1).add(a_node("n9").gpus(8)).run()
    assert attempts(world, "p") == before
    world.wait(1.5)
    assert attempts(world, "p") == before + 1
