"""DeviceClaimWriter: writes what ResourceClaims are given, as kube-scheduler's `bindClaim` does, and undoes it.

For the binder.  Each write is made on the claim as it is read just before; a conflict reads it again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduler.engine.inputs import ObjectChanged
from scheduler.framework.effects import AllocateClaim, ClaimRef
from scheduler.model.device_claims import EXTENDED_RESOURCE_ANNOTATION, FINALIZER, ClaimReleased

from .client import CONFLICT, NOT_FOUND, STRATEGIC_PATCH, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.effects import DeleteClaim, MakeClaim, PodRef, ReleaseClaim

    from .client import Client
    from .inbox import Put

#: How often a write is tried again after a conflict.
ATTEMPTS = 6


class DeviceClaimWriter:
    """Writes about ResourceClaims."""

    def __init__(self, client: Client, put: Put, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Keep the client, where to report to, and the clock of allocation times."""
        self._client = client
        self._put = put
        self._now = now

    async def allocate(self, effect: AllocateClaim) -> str:
        """Write allocation and reservation; return why that failed for good, or nothing."""
        for _ in range(ATTEMPTS):
            try:
                return await self._allocate(effect)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return f"claim {effect.claim.label} is gone"
                if error.status != CONFLICT:
                    return f"claim {effect.claim.label} could not be written: {error.message}"
        return f"claim {effect.claim.label} was changed by others {ATTEMPTS} times while it was written"

    async def make(self, effect: MakeClaim) -> str:
        """Create, allocate and reserve a claim for extended resources, and name it at its pod; return why that failed, or nothing."""
        label, pod = effect.claim.label, effect.pod
        try:
            try:
                claim = await self._client.post(_collection(effect.claim), effect.manifest)
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                claim = await self._client.get(
                    _path(effect.claim)
                )  # an answer got lost, or the name is somebody else's
            if not _is_made_for(claim, pod):
                return f"claim {label} could not be made: there is another one of this name"
        except ApiError as error:
            return f"claim {label} could not be made: {error.message}"
        ref = ClaimRef(effect.claim.namespace, effect.claim.name, claim["metadata"]["uid"])
        if failure := await self.allocate(AllocateClaim(ref, effect.consumer, effect.allocation)):
            return failure
        told = {"resourceClaimName": ref.name, "requestMappings": list(effect.mappings)}
        body = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": told}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        try:
            await self._client.patch(path, body, STRATEGIC_PATCH)
        except ApiError as error:
            return f"claim {label} could not be named in the status of pod {pod.key}: {error.message}"
        return ""

    async def delete(self, effect: DeleteClaim) -> None:
        """Delete a claim for extended resources, and report that; RequestError if it cannot be done."""
        for attempt in range(ATTEMPTS):
            try:
                await self._delete(effect)
            except ApiError as error:
                if error.status == CONFLICT and attempt < ATTEMPTS - 1:
                    continue
                if error.status != NOT_FOUND:
                    raise
            ref = effect.claim
            released = ClaimReleased(
                namespace=ref.namespace, name=ref.name, uid=ref.uid, pod_uid=effect.pod.uid, resource_version=""
            )
            self._put(ObjectChanged(released))
            return

    async def release(self, effect: ReleaseClaim) -> None:
        """Take back reservation and allocation, and report the version after that; RequestError if it cannot be done."""
        for attempt in range(ATTEMPTS):
            try:
                version = await self._release(effect)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    version = ""
                elif error.status == CONFLICT and attempt < ATTEMPTS - 1:
                    continue
                else:
                    raise
            ref = effect.claim
            released = ClaimReleased(
                namespace=ref.namespace, name=ref.name, uid=ref.uid, pod_uid=effect.pod.uid, resource_version=version
            )
            self._put(ObjectChanged(released))
            return

    async def _allocate(self, effect: AllocateClaim) -> str:
        """Try once; ApiError for a conflict."""
        claim = await self._client.get(_path(effect.claim))
        meta, status = claim["metadata"], claim.get("status") or {}
        label = effect.claim.label
        if meta.get("uid") != effect.claim.uid or meta.get("deletionTimestamp"):
            return f"claim {label} got deleted in the meantime"
        given = status.get("allocation")
        reserved = status.get("reservedFor") or []
        if effect.allocation is None and given is None:
            return f"claim {label} got deallocated elsewhere in the meantime"
        if effect.allocation is not None and given is not None and not _is_same(given, effect.allocation):
            return f"claim {label} got allocated elsewhere in the meantime"
        if given is not None and any(each.get("uid") == effect.consumer["uid"] for each in reserved):
            return ""
        if given is None:
            if FINALIZER not in (meta.get("finalizers") or []):
                meta["finalizers"] = [*(meta.get("finalizers") or []), FINALIZER]
                claim = await self._client.put(_path(effect.claim), claim)
            given = dict(effect.allocation or {})
        given.setdefault("allocationTimestamp", self._now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        status = dict(claim.get("status") or {}, allocation=given, reservedFor=[*reserved, effect.consumer])
        await self._client.put(f"{_path(effect.claim)}/status", dict(claim, status=status))
        return ""

    async def _delete(self, effect: DeleteClaim) -> None:
        """Try once; ApiError for a conflict, or if it is not there."""
        claim = await self._client.get(_path(effect.claim))
        meta = claim["metadata"]
        if not _is_made_for(claim, effect.pod) or effect.claim.uid not in ("", meta["uid"]):
            return
        finalizers = meta.get("finalizers") or []
        if FINALIZER in finalizers:
            meta["finalizers"] = [each for each in finalizers if each != FINALIZER]
            await self._client.put(_path(effect.claim), claim)
        await self._client.delete(_path(effect.claim), {"preconditions": {"uid": meta["uid"]}})

    async def _release(self, effect: ReleaseClaim) -> str:
        """Try once; return the version of the claim afterwards, ApiError for a conflict."""
        claim = await self._client.get(_path(effect.claim))
        status = dict(claim.get("status") or {})
        given, reserved = status.get("allocation"), status.get("reservedFor") or []
        left = [each for each in reserved if each.get("uid") != effect.pod.uid]
        is_ours = given is not None and (effect.allocation is None or _is_same(given, effect.allocation))
        takes_back = is_ours and not left and not effect.keeps_allocation
        if claim["metadata"].get("uid") == effect.claim.uid and (takes_back or left != reserved):
            status["reservedFor"] = left
            if takes_back:
                for key in ("allocation", "reservedFor", "devices"):
                    status.pop(key, None)
            claim = await self._client.put(f"{_path(effect.claim)}/status", dict(claim, status=status))
        version: str = claim["metadata"].get("resourceVersion", "")
        return version


def _collection(ref: ClaimRef) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{ref.namespace}/resourceclaims"


def _path(ref: ClaimRef) -> str:
    return f"{_collection(ref)}/{ref.name}"


def _is_made_for(claim: dict[str, Any], pod: PodRef) -> bool:
    """Tell whether a claim was made for the extended resources of a pod."""
    meta = claim["metadata"]
    owners = meta.get("ownerReferences") or []
    is_extended = (meta.get("annotations") or {}).get(EXTENDED_RESOURCE_ANNOTATION) == "true"
    return is_extended and any(each.get("controller") and each.get("uid") == pod.uid for each in owners)


def _is_same(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Tell whether two allocations give the same devices to the same requests."""
    return _devices(given) == _devices(wanted)


def _devices(allocation: dict[str, Any]) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or []
    keys = ("request", "driver", "pool", "device", "shareID")
    return [tuple(str(each.get(key) or "") for key in keys) for each in results]
