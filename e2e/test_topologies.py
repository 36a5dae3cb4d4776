"""Topology objects of ours on a real API server: what is said at them, and that nobody says more."""

import time

from e2e.objects import GROUP, World
from e2e.waiting import wait_until

QUIET_SECONDS = 5.0


def test_topology_tells_whether_nodes_have_its_labels(world: World) -> None:
    """False with the level that no node knows, True with the number of domains when they do, then nothing more is written."""
    name = f"{world.namespace}-fabric"
    block, rack = f"{world.namespace}.example.com/block", f"{world.namespace}.example.com/rack"
    levels = [{"name": "block", "nodeLabel": block}, {"name": "rack", "nodeLabel": rack}]
    path = f"/apis/{GROUP}/v1alpha1/topologies"
    world.plane.request("POST", path, {
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels},
    })  # fmt: skip

    def usable() -> dict[str, object]:
        status = world.plane.request("GET", f"{path}/{name}").get("status", {})
        return next((c for c in status.get("conditions", []) if c["type"] == "Usable"), {})

    try:
        world.bare_node("a", labels={block: "b1"})
        wait_until(lambda: usable().get("status") == "False", what=lambda: str(usable()))
        wait_until(lambda: "block: 1 domain" in str(usable()["message"]), what=lambda: str(usable()))
        assert f"level rack: no node has the label {rack}" in str(usable()["message"])
        for number in range(4):
            world.bare_node(f"n{number}", labels={block: f"b{number % 2}", rack: "r1"})
        wait_until(lambda: usable().get("status") == "True", what=lambda: str(usable()))
        wait_until(lambda: "rack: 2 domains" in str(usable()["message"]), what=lambda: str(usable()))
        assert usable()["reason"] == "LabelsFound"
        assert usable()["observedGeneration"] == 1
        before = world.plane.request("GET", f"{path}/{name}")["metadata"]["resourceVersion"]
        time.sleep(QUIET_SECONDS)  # the claim is that nothing happens in this time
        assert world.plane.request("GET", f"{path}/{name}")["metadata"]["resourceVersion"] == before
    finally:
        world.plane.request("DELETE", f"{path}/{name}")
