"""Groups of other dialects and owners of pods in the input: their gangs start whole, and what makes no pods here says so."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config import GroupKind
from scheduler.model.dialects import dialects_of

from .worlds import PREFIX, Manifest, a_job, a_pod, a_world, nodes, run, workload

LWS = "leaderworkerset.sigs.k8s.io"


def an_object(api_version: str, kind: str, name: str = "g", **spec: Any) -> Manifest:
    """Return an object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def members(count: int, *, first: int = 0, **said: dict[str, str]) -> list[Manifest]:
    """Return pods that take a node each and say in labels, annotations or their group what they belong to."""
    made = []
    for index in range(first, first + count):
        pod = a_pod(f"p{index}", 8)
        pod["metadata"]["labels"] |= said.get("labels", {})
        pod["metadata"]["annotations"] |= said.get("annotations", {})
        if "group" in said:
            pod["spec"]["schedulingGroup"] = said["group"]
        made.append(pod)
    return made


CASES: dict[str, tuple[list[Manifest], dict[str, dict[str, str]]]] = {
    "native": (
        [an_object("scheduling.k8s.io/v1beta1", "PodGroup", schedulingPolicy={"gang": {"minCount": 2}})],
        {"group": {"podGroupName": "g"}},
    ),
    "native of 1.36": (
        [an_object("scheduling.k8s.io/v1alpha2", "PodGroup", schedulingPolicy={"gang": {"minCount": 2}})],
        {"group": {"podGroupName": "g"}},
    ),
    "coscheduling": (
        [an_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", minMember=2)],
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    ),
    "volcano": (
        [an_object("scheduling.volcano.sh/v1beta1", "PodGroup", minMember=2)],
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    ),
    "kai": (
        [an_object("scheduling.run.ai/v2alpha2", "PodGroup", minMember=2)],
        {"annotations": {"pod-group-name": "g"}},
    ),
    "koordinator": (
        [an_object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", minMember=2)],
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    ),
    "kueue": (
        [],
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
        },
    ),
    "jobset": (
        [an_object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"name": "w", "replicas": 2}])],
        {"labels": {"jobset.sigs.k8s.io/jobset-name": "g", "jobset.sigs.k8s.io/replicatedjob-name": "w"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_gang_of_each_dialect_starts_whole(case: str) -> None:
    """With room for all; with room for one it holds nothing, and with a member missing it waits."""
    objects, said = CASES[case]
    found = workload(run(*nodes(2), *objects, *members(2, **said)), "g")
    assert (found.kind, found.waiting, len(found.nodes)) == ("PodGroup", 0, 2)
    found = workload(run(*nodes(1), *objects, *members(2, **said)), "g")
    assert (found.waiting, found.nodes) == (2, ())
    found = workload(run(*nodes(2), *objects, *members(1, **said)), "g")
    assert (found.waiting, found.nodes) == (1, ())


def test_a_job_that_asks_for_it_is_a_gang() -> None:
    """By the label in its template; one that does not starts its pods one by one."""
    asking = a_job("g", 2, 8)
    asking["spec"]["template"]["metadata"]["labels"][f"{PREFIX}/gang"] = "true"
    found = workload(run(*nodes(1), asking), "g")
    assert (found.kind, found.waiting, found.nodes) == ("PodGroup", 2, ())
    found = workload(run(*nodes(1), a_job("g", 2, 8)), "g")
    assert (found.kind, found.waiting, len(found.nodes)) == ("Job", 1, 1)


def test_a_controller_whose_pods_name_a_group_by_annotation_is_part_of_it() -> None:
    """It is no workload of its own beside that."""
    job = a_job("workers", 2, 8)
    job["spec"]["template"]["metadata"]["annotations"]["pod-group-name"] = "g"
    outcome = run(*nodes(2), an_object("scheduling.run.ai/v2alpha2", "PodGroup", minMember=2), job)
    assert [found.name for found in outcome.workloads] == ["g"]


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    """Two groups of two pods: with three nodes, one of them starts."""
    owner = an_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=2, leaderWorkerTemplate={"size": 2})
    pods = [
        pod
        for index in range(2)
        for pod in members(2, first=2 * index, labels={f"{LWS}/name": "g", f"{LWS}/group-index": str(index)})
    ]
    outcome = run(*nodes(3), owner, *pods)
    assert [(found.name, len(found.nodes)) for found in outcome.workloads] == [("g/0", 2), ("g/1", 0)]


def test_a_tree_of_native_groups_starts_whole() -> None:
    """Two groups below one that needs both."""
    root = an_object(
        "scheduling.k8s.io/v1alpha3", "CompositePodGroup", "root", schedulingPolicy={"gang": {"minGroupCount": 2}}
    )
    policy = {"gang": {"minCount": 1}}
    groups = [
        an_object(
            "scheduling.k8s.io/v1beta1",
            "PodGroup",
            name,
            schedulingPolicy=policy,
            parentCompositePodGroupName="root",
        )
        for name in ("a", "b")
    ]
    pods = [*members(1, group={"podGroupName": "a"}), *members(1, first=1, group={"podGroupName": "b"})]
    for count, placed in ((1, 0), (2, 1)):
        outcome = run(*nodes(count), root, *groups, *pods)
        assert [(found.name, len(found.nodes)) for found in outcome.workloads] == [("a", placed), ("b", placed)]
        reasons = {found.reason for found in outcome.workloads}
        assert reasons == {""} if placed else len(reasons) == 1 and "needs 2 pods at once" in reasons.pop()


def test_owners_make_no_pods_and_groups_that_are_missing_are_noted() -> None:
    """With the kind that the pods name, and the command that dumps it."""
    owner = an_object("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=[{"name": "w"}])
    assert a_world(*nodes(1, 0), owner).notes == (
        "no pods are made for 1 JobSet; those that the input holds count, and start as these say",
    )
    assert run(*nodes(1, 0), owner).workloads == ()
    labels = {"jobset.sigs.k8s.io/jobset-name": "gone"}
    (note,) = a_world(*nodes(1, 0), *members(1, labels=labels)).notes
    assert note.startswith("pods name JobSet default/gone, but the input holds no JobSet, so they wait")
    assert note.endswith(",jobsets.jobset.x-k8s.io -A -o yaml")
    annotations = {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": "1"}
    assert a_world(*nodes(1, 0), *members(1, annotations=annotations)).notes == ()


def test_kinds_of_the_configuration_are_read() -> None:
    """As any other."""
    kind = GroupKind.model_validate(
        {
            "apiGroup": "example.com",
            "kind": "Batch",
            "versions": ["v1"],
            "resource": "batches",
            "nameLabel": "example.com/batch",
            "roles": [{"path": "spec", "counts": [{"fields": ["size"]}]}],
        }
    )
    world = [*nodes(2), an_object("example.com/v1", "Batch", size=2), *members(1, labels={"example.com/batch": "g"})]
    found = workload(run(*world, load={"dialects": dialects_of([kind])}), "g")
    assert (found.kind, found.waiting) == ("PodGroup", 1)
    assert "1 Batch (example.com/v1)" in a_world(*world).notes[0]


@pytest.mark.parametrize("case", CASES)
def test_a_pending_member_of_another_scheduler_is_an_error_at_its_gang(case: str) -> None:
    """As in a cluster: it is told with how many pods name whom, and the gang waits though there is room for all."""
    objects, said = CASES[case]
    ours, other = members(2, **said)
    other["spec"]["schedulerName"] = "somebody"
    found = workload(run(*nodes(2), *objects, ours, other), "g")
    assert (found.waiting, found.nodes) == (1, ())
    assert "different schedulers: ai-scheduler (1), somebody (1); allowed is one for all" in found.reason
    found = workload(run(*nodes(2), *objects, ours, other, load={"schedule_all": True}), "g")
    assert (found.waiting, len(found.nodes)) == (0, 2)
