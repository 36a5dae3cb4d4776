"""NodeResourceTopology objects on a real API server: a pod is not sent where its kubelet would reject it.

The exporter is not here: tests write what it would, with a minimal CRD (`crds/`).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.objects import World
from e2e.test_dialects import APPEAR_SECONDS, CRD_API, apply_crd
from e2e.waiting import wait_until
from scheduler.plugins.node_resource_topology_match.fingerprint import fingerprint

PATH = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NAME = "noderesourcetopologies.topology.node.k8s.io"


class Exporter:
    """Writes the reports of nodes."""

    def __init__(self, world: World) -> None:
        """Serves the API, and remembers what to remove."""
        self.world = world
        self.written: set[str] = set()
        self._probes = 0
        apply_crd(world.plane, NAME, PATH)

    def report(self, node: str, *free: int, pods: tuple[str, ...] | None = None) -> None:
        """Tells how many CPUs each NUMA node has free, and by fingerprint which pods of the test's namespace are counted."""
        attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}
        if pods is not None:
            attributes["nodeTopologyPodsFingerprint"] = fingerprint((self.world.namespace, pod) for pod in pods)
        zones = [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {"name": "cpu", "capacity": "8", "allocatable": "8", "available": str(cpus)},
                    {"name": "memory", "capacity": "64Gi", "allocatable": "64Gi", "available": "64Gi"},
                ],
            }
            for number, cpus in enumerate(free)
        ]
        body: dict[str, Any] = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": node},
            "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
            "zones": zones,
        }
        if node in self.written:
            self.world.plane.request("PATCH", f"{PATH}/{node}", body)
        else:
            self.world.plane.request("POST", PATH, body)
        self.written.add(node)

    def wait_read(self) -> None:
        """Waits until the scheduler reads reports: a pod of 5 CPUs is refused; until then it is placed and taken away."""

        def is_refused() -> bool:
            self._probes += 1
            name = f"probe-{self._probes}"
            self.world.pod(name, container=guaranteed(5))
            wait_until(
                lambda: name in self.world.placed() or self.world.condition(name).get("reason") == "Unschedulable",
                what=f"{name} to be decided",
            )
            refused = name not in self.world.placed()
            self.world.delete_pod(name)
            wait_until(lambda: not self.world.get(name), what=f"{name} to be gone")
            return refused

        wait_until(is_refused, APPEAR_SECONDS, "reports to be read")

    def close(self) -> None:
        """Removes what was written."""
        for node in self.written:
            self.world.plane.request("DELETE", f"{PATH}/{node}")


@pytest.fixture
def exporter(world: World) -> Iterator[Exporter]:
    """Writes reports in one test."""
    own = Exporter(world)
    yield own
    own.close()


def guaranteed(cpu: int) -> dict[str, Any]:
    """Returns the resources of a container that has its CPUs for itself."""
    amounts = {"cpu": str(cpu), "memory": "1Gi"}
    return {"resources": {"requests": amounts, "limits": amounts}}


def test_pod_waits_until_a_numa_node_has_room(world: World, exporter: Exporter) -> None:
    """The node has 8 CPUs free, 4 in each NUMA node; a pod of 6 waits until a report says that one has 7."""
    [node] = world.nodes(1, gpus=0, cpu="16")
    exporter.report(node, 4, 4, pods=())
    exporter.wait_read()
    world.pod("wide", container=guaranteed(6))
    assert "cannot align container" in world.wait_condition("wide", "Unschedulable")["message"]
    world.pod("small", container=guaranteed(4))
    world.wait_placed("small")
    assert set(world.placed()) == {"small"}
    exporter.report(node, 0, 7, pods=("small",))
    world.wait_placed("wide")


def test_pod_that_no_report_counts_is_deducted(world: World, exporter: Exporter) -> None:
    """Both NUMA nodes have 4 CPUs; after a pod of 3, another one waits until a report says which of them it is in."""
    [node] = world.nodes(1, gpus=0, cpu="16")
    exporter.report(node, 4, 4, pods=())
    exporter.wait_read()
    world.pod("first", container=guaranteed(3))
    world.wait_placed("first")
    world.pod("second", container=guaranteed(3))
    assert "cannot align container" in world.wait_condition("second", "Unschedulable")["message"]
    exporter.report(node, 1, 4, pods=("first",))
    world.wait_placed("second")


def test_cluster_without_the_api_is_scheduled_as_ever(world: World) -> None:
    """Missing is no error: a pod that would be refused with a report is placed."""
    if any(api["name"] == "topology.node.k8s.io" for api in world.plane.request("GET", "/apis")["groups"]):
        world.plane.request("DELETE", f"{CRD_API}/{NAME}")
    world.nodes(1, gpus=0, cpu="16")
    world.pod("wide", container=guaranteed(12))
    world.wait_placed("wide")
