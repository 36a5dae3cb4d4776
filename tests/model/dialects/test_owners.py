"""Owners without a PodGroup: which pods belong to them, by the labels that their controllers write, and the table of kinds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import config
from scheduler.model.dialects.owner_kinds import JOB, LEADER_WORKER_SET, OWNER_KINDS, owner_kinds
from scheduler.model.dialects.owner_objects import ApiOwner
from scheduler.model.dialects.owners import owner_dialects
from scheduler.model.gang import GangKey
from tests.builders import a_pod

DIALECTS = {dialect.name: dialect for dialect in owner_dialects()}
RACK = "cloud.provider.com/rack"
GANG = "scheduling.ai-scheduler.io/gang"
JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS = "leaderworkerset.sigs.k8s.io"
LABEL_KEYS = [
    *(kind.name_label for kind in OWNER_KINDS), *(kind.split_label for kind in OWNER_KINDS), GANG, "ray.io/node-type",
]  # fmt: skip


def pod(labels, annotations=None, owner=None):
    """Return a pod with labels and annotations."""
    builder = a_pod()
    for key, value in labels.items():
        builder.label(key, value)
    for key, value in (annotations or {}).items():
        builder.annotation(key, value)
    if owner:
        builder.owner(*owner)
    return builder.api()


def members(labels, annotations=None, owner=None):
    """Return key and role in each dialect that a pod speaks."""
    api = pod(labels, annotations, owner)
    found = [dialect.member(api) for dialect in DIALECTS.values()]
    return [(one.key.dialect, one.key.name, one.role) for one in found if one is not None]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, []),
        ({"app": "x"}, []),
        ({"batch.kubernetes.io/job-name": "j"}, []),
        ({"batch.kubernetes.io/job-name": "j", GANG: "true"}, [("job", "j", "")]),
        (
            {"jobset.sigs.k8s.io/jobset-name": "s", "jobset.sigs.k8s.io/replicatedjob-name": "workers"},
            [("jobset", "s", "workers")],
        ),
        ({"jobset.sigs.k8s.io/jobset-name": "s", GANG: "false"}, []),
        (
            {"jobset.sigs.k8s.io/jobset-name": "s", "batch.kubernetes.io/job-name": "s-0", GANG: "true"},
            [("jobset", "s", ""), ("job", "s-0", "")],
        ),
        ({f"{LWS}/name": "l", f"{LWS}/group-index": "3"}, [("leaderworkerset", "l/3", "")]),
        (
            {
                "training.kubeflow.org/job-name": "t",
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-type": "worker",
            },
            [("pytorchjob", "t", "worker")],
        ),
        (
            {
                "training.kubeflow.org/job-name": "m",
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-role": "launcher",
            },
            [("mpijob", "m", "launcher")],
        ),
        (
            {"ray.io/cluster": "r", "ray.io/node-type": "head", "ray.io/group": "headgroup"},
            [("raycluster", "r", "headgroup")],
        ),
        (
            {"ray.io/cluster": "r", "ray.io/node-type": "worker", "ray.io/group": "Small-Group"},
            [("raycluster", "r", "small-group")],
        ),
        ({"ray.io/cluster": "r", "ray.io/node-type": "redis-cleanup", "ray.io/group": "headgroup"}, []),
    ],
)
def test_pods_are_recognised_by_their_labels(labels, expected):
    """The labels that the controllers write say which object and which role."""
    assert members(labels) == expected


def test_parts_are_roles_of_their_own_where_pods_carry_the_annotation():
    """The controllers copy the annotations for exclusive placement to their pods."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "s",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": "2",
    }
    assert members(labels, {JOBSET_EXCLUSIVE: RACK}) == [("jobset", "s", "workers/2")]
    labels = {f"{LWS}/name": "l", f"{LWS}/group-index": "0", f"{LWS}/subgroup-index": "1"}
    assert members(labels) == [("leaderworkerset", "l/0", "")]
    assert members(labels, {f"{LWS}/subgroup-exclusive-topology": RACK}) == [("leaderworkerset", "l/0", "1")]


def test_a_pod_without_the_index_of_its_group_has_a_problem():
    """It could be of any of the gangs."""
    membership = DIALECTS["leaderworkerset"].member(pod({f"{LWS}/name": "l"}))
    assert membership.problems == (f"label {LWS}/group-index: is missing; allowed: the index of the pod's group",)


def test_names_of_split_gangs_cannot_be_those_of_other_objects():
    """LeaderWorkerSet `a` with index 1 is not group 1 of `a-1`."""
    first = DIALECTS["leaderworkerset"].member(pod({f"{LWS}/name": "a-1", f"{LWS}/group-index": "1"}))
    second = DIALECTS["leaderworkerset"].member(pod({f"{LWS}/name": "a", f"{LWS}/group-index": "1-1"}))
    assert first.key != second.key


@given(labels=st.dictionaries(st.sampled_from(LABEL_KEYS), st.text(max_size=5)))
def test_garbage_on_a_pod_never_raises(labels):
    """Whatever stands there, a dialect answers."""
    for dialect in DIALECTS.values():
        dialect.member(pod(labels))


def test_dialects_have_names_of_their_own():
    """The API group tells kinds of the same name apart; the earlier one keeps the plain name."""
    other = owner_kinds(config.parse(OTHER_JOB).group_kinds)[0]
    assert [dialect.name for dialect in owner_dialects((JOB, other))] == ["job", "job.batch.example.com"]


OTHER_JOB = """
groupKinds:
- apiGroup: batch.example.com
  versions: [v1, v1beta1]
  kind: Job
  resource: jobs
  roles:
  - {path: spec.tasks, form: list, name: name, counts: [{fields: [minAvailable, replicas]}]}
  rankLabels: [example.com/row, example.com/index]
"""


def test_a_kind_from_the_configuration():
    """Without a label for the name, the pod's controller is the object, in whatever version."""
    (kind, *rest) = owner_kinds(config.parse(OTHER_JOB).group_kinds)
    assert tuple(rest) == OWNER_KINDS
    (dialect,) = owner_dialects([kind])
    labels = {"example.com/row": "1", "example.com/index": "4"}
    membership = dialect.member(pod(labels, owner=("Job", "x", "batch.example.com/v2")))
    assert (membership.key, membership.rank) == (GangKey("job", "default", "x"), (1, 4))
    assert dialect.member(pod(labels, owner=("Job", "x", "batch/v1"))) is None
    assert dialect.member(pod({"example.com/row": "1"}, owner=("Job", "x", "batch.example.com/v1"))).rank == ()
    source = dialect.sources[0]
    assert (source.group, source.versions, source.resource) == ("batch.example.com", ("v1", "v1beta1"), "jobs")
    (gang,) = source.read(
        msgspec.convert({"metadata": {"name": "x"}, "spec": {"tasks": [{"name": "a", "replicas": 3}]}}, ApiOwner)
    )
    assert (gang.min_member, gang.subgroups[0].name, gang.api_version) == (3, "a", "batch.example.com/v1")


def test_a_built_in_kind_is_replaced_or_switched_off():
    """In its place, so that the order of kinds stays."""
    text = """
groupKinds:
- {apiGroup: leaderworkerset.x-k8s.io, kind: LeaderWorkerSet, disabled: true}
- {apiGroup: batch, kind: Job, versions: [v1], resource: jobs, roles: [{path: spec}]}
"""
    kinds = owner_kinds(config.parse(text).group_kinds)
    assert [kind.full_name for kind in kinds] == [
        kind.full_name for kind in OWNER_KINDS if kind is not LEADER_WORKER_SET
    ]
    assert kinds[-1].name_label == ""
