"""Gangs of other projects on a real API server: their objects are read, their pods start together, nothing of theirs is written.

Their controllers are not here: the CRDs are minimal ones (`crds/`), and tests make the pods with the labels that the
controllers would give them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import ControlPlane
from e2e.objects import GROUP, World
from e2e.waiting import wait_until

CRDS = Path(__file__).parent / "crds"
CRD_API = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: A CRD that appears while the scheduler runs is seen after half a minute.
APPEAR_SECONDS = 75
KUEUE, ARMADA, YUNIKORN = "kueue.x-k8s.io", "armadaproject.io", "yunikorn.apache.org"
JOBSET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"


def apply_crd(plane: ControlPlane, name: str, path: str) -> None:
    """Installs a CRD and waits until it is served."""
    plane.kubectl("apply", "--server-side", "-f", str(CRDS / f"{name}.yaml"))

    def is_served() -> bool:
        try:
            plane.request("GET", path)
        except ApiError:
            return False
        return True

    wait_until(is_served, what=f"{path} to be served")


@dataclass
class Case:
    """A gang `g` of two pods in one dialect."""

    #: API path without the plural, the plural, the kind and the spec of its object; none if pods tell it all.
    api: str = ""
    plural: str = "podgroups"
    kind: str = "PodGroup"
    spec: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def make_group(self, world: World) -> None:
        """Makes the object, after its CRD."""
        if not self.api:
            return
        group, version = self.api.split("/")[2:]
        apply_crd(world.plane, f"{self.plural}.{group}", f"{self.api}/{self.plural}")
        body = {"apiVersion": f"{group}/{version}", "kind": self.kind, "metadata": {"name": "g"}, "spec": self.spec}
        world.make(self.api, self.plural, body)

    def make_pod(self, world: World, index: int) -> None:
        """Makes one of its pods, which takes a node."""
        world.pod(f"g-{index}", gpus=8, labels=self.labels, annotations=self.annotations)

    def written(self, world: World) -> Any:
        """Returns what stands in the status of its object."""
        path = f"{self.api}/namespaces/{world.namespace}/{self.plural}/g"
        return world.plane.request("GET", path).get("status") if self.api else None


CASES = {
    "volcano": Case(
        api="/apis/scheduling.volcano.sh/v1beta1",
        spec={"minMember": 2},
        annotations={"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker"},
    ),
    "kai": Case(
        api="/apis/scheduling.run.ai/v2alpha2",
        spec={"minMember": 2, "queue": "q"},
        annotations={"pod-group-name": "g"},
    ),
    "koordinator": Case(
        api="/apis/scheduling.sigs.k8s.io/v1alpha1",
        spec={"minMember": 2},
        labels={"pod-group.scheduling.sigs.k8s.io": "g"},
    ),
    "koordinator-pods": Case(
        annotations={"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"},
    ),
    "kueue": Case(
        labels={f"{KUEUE}/pod-group-name": "g"},
        annotations={f"{KUEUE}/pod-group-total-count": "2"},
    ),
    "yunikorn": Case(
        labels={f"{YUNIKORN}/app-id": "g"},
        annotations={
            f"{YUNIKORN}/task-group-name": "w",
            f"{YUNIKORN}/task-groups": '[{"name": "w", "minMember": 2}]',
        },
    ),
    "armada": Case(annotations={f"{ARMADA}/gangId": "g", f"{ARMADA}/gangCardinality": "2"}),
    "jobset": Case(
        api="/apis/jobset.x-k8s.io/v1alpha2",
        plural="jobsets",
        kind="JobSet",
        spec={"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1}}}]},
        labels={f"{JOBSET}/jobset-name": "g", f"{JOBSET}/replicatedjob-name": "w"},
    ),
}


@pytest.mark.parametrize("dialect", CASES)
def test_gang_of_each_dialect_is_held_until_it_is_whole(world: World, dialect: str) -> None:
    """With a member missing nobody is placed although there is room, and the pod says so; then all are."""
    case = CASES[dialect]
    nodes = world.nodes(2)
    case.make_group(world)
    case.make_pod(world, 0)
    wait_until(
        lambda: "1 of 2 pods exist" in world.condition("g-0").get("message", ""),
        APPEAR_SECONDS,
        lambda: f"the wait to be told; it says {world.condition('g-0')}",
    )
    assert world.condition("g-0")["reason"] == "SchedulingGated"
    assert world.placed() == {}
    case.make_pod(world, 1)
    assert sorted(world.wait_placed("g-0", "g-1").values()) == sorted(nodes)
    assert case.written(world) is None


@pytest.mark.parametrize("dialect", ["volcano", "kai", "jobset"])
def test_gang_of_a_dialect_that_does_not_fit_holds_nothing(world: World, dialect: str) -> None:
    """One of two nodes is no use to it; the refusal is told at its object, and a single pod gets the room."""
    case = CASES[dialect]
    world.nodes(1)
    case.make_group(world)
    for index in range(2):
        case.make_pod(world, index)
    message = world.wait_condition("g-0", "Unschedulable", APPEAR_SECONDS)["message"]
    assert "needs 2 pods at once" in message
    told = wait_until(
        lambda: [e["regarding"] for e in world.events("FailedScheduling") if e["regarding"]["kind"] == case.kind],
        what="an event at the group",
    )
    assert told[0]["name"] == "g"
    assert told[0]["apiVersion"] == case.api.removeprefix("/apis/")
    world.pod("single", gpus=8)
    world.wait_placed("single")
    assert set(world.placed()) == {"single"}


def test_each_group_of_a_leader_worker_set_is_a_gang_of_its_own(world: World) -> None:
    """Of two groups with room for one, one runs whole; when the set is scaled up, its new group is known."""
    api, plural = "/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"
    apply_crd(world.plane, f"{plural}.leaderworkerset.x-k8s.io", f"{api}/{plural}")
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2}}
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "l"}}
    world.make(api, plural, body | {"spec": spec})
    world.nodes(3)
    for group in range(2):
        for worker in range(2):
            index = {f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(worker)}
            world.pod(f"l-{group}-{worker}", gpus=8, labels={f"{LWS}/name": "l"} | index)
    world.wait_placed("l-0-0", "l-0-1", timeout_seconds=APPEAR_SECONDS)
    assert "does not exist" in world.wait_condition("l-1-0", "SchedulingGated")["message"]
    path = f"{api}/namespaces/{world.namespace}/{plural}/l"
    world.plane.request("PATCH", path, {"spec": {"replicas": 2}})
    world.wait_condition("l-1-0", "Unschedulable")
    world.delete_pod("l-0-0")
    world.wait_placed("l-1-0", "l-1-1")


def test_job_that_asks_for_it_is_a_gang(world: World) -> None:
    """Its pods, which the Job controller makes, start together or not at all; a Job that does not ask is none."""
    world.node("first")
    world.job("together", 2, gpus=8, labels={f"{GROUP}/gang": "true"})
    wait_until(lambda: world.events("FailedScheduling"), what="the gang to be refused")
    assert world.placed() == {}
    world.node("second")
    wait_until(lambda: len(world.placed()) == 2, what=lambda: f"both placed; placed are {world.placed()}")
    world.job("apart", 2, gpus=8)
    world.node("third")
    wait_until(lambda: len(world.placed()) == 3, what=lambda: f"one of the others; placed are {world.placed()}")


def test_crd_that_appears_while_the_scheduler_runs_is_picked_up(world: World) -> None:
    """Its pods wait until then and say what is missing; nothing has to be started again."""
    world.nodes(1)
    api = "/apis/scheduling.x-k8s.io/v1alpha1"
    world.pod("early", labels={"scheduling.x-k8s.io/pod-group": "g"})
    assert "PodGroup" in world.wait_condition("early", "SchedulingGated")["message"]
    apply_crd(world.plane, "podgroups.scheduling.x-k8s.io", f"{api}/podgroups")
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    world.make(api, "podgroups", body | {"spec": {"minMember": 1}})
    world.wait_placed("early", timeout_seconds=APPEAR_SECONDS)
    world.plane.request("DELETE", f"{CRD_API}/podgroups.scheduling.x-k8s.io")


def test_finished_members_count_in_a_dialect_of_annotations(world: World) -> None:
    """A member that has succeeded and is still there counts towards the minimum of a gang that another member joins."""
    case = CASES["armada"]
    world.nodes(2)
    for index in range(2):
        case.make_pod(world, index)
    world.wait_placed("g-0", "g-1")
    finished = {"status": {"phase": "Succeeded"}}
    path = f"/api/v1/namespaces/{world.namespace}/pods/g-0/status"
    world.plane.request("PATCH", path, finished)
    world.delete_pod("g-1")
    wait_until(lambda: not world.get("g-1"), what="g-1 to be gone")
    case.make_pod(world, 1)
    world.wait_placed("g-1")
