"""Koordinator's gangs: keys of reference/batch-schedulers.md, section 6.1, and examples of Koordinator's manual."""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler.model.dialects.koordinator import KOORDINATOR
from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS, Gang, GangKey
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import a_pod

(SOURCE,) = KOORDINATOR.sources
LABEL = "pod-group.scheduling.sigs.k8s.io"
PREFIX = "gang.scheduling.koordinator.sh"
SPEC = f"{PREFIX}/network-topology-spec"
KEY = GangKey("koordinator", "default", "gang-a")


def member(labels=None, **annotations):
    """Return the membership of a pod with annotations of Koordinator's."""
    pod = a_pod()
    for key, value in (labels or {}).items():
        pod.label(key, value)
    for key, value in annotations.items():
        pod.annotation(f"{PREFIX}/{key.replace('_', '-')}", value)
    return KOORDINATOR.member(pod.api())


def gang_of_pods(**annotations):
    """Return the gang that a pod with a minimum of 5 implies."""
    return member(name="gang-a", min_available="5", **annotations).implied


def group(status=None, annotations=None, **spec):
    """Return the gang of a PodGroup."""
    meta = {"name": "gang-a", "annotations": annotations}
    (gang,) = SOURCE.read(msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, SOURCE.api_type))
    return gang


def gathered(*rules):
    """Return the topology and the problems of a PodGroup with gather rules."""
    gang = group(annotations={SPEC: json.dumps({"gatherStrategy": list(rules)})})
    return gang.topology, gang.problems


def rule(layer, strategy="PreferGather", multiple=None):
    """Return a gather rule."""
    return {"layer": layer, "strategy": strategy} | ({"podCountMultiple": multiple} if multiple is not None else {})


def test_a_pod_names_its_group_in_a_label():
    """The object tells the rest."""
    membership = member({LABEL: "gang-a"})
    assert (membership.key, membership.implied, membership.problems) == (KEY, None, ())
    assert member({"app": "x"}) is None


def test_a_pod_implies_its_gang():
    """Name and minimum are indispensable, as the design says."""
    assert gang_of_pods() == Gang(key=KEY, min_member=5)
    assert member(name="gang-a").implied is None
    assert member(min_available="5") is None


def test_the_old_light_labels_imply_a_gang():
    """No object was ever needed for them."""
    membership = member({f"{LABEL}/name": "gang-a", f"{LABEL}/min-available": "3"})
    assert (membership.key, membership.implied) == (KEY, Gang(key=KEY, min_member=3))


def test_the_label_of_the_group_comes_first():
    """As in Koordinator: the label, the light label, the annotation."""
    light = {f"{LABEL}/name": "b", f"{LABEL}/min-available": "3"}
    assert member({LABEL: "a"} | light, name="c").key.name == "a"
    assert member(light, name="c", min_available="5").implied == Gang(
        key=GangKey("koordinator", "default", "b"), min_member=3
    )


def test_the_waiting_time_is_a_duration():
    """The example of the design is 3600s."""
    assert gang_of_pods(waiting_time="3600s").schedule_timeout_seconds == 3600
    assert gang_of_pods(waiting_time="1500ms").schedule_timeout_seconds == 2
    assert gang_of_pods().schedule_timeout_seconds == DEFAULT_SCHEDULE_TIMEOUT_SECONDS


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
def test_both_modes_bind_nobody_below_the_minimum(mode):
    """NonStrict accumulates pods until the condition of the gang is met; it holds room, which we never do."""
    assert gang_of_pods(mode=mode) == Gang(key=KEY, min_member=5)


def test_a_gang_of_nobody_is_none():
    """Koordinator allows 0."""
    assert member(name="gang-a", min_available="0").implied.min_member == 0


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"min_available": "many"}, "min-available]: 'many' is no number; allowed are numbers from 0"),
        ({"min_available": ""}, "min-available]: '' is no number"),
        ({"min_available": "-2"}, "min-available]: -2 is out of range"),
        ({"waiting_time": "soon"}, "waiting-time]: 'soon' is out of range; allowed are durations from 1s"),
        ({"waiting_time": "-5s"}, "waiting-time]: '-5s' is out of range"),
        ({"waiting_time": "9" * 400 + "h"}, "waiting-time]: "),
        ({"mode": "Loose"}, "mode]: 'Loose' is unknown; allowed are Strict and NonStrict"),
        ({"match_policy": "never"}, "match-policy]: 'never' is unknown"),
        ({"groups": "gang-b"}, "groups]: it cannot be read"),
        ({"groups": "[" * 5000}, "groups]: it cannot be read"),
        ({"groups": "[1]"}, "groups]: it cannot be read"),
        ({"network_topology_spec": "[]"}, "network-topology-spec]: it cannot be read"),
    ],
)
def test_what_makes_no_sense_is_a_problem_of_the_pod(annotations, field):
    """It then implies no gang, which would be another one than its siblings imply."""
    membership = member(**{"name": "gang-a", "min_available": "5"} | annotations)
    assert membership.implied is None
    (problem,) = membership.problems
    assert problem.startswith(f"metadata.annotations[{PREFIX}/{field}")
    assert len(problem) < 250


@pytest.mark.parametrize(("text", "rank"), [("3", (3,)), ("x", ()), ("-1", ()), ("", ())])
def test_the_index_is_the_rank(text, rank):
    """Pods without a valid one come after those that have one."""
    assert member({LABEL: "gang-a"}, network_topology_index=text).rank == rank


def test_other_indices_stand_in_for_the_rank():
    """As in every dialect."""
    assert member({LABEL: "gang-a", "batch.kubernetes.io/job-completion-index": "4"}).rank == (4,)


def test_a_group_of_one_gang_is_that_gang():
    """An empty list is none either."""
    assert gang_of_pods(groups='["default/gang-a"]') == gang_of_pods(groups="[]") == gang_of_pods()


def test_gangs_of_a_gang_group_are_parts_of_one_gang():
    """In whatever order each of them lists them, itself among them; all are needed."""
    told = []
    for name, groups in (
        ("gang-a", '["default/gang-b", "default/gang-a"]'),
        ("gang-b", '["default/gang-a", "default/gang-b"]'),
    ):
        metadata = {"name": name, "namespace": "default", "annotations": {f"{PREFIX}/groups": groups}}
        part, whole = SOURCE.read(msgspec.convert({"metadata": metadata, "spec": {"minMember": 2}}, SOURCE.api_type))
        assert (part.parent, part.problems) == ("gang-a+gang-b", ())
        told.append(whole)
    assert told[0] == told[1]
    assert told[0].key == GangKey("koordinator-composite", "default", "gang-a+gang-b")
    assert (told[0].is_composite, told[0].expected_parts) == (True, ("gang-a", "gang-b"))


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ('["namespaceA/gang-a", "default/gang-a"]', "'namespaceA/gang-a' is in another namespace"),
        ('["default/gang-b"]', "'default/gang-b' lacks the gang itself"),
    ],
)
def test_gang_groups_that_cannot_be_kept_are_a_problem(groups, problem):
    """Binding one of its gangs alone breaks what the group promises."""
    gang = group(annotations={f"{PREFIX}/groups": groups})
    assert gang.parent == ""
    (found,) = gang.problems
    assert found.startswith(f"metadata.annotations[{PREFIX}/groups]: {problem}")


def test_pods_alone_cannot_tell_of_a_gang_group():
    """Nobody would know its other gangs before their pods come."""
    (found,) = member(name="gang-a", min_available="5", groups='["default/gang-a", "default/gang-b"]').problems
    assert "pods alone cannot tell of it" in found


def test_a_group_is_an_object():
    """The example of the design."""
    assert (SOURCE.group, SOURCE.versions, SOURCE.resource) == ("scheduling.sigs.k8s.io", ("v1alpha1",), "podgroups")
    gang = group(minMember=5, scheduleTimeoutSeconds=300, minResources={"cpu": "5"})
    assert (gang.key, gang.min_member, gang.schedule_timeout_seconds, gang.problems) == (KEY, 5, 300, ())


def test_the_phase_says_whether_the_group_was_complete():
    """The phases are those of Coscheduling."""
    assert group(minMember=5, status={"phase": "Running"}).was_complete
    assert not group(minMember=5, status={"phase": "Pending"}).was_complete


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember: -1 is out of range; allowed are numbers from 0"),
        ({"scheduleTimeoutSeconds": 0}, "spec.scheduleTimeoutSeconds: 0 is out of range; allowed are numbers from 1"),
    ],
)
def test_numbers_out_of_range_are_problems_of_the_group(spec, field):
    """One sentence that names the field and what is allowed."""
    assert group(**spec).problems == (field,)


def test_layers_are_preferred_from_the_tightest():
    """The example of the manual: block, else spine."""
    wanted = TopologyConstraint(preferred=("BlockLayer", "SpineLayer"))
    assert gathered(rule("BlockLayer"), rule("SpineLayer")) == (wanted, ())


def test_a_layer_may_be_a_must():
    """The other example: one spine, within it one block if that can be."""
    wanted = TopologyConstraint(required="SpineLayer", preferred=("BlockLayer",))
    assert gathered(rule("BlockLayer"), rule("SpineLayer", "MustGather")) == (wanted, ())


def test_a_multiple_is_a_segment():
    """Each block gets a multiple of 4 pods."""
    wanted = TopologyConstraint(preferred=("BlockLayer",), segment_size=4, segment_required="BlockLayer")
    assert gathered(rule("BlockLayer", multiple=4)) == (wanted, ())


@pytest.mark.parametrize("multiple", [0, 1])
def test_multiples_of_one_ask_for_nothing(multiple):
    """Koordinator counts from 2."""
    assert gathered(rule("BlockLayer", multiple=multiple)) == gathered(rule("BlockLayer"))


def test_pods_may_carry_the_topology_themselves():
    """For gangs without an object."""
    text = json.dumps({"gatherStrategy": [rule("BlockLayer", "MustGather")]})
    assert gang_of_pods(network_topology_spec=text).topology == TopologyConstraint(required="BlockLayer")
    assert gang_of_pods(network_topology_spec="{}").topology is None


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([rule("")], ".gatherStrategy[0].layer: it is empty"),
        ([rule("BlockLayer", "Scatter")], ".gatherStrategy[0].strategy: 'Scatter' is unknown"),
        ([rule("BlockLayer", multiple=-4)], ".gatherStrategy[0].podCountMultiple: -4 is out of range"),
        ([rule("A", "MustGather"), rule("B", "MustGather")], ": MustGather names 'A' and 'B'; allowed is the tightest"),
        ([rule("A", multiple=2), rule("B", multiple=4)], ": podCountMultiple stands with several layers"),
    ],
)
def test_rules_that_cannot_be_kept_are_problems(rules, field):
    """One sentence that names the rule."""
    (problem,) = gathered(*rules)[1]
    assert problem.startswith(f"metadata.annotations[{SPEC}]{field}")
