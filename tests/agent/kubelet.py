"""A kubelet's socket for monitoring agents: a real gRPC server that answers as `k8s.io/kubelet/pkg/apis/podresources/v1` does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import grpc

if TYPE_CHECKING:
    from pathlib import Path

GPU = "nvidia.com/gpu"


def message(*fields: tuple[int, Any]) -> bytes:
    """Encode fields: texts, bytes, or numbers (https://protobuf.dev/programming-guides/encoding)."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(_varint(number << 3 | 2) + _varint(len(data)) + data)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    found = []
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def devices(resource: str, *ids: str) -> bytes:
    """Encode ContainerDevices, with a NUMA node as device plugins tell it."""
    topology = message((1, message((1, 1))))
    return message((1, resource), *[(2, device) for device in ids], (3, topology))


class Kubelet:
    """Answers on a socket; what it says may be changed at any time."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.allocatable = [devices(GPU, "GPU-0", "GPU-1")]
        #: Namespace, name, and the ContainerDevices of each container.
        self.pods: list[tuple[str, str, list[list[bytes]]]] = []
        self.raw: bytes | None = None
        #: How often it was asked.
        self.asked = 0
        self._server = grpc.server(ThreadPoolExecutor(2))
        methods = {
            "List": grpc.unary_unary_rpc_method_handler(lambda *_: self._list()),
            "GetAllocatableResources": grpc.unary_unary_rpc_method_handler(lambda *_: self._every()),
        }
        handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix://{socket}")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _list(self) -> bytes:
        self.asked += 1
        if self.raw is not None:
            return self.raw
        found = []
        for namespace, name, containers in self.pods:
            listed = [
                message((1, f"c{i}"), *[(2, entry) for entry in entries], (3, 7))
                for i, entries in enumerate(containers)
            ]
            found.append((1, message((1, name), (2, namespace), *[(3, container) for container in listed])))
        return message(*found)

    def _every(self) -> bytes:
        return message(*[(1, entry) for entry in self.allocatable], (2, 300))
