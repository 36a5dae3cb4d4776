"""Kueue, YuniKorn and Armada: gangs that pods alone tell of, as these projects document them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dialects.armada import ARMADA
from scheduler.model.dialects.kueue import KUEUE
from scheduler.model.dialects.yunikorn import YUNIKORN
from scheduler.model.gang import Gang, GangKey, Subgroup
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import a_pod

KUEUE_NAME, KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
TASK_GROUP, TASK_GROUPS = "yunikorn.apache.org/task-group-name", "yunikorn.apache.org/task-groups"
RACK = "cloud.provider.com/topology-rack"
#: As in YuniKorn's guide on gang scheduling.
SPARK = [
    {"name": "spark-driver", "minMember": 1, "minResource": {"cpu": "1", "memory": "2Gi"}, "nodeSelector": {}},
    {"name": "spark-executor", "minMember": 10, "minResource": {"cpu": "1", "memory": "2Gi"}},
]


def pod(*, labels=None, annotations=None):
    """Return a pod with labels and annotations."""
    builder = a_pod()
    for key, value in (labels or {}).items():
        builder.label(key, value)
    for key, value in (annotations or {}).items():
        builder.annotation(key, value)
    return builder.api()


def kueue_pod(**podset):
    """Return a pod of a Kueue group of 3 with annotations `podset-…`."""
    keys = {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": value for key, value in podset.items()}
    return pod(labels={KUEUE_NAME: "g"}, annotations={KUEUE_TOTAL: "3", **keys})


def task_pod(role="spark-driver", groups=SPARK, labels=None):
    """Return a pod of a YuniKorn application."""
    annotations = {TASK_GROUP: role, **({TASK_GROUPS: json.dumps(groups)} if groups is not None else {})}
    return pod(labels={"yunikorn.apache.org/app-id": "app-1"} if labels is None else labels, annotations=annotations)


@pytest.mark.parametrize("dialect", [KUEUE, YUNIKORN, ARMADA])
def test_a_pod_that_says_nothing_belongs_to_no_gang(dialect):
    """Most pods are single."""
    assert dialect.member(a_pod().api()) is None
    assert dialect.member(pod(labels={"app": "x", "yunikorn.apache.org/app-id": "a"}, annotations={"x": "y"})) is None


def test_all_pods_of_a_kueue_group_start_together():
    """The total count is the minimum."""
    membership = KUEUE.member(kueue_pod())
    key = GangKey("kueue", "default", "g")
    assert (membership.key, membership.problems) == (key, ())
    assert membership.implied == Gang(key=key, min_member=3)


def test_a_long_name_of_a_kueue_group_is_an_annotation():
    """A label has at most 63 letters."""
    membership = KUEUE.member(pod(annotations={KUEUE_NAME: "g" * 100, KUEUE_TOTAL: "1"}))
    assert membership.key.name == "g" * 100


def test_a_kueue_group_that_serves_is_no_gang():
    """Its pods come one by one: a StatefulSet makes the second when the first runs."""
    serving = {KUEUE_TOTAL: "3", "kueue.x-k8s.io/pod-group-serving": "true"}
    assert KUEUE.member(pod(labels={KUEUE_NAME: "g"}, annotations=serving)) is None


def test_kueue_numbers_the_pods_of_a_group():
    """The pod index is the rank."""
    labels = {KUEUE_NAME: "g", "kueue.x-k8s.io/pod-group-pod-index": "7"}
    assert KUEUE.member(pod(labels=labels, annotations={KUEUE_TOTAL: "8"})).rank == (7,)


@pytest.mark.parametrize(
    ("podset", "expected"),
    [
        ({"required_topology": RACK}, TopologyConstraint(required=RACK)),
        ({"preferred_topology": RACK}, TopologyConstraint(preferred=(RACK,))),
        (
            {"slice_required_topology": RACK, "slice_size": "2"},
            TopologyConstraint(segment_size=2, segment_required=RACK),
        ),
        (
            {"preferred_topology": "block", "slice_required_topology": RACK, "slice_size": "2"},
            TopologyConstraint(preferred=("block",), segment_size=2, segment_required=RACK),
        ),
        ({"unconstrained_topology": "true"}, None),
    ],
)
def test_kueue_topology(podset, expected):
    """Levels are node labels, as in Kueue's guide on topology aware scheduling."""
    assert KUEUE.member(kueue_pod(**podset)).implied.topology == expected


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, f"annotation {KUEUE_TOTAL}: is missing; allowed are numbers from 1"),
        ({KUEUE_TOTAL: "three"}, f"annotation {KUEUE_TOTAL}: 'three' is no whole number; allowed are numbers from 1"),
        ({KUEUE_TOTAL: "0"}, f"annotation {KUEUE_TOTAL}: 0 is out of range; allowed are numbers from 1 to 1000000"),
        (
            {KUEUE_TOTAL: "1", "kueue.x-k8s.io/podset-slice-required-topology": RACK},
            "annotation kueue.x-k8s.io/podset-slice-size: is missing; allowed are numbers from 1",
        ),
        (
            {KUEUE_TOTAL: "1", "kueue.x-k8s.io/podset-slice-size": "2"},
            (
                "annotation kueue.x-k8s.io/podset-slice-required-topology: is missing beside the slice size; "
                "allowed: a node label"
            ),
        ),
    ],
)
def test_what_makes_no_sense_in_kueue_annotations_is_a_problem(annotations, problem):
    """The pod waits and says why."""
    assert KUEUE.member(pod(labels={KUEUE_NAME: "g"}, annotations=annotations)).problems == (problem,)


def test_task_groups_are_subgroups_of_the_application():
    """The gang is the application; each task group has its own minimum."""
    membership = YUNIKORN.member(task_pod())
    assert (membership.key, membership.role) == (GangKey("yunikorn", "default", "app-1"), "spark-driver")
    assert membership.implied == Gang(
        key=membership.key,
        min_member=11,
        subgroups=(
            Subgroup(name="spark-driver", min_member=1),
            Subgroup(name="spark-executor", min_member=10),
        ),
    )


def test_a_spark_driver_does_not_wait_for_executors_that_only_it_can_make():
    """Each task group of a Spark application starts by itself."""
    labels = {"spark-app-selector": "spark-1", "spark-role": "driver"}
    membership = YUNIKORN.member(task_pod(labels=labels))
    assert membership.key.name == "spark-1"
    assert (membership.implied.min_member, membership.implied.min_subgroups) == (1, 1)


def test_a_pod_without_the_list_of_task_groups_implies_nothing():
    """Only the first pod of an application need carry it."""
    membership = YUNIKORN.member(task_pod("spark-executor", groups=None))
    assert (membership.role, membership.implied, membership.problems) == ("spark-executor", None, ())


@pytest.mark.parametrize(
    ("labels", "annotations", "name"),
    [
        ({"yunikorn.apache.org/app-id": "a", "applicationId": "b"}, {"yunikorn.apache.org/app-id": "c"}, "a"),
        ({"applicationId": "b"}, {"yunikorn.apache.org/app-id": "c"}, "c"),
        ({"applicationId": "b", "spark-app-selector": "d"}, {}, "b"),
        ({"spark-app-selector": "d"}, {}, "d"),
    ],
)
def test_the_application_is_sought_in_the_order_of_yunikorn(labels, annotations, name):
    """Canonical label, annotation, legacy label, Spark's label."""
    assert YUNIKORN.member(pod(labels=labels, annotations={TASK_GROUP: "g", **annotations})).key.name == name


def test_placeholder_timeout_is_how_long_the_gang_may_hold_reservations():
    """`schedulingPolicyParameters` has pairs between blanks."""
    parameters = "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"
    annotations = {TASK_GROUP: "g", TASK_GROUPS: '[{"name":"g","minMember":2}]'}
    annotations["yunikorn.apache.org/schedulingPolicyParameters"] = parameters
    membership = YUNIKORN.member(pod(labels={"applicationId": "a"}, annotations=annotations))
    assert membership.implied.schedule_timeout_seconds == 60


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([{"name": "other", "minMember": 1}], f"annotation {TASK_GROUP}: 'g' is not in {TASK_GROUPS}"),
        (
            [{"name": "g", "minMember": 0}],
            f"annotation {TASK_GROUPS}[0].minMember: 0 is out of range; allowed are numbers from 1 to 1000000",
        ),
        (
            [{"name": "g", "minMember": 1}] * 2,
            f"annotation {TASK_GROUPS}[1].name: 'g' is empty or there twice; allowed: a name each",
        ),
        (
            [{"name": "g", "minMember": "2"}],
            (
                f"annotation {TASK_GROUPS}: Expected `int`, got `str` - at `$[0].minMember`; "
                "allowed: a JSON list of {name, minMember}"
            ),
        ),
    ],
)
def test_what_makes_no_sense_in_task_groups_is_a_problem(groups, problem):
    """The pod waits and says why."""
    membership = YUNIKORN.member(task_pod("g", groups))
    assert (membership.problems, membership.implied) == ((problem,), None)


def test_a_task_group_without_an_application_is_a_problem():
    """Nobody could tell which pods belong together."""
    assert YUNIKORN.member(task_pod(groups=None, labels={})).problems == (
        f"label yunikorn.apache.org/app-id: is missing beside {TASK_GROUP}; allowed: an application's id",
    )


def test_armada_gang():
    """Id, cardinality, and the label that must be equal for all nodes."""
    annotations = {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": "3"}
    membership = ARMADA.member(pod(annotations=annotations))
    key = GangKey("armada", "default", "g")
    assert (membership.key, membership.implied) == (key, Gang(key=key, min_member=3))
    annotations["armadaproject.io/gangNodeUniformityLabel"] = RACK
    assert ARMADA.member(pod(annotations=annotations)).implied.topology == TopologyConstraint(required=RACK)


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "9" * 30, "\u0663"])
def test_a_wrong_cardinality_is_a_problem(text):
    """Armada wants a positive integer."""
    annotations = {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": text}
    membership = ARMADA.member(pod(annotations=annotations))
    assert membership.implied is None
    assert len(membership.problems) == 1


KEYS = [
    KUEUE_NAME, KUEUE_TOTAL, "kueue.x-k8s.io/podset-slice-size", "kueue.x-k8s.io/podset-slice-required-topology",
    TASK_GROUP, TASK_GROUPS, "yunikorn.apache.org/app-id", "yunikorn.apache.org/schedulingPolicyParameters",
    "armadaproject.io/gangId", "armadaproject.io/gangCardinality",
]  # fmt: skip
NESTED = st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3))
TEXTS = st.one_of(st.text(max_size=20), NESTED.map(json.dumps), st.integers().map(str), st.just("[" * 5000))


@given(labels=st.dictionaries(st.sampled_from(KEYS), TEXTS), annotations=st.dictionaries(st.sampled_from(KEYS), TEXTS))
def test_garbage_never_raises(labels, annotations):
    """Whatever stands there, a dialect answers, and what it implies has a minimum."""
    for dialect in (KUEUE, YUNIKORN, ARMADA):
        membership = dialect.member(pod(labels=labels, annotations=annotations))
        if membership is not None:
            assert membership.implied is None or membership.implied.min_member >= 1
