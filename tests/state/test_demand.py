"""Demand: how many known pods ask for which devices, whatever becomes of them."""

from __future__ import annotations

import msgspec

from scheduler.state.cluster import ClusterState
from scheduler.state.demand import Ask
from tests.builders import GPU, a_pod, term

ONE = Ask(1000, ((GPU, 1),))


def test_pods_count_from_first_sight_until_they_end():
    """Pending, bound and terminating ones alike; those that ended do not."""
    state = ClusterState()
    pod = a_pod("p").cpu(1).gpus(1).build()
    state.set_pod(pod)
    assert state.demand.counts == {ONE: 1}
    bound = msgspec.structs.replace(pod, node_name="n0", shape=b"")
    state.set_pod(bound)
    assert (state.demand.counts, state.demand.changes) == ({ONE: 1}, 1)
    state.set_pod(msgspec.structs.replace(bound, phase="Succeeded"))
    assert (state.demand.counts, state.demand.examples, state.demand.total) == ({}, {}, 0)
    state.remove_pod(pod.uid)
    assert state.demand.total == 0


def test_pods_without_devices_do_not_count():
    """Cores and memory alone are no demand for devices; nor are zero devices."""
    state = ClusterState()
    state.set_pod(a_pod("p").cpu(1).memory("1Gi").build())
    state.set_pod(a_pod("q").cpu(1).gpus(0).build())
    assert state.demand.counts == {}


def test_pods_for_which_other_nodes_are_right_count_apart():
    """Selectors and required affinity tell them apart; memory and names do not."""
    state = ClusterState()
    for name, pod in {
        "a": a_pod("a").cpu(1).gpus(1).memory("1Gi"),
        "b": a_pod("b").cpu(1).gpus(1).memory("2Gi"),
        "c": a_pod("c").cpu(1).gpus(1).select("gpu", "a100"),
        "d": a_pod("d").cpu(1).gpus(1).require(term(("gpu", "In", ["a100"]))),
        "e": a_pod("e").cpu(2).gpus(1),
    }.items():
        state.set_pod(pod.uid(name).build())
    assert sorted(state.demand.counts.values()) == [1, 1, 1, 2]
    assert state.demand.counts[ONE] == 2
