"""Loading: defaults, checks, owners, arrivals and durations; all problems are told together, and nothing is half loaded."""

from typing import Any

import pytest

from scheduler.model import Gang, Node, PriorityClass
from scheduler.sim.clock import DEFAULT_START
from scheduler.sim.loading import Arrivals, Durations
from scheduler.sim.manifests import ManifestError
from scheduler.sim.world import ControllerObject, KnownObject, PodObject, StorageObject, World

from .worlds import PREFIX, a_claim, a_class, a_gang, a_job, a_pod, a_template, a_world, nodes, replicas

GPU = "nvidia.com/gpu"


def items(world: World, kind: type) -> list[Any]:
    """Return what of a kind is created."""
    return [submitted.item for submitted in world.submitted if isinstance(submitted.item, kind)]


def the_pod(*manifests: dict[str, Any], **options: Any) -> Any:
    """Return the first pod of a world."""
    return items(a_world(*manifests, **options), PodObject)[0].api


def problems_of(*manifests: Any, **options: Any) -> list[str]:
    """Return what is wrong with manifests."""
    with pytest.raises(ManifestError) as caught:
        a_world(*manifests, **options)
    return [str(problem) for problem in caught.value.problems]


# Defaults.


def test_an_object_gets_namespace_uid_and_time() -> None:
    """What the API server would add is added, and the same in every run."""
    first, second = (the_pod(a_pod("p")).metadata for _ in range(2))
    assert first.namespace == "default"
    assert first.creation_timestamp == "2026-01-01T00:00:00Z"
    assert first.uid == second.uid != the_pod(a_pod("q")).metadata.uid


def test_names_are_generated() -> None:
    """An object with generateName gets a name, as `kubectl create` would give it."""
    pod = a_pod("p")
    pod["metadata"] = {"generateName": "p-"}
    assert the_pod(pod).metadata.name.startswith("p-")
    assert len(the_pod(pod).metadata.name) == 7


@pytest.mark.parametrize(
    ("spec", "classes", "priority", "policy"),
    [
        ({"priorityClassName": "high"}, [a_class("high", 100)], 100, "PreemptLowerPriority"),
        ({"priorityClassName": "calm"}, [a_class("calm", 5, preemptionPolicy="Never")], 5, "Never"),
        ({}, [], 0, "PreemptLowerPriority"),
        ({}, [a_class("usual", 7, globalDefault=True)], 7, "PreemptLowerPriority"),
        ({}, [a_class("b", 9, globalDefault=True), a_class("a", 3, globalDefault=True)], 3, "PreemptLowerPriority"),
        ({"priorityClassName": "system-node-critical"}, [], 2_000_001_000, "PreemptLowerPriority"),
        ({"priorityClassName": "system-cluster-critical"}, [], 2_000_000_000, "PreemptLowerPriority"),
        ({"priority": 4, "priorityClassName": "gone"}, [], 4, "PreemptLowerPriority"),
    ],
)
def test_priority_comes_from_the_class(spec: Any, classes: Any, priority: int, policy: str) -> None:
    """Admission resolves priority classes; a pod of a dump has its priority already."""
    found = the_pod(*classes, a_pod("p", **spec)).spec
    assert (found.priority, found.preemption_policy or "PreemptLowerPriority") == (priority, policy)


def test_a_template_is_admitted_like_a_pod() -> None:
    """The pods of a Job get their priority from the class, too."""
    world = a_world(a_class("high", 100), a_job("j", priorityClassName="high"))
    assert items(world, ControllerObject)[0].api.spec.template.spec.priority == 100


def test_nulls_are_absent() -> None:
    """Generated manifests hold nulls, which mean nothing to the API server."""
    pod = a_pod("p", nodeSelector=None, tolerations=None)
    pod["metadata"] |= {"creationTimestamp": None, "labels": None}
    assert the_pod(pod).metadata.creation_timestamp == "2026-01-01T00:00:00Z"


def test_kinds_that_are_not_read_are_counted_once() -> None:
    """ConfigMaps and the like are no error; a note counts them."""
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}}
    grove = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "g"}}
    world = a_world(*nodes(1, 0), data, data | {"metadata": {"name": "t"}}, grove)
    assert world.notes == ("not read: 2 ConfigMap (v1), 1 PodGang (scheduler.grove.io/v1alpha1)",)


# Problems.


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (a_pod("p", priorityClassName="hihg"), "spec.priorityClassName: there is no PriorityClass 'hihg'; allowed: "),
        (a_job("j", priorityClassName="x"), "spec.template.spec.priorityClassName: there is no PriorityClass 'x'"),
        (a_pod("p", cpu="2 cores"), "spec.containers[0].resources.requests[cpu]: '2 cores' is not a quantity"),
        (a_pod("p", cpu="-1"), "spec.containers[0].resources.requests[cpu]: '-1' is negative"),
        (a_pod("p", 1.5), "spec.containers[0].resources.limits[nvidia.com/gpu]: 1.5 is not whole; allowed: "),
        (a_pod("P_1"), "metadata.name: 'P_1' is no DNS name"),
        (a_pod("p", containers=[]), "spec.containers: is missing"),
        (a_pod("p", tolerations=[{"operator": "Exist"}]), "spec.tolerations[0].operator: 'Exist' is unknown; allowed: Exists, Equal,"),
        (a_pod("p", tolerations=[{"key": "a", "effect": "Never"}]), "spec.tolerations[0].effect: 'Never' is unknown; allowed: NoSchedule,"),
        (a_pod("p", nodeSelector={"a": 1}), 'spec.nodeSelector[a]: 1 is a number; allowed: text, such as "1" in quotes'),
        (a_pod("p", nodeSelector=["a"]), 'spec.nodeSelector: ["a"] is a list; allowed: a mapping'),
        (a_pod("p", priority="high"), "spec.priority: high is a text; allowed: a whole number"),
        (a_pod("p", preemptionPolicy="always"), "spec.preemptionPolicy: 'always' is unknown; allowed: PreemptLowerPriority, Never"),
        (a_pod("p", run="soon"), f"metadata.annotations[{PREFIX}/run-seconds]: 'soon' is no time"),
        (a_pod("p", run="1e308"), f"metadata.annotations[{PREFIX}/run-seconds]: '1e308' is no time"),
        (a_pod("p", submit="1e308"), f"metadata.annotations[{PREFIX}/submit-seconds]: '1e308' is no time"),
        (a_pod("p", run="nan"), f"metadata.annotations[{PREFIX}/run-seconds]: 'nan' is no time"),
        (a_gang("g", 0, 1)[0], "spec.minMember: 0 is out of range; allowed: whole numbers from 1"),
        (a_job("j", job={"completionMode": "Index"}), "spec.completionMode: 'Index' is unknown; allowed: NonIndexed, Indexed"),
        (a_job("j", 10**8, completions=10**8), "spec.completions: is more than a simulation takes; allowed: up to 20,000 pods"),
        (a_job("j", -1, completions=1), "spec.parallelism: -1 is out of range"),
        (a_job("j", None, job={"completionMode": "Indexed"}), "spec.completions: is missing"),
        (replicas("Deployment", "d", 1, spec={"selector": {}}), "spec.selector: is missing"),
        (replicas("Deployment", "d", 1, spec={"selector": {"matchLabels": {"a": "b"}}}), "spec.selector: does not match"),
        (a_class("c", 2_000_000_000), "value: 2000000000 is too high; allowed: up to 1000000000"),
        ({"apiVersion": "v1beta1", "kind": "Job", "metadata": {"name": "j"}}, None),
        ({"apiVersion": "batch/v1beta1", "kind": "Job", "metadata": {"name": "j"}}, "apiVersion: batch/v1beta1 is not read; allowed: batch/v1"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "status.allocatable: is missing"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "x"}}}, "status.capacity[cpu]: 'x' is not a quantity"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "No"}]}, "status": {"capacity": {"cpu": 1}}}, "spec.taints[0].effect: 'No' is unknown"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": {f"{PREFIX}/node-topology": '{"gpus": 0}'}}, "status": {"capacity": {"cpu": 1}}}, f"metadata.annotations[{PREFIX}/node-topology]: "),
        ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"minAvailable": "half"}}, "spec.minAvailable: 'half' is no share"),
        ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}}, "spec.selector.matchExpressions[0].operator: 'Gt' is unknown; allowed: In, NotIn, Exists, DoesNotExist"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_object_field_and_what_is_allowed(manifest: Any, expected: str | None) -> None:
    """Each mistake names where it stands, the object, the field, and the values that are allowed."""
    if expected is None:
        assert "not read" in a_world(manifest).notes[0]
        return
    found = problems_of(manifest)
    namespace = manifest["metadata"].get("namespace")
    title = f"{manifest['kind']} {f'{namespace}/' if namespace else ''}{manifest['metadata']['name']}"
    assert len(found) == 1, found
    assert found[0].startswith(f"test.yaml:1: {title}: {expected}")
    assert "allowed" in found[0]


def affinity(**requirement: Any) -> dict[str, Any]:
    """Return an affinity with one requirement."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (
            {"key": "a", "operator": "in", "values": ["b"]},
            "'in' is unknown; allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        ({"key": "a", "operator": "In"}, "is empty; allowed: at least one value with In"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "is not allowed with Exists; allowed: none"),
        ({"key": "a", "operator": "Gt", "values": ["many"]}, "is not allowed with Gt; allowed: one whole number"),
        ({"operator": "Exists"}, "is missing; allowed: a label key"),
    ],
)
def test_selectors_are_checked(requirement: Any, expected: str) -> None:
    """A selector that the API server would refuse is refused here."""
    (found,) = problems_of(a_pod("p", affinity=affinity(**requirement)))
    assert expected in found
    assert "nodeSelectorTerms[0].matchExpressions[0]" in found


@pytest.mark.parametrize("value", [600, True, 1.5])
def test_annotations_that_are_no_text_are_told_with_the_remedy(value: Any) -> None:
    """A number in an annotation is refused, as the API server does, and the message shows how to write it."""
    pod = a_pod("p")
    pod["metadata"]["annotations"] = {f"{PREFIX}/run-seconds": value}
    (found,) = problems_of(pod)
    assert f"metadata.annotations[{PREFIX}/run-seconds]: " in found
    assert "in quotes" in found


def test_a_resource_of_devices_needs_equal_request_and_limit() -> None:
    """GPUs cannot be over-committed, so the API server refuses a request without an equal limit."""
    resources = [
        {"requests": {GPU: 2}},
        {"requests": {GPU: 2}, "limits": {GPU: 4}},
        {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
    ]
    found = problems_of(*(a_pod(f"p{i}", containers=[{"resources": r}]) for i, r in enumerate(resources)))
    assert [line.split(": ")[2] for line in found] == [
        "spec.containers[0].resources.limits[nvidia.com/gpu]",
        "spec.containers[0].resources.requests[nvidia.com/gpu]",
        "spec.containers[0].resources.requests[cpu]",
    ]


def test_every_problem_of_every_object_is_told() -> None:
    """Nobody wants to learn of mistakes one at a time."""
    pod = a_pod("p", cpu="much", tolerations=[{"effect": "Bad", "operator": "Exists"}])
    found = problems_of(pod, a_gang("g", 0, 1)[0], a_job("j", -1, completions=1, run=-5))
    assert len(found) == 5


def test_an_object_that_is_there_twice_is_a_problem() -> None:
    """One of two objects of one name would be lost in silence."""
    (found,) = problems_of(a_pod("p"), a_pod("p"))
    assert "is there twice" in found


def test_an_unknown_key_of_our_own_group_is_told() -> None:
    """A misspelt key of a PodGroup is an error with the allowed ones."""
    group = a_gang("g", 2, 1)[0]
    group["spec"]["minMembers"] = 2
    (found,) = problems_of(group)
    assert "spec.minMembers: is unknown; allowed: minMember," in found


def test_an_unknown_key_of_a_part_of_our_own_group_is_told() -> None:
    """Misspelt keys deep inside, also in lists, are told with their paths."""
    group = a_gang("g", 2, 1)[0]
    group["spec"]["roles"] = [{"name": "a", "minMember": 1, "topology": {"require": "rack"}}]
    group["spec"]["whenIncomplete"] = {"policies": "Evict"}
    role, incomplete = problems_of(group)
    assert "spec.roles[0].topology.require: is unknown; allowed: name, required, preferred, " in role
    assert "spec.whenIncomplete.policies: is unknown; allowed: policy, gracePeriodSeconds" in incomplete


def test_an_unknown_key_of_our_own_queue_is_told() -> None:
    """A misspelt limit would be none; the API server refuses it as well."""
    spec = {"resources": [{"name": "nvidia.com/gpu", "limit": 8}, {"name": "cpu", "limt": 2}], "order": "Fair"}
    api_version = f"{PREFIX}/v1alpha1"
    limit, order = problems_of({"apiVersion": api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec})
    assert "spec.resources[1].limt: is unknown; allowed: name, guaranteed, limit, weight" in limit
    assert "spec.order: is unknown; allowed: parent, resources, priority, " in order


@pytest.mark.parametrize("metadata", [None, [], "x", {}, {"name": 3}, {"name": None}])
def test_metadata_of_any_shape_is_a_problem_and_no_crash(metadata: Any) -> None:
    """Whatever stands where metadata should stand, the answer is a sentence."""
    assert (
        len(problems_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": a_template()["spec"]})) == 1
    )


# Dumps.


def owned(pod: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Give an object a controller."""
    pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
    return pod


def test_a_deployment_leaves_pods_to_its_replica_set() -> None:
    """In a dump, ReplicaSet and pods are there; only the ReplicaSet makes pods, and all count as the Deployment's."""
    replica_set = owned(replicas("ReplicaSet", "web-1", 2), "Deployment", "web")
    world = a_world(
        *nodes(1), replicas("Deployment", "web", 2), replica_set, owned(a_pod("web-1-x"), "ReplicaSet", "web-1")
    )
    assert [(c.owner.kind, c.root.kind) for c in items(world, ControllerObject)] == [("ReplicaSet", "Deployment")]
    assert items(world, PodObject)[0].root.kind == "Deployment"


def test_pods_that_have_ended_are_history() -> None:
    """Succeeded and failed pods use nothing and are no workloads."""
    pod = a_pod("p", node="node-0")
    pod["status"] = {"phase": "Succeeded"}
    assert items(a_world(*nodes(1), pod), PodObject) == []


def finished_job(name: str = "j") -> dict[str, Any]:
    """Return a Job that ran for five minutes."""
    job = a_job(name, 2, 1)
    job["metadata"]["creationTimestamp"] = "2026-02-01T10:00:00Z"
    job["status"] = {
        "succeeded": 2, "startTime": "2026-02-01T10:00:00Z", "completionTime": "2026-02-01T10:05:00Z",
        "conditions": [{"type": "Complete", "status": "True"}],
    }  # fmt: skip
    return job


def test_a_finished_job_is_history_unless_durations_come_from_jobs() -> None:
    """With --duration-from job a finished Job runs again, for as long as it ran."""
    world = a_world(*nodes(1), finished_job())
    assert items(world, ControllerObject) == []
    assert "1 Job(s) had finished already" in world.notes[0]
    (again,) = items(a_world(*nodes(1), finished_job(), durations=Durations.JOB), ControllerObject)
    assert again.run_seconds == 300
    assert again.api.status.succeeded == 0


@pytest.mark.parametrize(
    ("durations", "annotated", "expected"),
    [
        (Durations.ANNOTATION, None, None),
        (Durations.ANNOTATION, 7, 7),
        (90.0, None, 90),
        (90.0, 7, 7),
        (Durations.JOB, None, 60),
    ],
)
def test_the_annotation_goes_before_other_durations(durations: Any, annotated: Any, expected: Any) -> None:
    """How long a pod runs: its annotation, else what the option says."""
    job = a_job("j", 1, run=annotated, job={"activeDeadlineSeconds": 60})
    assert items(a_world(job, durations=durations), ControllerObject)[0].run_seconds == expected


def test_the_annotation_may_stand_on_the_job() -> None:
    """run-seconds on a Job counts for its pods."""
    job = a_job("j")
    job["metadata"]["annotations"] = {f"{PREFIX}/run-seconds": "12"}
    assert items(a_world(job), ControllerObject)[0].run_seconds == 12


def test_services_run_on() -> None:
    """A number of seconds is for pods that end, not for those of a Deployment."""
    world = a_world(replicas("Deployment", "d", 1), durations=60.0)
    assert items(world, ControllerObject)[0].run_seconds is None


def test_pending_pods_of_other_schedulers_stay_out_unless_all_are_ours() -> None:
    """Only pods that name us are ours; a note tells of the others, and --schedule-all takes them."""
    pod = a_pod("p", schedulerName="default-scheduler")
    world = a_world(*nodes(1), pod)
    assert items(world, PodObject) == []
    assert "--schedule-all" in world.notes[0]
    assert the_pod(*nodes(1), pod, schedule_all=True).spec.scheduler_name == "ai-scheduler"


def test_bound_pods_of_others_count_as_they_are() -> None:
    """A bound pod of another scheduler uses its node, and stays that scheduler's."""
    found = the_pod(*nodes(1), a_pod("p", node="node-0", schedulerName="default-scheduler"), schedule_all=True)
    assert found.spec.scheduler_name == "default-scheduler"


def test_arrivals_follow_the_annotation_or_the_creation_time() -> None:
    """submit-seconds says when; else everything is there at once, or arrives as it was created."""
    early, late = a_pod("early"), a_pod("late")
    early["metadata"]["creationTimestamp"] = "2026-02-01T10:00:00Z"
    late["metadata"]["creationTimestamp"] = "2026-02-01T10:01:40Z"
    told = a_pod("told", submit=30)

    def arrivals(**options: Any) -> dict[str, float]:
        world = a_world(*nodes(1), early, late, told, **options)
        return {s.item.api.metadata.name: s.seconds for s in world.submitted if isinstance(s.item, PodObject)}

    assert arrivals() == {"early": 0, "late": 0, "told": 30}
    assert arrivals(arrivals=Arrivals.CREATED) == {"early": 0, "late": 100, "told": 30}


def test_the_start_is_the_latest_time_of_a_dump() -> None:
    """A dump was taken after everything in it; without any time, the start is a fixed one."""
    pod = a_pod("p", node="node-0")
    pod["metadata"]["creationTimestamp"] = "2026-02-01T10:00:00Z"
    pod["status"] = {"phase": "Running", "startTime": "2026-02-01T10:00:30Z"}
    assert a_world(*nodes(1), pod).start == 1_769_940_030
    assert a_world(*nodes(1)).start == DEFAULT_START


def test_what_others_refer_to_comes_first() -> None:
    """Of one moment, what pods refer to is created before them, in whatever order it is written."""
    claim = a_claim("c")
    world = a_world(a_pod("p"), claim, *a_gang("g", 2, 1), *nodes(1), a_class("c", 1))
    assert [type(s.item) for s in world.submitted] == [
        KnownObject, PriorityClass, Node, Gang, StorageObject, PodObject, ControllerObject,
    ]  # fmt: skip


def test_pods_on_unknown_nodes_are_noted() -> None:
    """A dump without all nodes still runs; a note says what does not count."""
    assert "1 pod(s) run on nodes that the input does not have" in a_world(*nodes(1), a_pod("p", node="gone")).notes[0]
