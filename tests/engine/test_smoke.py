"""The engine places pods and gangs, refuses with reasons, and preempts."""

from __future__ import annotations

from tests.builders import a_gang, a_node, a_pod

from .world import World


def nodes(count, gpus=8):
    """Return equal GPU nodes."""
    return [a_node(f"n{k}").gpus(gpus).cpu("64").memory("512Gi").pods(110) for k in range(count)]


def members(gang, count, gpus=8, priority=0):
    """Return equal members of a gang."""
    return [a_pod(f"{gang}-{k}").gang(gang).gpus(gpus).cpu(1).priority(priority) for k in range(count)]


def test_pod_that_fits_is_bound():
    """One pod finds its node."""
    world = World(nodes(2), a_pod("p").cpu(1)).run()
    assert world.node_of("p") in ("n0", "n1")


def test_gang_is_bound_whole():
    """A gang of four gets four nodes at once."""
    world = World(nodes(4), a_gang("job", 4), members("job", 4)).run()
    assert sorted(world.placed.values()) == ["n0", "n1", "n2", "n3"]
    assert world.wait(5).gang_phases("job")[-1] == "Scheduled"


def test_gang_without_room_binds_nobody():
    """A gang that lacks one node holds nothing."""
    world = World(nodes(3), a_gang("job", 4), members("job", 4)).run()
    assert world.placed == {}
    assert world.engine.state.assumed == {}
    assert "there is room for 3, and never for more than 3" in world.conditions("job-0")[0][1]
    assert [event.regarding.kind for event in world.events("FailedScheduling")] == ["PodGroup", "Pod"]


def test_gang_waits_for_missing_members():
    """Nothing is held while members do not exist."""
    world = World(nodes(4), a_gang("job", 4), members("job", 3)).wait(3)
    assert world.placed == {}
    assert world.conditions("job-0") == [("SchedulingGated", "gang default/job waits for members: 3 of 4 pods exist")]
    world.add(a_pod("job-3").gang("job").gpus(8)).run()
    assert len(world.placed) == 4


def test_room_that_comes_free_wakes_a_gang_at_once():
    """The deletion of a pod lets a refused gang go without a backoff."""
    world = World(nodes(2), a_pod("old").gpus(8).on("n0"), a_gang("job", 2), members("job", 2)).run()
    assert world.bound_members("job") == 0
    world.remove("old").run()
    assert world.bound_members("job") == 2


def test_gang_preempts_as_a_whole():
    """An urgent gang evicts just the pods in its way, and takes their nodes."""
    low = [a_pod(f"low-{k}").gpus(8).on(f"n{k}").priority(1) for k in range(4)]
    world = World(nodes(4), low, a_gang("job", 2), members("job", 2, priority=100)).run()
    assert len(world.evicted) == 2
    assert world.bound_members("job") == 2


def test_gang_that_cannot_fit_evicts_nobody():
    """No eviction unless the whole gang then fits."""
    low = [a_pod(f"low-{k}").gpus(8).on(f"n{k}").priority(1) for k in range(3)]
    high = a_pod("high").gpus(8).on("n3").priority(1000)
    world = World(nodes(4), low, high, a_gang("job", 4), members("job", 4, priority=100)).run()
    assert world.evicted == []
    assert world.placed == {"low-0": "n0", "low-1": "n1", "low-2": "n2", "high": "n3"}


def test_pod_preempts_the_least_important():
    """One pod evicts the lowest priority of all nodes."""
    low = [a_pod(f"low-{k}").gpus(8).on(f"n{k}").priority(k) for k in range(3)]
    world = World(nodes(3), low, a_pod("urgent").gpus(8).priority(100)).run()
    assert world.evicted == ["low-0"]
    assert world.node_of("urgent") == "n0"


def test_waits_that_wonder_are_events_at_group_and_pod():
    """Who describes the pod or the group sees what is missing, once."""
    world = World(nodes(1), a_pod("lost").gang("nowhere").gpus(1), a_gang("job", 2), members("job", 1)).wait(600)
    [missing] = world.events("MissingPodGroup")
    assert (missing.type, missing.regarding.name) == ("Warning", "lost")
    assert [(e.type, e.regarding.name) for e in world.events("WaitingForMembers")] == [
        ("Normal", "job"),
        ("Normal", "job-0"),
    ]


def test_a_pod_whose_claim_is_missing_waits_alone():
    """It is gated until the claim is there, and says so; others go on."""
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    world = World(nodes(1), a_pod("web").patch_spec(resourceClaims=claims), a_pod("plain")).wait(60)
    assert set(world.placed) == {"plain"}
    assert world.conditions("web")[-1] == ("SchedulingGated", 'could not find ResourceClaim "default/gpu"')
