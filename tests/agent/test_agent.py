"""The agent's loop against a scripted API server: what is written when, and what happens when something fails."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from scheduler.agent.agent import Agent, Looking
from scheduler.kube.client import ApiError, Client
from scheduler.model.node_topology_crd import NodeTopology
from tests.agent.kubelet import GPU, Kubelet, devices
from tests.agent.machines import a_program, two_gpus
from tests.kube.conftest import Naps, login_to
from tests.kube.scripted import Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATH = "/apis/scheduling.ai-scheduler.io/v1alpha1/nodetopologies"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """An API server that serves NodeTopology."""
    async with ScriptedServer(extra={PATH: "NodeTopology"}) as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    """A client that never waits."""
    made = Client(login_to(server), timeout_seconds=2.0, sleep=Naps())
    yield made
    await made.close()


class Node:
    """A node of two GPUs with its kubelet, and an agent on it."""

    def __init__(self, folder: Path, server: ScriptedServer, client: Client) -> None:
        self.server = server
        self.root = two_gpus(folder)
        self.kubelet = Kubelet(folder / "k.sock")
        self.kubelet.allocatable = [devices(GPU, "0", "1")]
        self.looking = Looking(self.root, self.kubelet.socket, sources=("nvidia-smi", "sysfs"))
        a_program(folder, "rtx5090_2gpu_phb.txt", [("0000:3d:00.0", "RTX 5090"), ("0000:3e:00.0", "RTX 5090")])
        self.agent = Agent(client, "n1", self.looking, lambda: NOW)

    def object(self) -> dict[str, Any]:
        """Return the object, which keeps the rules of its definition."""
        found = self.server.get(PATH, "n1")
        assert found is not None
        NodeTopology.model_validate(found)
        return found

    def writes(self) -> list[str]:
        """Return what was written, by method and path."""
        return [f"{r.method} {r.path.removeprefix(PATH)}" for r in self.server.requests if r.method != "GET"]


@pytest.fixture
def node(tmp_path: Path, server: ScriptedServer, client: Client) -> Node:
    """A node."""
    return Node(tmp_path, server, client)


async def test_object_is_made_and_written_again_only_when_something_changed(node: Node) -> None:
    """First the spec, then the status; a pod that takes a GPU changes the status alone."""
    with node.kubelet:
        assert await node.agent.once()
        assert node.object()["spec"]["source"] == "nvidia-smi"
        assert node.object()["status"] == {
            "observedTime": "2026-01-02T03:04:05Z",
            "free": {"gpus": [0, 1]},
            "allocations": [],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Read", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
            ],
        }  # fmt: skip
        assert not await node.agent.once()
        assert node.writes() == ["POST ", "PATCH /n1/status"]
        node.kubelet.pods = [("team", "train", [[devices(GPU, "1")]])]
        assert await node.agent.once()
    assert node.writes() == ["POST ", "PATCH /n1/status", "PATCH /n1/status"]
    assert node.object()["status"]["free"] == {"gpus": [0]}
    assert node.object()["status"]["allocations"] == [{"pod": "team/train", "gpus": [1]}]


async def test_without_a_kubelet_nothing_is_told_of_free_gpus(node: Node) -> None:
    """The machine is told all the same; where a socket is there and nobody answers, that is said as well."""
    node.kubelet.socket.unlink(missing_ok=True)
    await node.agent.once()
    status = node.object()["status"]
    assert "free" not in status
    assert status["conditions"][0]["status"] == "True"
    node.kubelet.socket.touch()
    await node.agent.once()
    condition = node.object()["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "CannotRead")
    assert "UNAVAILABLE" in condition["message"]


async def test_report_that_cannot_be_made_any_more_is_taken_back(node: Node) -> None:
    """The scheduler must not go by an old one."""
    with node.kubelet:
        await node.agent.once()
        node.kubelet.pods = [("team", "slice", [[devices(GPU, "MIG-3")]])]
        await node.agent.once()
    status = node.object()["status"]
    assert not {"free", "allocations", "observedTime"} & status.keys()
    assert "'MIG-3' is none of the 2 GPUs" in status["conditions"][0]["message"]


async def test_new_agent_takes_an_old_object_over(node: Node, client: Client) -> None:
    """What its spec has and the machine has not goes."""
    old = {"metadata": {"name": "n1"}, "spec": {"gpus": [{"index": 0}], "pcieGigabytesPerSecond": 5}}
    node.server.put(PATH, old)
    agent = Agent(client, "n1", Looking(node.root, node.kubelet.socket, sources=("sysfs",)), lambda: NOW)
    with node.kubelet:
        await agent.once()
    spec = node.object()["spec"]
    assert "pcieGigabytesPerSecond" not in spec
    assert [gpu["pciAddress"] for gpu in spec["gpus"]] == ["0000:3d:00.0", "0000:3e:00.0"]
    assert node.writes() == ["PATCH /n1", "PATCH /n1/status"]


async def test_object_that_was_deleted_is_made_anew(node: Node) -> None:
    """The next change finds that out."""
    with node.kubelet:
        await node.agent.once()
        node.server.remove(PATH, "n1")
        node.kubelet.pods = [("team", "train", [[devices(GPU, "0")]])]
        with pytest.raises(ApiError):
            await node.agent.once()
        await node.agent.once()
    assert node.object()["status"]["free"] == {"gpus": [1]}


async def test_machine_that_cannot_be_read_any_more_is_said_in_the_object(node: Node, client: Client) -> None:
    """The spec stays; where there is no object, none is made."""
    broken = Looking(node.root / "nowhere", node.kubelet.socket, sources=("sysfs",))
    agent = Agent(client, "n1", broken, lambda: NOW)
    assert not await agent.once()
    assert node.writes() == []
    with node.kubelet:
        await node.agent.once()
    assert await agent.once()
    condition = node.object()["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "CannotRead")
    assert "cannot be read" in condition["message"]
    assert len(node.object()["spec"]["gpus"]) == 2


async def test_outage_is_outlasted_with_growing_pauses(node: Node) -> None:
    """Pauses double with every failure, up to two minutes and half of each by chance; then the usual period counts again."""
    node.server.script("POST", PATH, *[Answer(503)] * 5)
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 7:
            raise asyncio.CancelledError

    with node.kubelet, pytest.raises(asyncio.CancelledError):
        await node.agent.run(10.0, sleep)
    assert [longest / 2 <= pause <= longest for pause, longest in zip(pauses, (10, 20, 40, 80, 120), strict=False)] == [
        True
    ] * 5
    assert pauses[5:] == [10.0, 10.0]
    assert len(node.object()["spec"]["gpus"]) == 2
