"""A world with devices: slices, classes and claims as manifests, written by the real writer against an API server in memory.

For engine tests and scenarios of dynamic resource allocation.  After every step no device is given twice.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.engine import inputs as i
from scheduler.framework.effects import AllocateClaim, DeleteClaim, MakeClaim, PrepareBinding, ReleaseClaim
from scheduler.kube.client import CONFLICT, NOT_FOUND, ApiError
from scheduler.kube.device_claims import DeviceClaimWriter
from scheduler.model.device_api import ApiDeviceClaim, ApiDeviceClass, ApiResourceSlice
from scheduler.model.device_claims import EXTENDED_RESOURCE_ANNOTATION, DeviceClaim, device_claim_from_api
from scheduler.model.devices import DeviceSlice, device_class_from_api, device_slice_from_api
from scheduler.model.quantity import parse_quantity
from tests.builders import PodBuilder, a_pod
from tests.devices import cases

from .world import World

if TYPE_CHECKING:
    from scheduler.framework.effects import Effect

CLASSES = [{"metadata": {"name": "gpu"}, "spec": {}}]


class Server:
    """The part of an API server that holds ResourceClaims; also the client of the writer."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.version = 0
        #: How many of the next writes are refused as conflicts.
        self.conflicts = 0
        #: Claims as they were written, and the keys of those that were deleted.
        self.events: list[dict[str, Any] | str] = []
        #: What was written into the status of pods, by name.
        self.pod_statuses: dict[str, dict[str, Any]] = {}

    def store(self, claim: dict[str, Any]) -> None:
        """Keep a claim in a new version, and tell."""
        self.version += 1
        claim = copy.deepcopy(claim)
        claim["metadata"]["resourceVersion"] = str(self.version)
        meta = claim["metadata"]
        self.claims[f"{meta['namespace']}/{meta['name']}"] = claim
        self.events.append(claim)

    async def get(self, path: str) -> Any:
        return copy.deepcopy(self._find(path))

    async def put(self, path: str, body: dict[str, Any]) -> Any:
        known = self._find(path)
        if self.conflicts:
            self.conflicts -= 1
            self.store({**known, "metadata": {**known["metadata"], "labels": {"touched": str(self.version)}}})
        known = self._find(path)
        if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise ApiError(CONFLICT, "Conflict", "the object has been modified")
        is_status = path.endswith("/status")
        self.store(
            {**known, "status": body.get("status", {})} if is_status else {**body, "status": known.get("status", {})}
        )
        return copy.deepcopy(self._find(path))

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        meta = body["metadata"]
        if f"{meta['namespace']}/{meta['name']}" in self.claims:
            raise ApiError(CONFLICT, "AlreadyExists", "there is one")
        assert path.endswith("/resourceclaims")
        self.store({**body, "metadata": {**meta, "uid": f"uid-{meta['name']}-{self.version}"}})
        return copy.deepcopy(self._find(f"{path}/{meta['name']}"))

    async def delete(self, path: str, body: dict[str, Any]) -> None:
        meta = self._find(path)["metadata"]
        if body["preconditions"]["uid"] != meta["uid"]:
            raise ApiError(CONFLICT, "Conflict", "another one")
        assert not meta.get("finalizers")
        self.drop(f"{meta['namespace']}/{meta['name']}")

    async def patch(self, path: str, body: dict[str, Any], _content_type: str) -> Any:
        self.pod_statuses[path.split("/")[6]] = body["status"]

    def drop(self, key: str) -> None:
        """Forget a claim, and tell."""
        del self.claims[key]
        self.events.append(key)

    def _find(self, path: str) -> dict[str, Any]:
        parts = path.removesuffix("/status").split("/")
        found = self.claims.get(f"{parts[5]}/{parts[7]}")
        if found is None:
            raise ApiError(NOT_FOUND, "NotFound", "not found")
        return found


class DeviceWorld(World):
    """An engine, an obedient cluster, and devices."""

    def __init__(self, *things: Any, slices: Any = (), classes: Any = None, **options: Any) -> None:
        self.server = Server()
        self.writer = DeviceClaimWriter(self.server, self._said)  # type: ignore[arg-type]
        #: The watch of claims is not seen while this is set.
        self.is_blind = False
        #: Names of claims whose next writes fail for good.
        self.broken: set[str] = set()
        #: Undoing is put off while this is set.
        self.holds_releases = False
        self._put_off: list[ReleaseClaim | DeleteClaim] = []
        self._heard: list[i.Input] = []
        super().__init__(**options)
        for each in CLASSES if classes is None else classes:
            self.tell(device_class_from_api(msgspec.convert(each, ApiDeviceClass)))
        self.publish(*slices)
        self.add(*things)

    def tell(self, thing: Any) -> None:
        """Report an object that is only read."""
        self.engine.handle(i.ObjectChanged(thing))

    def tell_class(self, name: str, resource: str) -> None:
        """Make or change a class of all devices that stands for an extended resource."""
        manifest = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}
        self.tell(device_class_from_api(msgspec.convert(manifest, ApiDeviceClass)))

    def publish(self, *slices: dict[str, Any]) -> DeviceWorld:
        """Publish slices."""
        for each in slices:
            self.tell(device_slice_from_api(msgspec.convert(each, ApiResourceSlice)))
        return self

    def withdraw(self, name: str) -> DeviceWorld:
        """Take a slice away."""
        self.engine.handle(i.ObjectRemoved(DeviceSlice, ("", name)))
        return self

    def claim(self, manifest: dict[str, Any]) -> DeviceWorld:
        """Create or change a claim."""
        self.server.store(manifest)
        self.watch()
        return self

    def delete_claim(self, name: str) -> DeviceWorld:
        """Delete a claim, as the garbage collector does."""
        del self.server.claims[f"default/{name}"]
        self.engine.handle(i.ObjectRemoved(DeviceClaim, ("default", name)))
        return self

    def watch(self) -> None:
        """Let the engine see what has happened to claims."""
        if self.is_blind:
            return
        events, self.server.events = self.server.events, []
        for event in events:
            if isinstance(event, str):
                self.engine.handle(i.ObjectRemoved(DeviceClaim, tuple(event.split("/"))))  # type: ignore[arg-type]
                continue
            self.tell(device_claim_from_api(msgspec.convert(event, ApiDeviceClaim)))

    def devices(self, name: str) -> list[str]:
        """Return the devices of a claim, as pool/device."""
        allocation = self.server.claims[f"default/{name}"].get("status", {}).get("allocation")
        return [f"{r['pool']}/{r['device']}" for r in allocation["devices"]["results"]] if allocation else []

    def reserved(self, name: str) -> list[str]:
        """Return the names of those whom a claim is reserved for."""
        status = self.server.claims[f"default/{name}"].get("status", {})
        return [each["name"] for each in status.get("reservedFor", [])]

    def let_release(self) -> None:
        """Carry out what was put off."""
        self.holds_releases = False
        put_off, self._put_off = self._put_off, []
        for effect in put_off:
            undo = self.writer.release(effect) if isinstance(effect, ReleaseClaim) else self.writer.delete(effect)
            asyncio.run(undo)
            self.watch()
        heard, self._heard = self._heard, []
        for said in heard:
            self.engine.handle(said)

    def _said(self, said: i.Input) -> None:
        self._heard.append(said)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PrepareBinding():
                failure = ""
                for wanted in effect.effects:
                    failure = failure or self._write(wanted)
                self.watch()
                self.engine.handle(i.AwaitedDone(effect.pod.uid, effect.key, failure))
            case ReleaseClaim() | DeleteClaim():
                self._put_off.append(effect)
                if not self.holds_releases:
                    self.let_release()
            case _:
                super()._carry_out(effect)
        self.check_devices()

    def _write(self, wanted: Effect) -> str:
        """Write one effect that a pod needs before its binding; return why that failed, or nothing."""
        assert isinstance(wanted, AllocateClaim | MakeClaim)
        if isinstance(wanted, AllocateClaim):
            return "refused" if wanted.claim.name in self.broken else asyncio.run(self.writer.allocate(wanted))
        pod = wanted.pod.name
        failure = asyncio.run(self.writer.make(wanted))
        told = self.server.pod_statuses.get(pod, {}).get("extendedResourceClaimStatus")
        if told is not None and wanted.pod.uid in self.pods:
            self.change(pod, extended_claim=told["resourceClaimName"])
        return failure or ("refused" if pod in self.broken else "")

    def extended(self, pod: str) -> dict[str, Any] | None:
        """Return the claim that was made for the extended resources of a pod; None if there is none."""
        mine = [each for each in self.server.claims.values() if _is_made_for(each, pod)]
        assert len(mine) < 2
        return mine[0] if mine else None

    def collect_garbage(self) -> DeviceWorld:
        """Delete the claims that were made for pods that are gone."""
        for key, each in list(self.server.claims.items()):
            owners = each["metadata"].get("ownerReferences") or []
            if owners and owners[0]["uid"] not in self.pods:
                self.server.drop(key)
        self.watch()
        return self

    def check_devices(self) -> None:
        """Hold that nobody has what somebody else has."""
        owners: Counter[tuple[str, str, str]] = Counter()
        shares: dict[tuple[str, str, str], Fraction] = {}
        for claim in self.server.claims.values():
            allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
            for each in allocation["devices"]["results"]:
                device = (each["driver"], each["pool"], each["device"])
                if each.get("adminAccess"):
                    continue
                if "shareID" in each:
                    taken = parse_quantity(each.get("consumedCapacity", {}).get("memory", "0"))
                    shares[device] = shares.get(device, Fraction(0)) + taken
                else:
                    owners[device] += 1
        assert not [device for device, count in owners.items() if count > 1], owners
        assert not set(owners) & set(shares)
        for (_, pool, name), taken in shares.items():
            size = next(
                (d.capacity["memory"].value for s in self.engine.state.objects.all(DeviceSlice).values() if s.pool == pool
                 for d in s.devices if d.name == name), None,
            )  # fmt: skip
            assert size is None or taken <= parse_quantity(size)


def _is_made_for(claim: dict[str, Any], pod: str) -> bool:
    meta = claim["metadata"]
    is_extended = (meta.get("annotations") or {}).get(EXTENDED_RESOURCE_ANNOTATION) == "true"
    return is_extended and meta["ownerReferences"][0]["name"] == pod


def claim_of(pod: str, *requests: dict[str, Any], name: str = "", owner: str = "", **more: Any) -> dict[str, Any]:
    """A claim that was made from a template for a pod."""
    manifest = cases.claim(name or f"{pod}-gpu", *requests, **more)
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": owner or f"uid-{pod}", "controller": True}]
    manifest["metadata"] |= {"namespace": "default", "ownerReferences": owners}
    return manifest


def shared_claim(name: str, *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A claim that a person made."""
    manifest = cases.claim(name, *requests, **more)
    manifest["metadata"] |= {"namespace": "default"}
    return manifest


def claiming(pod: PodBuilder | str, *names: str) -> PodBuilder:
    """A pod with a claim from a template, or with claims that it names."""
    builder = a_pod(pod) if isinstance(pod, str) else pod
    own = builder.manifest()["metadata"]["name"]
    if names:
        return builder.patch_spec(resourceClaims=[{"name": n, "resourceClaimName": n} for n in names])
    builder.patch_status(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": f"{own}-gpu"}])
    return builder.patch_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])


def node_slice(node: str, *devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The slice of a node's own pool."""
    manifest = cases.slice_of(*devices, name=f"slice-{node}", pool=node, **spec)
    manifest["spec"]["nodeName"] = node
    return manifest
