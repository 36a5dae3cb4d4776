"""Whatever happens in whatever order: the invariants hold, and in the end everybody who can be placed is."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.engine.candidates import Candidate
from scheduler.engine.gangs import is_bound
from scheduler.engine.kept import Kept
from scheduler.engine.queue import QueueState
from scheduler.framework.effects import EvictPod
from scheduler.model import gang_key_of
from tests.builders import a_gang, a_node, a_pod
from tests.state.test_cluster import columns, rebuilt

from .world import World

NODE_NAMES = [f"n{k}" for k in range(6)]
#: Pods that look at pods on other nodes.
NEIGHBOURS = {
    "nobody of its kind on its host": lambda pod, app: pod.anti_affinity("kubernetes.io/hostname", app=app),
    "even over hosts": lambda pod, app: pod.spread("kubernetes.io/hostname", 1, app=app),
    "rather even over zones": lambda pod, app: pod.spread("zone", 1, soft=True, app=app),
    "rather near": lambda pod, app: pod.prefers_near(10, "zone", app=app),
    "rather far": lambda pod, app: pod.prefers_near(-10, "zone", app=app),
    "minds nobody": lambda pod, _app: pod,
}
few_gpus = st.sampled_from([0, 1, 2, 4, 8])
priorities = st.sampled_from([0, 0, 1, 9])


class Cluster(RuleBasedStateMachine):
    """A cluster that anything may happen to."""

    @initialize(count=st.integers(1, 4))
    def begin(self, count):
        """Start with some nodes."""
        self.world = World([self.node(name) for name in NODE_NAMES[:count]])
        self.number = 0
        #: Gangs that something outside happened to: they may be short of members through no fault of ours.
        self.disturbed = set()
        self.gates = set()

    def node(self, name, gpus=8):
        """Return a node."""
        return a_node(name).gpus(gpus).cpu(32).label("zone", f"z{int(name[1:]) % 2}")

    def name(self, prefix):
        """Return a new name."""
        self.number += 1
        return f"{prefix}{self.number}"

    def pending(self):
        """Return our pods that wait, by name."""
        return sorted(
            (p for p in self.world.pods.values() if not p.node_name and not p.is_terminating and not p.is_terminal),
            key=lambda pod: pod.name,
        )

    def up(self):
        """Return the pods on nodes that have not ended, by name."""
        pods = (p for p in self.world.pods.values() if p.node_name and not p.is_terminal)
        return sorted(pods, key=lambda pod: pod.name)

    def used(self, name):
        """Return how many GPUs pods have on a node, or on the way to it, whether it is there or not."""
        state = self.world.engine.state
        pods = [pod for pod in state.pods.values() if state.node_of(pod.uid) == name and not pod.is_terminal]
        return sum(pod.requests.get("nvidia.com/gpu", 0) for pod in pods)

    def disturb(self, pod):
        """Remember that a gang lost a member to somebody outside."""
        if (key := gang_key_of(pod)) is not None:
            self.disturbed.add(key)

    @rule(name=st.sampled_from(NODE_NAMES), gpus=st.sampled_from([4, 8]))
    def put_node(self, name, gpus):
        """A node comes, or offers more or less than before what its pods need."""
        if self.used(name) <= gpus:
            self.world.add(self.node(name, gpus))

    @rule(name=st.sampled_from(NODE_NAMES))
    def remove_node(self, name):
        """A node goes; its pods stay known, as in a real cluster until they are collected."""
        if name in self.world.nodes and not any(p.node_name == name for p in self.world.pods.values()):
            self.world.remove_node(name)

    @rule(name=st.sampled_from(NODE_NAMES))
    def cordon(self, name):
        """A node is cordoned, or not any more."""
        if (node := self.world.nodes.get(name)) is not None:
            self.world.add(msgspec.structs.replace(node, is_unschedulable=not node.is_unschedulable))

    @rule(gpus=few_gpus, priority=priorities, never=st.booleans())
    def add_pod(self, gpus, priority, never):
        """A pod comes."""
        pod = a_pod(self.name("p")).gpus(gpus).cpu(1).priority(priority)
        self.world.add(pod.preemption_policy("Never") if never else pod)

    @rule(kind=st.sampled_from(sorted(NEIGHBOURS)), app=st.sampled_from(["web", "db"]), priority=priorities)
    def add_neighbour(self, kind, app, priority):
        """A pod comes that minds others; there is always a node on which it could be placed."""
        pod = a_pod(self.name("q")).gpus(1).cpu(1).priority(priority).labels(app=app)
        self.world.add(NEIGHBOURS[kind](pod, app))

    @rule(
        minimum=st.integers(1, 4), extra=st.integers(-1, 2), gpus=st.sampled_from([2, 4, 8]), priority=priorities,
        timeout=st.sampled_from([5, 60, 600]), is_mixed=st.booleans(), has_group=st.booleans(),
    )  # fmt: skip
    def add_gang(self, minimum, extra, gpus, priority, timeout, is_mixed, has_group):
        """A gang comes: complete, with surplus, one short, of two roles, or without its group."""
        name = self.name("g")
        count = max(1, minimum + extra)
        sizes = [gpus // 2 if is_mixed and k % 2 else gpus for k in range(count)]
        if has_group:
            self.world.add(a_gang(name, minimum).timeout(timeout))
        self.world.add([a_pod(f"{name}-{k}").gang(name).gpus(s).cpu(1).priority(priority) for k, s in enumerate(sizes)])

    @rule(data=st.data())
    def add_member(self, data):
        """A gang gets one more member, or the group that it lacked."""
        names = sorted({key.name for pod in self.world.pods.values() if (key := gang_key_of(pod)) is not None})
        if names:
            name = data.draw(st.sampled_from(names))
            if all(key.name != name for key in self.world.gangs):
                self.world.add(a_gang(name, data.draw(st.integers(1, 3))))
            self.world.add(a_pod(self.name(f"{name}-late")).gang(name).gpus(data.draw(few_gpus)).cpu(1))

    @rule(data=st.data())
    def delete_pod(self, data):
        """Somebody deletes a pod."""
        pods = sorted(pod.name for pod in self.world.pods.values())
        if pods:
            name = data.draw(st.sampled_from(pods))
            self.disturb(self.world.pod(name))
            self.world.remove(name)

    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Failed", "Running"]))
    def change_phase(self, data, phase):
        """A pod runs or ends."""
        if pods := self.up():
            pod = data.draw(st.sampled_from([p.name for p in pods]))
            if phase == "Failed":
                self.disturb(self.world.pod(pod))
            self.world.change(pod, phase=phase)

    @rule(data=st.data())
    def gate_or_free(self, data):
        """A pending pod gets a gate off, or on."""
        if pods := self.pending():
            pod = data.draw(st.sampled_from(pods))
            self.world.change(pod.name, gates=() if pod.gates else ("example.com/gate",))

    @rule(data=st.data(), times=st.integers(1, 3))
    def fail_bindings(self, data, times):
        """The next bindings of a pod fail."""
        if pods := self.pending():
            self.world.failing[data.draw(st.sampled_from([p.name for p in pods]))] = ["no"] * times

    @rule(data=st.data(), gpus=st.sampled_from([1, 4]), is_ours=st.booleans())
    def bind_foreign(self, data, gpus, is_ours):
        """Another scheduler binds a pod of its own, or one of ours, where there is room."""
        state, pods = self.world.engine.state, self.pending()
        row = state.view(data.draw(st.sampled_from(NODE_NAMES)))
        pod = data.draw(st.sampled_from(pods)) if is_ours and pods else a_pod(self.name("f")).gpus(gpus).cpu(1).build()
        if row is None or state.node_of(pod.uid) is not None:
            return
        if all(row.node.allocatable.get(r, 0) - row.requested.get(r, 0) >= n for r, n in pod.requests.items()):
            self.disturb(pod)
            scheduler = pod.scheduler_name if is_ours and pods else "somebody"
            bound = msgspec.structs.replace(pod, node_name=row.node.name, shape=b"", scheduler_name=scheduler)
            self.world.add(bound)

    @rule(grace=st.sampled_from([0.0, 3.0, 40.0, None]), lag=st.sampled_from([0.0, 2.0]))
    def change_manners(self, grace, lag):
        """Victims go at once, later or never; bindings are seen at once or later."""
        self.world.grace, self.world.view_lag = grace, lag

    @rule(units=st.sampled_from([1, 3, 10]), steps=st.integers(1, 6))
    def work_a_little(self, units, steps):
        """The engine is interrupted in the middle of its work; effects are carried out later."""
        for _ in range(steps):
            self.world.engine.step(units)

    @rule()
    def work(self):
        """The engine works until it rests."""
        self.world.run()

    @rule(seconds=st.sampled_from([0.6, 3, 11, 70, 400]))
    def wait(self, seconds):
        """Time passes."""
        self.world.wait(seconds)

    @precondition(lambda self: not self.world.lagging)
    @rule()
    def restart(self):
        """A new process takes over when the old one has done what it began."""
        self.world.run()
        if not self.world.lagging:
            for key in [k for k, g in self.world.gangs.items() if g.phase not in ("Scheduled", "Running", "Finished")]:
                self.disturbed.add(key)
            self.world.restart()

    @invariant()
    def state_equals_a_rebuild(self):
        """So do the snapshot, and what is kept of shapes from cycle to cycle."""
        engine = self.world.engine
        assert engine.state.validate() == []
        if engine._attempt is not None:
            return
        core = engine._core
        snapshot = core.cluster.snapshot()
        assert columns(snapshot) == rebuilt(core.cluster)
        for kept in core.access._candidates.values():
            fresh = Candidate(kept._runtime, snapshot, kept.pod)
            for candidate in (kept, fresh):
                candidate.attend(kept.pod, Kept(), kept._ties, {})
                candidate.sync()
            assert np.array_equal(kept.feasible, fresh.feasible)
            if kept._is_scored and fresh.feasible.any():
                fresh.best()
                assert np.array_equal(kept._keys, fresh._keys)

    @invariant()
    def nobody_is_forgotten(self):
        """Each of our pods is in the queue, in flight, or on a node; and nothing is in flight without an attempt."""
        core = self.world.engine._core
        for pod in self.pending():
            workload = core.workloads.of(pod.uid)
            is_queued = workload is not None and (core.queue.get(workload.key) or workload.key in core.stale)
            assert is_queued or core.cluster.node_of(pod.uid) is not None, pod.name
        if self.world.engine._attempt is None:
            assert all(entry.state is not QueueState.IN_FLIGHT for entry in core.queue)
        assert {uid for flight in core.flights for uid in flight.seats} <= core.cluster.assumed.keys()

    @invariant()
    def gangs_are_whole(self):
        """No gang is bound below its minimum without being watched, unless somebody outside took members."""
        core = self.world.engine._core
        if any(flight.is_binding for flight in core.flights) or self.world.engine._core.reporter.effects:
            return
        for key, gang in core.cluster.gangs.items():
            if key in self.disturbed or key in core.partial or self.world.events("GangRolledBack"):
                continue
            members = core.cluster.members(key)
            bound = [pod for pod in members if is_bound(pod) or pod.uid in core.cluster.assumed]
            is_done = all(pod.phase == "Succeeded" for pod in bound)
            assert is_done or len(bound) >= gang.min_member, (key, len(bound))

    @invariant()
    def evictions_have_a_reason(self):
        """Whoever was evicted was a victim of a decision that then had a place for its workload."""
        victims = {v.uid for d in self.world.decisions if d.result == "nominated" for v in d.victims}
        for effect in self.world.of(EvictPod):
            assert effect.reason == "GangRolledBack" or effect.pod.uid in victims

    def teardown(self):
        """Every wait ends: with room for all, all that may be placed are placed, and nobody is evicted for it."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.grace, world.view_lag, world.failing = 0.0, 0.0, {}
        world.run()
        world.leaving = [(world.now, p.uid) for p in world.pods.values() if p.is_terminating]
        world.wait(1)
        world.add([a_node(f"z{k}").gpus(8).cpu(32) for k in range(len(self.pending()) + 1)]).wait(700)
        core = world.engine._core
        for pod in self.pending():
            workload = core.workloads.of(pod.uid)
            entry = core.queue.get(workload.key) if workload else None
            assert entry is not None, pod.name
            assert entry.state is QueueState.GATED or core.workloads._gate(pod.uid) is not None, (
                pod.name,
                entry.status,
            )
        assert core.flights.open() == []
        before = len(world.effects)
        world.wait(300)
        assert world.effects[before:] == []
        deadline = world.engine.next_deadline()
        assert deadline is None or deadline > world.now


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
