"""Volumes before a binding: what is written about them, with which precondition, and what a conflict means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from scheduler.engine.inputs import AwaitedDone, Input
from scheduler.framework.effects import BindVolume, PodRef, PrepareBinding, SelectNode
from scheduler.kube.binder import Binder
from scheduler.kube.device_claims import DeviceClaimWriter
from scheduler.kube.queue_writer import QueueWriter
from scheduler.kube.topology_writer import TopologyWriter
from scheduler.kube.traffic import Traffic
from scheduler.kube.volumes import VolumeWriter
from scheduler.kube.writer import GangWriter, PodWriter
from tests.kube.scripted import CLAIMS, PATIENCE_SECONDS, VOLUMES, Answer, ScriptedServer

if TYPE_CHECKING:
    from scheduler.framework.effects import Effect, EmitEvent
    from scheduler.kube.client import Client
    from tests.kube.conftest import Naps

REF = PodRef("default", "p", "uid-p")
VOLUME, CLAIM = f"{VOLUMES}/v", "/api/v1/namespaces/default/persistentvolumeclaims/c"
TARGET = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "uid-c"}


class World:
    """A binder that prepares bindings."""

    def __init__(self, server: ScriptedServer, client: Client, naps: Naps) -> None:
        """Wire it, with a volume and a claim in the server."""
        self.server = server
        self.said: list[Input] = []
        self.has_lease = True
        self.binder = Binder(
            PodWriter(client, naps, lambda: self.has_lease, lambda _: None),
            GangWriter(client),
            VolumeWriter(client),
            TopologyWriter(client, now=lambda: "2025-01-01T00:00:00Z"),
            QueueWriter(client, now=lambda: "2025-01-01T00:00:00Z"),
            DeviceClaimWriter(client, self.said.append),
            self,
            self.said.append,
            may_write=lambda: self.has_lease,
            traffic=Traffic(),
        )

    def record(self, event: EmitEvent) -> None:
        """Take no interest in events."""

    def volume(self, **spec: Any) -> str:
        """Put the volume into the server; return its version."""
        return self._put(VOLUMES, {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}} | spec})

    def claim(self, **annotations: str) -> str:
        """Put the claim into the server; return its version."""
        meta = {"name": "c", "namespace": "default", "annotations": annotations}
        return self._put(CLAIMS, {"metadata": meta, "spec": {}})

    def _put(self, path: str, obj: dict[str, Any]) -> str:
        return str(self.server.put(path, obj)["metadata"]["resourceVersion"])

    async def prepare(self, *effects: Effect) -> str:
        """Carry effects out; return the failure that was reported."""
        self.binder.carry_out([PrepareBinding(REF, "volumes", effects)])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.binder):  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.001)
        (said,) = self.said
        assert isinstance(said, AwaitedDone)
        assert (said.uid, said.key) == ("uid-p", "volumes")
        return said.failure


@pytest.fixture
def world(server: ScriptedServer, client: Client, naps: Naps) -> World:
    """A binder on the scripted server."""
    return World(server, client, naps)


def bind_volume(version: str) -> BindVolume:
    """Return the effect."""
    return BindVolume("v", version, "default", "c", "uid-c")


def stored(server: ScriptedServer, path: str, name: str) -> dict[str, Any]:
    """Return an object as it is."""
    found = server.get(path, name)
    assert found is not None
    return found


async def test_a_volume_is_meant_for_a_claim_as_kube_scheduler_says_it(server: ScriptedServer, world: World) -> None:
    """With the reference, the mark of a controller, and the version as precondition."""
    version = world.volume()
    assert await world.prepare(bind_volume(version)) == ""
    volume = stored(server, VOLUMES, "v")
    assert volume["spec"] == {"capacity": {"storage": "1Gi"}, "claimRef": TARGET}
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    (request,) = server.seen("PATCH", VOLUME)
    assert request.body["metadata"]["resourceVersion"] == version
    assert request.headers["Content-Type"] == "application/merge-patch+json"


async def test_a_volume_that_a_user_meant_for_the_claim_is_not_marked(server: ScriptedServer, world: World) -> None:
    """Or its controller would take the reference away with the claim."""
    version = world.volume(claimRef={"namespace": "default", "name": "c"})
    assert await world.prepare(bind_volume(version)) == ""
    volume = stored(server, VOLUMES, "v")
    assert volume["spec"]["claimRef"] == TARGET
    assert "annotations" not in volume["metadata"]


async def test_a_volume_that_is_meant_for_the_claim_already_is_left_alone(server: ScriptedServer, world: World) -> None:
    """An earlier try had come that far."""
    world.volume(claimRef=TARGET)
    assert await world.prepare(bind_volume("1")) == ""
    assert server.seen("PATCH", VOLUME) == []


async def test_a_node_is_chosen_for_a_claim(server: ScriptedServer, world: World) -> None:
    """Beside the annotations that are there."""
    version = world.claim(other="x")
    assert await world.prepare(SelectNode("default", "c", version, "n")) == ""
    claim = stored(server, CLAIMS, "c")
    assert claim["metadata"]["annotations"] == {"other": "x", "volume.kubernetes.io/selected-node": "n"}
    assert server.seen("PATCH", CLAIM)[0].body["metadata"]["resourceVersion"] == version


async def test_what_has_changed_meanwhile_is_a_failure_and_ends_the_preparation(
    server: ScriptedServer, world: World
) -> None:
    """Nothing after it is written; the pod is tried again."""
    version = world.claim()
    world.volume(claimRef={"namespace": "default", "name": "other", "uid": "uid-other"})
    failure = await world.prepare(bind_volume("1"), SelectNode("default", "c", version, "n"))
    assert failure.startswith("PersistentVolume v has changed meanwhile; the pod is tried again: ")
    assert server.seen("PATCH", CLAIM) == []


async def test_a_claim_for_which_another_node_was_chosen_is_a_failure(world: World) -> None:
    """The version tells."""
    world.claim(**{"volume.kubernetes.io/selected-node": "elsewhere"})
    failure = await world.prepare(SelectNode("default", "c", "1", "n"))
    assert failure.startswith("PersistentVolumeClaim default/c has changed meanwhile")


async def test_an_answer_that_was_lost_is_no_conflict(server: ScriptedServer, world: World) -> None:
    """The repetition meets what the first request has written."""
    volume, claim = world.volume(), world.claim()
    server.script("PATCH", VOLUME, Answer(503, after_doing_it=True))
    server.script("PATCH", CLAIM, Answer(cut=True, after_doing_it=True))
    assert await world.prepare(bind_volume(volume), SelectNode("default", "c", claim, "n")) == ""
    assert [len(server.seen("PATCH", path)) for path in (VOLUME, CLAIM)] == [2, 2]


async def test_temporary_refusals_are_repeated(server: ScriptedServer, world: World, naps: Naps) -> None:
    """With the wait that the server asks for."""
    version = world.claim()
    server.script("PATCH", CLAIM, Answer(429, headers={"Retry-After": "3"}), Answer(500), Answer(cut=True))
    assert await world.prepare(SelectNode("default", "c", version, "n")) == ""
    assert 3.0 in naps.seconds


async def test_a_refusal_for_good_is_reported_with_its_words(server: ScriptedServer, world: World) -> None:
    """Such as a missing right, or a volume that is gone."""
    version = world.claim()
    server.script("PATCH", CLAIM, Answer(403, "Forbidden", "by policy"))
    assert (
        await world.prepare(SelectNode("default", "c", version, "n")) == "SelectNode failed: 403 Forbidden: by policy"
    )


async def test_a_volume_that_is_gone_is_a_failure(world: World) -> None:
    """404 is final."""
    assert (await world.prepare(bind_volume("1"))).startswith("BindVolume failed: 404")


async def test_a_lost_lease_ends_a_preparation(server: ScriptedServer, client: Client, world: World) -> None:
    """Between two writes, too."""
    version = world.claim()
    world.volume(claimRef=TARGET)
    get = client.get

    async def get_and_lose(path: str) -> Any:
        world.has_lease = False
        return await get(path)

    client.get = get_and_lose  # type: ignore[method-assign, assignment]
    failure = await world.prepare(bind_volume("1"), SelectNode("default", "c", version, "n"))
    assert failure == "this replica is not the leader any more"
    assert server.seen("PATCH", CLAIM) == []
