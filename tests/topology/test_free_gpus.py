"""Which GPUs are free, as far as the pods of a node tell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.node_topology import DeviceReport
from scheduler.topology import Basis, BoundPod, TopologyError, format_gpus, free_gpus, known_machine, parse_gpus

DGX1V = known_machine("Tesla-V100-SXM2-16GB", 8)


def free_of(machine, pods, report=None):
    """Return what is free beside pods of (GPUs, annotation)."""
    return free_gpus(machine, [BoundPod(*pod) for pod in pods], report)


def test_empty_node_has_all_gpus_free():
    """No pod, no GPU taken."""
    assert free_of(DGX1V, []).mask == 0xFF


def test_annotated_pods_occupy_their_sets():
    """The set that was scored counts as taken, and the answer says that this is an assumption."""
    free = free_of(DGX1V, [(4, "0,1,2,3;basis=assumed"), (1, "5;basis=assumed")])
    assert (free.mask, free.basis, free.problems) == (0b11010000, Basis.ASSUMED, ())


def test_pods_without_annotation_take_what_nvidia_would_give_in_bind_order():
    """Three pods of two GPUs on a DGX-1V get (0,3), (1,2), (4,7) by go-gpuallocator's vectors: 5 and 6 stay."""
    assert free_of(DGX1V, [(2, None)] * 3).mask == 0b01100000


def test_annotations_of_later_pods_count_before_assumptions_about_earlier_ones():
    """The first pod cannot have GPU 0, for which a later one holds an annotation."""
    assert free_of(DGX1V, [(1, None), (1, "0;basis=assumed")]).mask == 0b11111100


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("", "is not allowed"),
        ("0,1", "basis"),
        ("0,1;basis=guessed", "is not allowed"),
        ("0,0;basis=assumed", "different GPUs"),
        ("0,8;basis=assumed", "0 to 7"),
        ("0,-1;basis=assumed", "is not allowed"),
        ("0, 1;basis=assumed", "is not allowed"),
        ("0;basis=assumed", "names 1 GPUs; allowed are the 2"),
        (";basis=assumed", "names 0 GPUs"),
        ("7,6;basis=assumed", "of an earlier pod: 6"),
        ("0,1;basis=assumed\n", "is not allowed"),
        ("9" * 10_000, "is not allowed"),
    ],
)
def test_unusable_annotation_counts_as_none_and_is_reported(annotation, says):
    """Beside a pod on GPU 6, a pod of two is then taken to have the pair (0,3) that NVIDIA would give, never an exception."""
    free = free_of(DGX1V, [(1, "6;basis=assumed"), (2, annotation)])
    assert free.mask == 0b10110110
    assert len(free.problems) == 1
    assert free.problems[0].startswith("pod 1: ")
    assert says in free.problems[0]


def test_more_pods_than_gpus_leave_nothing_free():
    """An over-committed node has no free GPU, and says which pod did not fit."""
    free = free_of(DGX1V, [(6, None), (4, None)])
    assert (free.mask, free.problems) == (0, ("pod 1: asks for 4 GPUs where 2 are left",))


def test_pod_without_gpus_takes_none():
    """Zero GPUs are no GPU."""
    assert free_of(DGX1V, [(0, None), (0, ";basis=assumed")]).mask == 0xFF


def test_shared_gpus_cannot_be_told():
    """Time slices say nothing about which GPU is free."""
    free = free_of(known_machine("NVIDIA-L40S-SHARED", 4), [(3, None)])
    assert (free.mask, len(free.problems)) == (0b1111, 1)


def test_format_of_the_annotation_is_fixed():
    """Others read it."""
    assert format_gpus(0b10011, Basis.ASSUMED) == "0,1,4;basis=assumed"
    assert parse_gpus("4,0,1;basis=allocated", 8) == (0b10011, Basis.ALLOCATED)


def test_malformed_set_names_the_annotation_and_the_allowed_form():
    """The message shows an example."""
    with pytest.raises(TopologyError, match=r"scheduling.ai-scheduler.io/gpus.*0 to 7.*'0,1;basis=assumed'"):
        parse_gpus("zero", 8)


@given(st.integers(0, (1 << 64) - 1), st.sampled_from(Basis))
def test_what_is_formatted_is_read_back(mask, basis):
    """Writing and reading are inverse."""
    assert parse_gpus(format_gpus(mask, basis)) == (mask, basis)


PODS = st.lists(
    st.tuples(
        st.integers(0, 8), st.none() | st.text(max_size=8) | st.sampled_from(["0,1;basis=assumed", "7;basis=reported"])
    ),
    max_size=6,
)


@settings(deadline=None)
@given(PODS)
def test_as_many_gpus_are_taken_as_pods_ask_for(pods):
    """Whatever the annotations say, the number of free GPUs is the plain difference, or zero."""
    assert free_of(DGX1V, pods).mask.bit_count() == max(0, 8 - sum(count for count, _ in pods))


def seen(free, held=None, observed=100.0):
    """Return a report of the node agent."""
    return DeviceReport(observed, tuple(free), held)


def a_bound_pod(name, gpus, annotation=None, *, created=0.0, started=10.0):
    """Return a pod that the kubelet started before the report, unless told otherwise."""
    return BoundPod(gpus, annotation, f"default/{name}", created, started)


def test_report_goes_before_annotations():
    """The scheduler meant 0 and 3; the kubelet gave 4 and 7."""
    pods = [a_bound_pod("a", 2, "0,3;basis=assumed")]
    free = free_gpus(DGX1V, pods, seen([0, 1, 2, 3, 5, 6], {"default/a": (4, 7)}))
    assert (free.mask, free.basis, free.problems) == (0b01101111, Basis.REPORTED, ())


def test_pods_that_came_after_the_report_take_theirs_from_what_is_left():
    """`b` is not in the report and tells its GPUs; `c` tells nothing and gets the pair (5, 6) that NVIDIA would give."""
    pods = [
        a_bound_pod("a", 2),
        a_bound_pod("b", 1, "0;basis=reported", started=None),
        a_bound_pod("c", 2, started=None),
    ]
    assert free_gpus(DGX1V, pods, seen([0, 5, 6], {"default/a": (4, 7)})).mask == 0


def test_gpus_of_pods_that_are_gone_are_free_again():
    """The report is older than the end of `a`."""
    assert free_gpus(DGX1V, [], seen([0, 1], {"default/a": (4, 7)})).mask == 0b10010011


def test_pod_of_the_same_name_that_is_younger_than_the_report_is_another_one():
    """What the report says of `a` was said of its predecessor."""
    pods = [a_bound_pod("a", 1, "0;basis=reported", created=150.0, started=160.0)]
    assert free_gpus(DGX1V, pods, seen([0, 1], {"default/a": (4, 7)})).mask == 0b10010010


def test_gpus_that_nobody_has_and_that_are_not_free_stay_taken():
    """GPU 2 is broken, or something other than a pod uses it."""
    assert free_gpus(DGX1V, [], seen([0, 1, 3, 4, 5, 6, 7], {})).mask == 0b11111011


def test_report_without_names_covers_the_pods_that_had_started():
    """`a` has some of what is not free; `b` came later."""
    pods = [a_bound_pod("a", 2, "0,3;basis=assumed"), a_bound_pod("b", 1, "0;basis=reported", started=150.0)]
    assert free_gpus(DGX1V, pods, seen([0, 1, 2, 3, 5, 6])).mask == 0b01101110


@pytest.mark.parametrize("report", [seen([0, 8]), seen([0], {"default/a": (9,)}), seen([-1])])
def test_report_of_gpus_that_the_node_does_not_have_counts_as_none(report):
    """It is named, and annotations count."""
    free = free_gpus(DGX1V, [a_bound_pod("a", 2, "0,3;basis=assumed")], report)
    assert (free.mask, free.basis) == (0b11110110, Basis.ASSUMED)
    assert "where the node has 8; allowed are those of the node" in free.problems[0]
