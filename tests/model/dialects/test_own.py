"""Our own PodGroup: every field as the engine reads it, and what is wrong with fields that no schema has checked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import GangKey, gang_from_api
from scheduler.model.api import ApiPod, ApiPodGroup
from scheduler.model.dialects import own
from scheduler.model.gang import Subgroup
from scheduler.model.needs import Needs, minimum_of
from scheduler.model.topology_constraint import TopologyConstraint


def group(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return the gang that a PodGroup is."""
    manifest = {"metadata": {"name": "g", "namespace": "x"}, "spec": spec, "status": status or {}}
    return gang_from_api(msgspec.convert(manifest, ApiPodGroup))


def test_pod_names_its_group_and_role_by_labels():
    """Both are labels, so that they can be selected."""
    labels = {own.GROUP_LABEL: "g", own.ROLE_LABEL: "worker"}
    found = own.member(msgspec.convert({"metadata": {"name": "p", "namespace": "x", "labels": labels}}, ApiPod))
    assert found is not None
    assert (found.key, found.role) == (GangKey("ai-scheduler", "x", "g"), "worker")


def test_group_without_further_fields_asks_for_its_minimum_alone():
    """The defaults: replace, a minute, single members."""
    gang = group(minMember=3)
    assert (gang.min_member, gang.subgroups, gang.topology, gang.problems) == (3, (), None, ())
    assert (gang.incomplete_policy, gang.grace_seconds, gang.is_one_unit) == ("Replace", 60, False)


def test_roles_are_subgroups_parents_first():
    """In whatever order they are written."""
    gang = group(
        roles=[
            {"name": "lead", "parent": "replica", "minMember": 1},
            {"name": "work", "parent": "replica"},
            {"name": "replica", "minRoles": 1, "topology": {"required": "rack"}},
        ]
    )
    assert gang.problems == ()
    assert gang.subgroups == (
        Subgroup(name="replica", min_subgroups=1, topology=TopologyConstraint(required="rack")),
        Subgroup(name="lead", parent="replica", min_member=1),
        Subgroup(name="work", parent="replica"),
    )


def test_minimum_that_is_left_out_is_that_of_the_roles():
    """And one that is lower than theirs does not lower it; a higher one counts."""
    roles = [{"name": "launcher", "minMember": 1}, {"name": "worker", "minMember": 4}, {"name": "extra"}]
    assert minimum_of(group(roles=roles)) == 5
    assert minimum_of(group(roles=roles, minMember=2)) == 5
    assert minimum_of(group(roles=roles, minMember=7)) == 7
    assert minimum_of(group(roles=roles, minRoles=2)) == 1
    assert Needs(group(roles=roles), {"worker": 9}).missing() == 1


def test_group_of_elastic_roles_alone_starts_with_one():
    """A gang of none would be no gang."""
    assert minimum_of(group(roles=[{"name": "worker"}])) == 1


def test_topology_is_read_whole():
    """Each field has its place."""
    gang = group(
        minMember=8,
        topology={
            "name": "net", "required": "block", "preferred": ["rack", "block"], "spread": "zone", "exclusive": "rack",
            "segment": {"size": 4, "required": "rack", "preferred": "host"},
        },
    )  # fmt: skip
    assert gang.topology == TopologyConstraint(
        topology="net", required="block", preferred=("rack", "block"), segment_size=4, segment_required="rack",
        segment_preferred="host", spread="zone", exclusive="rack",
    )  # fmt: skip
    assert group(minMember=1, topology={"name": "net"}).topology is None


def test_what_happens_below_the_minimum():
    """Policy, grace and unit."""
    gang = group(minMember=2, whenIncomplete={"policy": "Evict", "gracePeriodSeconds": 0}, disruptionMode="All")
    assert (gang.incomplete_policy, gang.grace_seconds, gang.is_one_unit) == ("Evict", 0, True)
    assert not group(minMember=2, disruptionMode="Single").is_one_unit
    assert group(minMember=2, whenIncomplete={"policy": "Shrink"}).grace_seconds == 60


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minMember": 0}, "spec.minMember: 0 is out of range"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "spec.roles: the name 'a' is doubled"),
        ({"roles": [{"name": "a", "parent": "b"}]}, "spec.roles[a].parent: 'b' is no subgroup"),
        ({"roles": [{"name": "a", "parent": "a"}]}, "spec.roles[a].parent: 'a' leads back to it"),
        ({"roles": [{"name": "a", "minMember": -1}]}, "spec.roles[a].minMember: -1 is out of range"),
        ({"roles": [{"name": "a"}], "minRoles": 2}, "spec.minRoles: 2 is out of range; allowed are numbers up to 1"),
        ({"roles": [{"name": "a"}], "minRoles": 0}, "spec.minRoles: 0 is out of range"),
        ({"roles": [{"name": f"r{k}"} for k in range(65)]}, "spec.roles: 65 are too many; allowed are 64"),
        ({"topology": {"segment": {"size": 0, "required": "rack"}}}, "spec.topology.segment.size: 0 is out of range"),
        ({"topology": {"segment": {"size": 2}}}, "spec.topology.segment: it names no level"),
        ({"whenIncomplete": {"policy": "Wait"}}, "spec.whenIncomplete.policy: 'Wait' is unknown"),
        ({"whenIncomplete": {"gracePeriodSeconds": -1}}, "spec.whenIncomplete.gracePeriodSeconds: -1 is out of range"),
        ({"disruptionMode": "Some"}, "spec.disruptionMode: 'Some' is unknown; allowed are Single and All"),
    ],
)
def test_field_out_of_range_is_a_problem_that_names_it(spec, problem):
    """An API server with our definition refuses most of these; a file that is simulated was seen by none."""
    (found,) = group(**spec).problems
    assert found.startswith(problem)


def test_roles_nested_too_deeply_are_a_problem():
    """Three levels below the group are allowed, a fourth is not."""
    chain = [{"name": f"r{k}"} | ({"parent": f"r{k - 1}"} if k else {}) for k in range(4)]
    assert group(roles=chain[:3]).problems == ()
    (found,) = group(roles=chain).problems
    assert found.startswith("spec.roles[r3].parent: it is on level 5")


@pytest.mark.parametrize(
    ("status", "was_complete"),
    [
        ({}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Running"}, True),
        ({"phase": "Failed"}, False),
        ({"phase": "Failed", "conditions": [{"type": "Satisfied", "status": "False", "reason": "BelowMinimum"}]}, True),
        (
            {"phase": "Pending", "conditions": [{"type": "Scheduled", "status": "False", "reason": "BelowMinimum"}]},
            True,
        ),
        ({"phase": "Pending", "conditions": [{"type": "Satisfied", "status": "False", "reason": "Shrunk"}]}, True),
        ({"phase": "Pending", "conditions": [{"type": "Satisfied", "status": "Unknown", "reason": "x"}]}, False),
        ({"phase": "Pending", "conditions": [{"type": "Scheduled", "status": "False", "reason": "NoRoom"}]}, False),
    ],
)
def test_status_tells_whether_a_gang_was_complete(status, was_complete):
    """So that a new process takes a loss for a loss, and not for a failed start."""
    assert group(status, minMember=2).was_complete is was_complete


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"status": "False", "reason": "BelowMinimum", "lastTransitionTime": "1970-01-01T00:01:40Z"}, (100.0, False)),
        ({"status": "False", "reason": "Shrunk", "lastTransitionTime": "1970-01-01T00:01:40Z"}, (100.0, True)),
        ({"status": "False", "reason": "BelowMinimum"}, (None, False)),
        ({"status": "True", "reason": "MinimumReached", "lastTransitionTime": "1970-01-01T00:01:40Z"}, (None, False)),
        ({"status": "Unknown", "reason": "InvalidPodGroup"}, (None, False)),
    ],
)
def test_status_tells_since_when_a_gang_is_below_its_minimum(condition, expected):
    """So that a new process does not begin its grace anew."""
    gang = group({"conditions": [{"type": "Satisfied", **condition}]}, minMember=2)
    assert (gang.short_since, gang.is_shrunk) == expected


def test_fields_of_ours_mean_nothing_in_a_group_of_coscheduling():
    """Their API server would not have taken them."""
    api = msgspec.convert({"metadata": {"name": "g"}, "spec": {"minMember": 2, "roles": [{"name": "a"}]}}, ApiPodGroup)
    assert gang_from_api(api, "coscheduling").subgroups == ()
