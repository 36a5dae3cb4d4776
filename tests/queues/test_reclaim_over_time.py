"""Reclaim in the engine: who takes from whom, and that it comes to rest; scenarios of §10 of what befell other schedulers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import inputs as i
from scheduler.framework.effects import EvictPod
from scheduler.model.pod import shape_of
from scheduler.state.cluster import RESTARTABLE
from tests.builders import gangs_of

from .making import a_queue, a_world, queued

if TYPE_CHECKING:
    from scheduler.model import Pod


class Cluster:
    """A world whose controllers make a new pod for each that is evicted."""

    def __init__(self, gpus: int, *queues, nodes: int = 1) -> None:
        self.world = a_world(gpus, *queues, nodes=nodes)
        self.rounds = 0
        #: Every pod that its controller wants, by uid.
        self.wanted: dict[str, Pod] = {}

    def submit(self, *pods) -> Cluster:
        self.world.add(*gangs_of([pod for pod in pods if pod.gang_minimum]), *pods)
        self.wanted |= self.world.pods
        self.world.run()
        return self

    def turn(self) -> None:
        """Let evicted pods come back and bound ones run, then let ten seconds pass."""
        self.rounds += 1
        self.wanted |= self.world.pods
        self.world.wait(10)
        for uid, pod in list(self.wanted.items()):
            if uid not in self.world.pods:
                del self.wanted[uid]
                fresh = msgspec.structs.replace(
                    pod, uid=f"{pod.uid}.{self.rounds}", node_name="", phase="Pending", started=None,
                    is_terminating=False, conditions=(), nominated_node_name="",
                )  # fmt: skip
                self.world.add(msgspec.structs.replace(fresh, shape=shape_of(fresh)))
        for pod in list(self.world.pods.values()):
            if pod.node_name and pod.phase == "Pending":
                self.world.add(msgspec.structs.replace(pod, phase="Running", started=self.world.now))

    def used(self, queue: str) -> int:
        """Return how many GPUs a queue's pods on nodes have."""
        pods = self.world.pods.values()
        return sum(
            pod.requests.get("nvidia.com/gpu", 0)
            for pod in pods
            if pod.node_name and pod.labels.get("scheduling.ai-scheduler.io/queue") == queue
        )


def test_what_was_borrowed_is_given_back_when_its_owner_asks():
    """Two queues of four GPUs each: one borrows all eight, and keeps its own four."""
    cluster = Cluster(8, a_queue("a", 4), a_queue("b", 4))
    cluster.submit(*(queued(f"a{n}", "a", created=n) for n in range(8)))
    cluster.turn()
    assert cluster.used("a") == 8
    cluster.submit(*(queued(f"b{n}", "b", created=20 + n) for n in range(6)))
    for _ in range(6):
        cluster.turn()
    assert (cluster.used("a"), cluster.used("b")) == (4, 4)


def test_priority_counts_for_nothing_across_queues():
    """However important, nobody takes what another queue is guaranteed."""
    cluster = Cluster(4, a_queue("a", 4), a_queue("b"))
    cluster.submit(*(queued(f"a{n}", "a") for n in range(4)))
    cluster.turn()
    cluster.submit(queued("vip", "b").priority(1000))
    for _ in range(5):
        cluster.turn()
    assert cluster.world.evicted == []


def test_within_a_queue_priority_counts_as_everywhere():
    """The less important one makes room, and nobody of another queue."""
    cluster = Cluster(2, a_queue("a", 1), a_queue("b", 1))
    cluster.submit(queued("a0", "a"), queued("b0", "b"))
    cluster.turn()
    cluster.submit(queued("vip", "a", created=5).priority(10))
    cluster.turn()
    assert cluster.world.evicted == ["a0"]
    assert "vip" in cluster.world.placed


def test_a_queue_at_its_limit_makes_room_from_its_own_only():
    """There is free room, but no quota: the less important one of the queue goes."""
    cluster = Cluster(8, a_queue("a", limit=2), a_queue("b"))
    cluster.submit(queued("a0", "a", 2), queued("b0", "b", 2))
    cluster.turn()
    cluster.submit(queued("vip", "a", 2, created=5).priority(10))
    for _ in range(3):
        cluster.turn()
    assert cluster.world.evicted == ["a0"]
    assert "vip" in cluster.world.placed


def test_nothing_is_taken_for_a_gang_that_would_not_fit_whole():
    """kube-batch#376: half of another job gone, and both idle."""
    cluster = Cluster(4, a_queue("a", 0), a_queue("b", 8))
    cluster.submit(*(queued(f"a{n}", "a") for n in range(4)))
    cluster.turn()
    cluster.submit(*queued("g", "b").gang("g", 6).times(6))
    for _ in range(5):
        cluster.turn()
    assert cluster.world.evicted == []


def test_only_as_much_is_taken_as_is_needed():
    """volcano#5984: ten evicted where one is needed."""
    cluster = Cluster(10, a_queue("a", 0), a_queue("b", 10))
    cluster.submit(*(queued(f"a{n}", "a") for n in range(10)))
    cluster.turn()
    cluster.submit(queued("b0", "b"))
    for _ in range(5):
        cluster.turn()
    assert len(cluster.world.of(EvictPod)) == 1


def test_a_larger_victim_is_taken_where_it_is_beyond_its_queue():
    """volcano#4151: one larger or smaller than the preemptor is never chosen."""
    cluster = Cluster(4, a_queue("a", 1), a_queue("b", 1))
    cluster.submit(queued("a0", "a", 4))
    cluster.turn()
    cluster.submit(queued("b0", "b", 1))
    for _ in range(5):
        cluster.turn()
    assert "b0" in cluster.world.placed


def test_a_queue_that_is_not_reclaimable_keeps_what_it_borrows():
    """And says so to nobody but whoever asks."""
    cluster = Cluster(2, a_queue("a", 0, is_reclaimable=False), a_queue("b", 2))
    cluster.submit(queued("a0", "a", 2))
    cluster.turn()
    cluster.submit(queued("b0", "b"))
    for _ in range(5):
        cluster.turn()
    assert cluster.world.evicted == []


def test_a_minimum_run_time_is_waited_for_and_no_longer():
    """The preemptor is tried again when it ends."""
    cluster = Cluster(1, a_queue("a", 0, reclaim_min_seconds=100.0), a_queue("b", 1))
    cluster.submit(queued("a0", "a"))
    cluster.turn()
    started = cluster.world.pod("a0").started
    cluster.submit(queued("b0", "b", created=9))
    while "b0" not in cluster.world.placed:
        assert cluster.world.now < started + 130
        before = cluster.world.evicted
        cluster.turn()
        assert before == [] or cluster.world.now >= started + 100


def test_members_above_the_minimum_go_first():
    """An elastic gang shrinks, and goes on."""
    cluster = Cluster(4, a_queue("a", 2), a_queue("b", 2))
    cluster.submit(*queued("g", "a").gang("g", 2).times(4))
    cluster.turn()
    cluster.submit(queued("b0", "b", 2, created=9))
    for _ in range(3):
        cluster.turn()
    assert cluster.used("a") == 2
    assert "b0" in cluster.world.placed


@st.composite
def clusters(draw):
    """Return queues in two levels, and workloads of several sizes, priorities and times."""
    queues = [a_queue("org", draw(st.integers(0, 8)), None, draw(st.integers(0, 2)), dialect="ai-scheduler")]
    for name in "abc"[: draw(st.integers(2, 3))]:
        guaranteed = draw(st.integers(0, 3))
        parent = draw(st.sampled_from(("", "org")))
        limit = draw(st.one_of(st.none(), st.integers(guaranteed, 8)))
        queues.append(a_queue(name, guaranteed, limit, draw(st.integers(0, 3)), parent=parent))
    names = [queue.name for queue in queues[1:]]
    work = [
        (
            draw(st.booleans()),
            draw(st.sampled_from(names)),
            draw(st.integers(1, 4)),
            draw(st.integers(1, 3)),
            draw(st.sampled_from((0, 0, 10))),
        )
        for _ in range(draw(st.integers(3, 9)))
    ]
    return queues, work


@settings(max_examples=40, deadline=None)
@given(clusters(), st.integers(2, 4), st.booleans())
def test_it_comes_to_rest_and_fifty_further_rounds_change_nothing(case, gpus, is_late):
    """No ping-pong and no deadlock (volcano#377, kueue#3779): what has settled stays, and the books are right.

    Nobody is evicted twice for the same preemptor.
    """
    queues, work = case
    cluster = Cluster(gpus, *queues, nodes=3)
    for number, (can_move, queue, size, each, priority) in enumerate(work):
        pod = queued(f"w{number}", queue, each, created=number).priority(priority)
        if can_move:
            pod.annotation(RESTARTABLE, "true")
        cluster.submit(*(pod.gang(f"w{number}", size).times(size) if size > 1 else [pod]))
        if is_late:
            cluster.turn()
    for _ in range(60):
        cluster.turn()
    settled, evictions = dict(cluster.world.placed), len(cluster.world.of(EvictPod))
    for _ in range(50):
        cluster.turn()
    assert len(cluster.world.of(EvictPod)) == evictions, [e.message for e in cluster.world.of(EvictPod)[-6:]]
    assert cluster.world.placed == settled
    assert cluster.world.engine._core.queues.differences() == []
    pairs = Counter((e.message, e.pod.name) for e in cluster.world.of(EvictPod))
    assert max(pairs.values(), default=0) <= 1, pairs


def test_small_restartable_workloads_are_moved_so_that_a_large_one_fits_and_run_again():
    """Two nodes of four GPUs with one GPU used on each: whoever wants four gets a node, and both others have the other one."""
    cluster = Cluster(4, a_queue("a", 8), nodes=2)
    world = cluster.world
    world.add(*(queued(f"s{n}", "a").annotation(RESTARTABLE, "true").on(f"n{n}") for n in range(2)))
    cluster.submit(queued("large", "a", 4, created=9))
    for _ in range(3):
        cluster.turn()
    assert set(world.placed) == {"s0", "s1", "large"}
    assert len(world.of(EvictPod)) == 1
    (moved,) = world.of(EvictPod)
    assert moved.moves_to == world.node_of(moved.pod.name) != world.node_of("large")


def test_nobody_is_moved_without_a_place_to_go_or_without_having_said_so():
    """There is no room for the second one; and without the annotation nobody may be moved."""
    for annotation, other in (("true", 4), ("false", 1)):
        cluster = Cluster(4, a_queue("a", 8), nodes=2)
        cluster.world.add(queued("s0", "a", 1).annotation(RESTARTABLE, annotation).on("n0"))
        cluster.world.add(queued("s1", "a", other).annotation(RESTARTABLE, annotation).on("n1"))
        cluster.submit(queued("large", "a", 4, created=9))
        for _ in range(3):
            cluster.turn()
        assert cluster.world.evicted == []


def test_a_restart_in_the_middle_of_a_reclaim_evicts_nobody_twice():
    """The nominations and the terminating victims are in the API server."""
    cluster = Cluster(2, a_queue("a", 0), a_queue("b", 2))
    world = cluster.world
    cluster.submit(queued("a0", "a"), queued("a1", "a"))
    cluster.turn()
    world.grace = None
    cluster.submit(queued("b0", "b", 2, created=9))
    assert sorted(world.evicted) == ["a0", "a1"]
    world.restart()
    for queue in (a_queue("a", 0), a_queue("b", 2)):
        world.engine.handle(i.ObjectChanged(queue))
    world.wait(20)
    assert sorted(world.evicted) == ["a0", "a1"]
