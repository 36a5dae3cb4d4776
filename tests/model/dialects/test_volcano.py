"""Volcano's groups: fields of reference/batch-schedulers.md, sections 4.2 and 6.1 and appendix A."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.dialects.volcano import VOLCANO
from scheduler.model.gang import GangKey, Subgroup
from scheduler.model.preemptibility import stated_preemptibility
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import a_pod

(SOURCE,) = VOLCANO.sources
KUBE_NAME, NAME = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
MINIMUM = "scheduling.volcano.sh/group-min-member"
TASK, PARTITION = "volcano.sh/task-spec", "volcano.sh/partition-id"
HARD = {"mode": "hard", "highestTierAllowed": 1}
NEAR = TopologyConstraint(topology="hypernodes", required="tier-1")


def group(status=None, **spec):
    """Return the gang of a PodGroup."""
    manifest = {"metadata": {"name": "job"}, "spec": spec, "status": status or {}}
    (gang,) = SOURCE.read(msgspec.convert(manifest, SOURCE.api_type))
    return gang


def policy(task="worker", **fields):
    """Return a policy for the pods of a task."""
    return {"name": f"p-{task}", "labelSelector": {"matchLabels": {TASK: task}}} | fields


def partitions(task="worker", size=2, count=3, **fields):
    """Return the policy that Volcano's job controller writes for a task with partitions."""
    return policy(task, matchLabelKeys=[PARTITION], subGroupSize=size, minSubGroups=count, **fields)


@pytest.mark.parametrize("key", [KUBE_NAME, NAME])
def test_a_pod_names_its_group_in_either_annotation(key):
    """Volcano reads both."""
    pod = a_pod().namespace("x").annotation(key, "job").annotation(TASK, "worker").label("volcano.sh/task-index", "7")
    membership = VOLCANO.member(pod.api())
    assert membership.key == GangKey("volcano", "x", "job")
    assert (membership.role, membership.rank, membership.problems) == ("worker", (7,), ())


def test_the_task_may_be_a_label():
    """The annotation comes first."""
    pod = a_pod().annotation(NAME, "job").label(TASK, "worker")
    assert VOLCANO.member(pod.api()).role == "worker"
    assert VOLCANO.member(pod.annotation(TASK, "master").api()).role == "master"


def test_two_names_are_a_problem():
    """Equal ones are none."""
    pod = a_pod().annotation(KUBE_NAME, "a").annotation(NAME, "b")
    assert VOLCANO.member(pod.annotation(MINIMUM, "2").api()).implied is None
    assert VOLCANO.member(pod.api()).key.name == "a"
    (problem,) = VOLCANO.member(pod.api()).problems
    assert problem == (
        "metadata.annotations[scheduling.volcano.sh/group-name]: 'b' is not 'a'; allowed is what scheduling.k8s.io/group-name says"
    )
    assert VOLCANO.member(pod.annotation(NAME, "a").api()).problems == ()


def test_a_minimum_on_pods_implies_the_group():
    """Pods without one wait for the object."""
    pod = a_pod().annotation(NAME, "job")
    assert VOLCANO.member(pod.api()).implied is None
    implied = VOLCANO.member(pod.annotation(MINIMUM, "3").api()).implied
    assert (implied.key.name, implied.min_member) == ("job", 3)
    assert VOLCANO.member(a_pod().annotation(MINIMUM, "3").api()) is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "٣", "9" * 30])
def test_a_minimum_on_pods_is_a_number_from_one(text):
    """Anything else is a problem of the pod."""
    membership = VOLCANO.member(a_pod().annotation(NAME, "job").annotation(MINIMUM, text).api())
    assert membership.implied is None
    (problem,) = membership.problems
    assert problem.startswith(f"metadata.annotations[{MINIMUM}]: ")
    assert problem.endswith("allowed are numbers from 1")


def test_a_group_has_a_minimum():
    """Of the version that Volcano serves."""
    assert (SOURCE.group, SOURCE.versions, SOURCE.resource) == ("scheduling.volcano.sh", ("v1beta1",), "podgroups")
    gang = group(minMember=4, priorityClassName="high", queue="q", minResources={"cpu": "4"})
    assert (gang.min_member, gang.priority_class_name, gang.problems) == (4, "high", ())


@pytest.mark.parametrize(("phase", "was_complete"), [("Running", True), ("Completed", True), ("Inqueue", False), (None, False)])  # fmt: skip
def test_the_phase_says_whether_the_group_was_complete(phase, was_complete):
    """Inqueue is before scheduling."""
    assert group(minMember=1, status={"phase": phase}).was_complete is was_complete


def test_tasks_have_minima():
    """A master and four workers."""
    gang = group(minMember=5, minTaskMember={"worker": 4, "master": 1})
    assert gang.subgroups == (Subgroup(name="master", min_member=1), Subgroup(name="worker", min_member=4))


def test_minima_of_tasks_beyond_the_group_s_do_not_count():
    """Volcano looks at them only if `minMember` covers them all (JobInfo.CheckTaskReady)."""
    gang = group(minMember=3, minTaskMember={"worker": 4, "master": 1})
    assert (gang.min_member, gang.subgroups, gang.problems) == (3, (), ())


@pytest.mark.parametrize(
    ("topology", "constraint"),
    [
        (None, None),
        ({"mode": "hard", "highestTierAllowed": 2}, TopologyConstraint(topology="hypernodes", required="tier-2")),
        ({"highestTierAllowed": 2}, TopologyConstraint(topology="hypernodes", required="tier-2")),
        ({"mode": "hard", "highestTierName": "rack"}, TopologyConstraint(topology="hypernodes", required="rack")),
        ({"mode": "soft"}, TopologyConstraint(topology="hypernodes", preferred=("tier-1",))),
        ({"mode": "soft", "highestTierAllowed": 2}, TopologyConstraint(topology="hypernodes", preferred=("tier-1",))),
    ],
)
def test_a_network_topology_is_a_tier_of_hypernodes(topology, constraint):
    """Tier 1 is the nearest; hard is the default."""
    gang = group(minMember=2, networkTopology=topology)
    assert (gang.topology, gang.problems) == (constraint, ())


@pytest.mark.parametrize(
    ("topology", "field"),
    [
        ({"mode": "warm"}, "spec.networkTopology.mode: 'warm' is unknown; allowed are hard and soft"),
        ({"mode": "hard"}, "spec.networkTopology: mode hard names no tier"),
        ({"highestTierAllowed": -1}, "spec.networkTopology.highestTierAllowed: -1 is out of range"),
        ({"highestTierAllowed": 1, "highestTierName": "rack"}, "spec.networkTopology: it has both"),
    ],
)
def test_a_topology_that_names_no_tier_is_a_problem(topology, field):
    """A limit that is not applied would be a broken promise."""
    (problem,) = group(networkTopology=topology).problems
    assert problem.startswith(field)


def test_partitions_are_segments_by_rank():
    """Volcano numbers partitions by index and size: three of 2 workers, each in one HyperNode."""
    gang = group(minMember=7, minTaskMember={"master": 1}, subGroupPolicy=[partitions(networkTopology=HARD)])
    segments = TopologyConstraint(topology="hypernodes", segment_size=2, segment_required="tier-1")
    assert gang.problems == ()
    assert gang.subgroups == (
        Subgroup(name="master", min_member=1),
        Subgroup(name="worker", min_member=6, topology=segments),
    )


def test_partitions_may_prefer_a_tier():
    """Soft segments are no must."""
    gang = group(minMember=6, subGroupPolicy=[partitions(networkTopology={"mode": "soft"})])
    assert gang.subgroups[0].topology == TopologyConstraint(
        topology="hypernodes", segment_size=2, segment_preferred="tier-1"
    )


def test_a_policy_without_keys_is_for_the_whole_task():
    """All of its pods stand together."""
    gang = group(minMember=5, subGroupPolicy=[policy(subGroupSize=4, minSubGroups=1, networkTopology=HARD)])
    assert (gang.subgroups, gang.problems) == ((Subgroup(name="worker", min_member=4, topology=NEAR),), ())


def test_a_policy_without_minimum_leaves_that_of_its_task():
    """0 is the default of `minSubGroups`."""
    gang = group(
        minMember=5, minTaskMember={"worker": 4}, subGroupPolicy=[policy(subGroupSize=8, networkTopology=HARD)]
    )
    assert gang.subgroups == (Subgroup(name="worker", min_member=4, topology=NEAR),)


def test_a_policy_without_selector_is_for_the_gang():
    """The nearer of two tiers keeps both."""
    wide = {"highestTierAllowed": 10}
    gang = group(minMember=2, networkTopology=wide, subGroupPolicy=[{"name": "all", "networkTopology": HARD}])
    assert (gang.topology, gang.subgroups, gang.problems) == (NEAR, (), ())
    wider_policy = group(minMember=2, networkTopology=HARD, subGroupPolicy=[{"name": "all", "networkTopology": wide}])
    assert wider_policy.topology == NEAR


def test_subgroups_lift_the_minimum_of_the_gang():
    """It takes at least what its parts need together; 0 alone is no gang."""
    assert group(minMember=0, subGroupPolicy=[partitions()]).min_member == 6
    assert group(minMember=2, subGroupPolicy=[{"subGroupSize": 4, "minSubGroups": 1}]).min_member == 4
    assert (group(minMember=0).min_member, group(minMember=0).problems) == (0, ())


@pytest.mark.parametrize(
    ("policies", "field"),
    [
        ([policy(matchLabelKeys=["shard"], networkTopology=HARD)], "spec.subGroupPolicy[p-worker]: its parts"),
        ([policy(matchLabelKeys=[PARTITION], networkTopology=HARD)], "spec.subGroupPolicy[p-worker]: its parts"),
        ([{"matchLabelKeys": [PARTITION], "subGroupSize": 2, "minSubGroups": 1}], "spec.subGroupPolicy[0]: its parts"),
        ([{"labelSelector": {"matchLabels": {"a": "b"}}, "minSubGroups": 1}], "spec.subGroupPolicy[0]: its parts"),
        ([policy(minSubGroups=2)], "spec.subGroupPolicy[p-worker].minSubGroups: 2 is out of range"),
        ([policy(subGroupSize=0)], "spec.subGroupPolicy[p-worker].subGroupSize: 0 is out of range"),
        ([policy(minSubGroups=-1)], "spec.subGroupPolicy[p-worker].minSubGroups: -1 is out of range"),
        ([policy(), policy()], "spec.subGroupPolicy[p-worker]: another policy"),
        ([partitions(size=2**31 - 1, count=2)], "spec.subGroupPolicy[p-worker]: subGroupSize times minSubGroups"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_kept_is_a_problem(policies, field):
    """Ignoring it would break what it promises."""
    (problem,) = group(minMember=1, subGroupPolicy=policies).problems
    assert problem.startswith(field)


def test_a_policy_that_promises_nothing_is_ignored():
    """Soft and without a minimum."""
    soft = policy(matchLabelKeys=["shard"], networkTopology={"mode": "soft"})
    gang = group(minMember=2, subGroupPolicy=[soft])
    assert (gang.subgroups, gang.problems) == ((), ())


def test_tiers_that_cannot_be_compared_are_a_problem():
    """Which of a named and a numbered tier is the nearer is not known here."""
    policies = [{"name": "all", "networkTopology": HARD}]
    (problem,) = group(networkTopology={"highestTierName": "rack"}, subGroupPolicy=policies).problems
    assert problem.startswith("spec.subGroupPolicy[all].networkTopology: 'rack' and 'tier-1' cannot be compared")


def test_required_affinity_between_groups_is_a_problem():
    """Preferred terms are ignored."""
    (problem,) = group(topologyAffinity={"podGroupAntiAffinity": {"required": [{}]}}).problems
    assert problem.startswith("spec.topologyAffinity.podGroupAntiAffinity.required: ")
    assert group(topologyAffinity={"subGroupAffinity": {"preferred": [{}]}}).problems == ()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember: -1 is out of range; allowed are numbers from 0"),
        ({"minMember": 2**31}, "spec.minMember: 2147483648 is out of range"),
        ({"minTaskMember": {"a": -1}}, "spec.minTaskMember[a]: -1 is out of range"),
    ],
)
def test_numbers_out_of_range_are_problems(spec, field):
    """One sentence that names the field."""
    (problem,) = group(**spec).problems
    assert problem.startswith(field)


@pytest.mark.parametrize(
    ("annotation", "label", "expected"),
    [
        (None, None, None), ("true", None, True), ("1", None, True), ("false", None, False), (None, "false", False),
        ("true", "false", True), ("false", "true", False), ("odd", "true", False),
    ],
)  # fmt: skip
def test_preemptable_is_read_of_a_pod_and_of_a_group(annotation, label, expected):
    """The annotation goes before the label, and what is no truth value is false (Volcano's GetPodPreemptable)."""
    key, pod, meta = "volcano.sh/preemptable", a_pod(), {"name": "job"}
    if annotation is not None:
        pod, meta = pod.annotation(key, annotation), meta | {"annotations": {key: annotation}}
    if label is not None:
        pod, meta = pod.label(key, label), meta | {"labels": {key: label}}
    assert stated_preemptibility(pod.build(), None) is expected
    (gang,) = SOURCE.read(msgspec.convert({"metadata": meta, "spec": {"minMember": 1}}, SOURCE.api_type))
    assert gang.is_preemptible is (False if expected is False else None)  # then each pod says it for itself
