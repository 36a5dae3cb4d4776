"""What is made anew for evicted work: it keeps its age, and goes back to where it was if it can."""

from __future__ import annotations

import msgspec

from tests.builders import EPOCH, a_gang, a_node, a_pod

from .shapes import members, nodes, running
from .world import World


def later(world):
    """Let the clock of a world stand an hour after the objects of tests are created."""
    world.now = EPOCH + 3600
    return world


def test_an_evicted_gang_comes_before_what_came_after_it():
    """Its group was created first: it waits at its old place, and so it does for a new process."""
    for restarts in (False, True):
        world = later(World()).add(nodes(2), a_gang("old", 2), members("old", 2)).run()
        world.add(a_gang("high", 2), members("high", 2, priority=10)).run()
        assert sorted(world.evicted) == ["old-0", "old-1"]
        world.add(a_gang("a-younger", 2).created(60), members("a-younger", 2)).wait(5)
        world.add(members("old", 2, start=2)).wait(5)
        if restarts:
            world.restart().wait(1)
        world.remove("high-0", "high-1").wait(1)
        assert (world.bound_members("old"), world.bound_members("a-younger")) == (2, 0)


def test_the_new_pod_of_a_job_has_the_age_of_the_one_that_was_evicted():
    """The Job's next pod comes before pods that are younger than the first one; a further one does not."""
    world = later(World()).add(nodes(1), running("job-x", "n0").owner("Job", "job"))
    world.add(a_pod("high").gpus(8).priority(10)).run()
    assert world.evicted == ["job-x"]
    world.add(a_pod("between").gpus(8).created(1800)).wait(5)
    world.add(a_pod("job-y").gpus(8).owner("Job", "job").created(3600)).wait(5)
    world.add(a_pod("job-z").gpus(8).owner("Job", "job").created(3600)).wait(5)
    order = []
    for _ in range(3):
        [name] = world.placed
        world.remove(name).wait(1)
        order += world.placed
    assert order == ["job-y", "between", "job-z"]


def rack_nodes(racks):
    """Return two nodes in each of some racks."""
    names = [(f"n{k}", f"r{k // 2}") for k in range(2 * racks)]
    return [
        a_node(name).gpus(8).cpu("64").memory("512Gi").label("topology.kubernetes.io/rack", rack)
        .label("kubernetes.io/hostname", name).label("network.topology.nvidia.com/accelerator", rack)
        for name, rack in names
    ]  # fmt: skip


def test_an_evicted_gang_prefers_its_old_domain():
    """All racks are free again: it goes back to the one that it was in, which is neither the first nor the last."""
    world = later(World()).add(rack_nodes(3), a_gang("old", 2))
    world.add([pod.on(f"n{k + 2}") for k, pod in enumerate(members("old", 2))])
    blockers = [running(f"b{k}", f"n{k}", priority=99) for k in (0, 1, 4, 5)]
    world.add(blockers, a_gang("high", 2), members("high", 2, priority=10)).run()
    assert sorted(world.evicted) == ["old-0", "old-1"]
    world.add(members("old", 2, start=2)).wait(5)
    gone = [name for name in world.placed if name.startswith(("b", "high"))]
    for name in gone:  # seen in one step: all racks are free when it is tried
        uid = world.pod(name).uid
        pod = msgspec.structs.replace(world.pods[uid], phase="Succeeded")
        world.pods[uid] = pod
        world.add(pod)
    world.wait(1)
    assert {world.node_of("old-2"), world.node_of("old-3")} == {"n2", "n3"}
