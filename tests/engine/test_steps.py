"""A step does about as much work as it is told, so that whoever drives the engine can pause between two of them."""

from scheduler.engine.engine import ATTEMPT_UNITS
from tests.builders import a_node, a_pod
from tests.engine.world import World


def test_a_burst_of_equal_pods_takes_many_steps():
    """Pods of a known shape need hardly any node evaluations; each counts as an attempt all the same."""
    world = World(a_node("n").cpu("1000"), *[a_pod(f"p{n}").cpu("1") for n in range(100)])
    steps = 1
    while world.engine.step(10 * ATTEMPT_UNITS):
        steps += 1
    assert 10 <= steps <= 12


def test_a_step_makes_at_least_one_attempt():
    """However little it may do: the work comes to an end."""
    world = World(a_node("n").cpu("4"), a_pod("p").cpu("1"), a_pod("q").cpu("1"))
    world.work_units = 1
    world.run()
    assert world.waiting == set()
