"""DeviceClaimWriter: what is written into ResourceClaims, when it is left alone, and how it is undone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.engine.inputs import Input, ObjectChanged
from scheduler.framework.effects import AllocateClaim, ClaimRef, DeleteClaim, MakeClaim, PodRef, ReleaseClaim
from scheduler.kube.client import ApiError
from scheduler.kube.device_claims import ATTEMPTS, DeviceClaimWriter
from scheduler.model.device_claims import FINALIZER, ClaimReleased
from tests.engine.device_world import Server

REF = ClaimRef("default", "c", "uid-c")
POD = PodRef("default", "p", "uid-p")
CONSUMER = {"resource": "pods", "name": "p", "uid": "uid-p"}
OTHER = {"resource": "pods", "name": "q", "uid": "uid-q"}


def allocation(device: str = "gpu-0") -> dict[str, Any]:
    """What a claim is given."""
    return {"devices": {"results": [{"request": "r", "driver": "d", "pool": "a", "device": device}]}}


class World:
    """A writer and the claim that it writes."""

    def __init__(self, **status: Any) -> None:
        self.server = Server()
        self.said: list[Input] = []
        self.writer = DeviceClaimWriter(self.server, self.said.append, lambda: datetime(2025, 1, 1, tzinfo=UTC))  # type: ignore[arg-type]
        meta = {"namespace": "default", "name": "c", "uid": "uid-c", "finalizers": ["theirs"]}
        self.server.store({"metadata": meta, "spec": {"devices": {}}, "status": status})

    @property
    def claim(self) -> dict[str, Any]:
        return self.server.claims["default/c"]

    async def allocate(self, given: dict[str, Any] | None = None, consumer: Any = CONSUMER) -> str:
        return await self.writer.allocate(AllocateClaim(REF, consumer, given))

    async def release(self, given: dict[str, Any] | None = None, *, keeps: bool = False) -> ClaimReleased:
        await self.writer.release(ReleaseClaim(POD, REF, given, keeps_allocation=keeps))
        said = self.said[-1]
        assert isinstance(said, ObjectChanged)
        assert isinstance(said.thing, ClaimReleased)
        return said.thing


async def test_allocation_and_reservation_are_written_and_the_claim_is_protected() -> None:
    """The finalizer first, in a write of its own; what others wrote stays."""
    world = World(conditions=["theirs"])
    assert await world.allocate(allocation()) == ""
    assert world.claim["metadata"]["finalizers"] == ["theirs", FINALIZER]
    assert world.claim["status"] == {
        "conditions": ["theirs"],
        "allocation": {**allocation(), "allocationTimestamp": "2025-01-01T00:00:00Z"},
        "reservedFor": [CONSUMER],
    }
    version = world.claim["metadata"]["resourceVersion"]
    assert await world.allocate(allocation()) == ""
    assert world.claim["metadata"]["resourceVersion"] == version


async def test_a_further_pod_is_only_added() -> None:
    """Whether it knows the allocation or made the same one."""
    world = World(allocation=allocation(), reservedFor=[OTHER])
    assert await world.allocate() == ""
    assert world.claim["status"]["reservedFor"] == [OTHER, CONSUMER]
    world = World(allocation=allocation(), reservedFor=[OTHER])
    assert await world.allocate(allocation()) == ""
    assert world.claim["status"]["reservedFor"] == [OTHER, CONSUMER]


@pytest.mark.parametrize(
    ("status", "given", "failure"),
    [
        ({"allocation": allocation("gpu-1")}, allocation(), "claim default/c got allocated elsewhere in the meantime"),
        ({}, None, "claim default/c got deallocated elsewhere in the meantime"),
    ],
)
async def test_what_somebody_else_did_is_a_failure(status: Any, given: Any, failure: str) -> None:
    """And nothing is written."""
    world = World(**status)
    assert await world.allocate(given) == failure
    assert world.claim["status"] == status


async def test_a_claim_that_is_gone_or_another_one_is_a_failure() -> None:
    """By name, by uid, or on its way out."""
    world = World()
    world.claim["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    assert await world.allocate(allocation()) == "claim default/c got deleted in the meantime"
    world = World()
    world.claim["metadata"]["uid"] = "another"
    assert await world.allocate(allocation()) == "claim default/c got deleted in the meantime"
    world.server.claims.clear()
    assert await world.allocate(allocation()) == "claim default/c is gone"


async def test_conflicts_are_tried_again_a_few_times() -> None:
    """Each time on the claim as it is then."""
    world = World()
    world.server.conflicts = ATTEMPTS - 1
    assert await world.allocate(allocation()) == ""
    world = World()
    world.server.conflicts = 1000
    assert "was changed by others" in await world.allocate(allocation())


async def test_undoing_takes_back_what_was_written() -> None:
    """The version after that is told, so that it can be waited for."""
    world = World()
    await world.allocate(allocation())
    released = await world.release(allocation())
    assert "allocation" not in world.claim["status"]
    assert "reservedFor" not in world.claim["status"]
    assert (released.uid, released.pod_uid) == ("uid-c", "uid-p")
    assert released.resource_version == world.claim["metadata"]["resourceVersion"]


async def test_undoing_leaves_alone_what_is_not_ours() -> None:
    """Another's reservation, another allocation, and one that was there before."""
    world = World(allocation=allocation(), reservedFor=[OTHER, CONSUMER])
    await world.release(allocation())
    assert world.claim["status"] == {"allocation": allocation(), "reservedFor": [OTHER]}
    world = World(allocation=allocation("gpu-1"))
    await world.release(allocation())
    assert world.claim["status"] == {"allocation": allocation("gpu-1")}
    world = World(allocation=allocation(), reservedFor=[CONSUMER])
    await world.release(keeps=True)
    assert world.claim["status"] == {"allocation": allocation(), "reservedFor": []}


async def test_undoing_finds_nothing_to_undo() -> None:
    """A claim that is gone, or that was never written."""
    world = World()
    assert (await world.release(allocation())).resource_version == "1"
    world.server.claims.clear()
    assert (await world.release(allocation())).resource_version == ""


async def test_undoing_that_meets_conflicts_all_the_time_is_an_error() -> None:
    """The binder logs it; the devices count as taken until the claim is looked at again."""
    world = World(allocation=allocation(), reservedFor=[CONSUMER])
    world.server.conflicts = 1000
    with pytest.raises(ApiError):
        await world.release(allocation())
    world.server.conflicts = 1
    await world.release(allocation())
    assert "allocation" not in world.claim["status"]


MAPPING = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
MADE: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "made",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [OWNER],
    },
    "spec": {"devices": {}},
}
MADE_REF = ClaimRef("default", "made", "")
MAKE = MakeClaim(POD, MADE_REF, MADE, CONSUMER, allocation(), (MAPPING,))


async def test_a_claim_for_extended_resources_is_made_allocated_and_named_at_its_pod() -> None:
    """Protected as any other one; the pod says which request serves what."""
    world = World()
    assert await world.writer.make(MAKE) == ""
    claim = world.server.claims["default/made"]
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [CONSUMER]
    assert claim["status"]["allocation"]["devices"] == allocation()["devices"]
    told = {"resourceClaimName": "made", "requestMappings": [MAPPING]}
    assert world.server.pod_statuses == {"p": {"extendedResourceClaimStatus": told}}


async def test_a_claim_whose_making_was_not_answered_is_taken_over() -> None:
    """It is there under the name, and was made for the pod; the same call again changes nothing."""
    world = World()
    await world.server.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", MADE)
    assert await world.writer.make(MAKE) == ""
    assert await world.writer.make(MAKE) == ""
    assert world.server.claims["default/made"]["status"]["reservedFor"] == [CONSUMER]


async def test_a_claim_of_somebody_else_is_not_taken_over() -> None:
    """Nor is it deleted when that is undone."""
    world = World()
    other = {**MADE, "metadata": {**MADE["metadata"], "ownerReferences": [{**OWNER, "uid": "another"}]}}
    await world.server.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", other)
    assert await world.writer.make(MAKE) == "claim default/made could not be made: there is another one of this name"
    await world.writer.delete(DeleteClaim(POD, MADE_REF))
    assert "default/made" in world.server.claims


async def test_a_claim_for_extended_resources_is_deleted_whole() -> None:
    """Its protection first; that it is gone is told, also if it was never there."""
    world = World()
    await world.writer.make(MAKE)
    world.server.conflicts = 2
    for _ in range(2):
        await world.writer.delete(DeleteClaim(POD, MADE_REF))
        said = world.said[-1]
        assert isinstance(said, ObjectChanged)
        assert said.thing == ClaimReleased(
            namespace="default", name="made", uid="", pod_uid="uid-p", resource_version=""
        )
        assert "default/made" not in world.server.claims
