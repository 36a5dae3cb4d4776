"""NodeTopology objects on a real API server: what the definition refuses, and that what is told decides which GPUs are chosen."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.objects import GROUP, World
from e2e.waiting import wait_until

PATH = f"/apis/{GROUP}/v1alpha1/nodetopologies"
LATER = "2100-01-01T00:00:00Z"


def a_topology(node: str) -> dict[str, Any]:
    """Return four GPUs of which 1 and 3 are bridged."""
    gpus: list[dict[str, Any]] = [{"index": gpu, "uuid": f"GPU-{gpu}", "numaNode": gpu // 2} for gpu in range(4)]
    gpus[1]["nvlinkPeers"] = [{"gpu": 3, "links": 4, "gigabytesPerSecond": 100}]
    head = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "NodeTopology", "metadata": {"name": node}}
    return head | {"spec": {"source": "test", "gpus": gpus}}


@pytest.fixture
def told(world: World) -> Iterator[str]:
    """Tell the machine of a node of four GPUs."""
    node = world.bare_node("n", gpus=4)
    world.plane.request("POST", PATH, a_topology(node))
    yield node
    world.plane.request("DELETE", f"{PATH}/{node}")


def annotations(world: World, name: str) -> dict[str, str]:
    """Return the annotations of a pod that is bound."""
    world.wait_placed(name)
    return dict(world.get(name)["metadata"].get("annotations", {}))


def test_told_links_and_reported_gpus_decide_what_is_chosen(world: World, told: str) -> None:
    """First the bridged pair; once GPU 3 is reported as broken or taken, it is left alone, and the basis says why."""
    prefix = f"{GROUP}/"

    def chosen(name: str, gpus: int) -> str:
        world.pod(name, gpus=gpus)
        found = annotations(world, name)[f"{prefix}gpus"]
        world.delete_pod(name)
        return found

    probes = iter(range(1000))
    wait_until(lambda: chosen(f"early-{next(probes)}", 2) == "1,3;basis=assumed")
    status = {"observedTime": LATER, "free": {"gpus": [0, 1, 2]}, "allocations": []}
    world.plane.request("PATCH", f"{PATH}/{told}/status", {"status": status})
    wait_until(lambda: (found := chosen(f"late-{next(probes)}", 1)).endswith("reported") and "3" not in found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec["gpus"][3].update(index=5), "without a gap"),
        (lambda spec: spec["gpus"][3].update(index=0), "Duplicate value"),
        (lambda spec: spec["gpus"][1]["nvlinkPeers"][0].update(gpu=4), "must name other GPUs of this node"),
        (lambda spec: spec["gpus"][1]["nvlinkPeers"][0].update(gpu=1), "must name other GPUs of this node"),
        (lambda spec: spec["gpus"][0].update(pciAddress="3b:00.0"), "pciAddress"),
        (lambda spec: spec.update(gpus=[]), "at least 1"),
    ],
)
def test_definition_refuses_what_makes_no_machine(world: World, change: Any, words: str) -> None:
    """With a sentence that says why."""
    body = copy.deepcopy(a_topology(f"{world.namespace}-bad"))
    change(body["spec"])
    with pytest.raises(Exception, match=words):
        world.plane.request("POST", PATH, body)
