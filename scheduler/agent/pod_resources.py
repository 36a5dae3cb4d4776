"""Which devices are free and who has which, asked of the kubelet on its socket for monitoring agents.

For the agent's loop.  The API is `v1.PodResourcesLister` (k8s.io/kubelet/pkg/apis/podresources/v1); it is spoken through grpcio,
which need not be installed, and the few fields that are read are decoded here.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import SourceError
from .protobuf import ProtobufError, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
_SECONDS = 10.0
_MOST_BYTES = 16 * 2**20
#: What the device plugin appends to the UUID where a GPU is shared.
_REPLICA = re.compile(r"::\d+$")


class Devices(NamedTuple):
    """Devices of one resource, by the names that the device plugin gives them."""

    #: Those that work.
    allocatable: frozenset[str]
    #: Namespace and name of a pod to its devices.
    held: dict[str, frozenset[str]]


def read_devices(socket: str, resource: str) -> Devices:
    """Return what the kubelet says of a resource; SourceError if it cannot be asked."""
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError as error:
        raise SourceError("pod-resources: the package grpcio is not installed") from error
    options = [("grpc.max_receive_message_length", _MOST_BYTES), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"unix://{socket}", options=options) as channel:
        try:
            pods = channel.unary_unary(LIST)(b"", timeout=_SECONDS)
            every = channel.unary_unary(ALLOCATABLE)(b"", timeout=_SECONDS)
        except grpc.RpcError as error:
            raise SourceError(f"pod-resources: {socket}: {error.code().name}: {error.details()}") from error
    try:
        return Devices(frozenset(_devices(every, 1, resource)), _held(pods, resource))
    except ProtobufError as error:
        raise SourceError(f"pod-resources: {socket}: the answer cannot be read: {error}") from error


def report_of(devices: Devices, uuids: Mapping[str, int], count: int) -> tuple[list[int], dict[str, list[int]]]:
    """Return the indices of GPUs that are free, and those of each pod; SourceError for a device that is no GPU of the node.

    Devices are UUIDs, indices, or either with the number of a replica; a GPU of which anybody has a share is not free.
    """

    def index(device: str) -> int:
        bare = _REPLICA.sub("", device)
        found = uuids.get(bare, int(bare) if bare.isdigit() and int(bare) < count else None)
        if found is None:
            raise SourceError(f"pod-resources: device {device!r} is none of the {count} GPUs of the machine")
        return found

    held = {pod: sorted({index(device) for device in names}) for pod, names in sorted(devices.held.items())}
    taken = {gpu for gpus in held.values() for gpu in gpus}
    return sorted({index(device) for device in devices.allocatable} - taken), held


def _held(answer: bytes, resource: str) -> dict[str, frozenset[str]]:
    """Return the devices of pods; messages ListPodResourcesResponse, PodResources and ContainerResources."""
    held: dict[str, frozenset[str]] = {}
    for pod in fields_of(answer).get(1, []):
        parts = fields_of(pod)
        name, namespace = (b"".join(parts.get(number, [])).decode() for number in (1, 2))
        found = [device for container in parts.get(3, []) for device in _devices(container, 2, resource)]
        if found:
            held[f"{namespace}/{name}"] = frozenset(found)
    return held


def _devices(message: bytes, number: int, resource: str) -> Iterator[str]:
    """Yield the names of devices of a resource; ContainerDevices are in the field of this number."""
    for entry in fields_of(message).get(number, []):
        parts = fields_of(entry)
        if b"".join(parts.get(1, [])).decode() == resource:
            yield from (device.decode() for device in parts.get(2, []))
