"""PrioritySort, SchedulingGates and DefaultBinder: the two ends of a pod's way."""

from __future__ import annotations

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.effects import BindPod, PodRef
from scheduler.framework.status import ClusterEvent, Code
from scheduler.framework.workload import Workload
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests.builders import a_pod

from .calling import make


def test_the_queue_is_ordered_by_priority_then_age_then_name() -> None:
    """Higher priority goes first; among equals the one that has waited longer; then the key decides."""
    workloads = [
        Workload("x/young", priority=0, since=9.0),
        Workload("x/high", priority=10, since=9.0),
        Workload("x/low", priority=-5, since=1.0),
        Workload("x/b", priority=0, since=5.0),
        Workload("x/a", priority=0, since=5.0),
    ]
    ordered = sorted(workloads, key=make(PrioritySort).sort_key)
    assert [workload.key for workload in ordered] == ["x/high", "x/a", "x/b", "x/young", "x/low"]


def test_gangs_that_lost_members_go_before_others_of_their_priority() -> None:
    """However long those have waited; a higher priority still goes first."""
    workloads = [
        Workload("x/old", priority=0, since=1.0),
        Workload("x/repair", priority=0, since=9.0, is_repair=True),
        Workload("x/high", priority=1, since=9.0),
    ]
    ordered = sorted(workloads, key=make(PrioritySort).sort_key)
    assert [workload.key for workload in ordered] == ["x/high", "x/repair", "x/old"]


def test_gated_pods_wait_for_their_gates() -> None:
    """The reason names them, and only a change of the pod can cure it."""
    status = make(SchedulingGates).pre_enqueue(a_pod().gate("quota").gate("data").build())
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "waiting for scheduling gates: [quota data]",
    )
    assert status.reasons[0].cures == ClusterEvent.POD_UPDATED
    assert make(SchedulingGates).pre_enqueue(a_pod().build()) is None


def test_a_binding_names_pod_uid_and_node() -> None:
    """The uid is the precondition: another pod of the same name is not bound."""
    binding = make(DefaultBinder).bind(CycleState(), a_pod("p").namespace("x").uid("u").build(), "n")
    assert binding == BindPod(PodRef("x", "p", "u"), "n", {})


def test_a_binding_carries_what_plugins_publish() -> None:
    """Annotations are the pod's own, and a copy."""
    state, published = CycleState(), {"scheduling.ai-scheduler.io/gpus": "0,1"}
    state.write(("annotations", "u"), published)
    binding = make(DefaultBinder).bind(state, a_pod().uid("u").build(), "n")
    published["late"] = "x"
    assert binding.annotations == {"scheduling.ai-scheduler.io/gpus": "0,1"}
    assert make(DefaultBinder).bind(state, a_pod().uid("other").build(), "n").annotations == {}
