"""Ledger: whatever happens in the cluster, the books say what counting anew would."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.engine import inputs as i
from scheduler.model.queue import Queue
from tests.builders import a_pod

from .making import a_queue, a_world, know, queued

QUEUES = ("a", "b", "nowhere")


class Books(RuleBasedStateMachine):
    """A world in which pods come and go, and queues change."""

    def __init__(self) -> None:
        super().__init__()
        self.world = a_world(4, a_queue("org", 6), a_queue("a", 2, parent="org"), a_queue("b", 2, 5), nodes=2)
        self.number = 0

    @rule(queue=st.sampled_from(QUEUES), gpus=st.integers(0, 3), priority=st.sampled_from((0, 10)))
    def submit(self, queue, gpus, priority):
        self.number += 1
        pod = queued(f"p{self.number}", queue, created=self.number).priority(priority)
        self.world.add(pod.gpus(gpus) if gpus else pod)

    @rule(size=st.integers(2, 3), queue=st.sampled_from(QUEUES))
    def submit_gang(self, size, queue):
        self.number += 1
        self.world.add(queued(f"g{self.number}", queue).gang(f"gang{self.number}", size).times(size))

    @rule(foreign=st.booleans())
    def bind_elsewhere(self, foreign):
        self.number += 1
        pod = a_pod(f"p{self.number}").gpus(1).on("n0")
        room = sum(p.requests.get("nvidia.com/gpu", 0) for p in self.world.pods.values() if p.node_name == "n0")
        if room < 4:
            self.world.add(pod.scheduler("other") if foreign else pod)

    @rule(data=st.data())
    def finish(self, data):
        names = sorted(pod.name for pod in self.world.pods.values() if pod.node_name)
        if names:
            name = data.draw(st.sampled_from(names))
            if data.draw(st.booleans()):
                self.world.change(name, phase="Succeeded")
            else:
                self.world.remove(name)

    @rule(name=st.sampled_from(("a", "b", "c")), limit=st.integers(0, 8), parent=st.sampled_from(("", "org", "a")))
    def edit(self, name, limit, parent):
        know(self.world, a_queue(name, 0, limit, parent=parent))

    @rule(name=st.sampled_from(("a", "b", "c")))
    def delete(self, name):
        self.world.engine.handle(i.ObjectRemoved(Queue, ("ai-scheduler", name)))

    @rule()
    def work(self):
        self.world.wait(3)

    @invariant()
    def books_are_right(self):
        self.world.run()
        assert self.world.engine._core.queues.differences() == []


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
