"""DefaultPreemption by counting: where nothing but resources keeps a pod from a node, sums say what all Filters say."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code
from scheduler.model import Budget
from scheduler.model.api import LabelSelector
from scheduler.plugins.preemption.default import dry_runs
from tests.builders import EPOCH, a_gang, a_node, a_pod

NOW = EPOCH + 1000.0
GANGS = {"a": 2, "b": 3}

nodes = st.lists(
    st.builds(
        lambda cpu, gpus, pods, tainted: (cpu, gpus, pods, tainted),
        st.integers(1, 8), st.sampled_from([0, 0, 4]), st.sampled_from([3, 5, 110]), st.sampled_from([False, False, True]),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
running = st.lists(
    st.fixed_dictionaries(
        {
            "node": st.integers(0, 3),
            "cpu": st.sampled_from([0, 300, 500, 1000, 2500]),
            "gpus": st.sampled_from([0, 0, 1, 2]),
            "priority": st.sampled_from([-5, 0, 0, 3, 10, 20]),
            "started": st.sampled_from([None, EPOCH, EPOCH + 1, NOW + 50]),
            "leaving": st.sampled_from([None, None, None, NOW - 10, NOW - 500]),
            "app": st.sampled_from(["", "x", "y"]),
            "gang": st.sampled_from(["", "", "", "a", "b"]),
            "is_evicted": st.sampled_from([False, False, False, True]),
        }
    ),
    max_size=14,
)
nominees = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([500, 2000]), st.sampled_from([0, 10, 20])), max_size=3
)
budgets = st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 2)), max_size=2, unique_by=lambda b: b[0])
preemptors = st.tuples(st.sampled_from([0, 600, 1000, 3000]), st.sampled_from([0, 0, 2]), st.sampled_from([5, 10]))


def a_core(base, nodes_, running_, nominees_=(), budgets_=()):
    """Return a core with a cluster as it was drawn."""
    core = Core(SchedulerConfiguration.model_validate({"profiles": [{"base": base}]}), lambda: NOW, 0)
    for k, (cpu, gpus, pods, tainted) in enumerate(nodes_):
        node = a_node(f"n{k}").cpu(cpu).gpus(gpus).pods(pods)
        core.cluster.set_node((node.taint("away") if tainted else node).build())
    for name, minimum in GANGS.items():
        core.cluster.groups.put(a_gang(name, minimum).build())
    for k, drawn in enumerate(running_):
        put(core, f"p{k}", drawn)
    for k, (node, cpu, priority) in enumerate(nominees_):
        pod = a_pod(f"nominee-{k}").cpu(f"{cpu}m").priority(priority).nominated(f"n{node}").build()
        core.cluster.set_pod(pod)
    for name, allowed in budgets_:
        selector = LabelSelector(match_labels={"app": name})
        core.cluster.budgets["default", name] = Budget(
            namespace="default", name=name, selector=selector, disruptions_allowed=allowed, disrupted_pods=frozenset()
        )
    core.access.snapshot = core.cluster.snapshot()
    return core


def put(core, name, drawn):
    """Let a pod run as it was drawn."""
    builder = a_pod(name).cpu(f"{drawn['cpu']}m").gpus(drawn["gpus"]).priority(drawn["priority"])
    if drawn["app"]:
        builder.label("app", drawn["app"])
    if drawn["gang"]:
        builder.gang(drawn["gang"])
    pod = builder.on(f"n{drawn['node']}", started=drawn["started"] or 0.0).build()
    is_leaving = drawn["leaving"] is not None
    core.cluster.set_pod(
        msgspec.structs.replace(
            pod, started=drawn["started"], is_terminating=is_leaving, deletes_at=drawn["leaving"]
        )
    )  # fmt: skip
    if drawn["is_evicted"]:
        core.cluster.evicted.add(pod.uid)


def a_preemptor(cpu, gpus, priority):
    """Return a pod that waits."""
    return a_pod("waits").cpu(f"{cpu}m").gpus(gpus).priority(priority).build()


def prefiltered(core, pod):
    """Return what PreFilter leaves behind."""
    state = CycleState()
    status, _ = core.runtimes[pod.scheduler_name].pre_filter(state, pod, core.access.snapshot.nodes)
    assert status is None
    return state


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["kube-default", "ai-scheduler"]), st.booleans(), nodes, running, nominees, budgets, preemptors
)  # fmt: skip
def test_counting_finds_the_victims_that_all_filters_find(base, protects, nodes_, running_, nominees_, budgets_, drawn):
    """The same candidates, victims, budgets and sentences on every node, and the snapshot is as it was."""
    core = a_core(base, nodes_, running_, nominees_, budgets_)
    access, pod = core.access, a_preemptor(*drawn)
    state = prefiltered(core, pod)
    counting = access.counting(state, pod)
    assert counting is not None
    rows = range(len(access.snapshot.all_rows))

    def look(row):
        return access.verdict(state, pod, row)

    told = dict(dry_runs(access, pod, rows, look, NOW, protect_gangs=protects))
    before = [row.contents() for row in access.snapshot.all_rows]
    counted = dict(dry_runs(access, pod, rows, look, NOW, protect_gangs=protects, counting=counting))
    assert counted == told
    assert [row.contents() for row in access.snapshot.all_rows] == before


def test_a_pod_that_another_filter_has_something_to_say_of_is_not_only_counted():
    """Host ports, affinity and spread depend on who stands where."""
    core = a_core("kube-default", [(2, 0, 110, False)], [])
    for pod in (
        a_pod("port").cpu(1).port(80),
        a_pod("near").cpu(1).affinity("kubernetes.io/hostname", app="x"),
        a_pod("spread").cpu(1).spread("kubernetes.io/hostname", app="x"),
    ):
        state = CycleState()
        core.runtimes["ai-scheduler"].pre_filter(state, pod.build(), core.access.snapshot.nodes)
        assert core.access.counting(state, pod.build()) is None


def test_what_refuses_by_the_node_alone_is_asked_in_full():
    """A taint that no eviction takes away stays the reason."""
    core = a_core("kube-default", [(1, 0, 110, True)], [])
    pod = a_preemptor(1000, 0, 10)
    counting = core.access.counting(prefiltered(core, pod), pod)
    assert counting is not None
    assert counting.open.tolist() == [False]
    assert core.access.verdict(prefiltered(core, pod), pod, 0).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
