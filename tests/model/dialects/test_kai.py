"""KAI's groups: fields of reference/batch-schedulers.md, section 4.1 and appendix A, and examples of KAI's own design."""

from __future__ import annotations

import math

import msgspec
import pytest

from scheduler.model.dialects.kai import KAI
from scheduler.model.gang import GangKey, Subgroup
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import a_pod

(SOURCE,) = KAI.sources
RACK = {"topology": "cluster-topology", "requiredTopologyLevel": "rack"}
BLOCK = {"topology": "cluster-topology", "requiredTopologyLevel": "block"}


def group(**spec):
    """Return the gang of a PodGroup."""
    (gang,) = SOURCE.read(msgspec.convert({"metadata": {"name": "job"}, "spec": spec}, SOURCE.api_type))
    return gang


def test_a_pod_names_its_group_and_subgroup():
    """The group is an annotation, the subgroup a label."""
    pod = a_pod().annotation("pod-group-name", "job").label("kai.scheduler/subgroup-name", "decode").api()
    membership = KAI.member(pod)
    assert (membership.key, membership.role) == (GangKey("kai", "default", "job"), "decode")


def test_a_subgroup_alone_is_no_membership():
    """KAI's pods carry the annotation."""
    assert KAI.member(a_pod().label("kai.scheduler/subgroup-name", "decode").label("pod-group-name", "x").api()) is None


def test_the_group_is_read_from_one_version():
    """KAI serves v2alpha2."""
    assert (SOURCE.group, SOURCE.versions, SOURCE.resource) == ("scheduling.run.ai", ("v2alpha2",), "podgroups")


def test_a_flat_group_has_a_minimum_of_pods():
    """It is 1 if nothing says more."""
    assert (group(minMember=4).min_member, group().min_member) == (4, 1)
    assert group(minMember=4, priorityClassName="train", queue="q").priority_class_name == "train"


def test_leaders_and_workers_are_near_each_other():
    """The second example of KAI's design of hierarchical groups."""
    gang = group(
        minSubGroup=2,
        subGroups=[
            {"name": "decode", "minSubGroup": 2, "topologyConstraint": BLOCK},
            {"name": "decode-workers", "parent": "decode", "minMember": 4, "topologyConstraint": RACK},
            {"name": "decode-leaders", "parent": "decode", "minMember": 1, "topologyConstraint": RACK},
            {"name": "prefill", "minSubGroup": 2, "topologyConstraint": BLOCK},
            {"name": "prefill-workers", "parent": "prefill", "minMember": 4, "topologyConstraint": RACK},
            {"name": "prefill-leaders", "parent": "prefill", "minMember": 1, "topologyConstraint": RACK},
        ],
    )
    rack = TopologyConstraint(topology="cluster-topology", required="rack")
    block = TopologyConstraint(topology="cluster-topology", required="block")
    assert gang.problems == ()
    assert (gang.min_member, gang.min_subgroups) == (10, 2)
    assert gang.subgroups == (
        Subgroup(name="decode", min_subgroups=2, topology=block),
        Subgroup(name="prefill", min_subgroups=2, topology=block),
        Subgroup(name="decode-workers", parent="decode", min_member=4, topology=rack),
        Subgroup(name="decode-leaders", parent="decode", min_member=1, topology=rack),
        Subgroup(name="prefill-workers", parent="prefill", min_member=4, topology=rack),
        Subgroup(name="prefill-leaders", parent="prefill", min_member=1, topology=rack),
    )


def test_replicas_above_the_minimum_are_surplus():
    """The third example of that design: two of three replicas of 3 pods are enough."""
    gang = group(minSubGroup=2, subGroups=[{"name": f"replica-{i}", "minMember": 3} for i in (1, 2, 3)])
    assert (gang.min_member, gang.min_subgroups, gang.problems) == (6, 2, ())


def test_without_a_number_all_subgroups_are_needed():
    """A minimum of pods implies all subgroups, as before there was `minSubGroup`."""
    parts = [{"name": "decode", "minMember": 4}, {"name": "prefill", "minMember": 1}]
    gang = group(minMember=10, subGroups=parts)
    assert (gang.min_member, gang.min_subgroups) == (10, None)
    assert group(subGroups=parts).min_member == 5


def test_a_subgroup_may_be_elastic():
    """0 is allowed: its pods are surplus."""
    gang = group(subGroups=[{"name": "a", "minMember": 0}, {"name": "b"}])
    assert [subgroup.min_member for subgroup in gang.subgroups] == [0, 1]
    assert gang.problems == ()


def test_levels_may_be_required_and_preferred():
    """The group has a topology as well; one without levels is none."""
    levels = {"topology": "t", "requiredTopologyLevel": "block", "preferredTopologyLevel": "rack"}
    assert group(topologyConstraint=levels).topology == TopologyConstraint(
        topology="t", required="block", preferred=("rack",)
    )
    assert group(topologyConstraint={"topology": "t"}).topology is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": 0}, "spec.minMember: 0 is out of range; allowed are numbers from 1"),
        ({"minMember": -3}, "spec.minMember: -3 is out of range"),
        ({"minSubGroup": 1}, "spec.minSubGroup: 1 is out of range"),
        ({"minMember": 1, "minSubGroup": 1, "subGroups": [{"name": "a"}]}, "spec: it has both"),
        ({"subGroups": [{"name": "a", "minMember": -1}]}, "spec.subGroups[a].minMember: -1 is out of range"),
        ({"subGroups": [{"name": "a", "minMember": 1, "minSubGroup": 0}]}, "spec.subGroups[a]: it has both"),
        ({"subGroups": [{"name": "a", "parent": "b"}]}, "spec.subGroups[a].parent: 'b' is no subgroup"),
        ({"subGroups": [{"name": "a"}, {"name": "a"}]}, "spec.subGroups: the name 'a'"),
        ({"preemptibility": "maybe"}, "spec.preemptibility: 'maybe' is unknown"),
        ({"stalenessGracePeriod": "soon"}, "spec.stalenessGracePeriod: 'soon' is no duration"),
    ],
)
def test_what_makes_no_sense_is_a_problem(spec, field):
    """One sentence that names the field."""
    (problem,) = group(**spec).problems
    assert problem.startswith(field)


@pytest.mark.parametrize(
    ("text", "policy", "seconds"),
    [
        (None, "Evict", 60), ("5m", "Evict", 300), ("0s", "Evict", 0),
        ("-1s", "Replace", math.inf),
    ],
)  # fmt: skip
def test_a_stale_gang_is_evicted_after_its_grace_period(text, policy, seconds):
    """60 s unless it says otherwise; a negative one is never."""
    gang = group(stalenessGracePeriod=text)
    assert (gang.incomplete_policy, gang.grace_seconds, gang.problems) == (policy, seconds, ())


def test_ten_thousand_subgroups_are_read():
    """KAI caps segments there."""
    parts = [{"name": f"s{i}", "parent": "all", "minMember": 1} for i in range(10_000)]
    assert group(subGroups=[{"name": "all"}, *parts]).min_member == 10_000


@pytest.mark.parametrize(
    ("field", "label", "expected"),
    [
        (None, None, (None, False)),
        ("preemptible", None, (True, False)),
        ("non-preemptible", None, (False, False)),
        ("semi-preemptible", None, (True, True)),
        (None, "non-preemptible", (False, False)),
        ("preemptible", "non-preemptible", (True, False)),
    ],
)
def test_preemptibility_says_what_no_preemption_may_take(field, label, expected):
    """All of it, or what its minima need; the field goes before the label (KAI's design of the semi-preemptible mode)."""
    metadata = {"name": "job", "labels": {"kai.scheduler/preemptibility": label} if label else {}}
    api = msgspec.convert({"metadata": metadata, "spec": {"minMember": 2, "preemptibility": field}}, SOURCE.api_type)
    (gang,) = SOURCE.read(api)
    assert ((gang.is_preemptible, gang.is_minimum_firm), gang.problems) == (expected, ())


def test_unknown_preemptibility_of_a_label_is_told():
    """With the label's name and what is allowed."""
    api = msgspec.convert(
        {"metadata": {"name": "job", "labels": {"kai.scheduler/preemptibility": "no"}}, "spec": {}}, SOURCE.api_type
    )
    (gang,) = SOURCE.read(api)
    (problem,) = gang.problems
    assert problem.startswith("metadata.labels[kai.scheduler/preemptibility]: 'no' is unknown")
    assert problem.endswith("allowed are preemptible, non-preemptible, semi-preemptible")
