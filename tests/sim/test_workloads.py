"""Workload controllers: what pods they make, how they replace them, and when a workload has ended."""

from typing import Any

import pytest

from scheduler.framework.effects import EvictPod, PodRef
from scheduler.sim.run import Simulation

from .worlds import PREFIX, a_gang, a_job, a_pod, a_world, nodes, replicas, run, run_checked, start, workload

INDEX = "batch.kubernetes.io/job-completion-index"
IGNORE = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}


def begun(*manifests: Any, until: float = 5) -> Simulation:
    """Return a simulation in which what was submitted at the start runs."""
    simulation = start(a_world(*manifests))
    while (moment := simulation.cluster.agenda.next_moment()) is not None and moment <= simulation.world.start + until:
        simulation.advance()
    return simulation


def evict(simulation: Simulation, count: int = 1) -> list[str]:
    """Evict the first pods that run, on behalf of nobody; return their names."""
    running = [sim.pod for sim in simulation.cluster.pods.values() if sim.pod.phase == "Running"][:count]
    for pod in running:
        ref = PodRef(pod.namespace, pod.name, pod.uid)
        simulation.cluster.apply(EvictPod(ref, "PreemptionByScheduler", "to make room"))
    return [pod.name for pod in running]


def names(simulation: Simulation) -> list[str]:
    """Return the names of the pods that have not ended."""
    return [sim.pod.name for sim in simulation.cluster.pods.values() if not sim.pod.is_terminal]


def to_end(simulation: Simulation) -> Any:
    """Run to the end."""
    while simulation.advance():
        pass
    return simulation.outcome()


# Jobs.


def test_a_job_runs_so_many_at_once_until_enough_have_succeeded() -> None:
    """Five completions, two at once, 100 s each (and 2 s to start): three rounds."""
    found = workload(run(*nodes(1), a_job("j", 2, completions=5, run=100)), "j")
    assert (found.phase, found.finished, len(found.pods)) == ("Succeeded", 306, 5)


def test_parallelism_is_at_most_the_completions() -> None:
    """A Job does not start pods that it needs no more."""
    assert len(workload(run(*nodes(1), a_job("j", 8, completions=3, run=10)), "j").pods) == 3


def test_a_work_queue_ends_when_all_have_after_a_success() -> None:
    """Without completions, no pod is made after the first success, and the Job ends with its last pod."""
    job = a_job("j", 3, run=10)
    del job["spec"]["completions"]
    found = workload(run(*nodes(1), job), "j")
    assert (found.phase, len(found.pods)) == ("Succeeded", 3)


def test_indexed_pods_carry_their_index() -> None:
    """An Indexed Job makes one pod for each index, with label and annotation, and works through them in order."""
    job = a_job("j", 2, completions=3, run=10, job={"completionMode": "Indexed"})
    simulation = begun(*nodes(1), job)
    pods = [sim.pod for sim in simulation.cluster.pods.values()]
    assert [pod.labels[INDEX] for pod in pods] == [pod.annotations[INDEX] for pod in pods] == ["0", "1"]
    assert all(pod.name.startswith(f"j-{pod.labels[INDEX]}-") for pod in pods)
    assert pods[0].labels["job-name"] == pods[0].labels["batch.kubernetes.io/job-name"] == "j"
    assert workload(to_end(simulation), "j").phase == "Succeeded"


def test_an_evicted_index_is_made_again_with_a_fresh_uid() -> None:
    """The index of an evicted pod is worked on again, by a new pod."""
    simulation = begun(*nodes(1), a_job("j", 2, run=50, job=IGNORE | {"completionMode": "Indexed"}))
    before = dict(simulation.cluster.pods)
    evict(simulation)
    outcome = to_end(simulation)
    found = workload(outcome, "j")
    assert (found.phase, found.evicted) == ("Succeeded", 1)
    assert [pod.outcome for pod in found.pods] == ["Evicted", "Succeeded", "Succeeded"]
    assert len({*before, *simulation.cluster.pods}) == 3


def test_with_a_failure_policy_a_pod_is_replaced_once_it_is_gone() -> None:
    """Kubernetes waits for the end of a terminating pod if there is a podFailurePolicy, else it does not."""
    for policy, expected in ((IGNORE, 1), ({}, 2)):
        simulation = begun(*nodes(1), a_job("j", 1, run=50, job=policy))
        evict(simulation)
        assert len(names(simulation)) == expected
        assert workload(to_end(simulation), "j").phase == "Succeeded"


@pytest.mark.parametrize(("policy", "phase"), [(IGNORE, "Succeeded"), ({}, "Failed")])
def test_evictions_count_as_failures_unless_they_are_ignored(policy: Any, phase: str) -> None:
    """As in Kubernetes: more evictions than the backoffLimit end a Job, and the reason says what would have helped."""
    simulation = begun(*nodes(1), a_job("j", 3, run=50, job=policy | {"backoffLimit": 2}))
    evict(simulation, 3)
    found = workload(to_end(simulation), "j")
    assert found.phase == phase
    if phase == "Failed":
        assert found.code == "BackoffLimitExceeded"
        assert "podFailurePolicy that ignores DisruptionTarget" in found.reason


def failing(count: int | None, limit: int = 6, parallelism: int = 1) -> dict[str, Any]:
    """Return a Job of which so many pods fail."""
    job = a_job("j", parallelism, run=10, job={"backoffLimit": limit})
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    annotations[f"{PREFIX}/exit-code"] = "1"
    if count is not None:
        annotations[f"{PREFIX}/fail-count"] = str(count)
    return job


def test_failed_pods_are_made_again_after_a_growing_wait() -> None:
    """Two failures: 12 s, a wait of 10 s, 12 s, a wait of 20 s, 12 s."""
    found = workload(run(*nodes(1), failing(2)), "j")
    assert (found.phase, found.finished) == ("Succeeded", 66)
    assert [pod.outcome for pod in found.pods] == ["Failed", "Failed", "Succeeded"]


def test_a_job_fails_beyond_its_backoff_limit() -> None:
    """With a limit of 2, the third failure ends the Job."""
    found = workload(run(*nodes(1), failing(None, 2)), "j")
    assert (found.phase, len(found.pods), found.code) == ("Failed", 3, "BackoffLimitExceeded")
    assert not found.does_not_fit


def test_a_failed_job_takes_its_other_pods_with_it() -> None:
    """When a Job fails, the pods that still run are deleted."""
    simulation = begun(*nodes(1), failing(1, 0, parallelism=2))
    assert workload(to_end(simulation), "j").phase == "Failed"
    assert names(simulation) == []


def test_a_deadline_ends_a_job() -> None:
    """The activeDeadlineSeconds count from the Job's start, also while its pods wait."""
    for gpus in (0, 99):
        found = workload(run(*nodes(1), a_job("j", 1, gpus, run=500, job={"activeDeadlineSeconds": 60})), "j")
        assert (found.phase, found.code) == ("Failed", "DeadlineExceeded")


def test_a_suspended_job_makes_no_pods_and_is_no_failure() -> None:
    """A suspended Job waits for whoever suspended it, not for room."""
    outcome = run(*nodes(1), a_job("j", 2, job={"suspend": True}))
    found = workload(outcome, "j")
    assert (found.phase, found.pods, found.does_not_fit) == ("Suspended", (), False)


def test_a_job_of_a_dump_goes_on_where_it_was() -> None:
    """Completions that the status counts are not done again; pods that run are taken on."""
    job = a_job("j", 2, completions=4, run=100, job={"completionMode": "Indexed"})
    job["status"] = {"succeeded": 2, "completedIndexes": "0,2"}
    pod = a_pod("j-1-x", node="node-0", run=100)
    pod["metadata"]["labels"][INDEX] = "1"
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    simulation = run_checked(start(a_world(*nodes(1), pod, job)))
    found = workload(simulation.outcome(), "j")
    assert found.phase == "Succeeded"
    assert sorted(p.name.split("-")[1] for p in found.pods) == ["1", "3"]


# Controllers whose pods run on.


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet"])
def test_replicas_run_on_and_are_replaced(kind: str) -> None:
    """So many pods run for ever; an evicted one is made again, with a fresh uid."""
    simulation = begun(*nodes(1), replicas(kind, "web", 3), until=20)
    before = {sim.pod.uid for sim in simulation.cluster.pods.values()}
    evict(simulation)
    found = workload(to_end(simulation), "web")
    after = {sim.pod.uid for sim in simulation.cluster.pods.values()}
    assert (found.phase, found.kind, found.waiting, found.evicted) == ("Running", kind, 0, 1)
    assert (len(after), len(before & after)) == (3, 2)


def test_a_stateful_set_makes_its_pods_one_after_the_other() -> None:
    """With OrderedReady the next pod is made when the former runs; with Parallel all are made at once."""
    ordered = run(*nodes(1), replicas("StatefulSet", "db", 3))
    parallel = run(*nodes(1), replicas("StatefulSet", "db", 3, spec={"podManagementPolicy": "Parallel"}))
    assert [(pod.name, pod.bound) for pod in workload(ordered, "db").pods] == [("db-0", 0), ("db-1", 2), ("db-2", 4)]
    assert [pod.bound for pod in workload(parallel, "db").pods] == [0, 0, 0]


def test_a_stateful_pod_keeps_its_name() -> None:
    """An evicted pod of a StatefulSet comes back under its name, once the former one is gone."""
    simulation = begun(*nodes(1), replicas("StatefulSet", "db", 2), until=20)
    assert evict(simulation) == ["db-0"]
    to_end(simulation)
    assert sorted(names(simulation)) == ["db-0", "db-1"]


# Pods without a controller in the input.


def test_a_bare_pod_that_is_evicted_is_gone() -> None:
    """Nobody makes a bare pod again; the report says so, and it counts as something that does not fit."""
    simulation = begun(*nodes(1), a_pod("p", run=100))
    evict(simulation)
    found = workload(to_end(simulation), "p")
    assert (found.phase, found.does_not_fit) == ("Evicted", True)
    assert "no controller" in found.reason


def test_a_pod_whose_controller_is_not_in_the_input_is_made_again() -> None:
    """A dump of pods alone still has controllers behind them; they would replace an evicted pod."""
    pod = a_pod("web-abc-xyz", node="node-0")
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-abc", "controller": True}]
    simulation = begun(*nodes(1), pod)
    evict(simulation)
    found = workload(to_end(simulation), "web-abc")
    assert (found.phase, [p.outcome for p in found.pods]) == ("Running", ["Evicted", "Running"])


def test_a_gang_whose_pods_never_come_waits() -> None:
    """A PodGroup without pods is a workload that waits, with a reason."""
    found = workload(run(*nodes(1), a_gang("g", 2, 1)[0]), "g")
    assert (found.phase, found.does_not_fit) == ("Pending", True)
    assert found.reason
