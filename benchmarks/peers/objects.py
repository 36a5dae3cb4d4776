"""The objects of the workloads, encoded: nodes, pods, native groups of pods, and devices with their claims."""

from __future__ import annotations

from typing import Any

import msgspec

from e2e.objects import node as make_node

GPUS_PER_NODE = 8
GPU = "nvidia.com/gpu"
GROUP_API = "scheduling.k8s.io/v1beta1"
DEVICE_API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
DEVICE_CLASS = "gpu"

encode = msgspec.json.encode


def node_name(index: int) -> str:
    """Return the name of a node by its number."""
    return f"n{index:05}"


def node(index: int, gpus: int) -> bytes:
    """Return a node without kubelet."""
    made = make_node(node_name(index), "all", gpus=gpus)
    del made["metadata"]["annotations"], made["metadata"]["labels"]["e2e/pool"]
    return encode(made)


def pod(name: str, scheduler: str, *, gpus: int = 0, group: str = "", claim: str = "", node_name: str = "") -> bytes:
    """Return a pod; one with a node is there already, as if somebody had bound it."""
    amounts = {"cpu": "100m", "memory": "128Mi"}
    resources: dict[str, Any] = {"requests": amounts}
    if gpus:
        resources = {"requests": {**amounts, GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    container: dict[str, Any] = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
        resources["claims"] = [{"name": "gpu"}]
    if node_name:
        spec["nodeName"] = node_name
    return encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def group(name: str, minimum: int) -> bytes:
    """Return a PodGroup of Kubernetes itself, all of whose pods must start together."""
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return encode({"apiVersion": GROUP_API, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec})


def device_class() -> bytes:
    """Return the class of all devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    head = {"apiVersion": DEVICE_API, "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}}
    return encode({**head, "spec": {"selectors": selectors}})


def devices(index: int) -> bytes:
    """Return the ResourceSlice with the devices of a node."""
    name = node_name(index)
    made = [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in range(GPUS_PER_NODE)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    head = {"apiVersion": DEVICE_API, "kind": "ResourceSlice", "metadata": {"name": name}}
    return encode({**head, "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": made}})


def claim(name: str) -> bytes:
    """Return a claim of one device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS}}
    head = {"apiVersion": DEVICE_API, "kind": "ResourceClaim", "metadata": {"name": name}}
    return encode({**head, "spec": {"devices": {"requests": [request]}}})
