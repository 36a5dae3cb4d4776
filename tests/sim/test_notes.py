"""Notes and slips: what an input lacks, and keys that nobody reads."""

from typing import Any

import pytest

from .test_loading import problems_of
from .test_partly import running
from .worlds import PREFIX, a_gang, a_job, a_pod, a_world, nodes, replicas, run, workload

UNKNOWN_NVLINK = "no nvidia.com/gpu.product label (GPU feature discovery sets it): NVLink is unknown there"


def notes_of(*manifests: Any, **options: Any) -> list[str]:
    """Return the notes about manifests, on a node without GPUs."""
    return list(a_world(*nodes(1, 0), *manifests, **options).notes)


def test_pods_without_their_groups_are_noted() -> None:
    """Whether the input holds no group or other ones, in either dialect."""
    other = a_pod("q")
    other["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "theirs"
    (note,) = notes_of(a_pod("p", gang="gone"), a_job("j", gang="gone"), other)
    assert note.startswith("pods name PodGroups default/gone, default/theirs, but the input holds no PodGroup")
    kinds = "podgroups.scheduling.ai-scheduler.io,podgroups.scheduling.x-k8s.io,topologies.scheduling.ai-scheduler.io"
    assert f"{kinds},nodetopologies.scheduling.ai-scheduler.io,queues.scheduling.ai-scheduler.io -A" in note
    (note,) = notes_of(*a_gang("g", 1, 0), a_pod("p", gang="gone"))
    assert note.startswith("pods name PodGroup default/gone, which the input does not hold")
    assert notes_of(*a_gang("g", 1, 0)) == []


@pytest.mark.parametrize(
    ("place", "key", "expected"),
    [
        ("annotations", f"{PREFIX}/submit-second", f"is unknown, did you mean {PREFIX}/submit-seconds?; allowed"),
        ("annotations", f"{PREFIX}/nonsense-of-mine", "is unknown; allowed with the prefix"),
        ("annotations", "ai-scheduler.io/run-seconds", f"is unknown, did you mean {PREFIX}/run-seconds?"),
        ("annotations", f"{PREFIX}/pod-group", "is a label, no annotation; allowed"),
        ("labels", f"{PREFIX}/run-seconds", "is an annotation, no label; allowed"),
        ("labels", f"{PREFIX}/podgroup", f"is unknown, did you mean {PREFIX}/pod-group?"),
    ],
)
def test_keys_of_ours_that_nobody_reads_are_problems(place: str, key: str, expected: str) -> None:
    """On any object, and in a template too."""
    for manifest in (a_pod("p"), nodes(1)[0], a_job("j"), a_gang("g", 1, 1)[0]):
        manifest["metadata"].setdefault(place, {})[key] = "1"
        (found,) = problems_of(manifest)
        assert f"metadata.{place}[{key}]: {expected}" in found
    job = a_job("j")
    job["spec"]["template"]["metadata"][place][key] = "1"
    assert f"spec.template.metadata.{place}[{key}]: {expected}" in problems_of(job)[0]


def test_keys_that_the_project_knows_or_others_own_are_no_problems() -> None:
    """Those of a cluster stand in dumps."""
    pod = a_pod("p")
    pod["metadata"]["labels"] |= {f"{PREFIX}/{key}": "x" for key in ("role", "rank", "queue", "pod-group")}
    keys = ("gpus", "domain", "placement", "expected-run-seconds", "last-checkpoint", "restartable")
    pod["metadata"]["annotations"] |= {f"{PREFIX}/{key}": "x" for key in keys} | {"example.com/run-second": "x"}
    a_world(pod)


@pytest.mark.parametrize("key", ["scheduler", "schedulername", "scheduler_name", "SchedulerName"])
def test_a_misspelt_scheduler_name_is_noted(key: str) -> None:
    """Unknown fields are allowed, but that one makes a pod somebody else's."""
    pod = a_pod("p")
    pod["spec"][key] = pod["spec"].pop("schedulerName")
    assert notes_of(pod)[-1] == f"Pod p: spec.{key} is unknown, did you mean schedulerName?"
    assert notes_of(a_pod("p", schedulingGates=[], somethingNew=1)) == []


def test_a_scheduler_name_beside_the_template_is_noted() -> None:
    """It belongs to the pods."""
    found = notes_of(a_job("j", job={"schedulerName": "ai-scheduler"}))
    assert found == ["Job j: spec.schedulerName is not read there, did you mean spec.template.spec.schedulerName?"]


def test_nodes_of_which_nvlink_is_unknown_are_counted_in_one_note() -> None:
    """A label or an annotation tells the machine; nodes without GPUs do not matter."""
    told = nodes(1, prefix="told")
    told[0]["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
    drawn = nodes(1, prefix="drawn")
    drawn[0]["metadata"]["annotations"] = {f"{PREFIX}/node-topology": '{"gpus": 8}'}
    assert notes_of(*told, *drawn) == []
    assert notes_of(*nodes(3, prefix="gpu"), *told) == [f"3 nodes with GPUs have {UNKNOWN_NVLINK}"]
    assert notes_of(*nodes(1, prefix="gpu")) == [f"1 node with GPUs has {UNKNOWN_NVLINK}"]


def test_nodes_with_the_same_fault_share_a_note() -> None:
    """A thousand nodes are no thousand notes."""
    (note,) = notes_of(*nodes(3, prefix="gpu", **{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}))
    assert note.startswith("Nodes gpu-[0-2]: label nvidia.com/gpu.count: missing")


# DaemonSets.


def daemons(**template: Any) -> dict[str, Any]:
    """Return a DaemonSet."""
    manifest = replicas("DaemonSet", "d", 1, **template)
    del manifest["spec"]["replicas"]
    return manifest


def test_a_daemon_set_has_a_pod_on_each_node_of_its_selector() -> None:
    """By labels, taints that it endures, and nodes that come later; gates of size are the scheduler's."""
    chosen, other, tainted, late = (*nodes(1, zone="a"), *nodes(1, prefix="other"), *nodes(1, prefix="tainted", zone="a"),
                                    *nodes(1, prefix="late", zone="a"))  # fmt: skip
    tainted["spec"] = {"taints": [{"key": "no", "effect": "NoSchedule"}]}
    late["metadata"]["annotations"] = {f"{PREFIX}/submit-seconds": "60"}
    found = workload(run(chosen, other, tainted, late, daemons(nodeSelector={"zone": "a"})), "d")
    assert (found.kind, found.nodes, found.waiting) == ("DaemonSet", ("late-0", "node-0"), 0)


def test_a_daemon_waits_for_its_node_and_takes_no_other() -> None:
    """A full node keeps its daemon waiting although others have room."""
    outcome = run(*nodes(2), a_pod("full", 8, node="node-0"), daemons(gpus=1))
    found = workload(outcome, "d")
    assert (found.nodes, found.waiting, found.waiting_gpus) == (("node-1",), 1, 1)


def test_daemons_of_a_dump_are_not_made_again() -> None:
    """The pod of a node is there."""
    pod = running(a_pod("d-1", node="node-0"), "2026-02-01T10:00:00Z", "DaemonSet", "d")
    found = workload(run(*nodes(2), daemons(), pod), "d")
    assert sorted((life.name == "d-1", life.node) for life in found.pods) == [(False, "node-1"), (True, "node-0")]


def test_daemons_of_others_stay_theirs() -> None:
    """They are no workloads, also with --schedule-all; a note counts them."""
    for options in ({}, {"schedule_all": True}):
        assert notes_of(daemons(schedulerName="default-scheduler"), **options) == [
            "no pods are made for 1 DaemonSet of another scheduler; those that the input holds on nodes count"
        ]
