"""Running: the real engine on the embedded cluster, in virtual time, with the invariants checked after every moment."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import parse
from scheduler.framework.effects import BindPod, EmitEvent, EvictPod, ObjectRef, PodRef
from scheduler.framework.plugin import AwaitEffects, Plugin
from scheduler.sim.cluster import Cluster
from scheduler.sim.loading import load_world
from scheduler.sim.outcome import to_json

from .worlds import PREFIX, a_class, a_gang, a_job, a_pod, a_world, nodes, replicas, run, run_checked, start, workload

DEMO = "examples/demo"


class Announces(Plugin):
    """Has an event written before each binding."""

    NAME = "Announces"

    def pre_bind(self, state, pod, node_name):  # noqa: ARG002 - the signature of the point
        """Ask for the event, and wait until it is written."""
        about = ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid)
        return AwaitEffects((EmitEvent(about, "Normal", "Prepared", "Binding", node_name),), "announced", 30.0)


def test_a_pod_starts_runs_and_ends() -> None:
    """Bound at once, started 2 s later, finished 100 s after that."""
    found = workload(run(*nodes(1), a_pod("p", 2, run=100)), "p")
    assert (found.phase, found.submitted, found.started, found.finished) == ("Succeeded", 0, 0, 102)
    assert (found.wait_seconds, found.nodes, found.gpus) == (0, ("node-0",), 2)


def test_pre_bind_plugin_gets_what_it_asks_for_before_the_binding() -> None:
    """The embedded cluster carries it out and reports it, so the pod is bound at once."""
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: 'tests.sim.test_run:Announces'}]}}}]"
    simulation = run_checked(start(a_world(*nodes(1), a_pod("p", 2, run=100)), parse(text)))
    assert workload(simulation.outcome(), "p").started == 0
    reasons = [event.reason for event in simulation.cluster.events]
    assert reasons.index("Prepared") < reasons.index("Scheduled")


def test_what_is_submitted_later_arrives_later() -> None:
    """submit-seconds is the moment of creation; the wait counts from it."""
    found = workload(run(*nodes(1), a_pod("p", submit=40, run=10)), "p")
    assert (found.submitted, found.started, found.finished) == (40, 40, 52)


def test_pods_wait_for_room_in_the_order_of_their_creation() -> None:
    """One node, three pods that fill it: one after the other."""
    outcome = run(*nodes(1), *(a_pod(f"p{i}", 8, submit=i, run=100) for i in range(3)))
    assert [workload(outcome, f"p{i}").started for i in range(3)] == [0, 102, 204]


def test_a_gang_waits_until_all_fit() -> None:
    """Two pods of 8 GPUs on two nodes, one of which is busy: nothing is bound until both are free."""
    outcome = run(*nodes(2), a_pod("busy", 1, run=60), *a_gang("g", 2, 8, submit=10, run=30))
    found = workload(outcome, "g")
    assert (found.started, found.wait_seconds) == (62, 52)
    assert {pod.bound for pod in found.pods} == {62}


def test_bound_pods_of_a_dump_run_from_the_start() -> None:
    """A pod with a node occupies it, and ends when its run is over."""
    outcome = run(*nodes(1), a_pod("old", 8, node="node-0", run=50), a_pod("new", 8, run=10))
    assert workload(outcome, "new").started == 50
    assert workload(outcome, "old").phase == "Succeeded"


def test_a_run_that_began_before_the_dump_ends_sooner() -> None:
    """A pod that had run for 20 of its 50 seconds has 30 left."""
    old = a_pod("old", 8, node="node-0", run=50)
    old["metadata"]["creationTimestamp"] = "2026-02-01T10:00:00Z"
    old["status"] = {"phase": "Running", "startTime": "2026-02-01T10:00:00Z"}
    new = a_pod("new", 8, run=10)
    new["metadata"]["creationTimestamp"] = "2026-02-01T10:00:20Z"
    outcome = run(*nodes(1), old, new)
    assert workload(outcome, "new").started == 30
    assert workload(outcome, "old").started == -20


def test_an_urgent_gang_preempts_and_the_victims_come_back() -> None:
    """The victims go for a gang that is placed, are named with it, and run again when it has ended."""
    outcome = run(
        *nodes(2), a_class("low", 1), a_class("high", 9),
        *a_gang("low", 2, 8, priorityClassName="low", run=500),
        *a_gang("high", 2, 8, priorityClassName="high", run=100, submit=50),
    )  # fmt: skip
    low, high = workload(outcome, "low"), workload(outcome, "high")
    assert (high.started, low.evicted, low.phase) == (52, 2, "Succeeded")
    assert {(e.workload, e.preempted_for, e.gpus) for e in outcome.evictions} == {("default/low", "default/high", 8)}
    assert [pod.outcome for pod in low.pods] == ["Evicted", "Evicted", "Succeeded", "Succeeded"]


def test_an_evicted_pod_takes_its_time_to_write_a_checkpoint() -> None:
    """checkpoint-grace-seconds delays the end of a victim, up to its grace period."""
    for told, grace, started in ((20, 30, 30), (90, 30, 40), (None, 30, 12)):
        low = a_pod("low", 8, run=500, terminationGracePeriodSeconds=grace, priority=1)
        if told is not None:
            low["metadata"]["annotations"][f"{PREFIX}/checkpoint-grace-seconds"] = str(told)
        outcome = run(*nodes(1), low, a_pod("high", 8, submit=10, run=10, priority=9))
        assert workload(outcome, "high").started == started


def test_a_gang_that_can_never_fit_does_not_keep_the_simulation_going() -> None:
    """Waits that never end are recognised; the end is the last moment at which something happened."""
    outcome = run(*nodes(2), *a_gang("huge", 3, 8, run=10), a_pod("p", run=30))
    found = workload(outcome, "huge")
    assert (found.phase, found.waiting, found.gpus, found.started) == ("Pending", 3, 24, None)
    assert "never" in found.reason.lower()
    assert outcome.end_seconds == 32
    assert outcome.unfit == (found,)


def test_a_simulation_can_be_cut() -> None:
    """At the horizon the simulation ends, whatever still runs."""
    outcome = run(*nodes(1), a_pod("p", run=1000), until_seconds=100)
    assert (outcome.is_cut, outcome.end_seconds, workload(outcome, "p").phase) == (True, 100, "Running")


def test_use_is_sampled_whenever_it_changes() -> None:
    """Four of eight GPUs for 102 of 204 seconds: a quarter on average, a half at most."""
    outcome = run(*nodes(1), a_pod("p", 4, run=100), a_pod("q", run=202))
    assert [(sample.seconds, sample.gpus) for sample in outcome.samples] == [(0, 4), (102, 0), (204, 0)]
    assert outcome.mean_share("gpus", "gpus_total") == pytest.approx(0.25)
    assert outcome.peak_share("gpus", "gpus_total") == 0.5


def test_a_budget_counts_its_healthy_pods() -> None:
    """The disruption controller tells how many pods may go: those that run above the minimum."""
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    }  # fmt: skip
    simulation = run_checked(start(a_world(*nodes(1), replicas("Deployment", "web", 3), budget)))
    (found,) = simulation.engine.state.budgets.values()
    assert found.disruptions_allowed == 1


def test_an_empty_cluster_is_no_accident() -> None:
    """Pods without any node wait, and are told why."""
    outcome = run(a_pod("p"))
    assert workload(outcome, "p").phase == "Pending"
    assert "there is no Node, so nothing can be placed" in outcome.notes


# What the API server says to the engine.


def cluster_with(*manifests: Any) -> Cluster:
    """Return an embedded cluster without an engine."""
    cluster = Cluster(a_world(*manifests), frozenset({"ai-scheduler"}))
    cluster.agenda.run_due(cluster.clock())
    cluster.take_inputs()
    return cluster


def ref(cluster: Cluster, name: str) -> PodRef:
    """Return the reference of a pod."""
    pod = next(sim.pod for sim in cluster.pods.values() if sim.pod.name == name)
    return PodRef(pod.namespace, pod.name, pod.uid)


def answers(cluster: Cluster, *effects: Any) -> list[str]:
    """Apply effects and return the kinds of the answers."""
    for effect in effects:
        cluster.apply(effect)
    return [type(answer).__name__ for answer in cluster.take_inputs()]


def test_a_binding_is_answered_and_brings_its_annotations() -> None:
    """A binding succeeds once; what it carries is on the pod."""
    cluster = cluster_with(*nodes(1), a_pod("p"))
    pod = ref(cluster, "p")
    assert answers(cluster, BindPod(pod, "node-0", {"a": "b"})) == ["BindingSucceeded", "PodChanged"]
    assert cluster.pods[pod.uid].pod.annotations["a"] == "b"
    cluster.apply(BindPod(pod, "node-0"))
    (answer,) = cluster.take_inputs()
    assert answer.is_taken


def test_a_binding_of_a_pod_that_is_gone_fails() -> None:
    """The uid is a precondition: a pod of the same name is another pod."""
    cluster = cluster_with(*nodes(1), a_pod("p"))
    cluster.apply(BindPod(PodRef("default", "p", "another"), "node-0"))
    cluster.apply(EvictPod(PodRef("default", "p", "another"), "Preempted", ""))
    bind, evict = cluster.take_inputs()
    assert bind.is_gone
    assert evict.is_gone


def test_a_binding_to_an_unknown_node_fails() -> None:
    """The pod stays pending."""
    cluster = cluster_with(*nodes(1), a_pod("p"))
    assert answers(cluster, BindPod(ref(cluster, "p"), "gone")) == ["BindingFailed"]


def test_a_kubelet_refuses_what_does_not_fit() -> None:
    """As a real kubelet: the pod fails with OutOf and the resource."""
    cluster = cluster_with(*nodes(1), a_pod("p", 8), a_pod("q", 1))
    answers(cluster, BindPod(ref(cluster, "p"), "node-0"), BindPod(ref(cluster, "q"), "node-0"))
    refused = next(sim for sim in cluster.pods.values() if sim.pod.name == "q")
    assert (refused.pod.phase, refused.api.status.reason) == ("Failed", "OutOfnvidia.com/gpu")


def test_a_victim_is_marked_then_stopped_then_gone() -> None:
    """The condition comes first, the deletion next, the removal after its time to stop."""
    cluster = cluster_with(*nodes(1), a_pod("p", node="node-0"))
    pod = ref(cluster, "p")
    assert answers(cluster, EvictPod(pod, "PreemptionByScheduler", "m")) == ["PodChanged", "PodChanged"]
    sim = cluster.pods[pod.uid]
    assert sim.pod.is_terminating
    assert [(c.type, c.reason) for c in sim.pod.conditions] == [("DisruptionTarget", "PreemptionByScheduler")]
    cluster.clock.advance_to(cluster.clock() + 2)
    cluster.agenda.run_due(cluster.clock())
    assert [type(answer).__name__ for answer in cluster.take_inputs()] == ["PodRemoved"]


# The whole.


def test_the_demo_shows_what_it_promises() -> None:
    """Gangs of many sizes run, an impossible one never does, and the urgent one gets its room at once."""
    simulation = run_checked(start(load_world([DEMO])))
    outcome = simulation.outcome()
    assert [found.name for found in outcome.unfit] == ["moonshot"]
    urgent = workload(outcome, "incident-retrain")
    assert urgent.wait_seconds is not None
    assert urgent.wait_seconds < 60
    victims = [eviction for eviction in outcome.evictions if eviction.preempted_for == urgent.key]
    assert victims
    assert {eviction.node for eviction in victims} <= set(urgent.nodes), "somebody went in vain"
    assert outcome.peak_share("gpus", "gpus_total") > 0.9


def test_two_runs_are_equal_byte_for_byte() -> None:
    """Equal input gives equal output, decisions and all."""

    def one() -> tuple[str, str]:
        simulation = run_checked(start(load_world([DEMO])))
        return json.dumps(to_json(simulation.outcome())), repr(simulation.decisions)

    assert one() == one()


sizes = st.integers(1, 4)
gang = st.builds(
    lambda size, gpus, priority, submit, seconds: (size, gpus, priority, submit, seconds),
    sizes, st.sampled_from([1, 2, 4, 8]), st.sampled_from([0, 1, 9]), st.integers(0, 60), st.integers(1, 80),
)  # fmt: skip


@settings(max_examples=40)
@given(count=st.integers(1, 3), gangs=st.lists(gang, max_size=6), singles=st.lists(gang, max_size=4))
def test_the_invariants_hold_in_any_world(count: int, gangs: list[Any], singles: list[Any]) -> None:
    """Whatever is submitted when: no node over-committed, no gang below its minimum, no eviction without a placement."""
    manifests: list[dict[str, Any]] = nodes(count)
    for number, (size, gpus, priority, submit, seconds) in enumerate(gangs):
        manifests += a_gang(f"g{number}", size, gpus, priority=priority, submit=submit, run=seconds)
    for number, (size, gpus, priority, submit, seconds) in enumerate(singles):
        manifests.append(a_job(f"j{number}", size, gpus, priority=priority, submit=submit, run=seconds))
    outcome = run(*manifests)
    for found in outcome.workloads:
        fits = found.gpus <= 8 * count or found.kind == "Job"
        assert found.phase in (("Succeeded", "Failed") if fits else ("Pending",)), (
            found.name,
            found.phase,
            found.reason,
        )


def test_a_victim_that_wants_notice_is_told_and_goes_at_its_time() -> None:
    """A more important pod comes after 10 s; the victim wants 60 s, and the simulation has no more than that between them."""
    low = a_pod("low", 8)
    low["metadata"]["annotations"][f"{PREFIX}/eviction-notice-seconds"] = "60"
    simulation = run_checked(start(a_world(*nodes(1), low, a_pod("high", 8, submit=10, run=5, priority=100))))
    assert [event.reason for event in simulation.cluster.events].count("EvictionNotice") == 1
    started = workload(simulation.outcome(), "high").started
    assert started is not None
    assert 70 <= started <= 110  # its own grace period comes after the notice
