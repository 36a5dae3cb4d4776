"""Kubernetes' own groups: the shapes of 1.36 and 1.37 (reference/batch-schedulers.md, section 2.2)."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.dialects.native import COMPOSITE_NAME, NATIVE
from scheduler.model.gang import GangKey
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import EPOCH, a_pod

PODS, GROUPS = NATIVE.sources
POLICY = {"gang": {"minCount": 4}}


def group(source=PODS, status=None, **spec):
    """Return the gang of a group with this spec."""
    manifest = {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": source.kind,
        "metadata": {"name": "job", "namespace": "x", "uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": spec, "status": status or {},
    }  # fmt: skip
    (gang,) = source.read(msgspec.convert(manifest, source.api_type))
    return gang


def pod_group(**spec):
    """Return the gang of a PodGroup of 4."""
    return group(**{"schedulingPolicy": POLICY} | spec)


def composite(policy, **spec):
    """Return the gang of a CompositePodGroup."""
    return group(GROUPS, schedulingPolicy=policy, **spec)


def test_a_pod_names_its_group_in_its_spec():
    """The field `schedulingGroup` is membership, whatever the group turns out to be."""
    pod = a_pod().namespace("x").label("batch.kubernetes.io/job-completion-index", "3")
    membership = NATIVE.member(pod.patch_spec(schedulingGroup={"podGroupName": "job"}).api())
    assert membership.key == GangKey("native", "x", "job")
    assert membership.rank == (3,)
    assert membership.implied is None


@pytest.mark.parametrize("scheduling_group", [None, {}, {"podGroupName": None}, {"podGroupName": ""}])
def test_a_pod_without_a_name_is_single(scheduling_group):
    """An empty field is none."""
    assert NATIVE.member(a_pod().patch_spec(schedulingGroup=scheduling_group).api()) is None


def test_versions_are_looked_for_from_the_newest():
    """1.37 serves v1beta1 and no v1alpha2; groups of groups are alpha."""
    assert (PODS.group, PODS.versions, PODS.resource) == ("scheduling.k8s.io", ("v1beta1", "v1alpha2"), "podgroups")
    assert (GROUPS.versions, GROUPS.resource) == (("v1alpha3",), "compositepodgroups")


def test_claims_of_a_group_are_read_by_name_and_by_template():
    """Each entry has one of the two; anything else is a problem, and the pods wait."""
    one, two = {"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}
    assert pod_group(resourceClaims=[one, two]).shared_claims == (("a", "c", ""), ("b", "", "t"))
    assert pod_group().shared_claims == ()
    wrong = pod_group(resourceClaims=[{"name": "a"}, one | two])
    assert wrong.problems == (
        "spec.resourceClaims[0]: it has neither; allowed is one of resourceClaimName and resourceClaimTemplateName",
        "spec.resourceClaims[1]: it has both; allowed is one of resourceClaimName and resourceClaimTemplateName",
    )


def test_a_gang_policy_has_a_minimum():
    """The count is of pods."""
    gang = pod_group()
    assert (gang.key, gang.min_member, gang.problems) == (GangKey("native", "x", "job"), 4, ())
    assert (gang.uid, gang.created, gang.kind) == ("u", EPOCH, "PodGroup")


def test_a_basic_policy_is_no_gang():
    """The Job controller of 1.37 makes such groups for ordinary Jobs."""
    gang = pod_group(schedulingPolicy={"basic": {}})
    assert (gang.min_member, gang.problems) == (0, ())


@pytest.mark.parametrize("count", [0, -1, None])
def test_a_gang_of_nobody_is_a_problem(count):
    """The API allows counts from 1."""
    (problem,) = pod_group(schedulingPolicy={"gang": {"minCount": count}}).problems
    said = "spec.schedulingPolicy.gang.minCount: {} is out of range; allowed are numbers from 1"
    assert problem == said.format(count or 0)


@pytest.mark.parametrize("policy", [None, {}, {"basic": {}, "gang": {"minCount": 1}}])
def test_a_policy_is_one_of_two(policy):
    """A union without exactly one member says nothing."""
    (problem,) = pod_group(schedulingPolicy=policy).problems
    assert problem.startswith("spec.schedulingPolicy: ")
    assert problem.endswith("allowed is one of basic and gang")


@pytest.mark.parametrize("reference", [
    {"workloadRef": {"workloadName": "w", "templateName": "t"}},
    {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}},
])  # fmt: skip
def test_the_reference_to_a_template_does_not_matter(reference):
    """1.36 and 1.37 spell it differently; the group has all of the template's content."""
    assert pod_group(**reference) == pod_group()


@pytest.mark.parametrize(
    ("mode", "is_one_unit"),
    [
        (None, False), ({}, False), ({"single": {}}, False), ({"all": {}}, True), ("Pod", False), ("PodGroup", True),
        ({"single": None, "all": {}}, True),
    ],
)  # fmt: skip
def test_a_disruption_mode_says_whether_the_group_goes_as_a_whole(mode, is_one_unit):
    """1.36 has texts, 1.37 objects; single is the default."""
    gang = pod_group(disruptionMode=mode)
    assert (gang.is_one_unit, gang.problems) == (is_one_unit, ())


@pytest.mark.parametrize("mode", ["Half", {"half": {}}, {"single": {}, "all": {}}])
def test_an_unknown_disruption_mode_is_a_problem(mode):
    """Nobody knows what it would promise."""
    (problem,) = pod_group(disruptionMode=mode).problems
    assert problem.startswith("spec.disruptionMode: ")
    assert problem.endswith("allowed is one of single and all")


def test_the_topology_is_required():
    """The API has one constraint, by node label."""
    gang = pod_group(schedulingConstraints={"topology": [{"key": "example.com/rack"}]})
    assert gang.topology == TopologyConstraint(required="example.com/rack")
    assert pod_group(schedulingConstraints={"topology": []}).topology is None


@pytest.mark.parametrize(
    ("topology", "field"),
    [([{"key": "a"}, {"key": "b"}], "spec.schedulingConstraints.topology:"), ([{}], "spec.schedulingConstraints.topology[0].key:")],
)  # fmt: skip
def test_a_topology_that_the_api_would_refuse_is_a_problem(topology, field):
    """At most one entry, with a key."""
    (problem,) = pod_group(schedulingConstraints={"topology": topology}).problems
    assert problem.startswith(field)


def test_a_group_has_a_priority_of_its_own():
    """Admission fills the number; the policy may be Never."""
    gang = pod_group(priority=100, priorityClassName="high", preemptionPolicy="Never")
    assert (gang.priority, gang.priority_class_name, gang.preemption_policy) == (100, "high", "Never")
    assert pod_group().priority is None
    assert pod_group(preemptionPolicy="Sometimes").problems[0].startswith("spec.preemptionPolicy: 'Sometimes'")


@pytest.mark.parametrize(
    ("kind", "status", "was_complete"),
    [
        ("PodGroupInitiallyScheduled", "True", True), ("PodGroupScheduled", "True", True),
        ("PodGroupInitiallyScheduled", "False", False), ("DisruptionTarget", "True", False),
    ],
)  # fmt: skip
def test_a_latched_condition_says_that_the_group_was_complete(kind, status, was_complete):
    """1.37 and 1.36 name the condition differently."""
    conditions = [{"type": kind, "status": status, "reason": "r", "lastTransitionTime": "2025-01-01T00:00:00Z"}]
    assert group(schedulingPolicy=POLICY, status={"conditions": conditions}).was_complete is was_complete


def test_a_group_may_be_part_of_a_composite():
    """The parent is in the same namespace."""
    assert pod_group(parentCompositePodGroupName="root").parent == "root"
    assert pod_group().parent == ""


def test_a_composite_counts_groups():
    """It has a name space of its own, and holds no pods."""
    gang = composite({"gang": {"minGroupCount": 2}}, parentCompositePodGroupName="root")
    assert gang.key == GangKey(COMPOSITE_NAME, "x", "job") != pod_group().key
    assert (gang.is_composite, gang.min_subgroups, gang.min_member, gang.parent) == (True, 2, 0, "root")
    assert (gang.kind, gang.problems) == ("CompositePodGroup", ())


def test_a_basic_composite_waits_for_none_of_its_groups():
    """Its groups are scheduled one by one."""
    gang = composite({"basic": {}})
    assert (gang.is_composite, gang.min_subgroups, gang.problems) == (True, 0, ())


def test_a_composite_of_no_groups_is_a_problem():
    """The field is named as the API has it."""
    (problem,) = composite({"gang": {}}).problems
    assert problem.startswith("spec.schedulingPolicy.gang.minGroupCount: 0 is out of range")


def test_a_time_that_is_none_does_not_matter():
    """The age of a group orders the queue, nothing more."""
    (gang,) = PODS.read(msgspec.convert({"metadata": {"name": "a", "creationTimestamp": "soon"}}, PODS.api_type))
    assert gang.created == 0.0
