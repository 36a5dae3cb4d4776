"""Owners without a PodGroup: how many of their pods start together, as these projects document their objects."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dialects.owner_objects import MOST_GANGS, ApiOwner
from scheduler.model.dialects.owners import owner_dialects
from scheduler.model.gang import GangKey, Subgroup
from scheduler.model.topology_constraint import TopologyConstraint
from tests.builders import EPOCH

DIALECTS = {dialect.name: dialect for dialect in owner_dialects()}
RACK = "cloud.provider.com/rack"
MIN_MEMBER = "scheduling.ai-scheduler.io/min-member"
JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS = "leaderworkerset.sigs.k8s.io"
ALONE = TopologyConstraint(required=RACK, exclusive=RACK)


def read(dialect, spec, annotations=None):
    """Return the gangs of an object `x` with a spec."""
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "generation": 2, "annotations": annotations}
    metadata["creationTimestamp"] = "2025-01-01T00:00:00Z"
    return DIALECTS[dialect].sources[0].read(msgspec.convert({"metadata": metadata, "spec": spec}, ApiOwner))


def the_gang(dialect, spec, annotations=None):
    """Return the one gang of an object."""
    (gang,) = read(dialect, spec, annotations)
    return gang


def replicated(name, replicas=None, **job):
    """Return an entry of a JobSet's replicatedJobs."""
    return {"name": name, "template": {"spec": job}, **({} if replicas is None else {"replicas": replicas})}


def roles(gang):
    """Return the minimum of each role."""
    return {subgroup.name: subgroup.min_member for subgroup in gang.subgroups}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 2}, 2),
        ({"parallelism": 4, "completions": 10}, 4),
        ({"completions": 10}, 1),
        ({"parallelism": 4, "completions": None, "suspend": True}, 4),
        ({"parallelism": 0}, 1),
        (None, 1),
    ],
)
def test_job(spec, expected):
    """At most `completions` pods of `parallelism` run at once; a suspended Job is a gang without pods."""
    gang = the_gang("job", spec)
    assert (gang.min_member, gang.subgroups, gang.problems) == (expected, (), ())


def test_a_gang_says_where_it_comes_from():
    """Events name the object."""
    gang = the_gang("job", {"parallelism": 2})
    assert gang.key == GangKey("job", "ns", "x")
    assert (gang.api_version, gang.kind, gang.uid, gang.generation) == ("batch/v1", "Job", "u", 2)
    assert gang.created == EPOCH


@pytest.mark.parametrize(
    ("text", "expected", "problems"),
    [
        ("3", 3, ()),
        ("0", 1, (f"annotation {MIN_MEMBER}: 0 is out of range; allowed are numbers from 1 to 1000000",)),
        ("all", 1, (f"annotation {MIN_MEMBER}: 'all' is no whole number; allowed are numbers from 1",)),
    ],
)
def test_an_annotation_says_how_many_must_start_together(text, expected, problems):
    """It goes before what the spec says."""
    gang = the_gang("job", {"parallelism": 8}, {MIN_MEMBER: text})
    assert (gang.min_member, gang.problems) == (expected, problems)


def test_jobset():
    """Each replicated job is a role of replicas times pods of a job."""
    gang = the_gang(
        "jobset",
        {
            "replicatedJobs": [
                replicated("driver"),
                replicated("workers", 4, parallelism=8, completions=8),
                replicated("few", 2, parallelism=8, completions=3),
            ]
        },
    )
    assert (gang.min_member, gang.min_subgroups, gang.topology, gang.problems) == (1 + 32 + 6, None, None, ())
    assert roles(gang) == {"driver": 1, "workers": 32, "few": 6}


@pytest.mark.parametrize(
    "spec",
    [
        {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "replicatedJobs": [replicated("a", 3), replicated("b", 2)],
        },
        {
            "replicatedJobs": [
                replicated("a", 3),
                {**replicated("b", 2), "dependsOn": [{"name": "a", "status": "Ready"}]},
            ]
        },
    ],
)
def test_jobs_that_start_in_order_do_not_wait_for_each_other(spec):
    """The pods of a later one do not exist before an earlier one is ready."""
    gang = the_gang("jobset", spec)
    assert (gang.min_member, gang.min_subgroups, roles(gang)) == (2, 1, {"a": 3, "b": 2})


def test_exclusive_topology_of_a_jobset_gives_each_job_its_domain():
    """Nodes are chosen by a node selector: all pods exist at once."""
    annotations = {JOBSET_EXCLUSIVE: RACK, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    gang = the_gang("jobset", {"replicatedJobs": [replicated("w", 2, parallelism=4, completions=4)]}, annotations)
    assert gang.min_member == 8
    assert gang.subgroups == (
        Subgroup(name="w", min_member=8),
        Subgroup(name="w/0", parent="w", min_member=4, topology=ALONE),
        Subgroup(name="w/1", parent="w", min_member=4, topology=ALONE),
    )


def test_pods_of_an_exclusive_job_follow_its_first():
    """JobSet's webhook refuses them until the first has a node, so only the first of each job can start together."""
    template = replicated("w", 2, parallelism=4, completions=4)
    template["template"]["metadata"] = {"annotations": {JOBSET_EXCLUSIVE: RACK}}
    gang = the_gang("jobset", {"replicatedJobs": [replicated("driver"), template]})
    assert (gang.min_member, roles(gang)) == (3, {"driver": 1, "w": 2, "w/0": 1, "w/1": 1})


def test_each_group_of_a_leader_worker_set_is_a_gang():
    """`size` pods, `replicas` times."""
    gangs = read("leaderworkerset", {"replicas": 3, "leaderWorkerTemplate": {"size": 4}})
    assert [(gang.key.name, gang.min_member) for gang in gangs] == [("x/0", 4), ("x/1", 4), ("x/2", 4)]
    assert [gang.key.name for gang in read("leaderworkerset", {"leaderWorkerTemplate": {}})] == ["x/0"]


@pytest.mark.parametrize(("surge", "expected"), [(2, 7), ("25%", 7), ("20%", 6), (None, 5), (0, 5)])
def test_groups_that_surge_during_a_rollout_are_gangs_too(surge, expected):
    """Percentages are rounded up."""
    rollout = {"rollingUpdateConfiguration": {"maxSurge": surge}}
    spec = {"replicas": 5, "leaderWorkerTemplate": {"size": 2}, "rolloutStrategy": rollout}
    assert len(read("leaderworkerset", spec)) == expected


@pytest.mark.parametrize(
    ("size", "part", "expected"),
    [
        (8, 4, {"0": 4, "1": 4}),
        #: The leader is the ninth, and of the first subgroup or of none.
        (9, 4, {"0": 4, "1": 4}),
        (3, 1, {"0": 0, "1": 0, "2": 0}),
    ],
)
def test_subgroups_of_a_leader_worker_set_have_a_domain_each(size, part, expected):
    """With the annotation for subgroups."""
    spec = {"leaderWorkerTemplate": {"size": size, "subGroupPolicy": {"subGroupSize": part}}}
    gang = the_gang("leaderworkerset", spec, {f"{LWS}/subgroup-exclusive-topology": RACK})
    assert (gang.min_member, gang.topology, roles(gang)) == (size, None, expected)
    assert {subgroup.topology for subgroup in gang.subgroups} == {ALONE}


@pytest.mark.parametrize(
    ("spec", "annotations", "topology"),
    [
        ({"startupPolicy": "LeaderReady"}, {}, None),
        ({"startupPolicy": "LeaderCreated"}, {f"{LWS}/exclusive-topology": RACK}, ALONE),
    ],
)
def test_a_leader_does_not_wait_for_workers_that_it_must_come_before(spec, annotations, topology):
    """The workers do not exist before the leader is ready, or has a node."""
    gang = the_gang("leaderworkerset", {**spec, "leaderWorkerTemplate": {"size": 4}}, annotations)
    assert (gang.min_member, gang.topology) == (1, topology)


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("pytorchjob", "pytorchReplicaSpecs"),
        ("tfjob", "tfReplicaSpecs"),
        ("xgboostjob", "xgbReplicaSpecs"),
        ("jaxjob", "jaxReplicaSpecs"),
        ("paddlejob", "paddleReplicaSpecs"),
        ("mpijob", "mpiReplicaSpecs"),
    ],
)
def test_kubeflow(dialect, field):
    """Each replica type is a role; without `minAvailable` all replicas start together."""
    spec = {field: {"Master": {}, "Worker": {"replicas": 3}}}
    gang = the_gang(dialect, spec)
    assert (gang.min_member, roles(gang), gang.problems) == (4, {"master": 1, "worker": 3}, ())
    policy = {"minAvailable": 2, "priorityClass": "high", "scheduleTimeoutSeconds": 60}
    gang = the_gang(dialect, {**spec, "runPolicy": {"schedulingPolicy": policy}})
    assert (gang.min_member, roles(gang)) == (2, {"master": 0, "worker": 0})
    assert (gang.priority_class_name, gang.schedule_timeout_seconds) == ("high", 60)


def test_a_launcher_that_waits_for_workers_does_not_hold_them_up():
    """mpi-operator makes it when the workers are ready."""
    specs = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 3}}
    gang = the_gang("mpijob", {"waitForWorkers": True, "mpiReplicaSpecs": specs})
    assert (gang.min_member, gang.min_subgroups) == (1, 1)
    assert the_gang("mpijob", {"waitForWorkers": False, "mpiReplicaSpecs": specs}).min_member == 4


def test_ray_cluster():
    """One head; a worker group's minimum is minReplicas if above 0, else replicas, times the hosts of a replica."""
    workers = [
        {"groupName": "elastic", "replicas": 8, "minReplicas": 2, "maxReplicas": 10},
        {"groupName": "fixed", "replicas": 3, "minReplicas": 0, "numOfHosts": 4},
        {"groupName": "empty", "replicas": 0, "minReplicas": 0, "maxReplicas": 5},
        {"groupName": "off", "replicas": 5, "suspend": True},
        {"groupName": "Unsaid"},
    ]
    gang = the_gang("raycluster", {"headGroupSpec": {}, "workerGroupSpecs": workers})
    assert roles(gang) == {"headgroup": 1, "elastic": 2, "fixed": 12, "empty": 0, "off": 0, "unsaid": 0}
    assert (gang.min_member, gang.problems) == (15, ())


@pytest.mark.parametrize(
    ("dialect", "spec", "problems"),
    [
        (
            "jobset",
            {"replicatedJobs": [replicated("w", "three")]},
            ["spec.replicatedJobs[0].replicas: 'three' is no whole number; allowed are numbers from 0"],
        ),
        (
            "jobset",
            {"replicatedJobs": [replicated("w", -1)]},
            ["spec.replicatedJobs[0].replicas: -1 is out of range; allowed are numbers from 0 to 1000000"],
        ),
        ("jobset", {"replicatedJobs": {"w": {}}}, ["spec.replicatedJobs: {'w': {}} is no list; allowed: a list"]),
        (
            "jobset",
            {"replicatedJobs": [replicated("w"), replicated("w")]},
            ["spec.replicatedJobs[1]: the role 'w' is there twice; allowed: each once"],
        ),
        (
            "jobset",
            {"replicatedJobs": [{"replicas": 2}]},
            ["spec.replicatedJobs[0].name: is missing; allowed: the role's name"],
        ),
        (
            "jobset",
            {"replicatedJobs": [replicated("w", 10_000, parallelism=1000)]},
            ["spec: 10000000 pods are out of range; allowed are 1000000 in all"],
        ),
        ("pytorchjob", {"pytorchReplicaSpecs": []}, ["spec.pytorchReplicaSpecs: [] is no map; allowed: a map"]),
        (
            "pytorchjob",
            {"runPolicy": "x"},
            ["spec.runPolicy: 'x' is no mapping; allowed: a mapping"],
        ),
        ("job", {"parallelism": True}, ["spec.parallelism: True is no whole number; allowed are numbers from 0"]),
    ],
)
def test_what_makes_no_sense_in_a_spec_is_a_problem(dialect, spec, problems):
    """The gang's pods wait and say why."""
    assert list(the_gang(dialect, spec).problems) == problems


def test_a_role_with_the_name_of_a_part_is_a_problem():
    """Pods could not tell which of the two they are of."""
    jobs = [replicated("w", 2, parallelism=2), replicated("w/1")]
    gang = the_gang("jobset", {"replicatedJobs": jobs}, {JOBSET_EXCLUSIVE: RACK})
    assert gang.problems == ("spec: the role 'w/1' has the name of a part; allowed: names of their own",)


def test_one_object_stands_for_a_limited_number_of_gangs():
    """Each of them says that there are too many."""
    gangs = read("leaderworkerset", {"replicas": 20_000, "leaderWorkerTemplate": {"size": 2}})
    assert len(gangs) == MOST_GANGS
    problem = "spec.replicas: 20000 gangs are out of range; allowed are 10000"
    assert Counter(gang.problems for gang in gangs) == {(problem,): MOST_GANGS}


def test_a_role_has_a_limited_number_of_parts():
    """A slip of the pen must not fill the memory."""
    spec = {"replicatedJobs": [replicated("w", 20_000, parallelism=2)]}
    gang = the_gang("jobset", spec, {JOBSET_EXCLUSIVE: RACK})
    assert gang.problems == ("spec.replicatedJobs[0]: 20000 parts are out of range; allowed are 10000",)


FIELDS = [
    "replicatedJobs", "name", "replicas", "template", "spec", "parallelism", "completions", "dependsOn", "startupPolicy",
    "leaderWorkerTemplate", "size", "subGroupPolicy", "subGroupSize", "rolloutStrategy", "rollingUpdateConfiguration",
    "maxSurge", "pytorchReplicaSpecs", "Worker", "runPolicy", "schedulingPolicy", "minAvailable", "priorityClass",
    "scheduleTimeoutSeconds", "workerGroupSpecs", "groupName", "minReplicas", "numOfHosts", "suspend", "metadata",
    "annotations", JOBSET_EXCLUSIVE,
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.integers() | st.floats() | st.text(max_size=4) | st.just("9%"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
)
SPECS = st.dictionaries(st.sampled_from(FIELDS), VALUES)
ANNOTATION_KEYS = [JOBSET_EXCLUSIVE, f"{LWS}/exclusive-topology", f"{LWS}/subgroup-exclusive-topology", MIN_MEMBER]


@given(spec=st.none() | SPECS, annotations=st.none() | st.dictionaries(st.sampled_from(ANNOTATION_KEYS), st.text()))
def test_garbage_in_an_object_never_raises(spec, annotations):
    """Whatever stands there, it is read, and the gang is one that the engine understands."""
    for dialect in DIALECTS:
        for gang in read(dialect, spec, annotations):
            names = [subgroup.name for subgroup in gang.subgroups]
            assert gang.min_member >= 1
            assert all(subgroup.min_member >= 0 for subgroup in gang.subgroups)
            assert len(set(names)) == len(names)
            assert all(subgroup.parent in ("", *names) for subgroup in gang.subgroups)


def test_all_roles_together_have_a_limited_number_of_parts():
    """A thousand roles of 10,000 parts each would be ten million objects: reading stops where the second role is too much."""
    jobs = [replicated(f"r{number}", MOST_GANGS, parallelism=2) for number in range(1_000)]
    gang = the_gang("jobset", {"replicatedJobs": jobs}, {JOBSET_EXCLUSIVE: RACK})
    assert gang.problems == (
        "spec.replicatedJobs[1]: 20000 parts with those before it are out of range; allowed are 10000",
    )
    assert len(gang.subgroups) == 2 * (MOST_GANGS + 1)
