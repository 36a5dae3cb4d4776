"""Feeds of objects that are only read: every kind becomes inputs, and what is refused or forbidden harms nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from scheduler.engine.inputs import Input, ObjectChanged, ObjectRemoved, RunEnded
from scheduler.kube.discovery import Discovery
from scheduler.kube.feeds import feeds
from scheduler.kube.standby import MOST_RUNS, Standby
from scheduler.kube.views import PodViews
from scheduler.model import Namespace, Owner
from scheduler.model.device_claims import DeviceClaim
from scheduler.model.devices import DeviceClass, DeviceSlice, DeviceTaintRule
from scheduler.model.dialects import DIALECTS
from scheduler.model.hypernode import HyperNode
from scheduler.model.node_resource_topology import NodeResourceTopology
from scheduler.model.node_topology import NodeTopology
from scheduler.model.storage import (
    Claim,
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from scheduler.model.topology import Topology
from tests.kube.scripted import CLAIMS, PATIENCE_SECONDS, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.kube.client import Client
    from scheduler.kube.reflector import Timing

CORE, APPS, STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"
DRA = "/apis/resource.k8s.io/v1"
#: Path, kind, type of the view, and its key for an object named "x" in namespace "default" or in none; topologies have
#: their dialect there.
KINDS: list[tuple[str, str, type, tuple[str, str]]] = [
    (f"{CORE}/namespaces", "Namespace", Namespace, ("", "x")),
    (f"{CORE}/services", "Service", Owner, ("default", "Service/x")),
    (f"{CORE}/replicationcontrollers", "ReplicationController", Owner, ("default", "ReplicationController/x")),
    (f"{APPS}/replicasets", "ReplicaSet", Owner, ("default", "ReplicaSet/x")),
    (f"{APPS}/statefulsets", "StatefulSet", Owner, ("default", "StatefulSet/x")),
    (CLAIMS, "PersistentVolumeClaim", Claim, ("default", "x")),
    (f"{CORE}/persistentvolumes", "PersistentVolume", PersistentVolume, ("", "x")),
    (f"{STORAGE}/storageclasses", "StorageClass", StorageClass, ("", "x")),
    (f"{STORAGE}/csinodes", "CSINode", CSINode, ("", "x")),
    (f"{STORAGE}/csidrivers", "CSIDriver", CSIDriver, ("", "x")),
    (f"{STORAGE}/csistoragecapacities", "CSIStorageCapacity", StorageCapacity, ("default", "x")),
    (f"{STORAGE}/volumeattachments", "VolumeAttachment", VolumeAttachment, ("", "x")),
    (f"{DRA}/resourceclaims", "ResourceClaim", DeviceClaim, ("default", "x")),
    (f"{DRA}/resourceslices", "ResourceSlice", DeviceSlice, ("", "x")),
    (f"{DRA}/deviceclasses", "DeviceClass", DeviceClass, ("", "x")),
    (f"{DRA}/devicetaintrules", "DeviceTaintRule", DeviceTaintRule, ("", "x")),
    ("/apis/scheduling.ai-scheduler.io/v1alpha1/topologies", "Topology", Topology, ("ai-scheduler", "x")),
    ("/apis/scheduling.ai-scheduler.io/v1alpha1/nodetopologies", "NodeTopology", NodeTopology, ("", "x")),
    ("/apis/kueue.x-k8s.io/v1beta2/topologies", "Topology", Topology, ("kueue", "x")),
    ("/apis/kai.scheduler/v1alpha1/topologies", "Topology", Topology, ("kai", "x")),
    ("/apis/topology.volcano.sh/v1alpha1/hypernodes", "HyperNode", HyperNode, ("", "x")),
    (
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
        "NodeResourceTopology",
        NodeResourceTopology,
        ("", "x"),
    ),
]


class Reading:
    """Feeds that run, and what they said."""

    def __init__(self, client: Client, timing: Timing) -> None:
        """Make them."""
        self.inputs: list[Input] = []
        self.refused: list[str] = []
        self.discovery = Discovery(client)
        self.feeds = feeds(
            client,
            self.inputs.append,
            PodViews(self.inputs.append),
            self.discovery,
            DIALECTS,
            ["ai-scheduler"],
            timing=timing,
            on_refused=self.refused.append,
        )

    async def synced(self) -> None:
        """Wait until all have listed, or know that there is nothing."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            for reflector in self.feeds:
                await reflector.synced.wait()

    def objects(self) -> list[Any]:
        """Return what was said of objects that are only read."""
        return [item for item in self.inputs if isinstance(item, ObjectChanged | ObjectRemoved)]


@asynccontextmanager
async def reading(client: Client, timing: Timing) -> AsyncIterator[Reading]:
    """Let all feeds run."""
    made = Reading(client, timing)
    tasks = [asyncio.create_task(part.run()) for part in (made.discovery, *made.feeds)]
    try:
        await made.synced()
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("path", "kind", "view", "key"), KINDS)
async def test_an_object_is_told_of_and_its_going_too(
    server: ScriptedServer, client: Client, timing: Timing, path: str, kind: str, view: type, key: tuple[str, str]
) -> None:
    """With the view and the key under which the engine keeps it; the standby picture holds it in between."""
    server.kinds[path] = kind
    meta = {"name": "x"} | ({"namespace": key[0]} if key[0] and view is not Topology else {})
    server.put(path, {"metadata": meta, "spec": {}})
    picture = Standby()
    async with reading(client, timing) as read:
        (changed,) = read.objects()
        assert isinstance(changed, ObjectChanged)
        assert (type(changed.thing), changed.thing.key) == (view, key)
        picture.handle(changed)
        assert picture.inputs() == [changed]
        server.remove(path, "x")
        await server.until(lambda: len(read.objects()) > 1)
        removed = read.objects()[-1]
        assert removed == ObjectRemoved(view, key)
        picture.handle(removed)
        assert picture.inputs() == []


async def test_an_unusable_object_is_counted_and_the_others_are_used(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """A claim whose spec has another shape."""
    server.put(CLAIMS, {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"accessModes": "all"}})
    server.put(CLAIMS, {"metadata": {"name": "good", "namespace": "default"}, "spec": {}})
    async with reading(client, timing) as read:
        assert [item.thing.key for item in read.objects()] == [("default", "good")]
        assert read.refused == ["claims"]


async def test_what_may_not_be_read_holds_nothing_up(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Each kind is optional: a missing right, or a missing group, switches its part off."""
    for path, kind, _, _ in KINDS[::2]:
        server.kinds[path] = kind
        server.script("LIST", path, *[Answer(403, "Forbidden")] * 1000)
    async with reading(client, timing) as read:
        assert read.objects() == []
        assert all(r.resource.is_optional for r in read.feeds if r.resource.path in [path for path, *_ in KINDS])


def test_the_standby_picture_keeps_the_last_runs_that_ended() -> None:
    """So that whoever takes over knows how long pods ran; a bounded number of them."""
    picture = Standby()
    runs = [RunEnded(f"u{number}", ("ns", "Job", "a"), 1.0, 1.0) for number in range(MOST_RUNS + 1)]
    for run in runs:
        picture.handle(run)
    assert picture.inputs() == runs[1:]
