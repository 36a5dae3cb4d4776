"""What may be said of kinds of workloads whose pods start together."""

from __future__ import annotations

import pytest

from scheduler import config
from scheduler.config import ConfigurationError, GroupCount, GroupKind, GroupRoles

WHOLE = """
groupKinds:
- apiGroup: example.com
  versions: [v1]
  kind: Gang
  resource: gangs
  nameLabel: example.com/gang
  podLabels: [{key: example.com/part-of, values: [a, b]}]
  needsOptIn: true
  roles:
  - path: spec.workers
    form: list
    name: name
    counts:
    - {fields: [minReplicas, replicas], default: 0, atMost: maxReplicas}
    after: dependsOn
    suspended: suspend
    annotations: template.metadata.annotations
  roleLabels: [example.com/role]
  rankLabels: [rank]
  splitLabel: example.com/index
  splits: {fields: [spec.replicas]}
  moreSplits: spec.maxSurge
  minimum: spec.minAvailable
  scheduleTimeout: spec.timeoutSeconds
  priorityClass: spec.priorityClassName
  inOrder: spec.order=InOrder
  exclusive: example.com/exclusive
  partExclusive: example.com/part-exclusive
  partLabel: example.com/part
  partSize: {fields: [size]}
  ledBy: example.com/exclusive
  notLedBy: example.com/at-once
"""
NEEDED = "apiGroup: example.com, versions: [v1], kind: Gang, resource: gangs, roles: [{path: spec}]"


def problems(entries: str) -> list[str]:
    """Return the problems of a list that must not be accepted."""
    with pytest.raises(ConfigurationError) as caught:
        config.parse(f"groupKinds: {entries}")
    return [str(problem) for problem in caught.value.problems]


def test_every_key_can_be_set():
    """A kind in all its parts is read, written and read again."""
    read = config.parse(WHOLE)
    (kind,) = read.group_kinds
    assert set(GroupKind.model_fields) - kind.model_fields_set == {"disabled"}
    assert kind.full_name == "example.com/Gang"
    assert kind.roles[0].counts == [GroupCount(fields=["minReplicas", "replicas"], default=0, at_most="maxReplicas")]
    assert config.parse(config.to_yaml(read)) == read


def test_a_kind_is_switched_off_by_its_name_alone():
    """Nothing else is needed."""
    (kind,) = config.parse("groupKinds: [{apiGroup: batch, kind: Job, disabled: true}]").group_kinds
    assert kind.disabled


def test_one_role_of_one_pod_is_enough():
    """The rest has defaults."""
    (kind,) = config.parse(f"groupKinds: [{{{NEEDED}}}]").group_kinds
    assert kind.roles == [GroupRoles(path="spec")]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("nameLabel: 'a b'", "nameLabel: 'a b' is no key of a label or annotation; allowed: as in example.com/name"),
        ("roleLabels: [/x]", "roleLabels: '/x' is no key of a label or annotation; allowed: as in example.com/name"),
        (
            "minimum: spec..x",
            "minimum: 'spec..x' is no path; allowed: field names with dots between, as in spec.replicas",
        ),
        ("minimum: status.x", "minimum: 'status.x' does not begin at spec; allowed: spec, or a path below it"),
        (
            "inOrder: spec.x",
            "inOrder: 'spec.x' is no condition; allowed: path=value, as in spec.startupPolicy=LeaderReady",
        ),
        ("splitLabel: a", "splits: is missing beside splitLabel; allowed: both or neither"),
        (
            "splits: {fields: [replicas]}",
            "splits: 'replicas' does not begin at spec; allowed: spec, or a path below it",
        ),
        ("partExclusive: a, partLabel: b", "partSize: is missing beside partExclusive; allowed: both or neither"),
    ],
)
def test_wrong_value_is_named_with_what_is_allowed(more, problem):
    """A line says where, what and what else."""
    assert problems(f"[{{{NEEDED}, {more}}}]") == [f"groupKinds[0].{problem}"]


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ("[]", "roles: is empty; allowed: at least one, for they say how many pods there are"),
        ("[{path: workers}]", "roles[0].path: 'workers' does not begin at spec; allowed: spec, or a path below it"),
        ("[{path: spec.w, form: list}]", "roles[0].name: is no field of a list's entries; allowed: a field name"),
        ("[{path: spec.w, form: set}]", "roles[0].form: 'set' is unknown; allowed: one, list, map"),
        (
            "[{path: spec, counts: [{fields: [a], default: -1}]}]",
            "roles[0].counts[0].default: -1 is out of range; allowed: from 0 to 1000000",
        ),
    ],
)
def test_wrong_role_is_named_with_what_is_allowed(roles, problem):
    """So it is within a role."""
    entry = f"{{apiGroup: example.com, versions: [v1], kind: Gang, resource: gangs, roles: {roles}}}"
    assert problems(f"[{entry}]") == [f"groupKinds[0].{problem}"]


def test_what_names_the_api_is_needed():
    """Only an entry that switches a kind off can do without."""
    assert problems("[{apiGroup: Example, kind: Gang, roles: [{path: spec}]}]") == [
        "groupKinds[0].apiGroup: 'Example' is no API group; allowed: as in example.com",
        "groupKinds[0].versions: is missing or no word; allowed: letters and digits",
        "groupKinds[0].resource: is missing or no word; allowed: letters and digits",
    ]


def test_a_kind_is_there_once():
    """Two entries of one group and kind would contradict each other; the same kind of two groups is two kinds."""
    entry = f"{{{NEEDED}}}"
    other = entry.replace("apiGroup: example.com", "apiGroup: example.org")
    assert len(config.parse(f"groupKinds: [{entry}, {other}]").group_kinds) == 2
    assert problems(f"[{entry}, {other}, {entry}]") == [
        "groupKinds[2].kind: 'example.com/Gang' is there twice; allowed: each name once"
    ]
