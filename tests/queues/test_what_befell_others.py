"""What users of other schedulers reported about preemption, fairness, starvation and quotas: here it ends as it should.

Each test names the issues; those that other files hold are named there: KAI#1369 and #1673, about shares of devices, in
tests/devices/test_allocator.py; evictions without end in test_reclaim_over_time.py; large jobs that starve in
tests/sim/test_backfill.py and test_kept_quota.py.
"""

from __future__ import annotations

import msgspec

from scheduler.framework.effects import BindPod, EvictPod, SetPodScheduled
from scheduler.model.queue import Quota
from tests.builders import a_gang, a_node, a_pod
from tests.engine.shapes import members, nodes, running, stays
from tests.engine.world import World

from .making import a_queue, a_world, queued
from .test_reclaim_over_time import Cluster


def test_a_gang_evicts_no_more_than_it_needs():
    """volcano#5984: a bundle of ten is evicted where one is needed."""
    low = [running(f"low-{k}", "n0", gpus=1) for k in range(8)]
    world = World(nodes(1), low, a_gang("new", 1), members("new", 1, gpus=1, priority=10)).run().wait(5)
    assert len(world.evicted) == 1
    assert world.bound_members("new") == 1


def test_nobody_goes_for_a_gang_that_something_else_than_room_keeps_off():
    """volcano#5026, volcano#4607: evictions are carried out though the preemptor fails in the end.

    There is room for both members once two pods are gone, but they may not be on one node, and only one node is theirs.
    """
    gang = [pod.select("pool", "own").anti_affinity("kubernetes.io/hostname", app="x").labels(app="x")
            for pod in members("new", 2, gpus=4, priority=10)]  # fmt: skip
    hosts = [a_node("n0").gpus(8).label("pool", "own"), a_node("n1").gpus(8)]
    world = World(hosts, running("a", "n0", gpus=4), running("b", "n0", gpus=4), running("c", "n1"))
    world.add(a_gang("new", 2), gang).run()
    stays(world)
    assert world.evicted == []


def test_free_room_and_room_of_victims_are_used_together():
    """volcano#3291: a free node and one with a victim would do together, and are not found."""
    world = World(nodes(2), running("low", "n0"), a_gang("new", 2), members("new", 2, priority=10)).run().wait(5)
    assert world.evicted == ["low"]
    assert world.bound_members("new") == 2


def test_room_that_comes_free_in_pieces_stays_the_preemptors():
    """kueue#13662: evictions end at different times, and meanwhile others take what the first ones leave."""
    low = [running(f"low-{k}", f"n{k}") for k in range(3)]
    world = World(nodes(3), low)
    world.grace = None
    world.add(a_gang("new", 3), members("new", 3, priority=10)).run()
    assert len(world.evicted) == 3
    for k in range(3):
        assert world.bound_members("new") == 0
        world.remove(f"low-{k}").add(a_pod(f"small-{k}").gpus(1).priority(10)).wait(20)
    assert world.bound_members("new") == 3
    assert len(world.of(EvictPod)) == 3
    assert {world.node_of(f"small-{k}") for k in range(3)} == {""}


def test_a_pod_that_never_ends_blocks_nobody_else_of_its_queue():
    """kueue#6143: one terminating pod blocks its queue for hours."""
    world = a_world(8, a_queue("a", 8), nodes=2)
    world.add(queued("stuck", "a", 8).on("n0"), queued("low", "a", 8, created=1).on("n1"))
    world.grace = None
    world.change("stuck", is_terminating=True, deletes_at=world.now)
    world.wait(300).grace = 0.0
    world.add(queued("new", "a", 8, created=2).priority(10)).wait(60)
    assert world.evicted == ["low"]
    assert world.node_of("new") == "n1"


def test_a_victim_that_alone_would_not_do_is_taken_with_others():
    """KAI#1750: valid victims are given up; volcano#4151: one smaller than the preemptor is never chosen."""
    cluster = Cluster(4, a_queue("a", 0), a_queue("b", 4))
    cluster.submit(*(queued(f"a{n}", "a", created=n) for n in range(4)))
    cluster.turn()
    cluster.submit(queued("b0", "b", 4, created=9))
    for _ in range(3):
        cluster.turn()
    assert "b0" in cluster.world.placed
    assert cluster.used("a") == 0


def test_nodes_of_victims_are_open_to_nobody_for_whom_the_plan_was_not_made():
    """KAI#1719: nodes of victims leak into the feasible set: a plan that is dropped leaves no trace."""
    world = World(nodes(2), running("low", "n0"), running("top", "n1", priority=99))
    world.add(a_gang("two", 2), members("two", 2, priority=10)).run()
    world.add(a_pod("equal").gpus(8)).run()
    assert world.evicted == []
    assert world.waiting == {"two-0", "two-1", "equal"}
    stays(world)


def test_members_that_succeeded_count_for_those_that_still_run():
    """KAI#2012: survivors of a gang that comes to its end are evicted, as those that succeeded are not seen.

    Of three two have succeeded, which is the minimum: the gang is complete whatever becomes of the third one, and the two nodes
    are free: nobody goes for others that fit there, and for a third one only the last member does.
    """
    world = World(nodes(3), a_gang("old", 2), members("old", 3)).run()
    for k in range(2):
        world.change(f"old-{k}", phase="Succeeded")
    world.wait(120)
    assert world.evicted == []
    world.add(a_gang("new", 2), members("new", 2, priority=10)).wait(120)
    assert world.evicted == []
    assert world.bound_members("new") == 2
    world.add(a_pod("one-more").gpus(8).priority(10)).wait(5)
    assert world.evicted == ["old-2"]


def test_a_queue_below_its_own_gets_it_and_nothing_cycles():
    """volcano#4949: reclaim goes in circles between queues that are below what they deserve."""
    cluster = Cluster(6, a_queue("a", 2), a_queue("b", 2), a_queue("c", 2))
    cluster.submit(*(queued(f"a{n}", "a", created=n) for n in range(6)))
    cluster.turn()
    cluster.submit(*(queued(f"{name}{n}", name, created=10 + n) for name in "bc" for n in range(4)))
    for _ in range(8):
        cluster.turn()
    assert [cluster.used(name) for name in "abc"] == [2, 2, 2]
    evictions = len(cluster.world.of(EvictPod))
    for _ in range(20):
        cluster.turn()
    assert len(cluster.world.of(EvictPod)) == evictions == 4


def test_a_resource_that_a_queue_does_not_name_hinders_no_reclaim():
    """volcano#4658: a dimension that is missing in `deserved` blocks it: pods ask for CPU and memory as well."""
    cluster = Cluster(4, a_queue("a", 0), a_queue("b", 4))
    cluster.submit(*(queued(f"a{n}", "a", created=n).cpu(2).memory("1Gi") for n in range(4)))
    cluster.turn()
    cluster.submit(queued("b0", "b", 2, created=9).cpu(4).memory("8Gi"))
    for _ in range(3):
        cluster.turn()
    assert (cluster.used("a"), cluster.used("b")) == (2, 2)


def test_a_head_that_cannot_start_blocks_nobody():
    """volcano#13, kube-batch#561: whoever is first and never fits keeps all others waiting."""
    world = a_world(8, a_queue("a", 8), nodes=2)
    world.add(queued("never", "a", 9).priority(100), a_gang("wide", 20))
    world.add(*queued("wide", "a", 8, created=1).gang("wide", 20).priority(50).times(20))
    world.add(*(queued(f"small-{n}", "a", 2, created=5 + n) for n in range(4))).run()
    assert {name for name in world.placed if name.startswith("small")} == {f"small-{n}" for n in range(4)}


def test_gangs_of_later_queues_are_not_starved_by_conflicts_over_the_same_rack():
    """kueue#12419: two gangs want the same domain in one round; the second one is tried again with what is left, at once."""
    rack = "topology.kubernetes.io/rack"
    hosts = [a_node(f"n{k}").gpus(8).cpu(64).label(rack, f"r{k // 2}") for k in range(4)]
    world = World(*hosts)
    world.add(a_gang("a", 2), members("a", 2), a_gang("b", 2), members("b", 2)).run()
    assert (world.bound_members("a"), world.bound_members("b")) == (2, 2)
    racks = [{int(world.node_of(f"{gang}-{k}")[1]) // 2 for k in range(2)} for gang in "ab"]
    assert sorted(map(sorted, racks)) == [[0], [1]]


def test_a_binding_that_always_fails_does_not_win_every_round():
    """KAI#2075: a webhook refuses the first one's binding, and nobody else is ever served.

    Nor is anybody evicted for it, for five minutes, where it could not be bound; then it may try once more.
    """
    for kind in ("queues", "gang", "pod"):
        world = a_world(1, a_queue("a", 1)) if kind == "queues" else World(nodes(1, gpus=1))
        world.failing = {name: ["refused by a webhook"] * 1000 for name in ("bad", "bad-0")}
        bad = (
            [a_gang("bad", 1), members("bad", 1, gpus=1, priority=10)]
            if kind == "gang"
            else [queued("bad", "a").priority(10)]
        )
        world.add(*bad, queued("good", "a", created=5)).wait(290)
        assert world.node_of("good") == "n0", kind
        assert world.evicted == []
        assert len(world.of(BindPod)) <= 8
        world.failing.clear()
        world.wait(400)
        assert world.evicted == ["good"]
        assert len(world.placed) == 1


def test_a_gang_that_never_fits_writes_once_and_hinders_nobody():
    """scheduler-plugins#682: an unschedulable group fills the log, and the queue."""
    world = a_world(8, a_queue("a", 8), nodes=1)
    world.add(a_gang("wide", 50), *queued("wide", "a", 8).gang("wide", 50).times(50)).wait(60)
    assert len(world.of(SetPodScheduled)) == 50
    world.add(queued("small", "a", 1, created=5)).wait(400)  # once more, as the node is not empty any more
    assert world.node_of("small") == "n0"
    said, decided = len(world.of(SetPodScheduled)), len(world.decisions)
    assert said <= 100
    world.wait(1200)
    assert len(world.of(SetPodScheduled)) == said
    assert len(world.decisions) - decided <= 5


def test_the_asking_workload_counts_against_the_limit():
    """volcano#1860: a queue goes beyond its capability, as the check leaves out who asks."""
    world = a_world(8, a_queue("a", 0, 5))
    world.add(*(queued(f"a{n}", "a", 2, created=n) for n in range(4))).run().wait(30)
    assert len(world.placed) == 2


def test_groups_whose_pods_are_gone_hold_no_quota():
    """volcano#2389: what is left of former groups keeps quota for ever; usage is counted from pods alone."""
    world = a_world(8, a_queue("a", 0, 4))
    for number in range(5):
        world.add(a_gang(f"g{number}", 2), *queued(f"g{number}", "a", 2).gang(f"g{number}", 2).times(2)).run()
        assert len(world.placed) == 2
        world.remove(f"g{number}-0", f"g{number}-1").run()
    world.add(a_gang("dirty", 3), *queued("dirty", "a", 1).gang("dirty", 3).times(2)).wait(10)  # never complete
    world.add(*(queued(f"p{n}", "a", 2, created=9) for n in range(2))).run()
    assert {"p0", "p1"} <= world.placed.keys()
    assert world.engine._core.queues.differences() == []


def test_members_of_a_group_are_charged_like_any_pod():
    """kueue#13809: naming a group gets a pod around the quota."""
    world = a_world(8, a_queue("a", 0, 2))
    world.add(*queued("g", "a", 1).gang("g", 1).times(4), a_gang("g", 1)).wait(30)
    assert world.bound_members("g") == 2
    world.add(a_gang("other", 1), *queued("other", "a", 1, created=5).gang("other", 1).times(1)).wait(30)
    assert world.bound_members("other") == 0


def test_sidecars_count_against_quota_and_node():
    """KAI#1556: native sidecars are left out, and the kubelet refuses the pod: the main containers run beside them."""
    cpu = {"cpu": Quota(0, 5000)}
    world = a_world(8, msgspec.structs.replace(a_queue("a"), quotas=cpu))
    pods = [queued(f"p{n}", "a", 0, created=n).cpu(2).init(f"side{n}", sidecar=True, cpu="1") for n in range(2)]
    world.add(*pods).wait(10)
    assert set(world.placed) == {"p0"}
    assert world.pod("p0").requests["cpu"] == 3000
