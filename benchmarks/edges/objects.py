"""Nodes and pods as bytes, as big as they are in clusters: templates in which names, versions and nodes are filled in."""

import json
from typing import Any

MANAGED = {
    "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-11-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:labels": {f"f:label-{i}": {} for i in range(12)}}, "f:spec": {f"f:field-{i}": {} for i in range(40)}},
}  # fmt: skip
NAME, VERSION, NODE, PHASE = b"@name@", b"@version@", b"@node@", b"@phase@"


def _pod() -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "128Mi"}
    variables = [{"name": f"VARIABLE_{i}", "value": f"value-of-the-variable-{i}"} for i in range(16)]
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}]
    container = {
        "image": "registry.example/team/trainer:2026.11", "env": variables, "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": resources, "limits": resources},
    }  # fmt: skip
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-11-01T00:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "metadata": {
            "name": "@name@", "namespace": "default", "uid": "uid-@name@", "resourceVersion": "@version@",
            "creationTimestamp": "2026-11-01T00:00:00Z", "labels": {"app": "training", "team": "a"},
            "annotations": {"example.com/owner": "team-a"}, "managedFields": [MANAGED, MANAGED],
        },
        "spec": {
            "schedulerName": "ai-scheduler", "nodeName": "@node@", "priority": 0, "serviceAccountName": "default",
            "containers": [{"name": name, **container} for name in ("trainer", "metrics")],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("not-ready", "unreachable")
            ],
        },
        "status": {"phase": "@phase@", "qosClass": "Burstable", "conditions": conditions, "startTime": "2026-11-01T00:00:00Z"},
    }  # fmt: skip


def _node() -> dict[str, Any]:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    return {
        "metadata": {
            "name": "@name@", "uid": "uid-@name@", "resourceVersion": "@version@", "managedFields": [MANAGED],
            "labels": {"kubernetes.io/hostname": "@name@", "topology.kubernetes.io/zone": "a"},
        },
        "spec": {},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [f"registry.example/image-{i}:1"], "sizeBytes": 10**8} for i in range(20)],
        },
    }  # fmt: skip


_POD, _NODE = json.dumps(_pod()).encode(), json.dumps(_node()).encode()
_PENDING = _POD.replace(b'"nodeName": "@node@", ', b"")


def pod(name: str, version: int, node: str = "", phase: str = "Pending") -> bytes:
    """Returns a pod of about 5 KB as JSON."""
    text = _POD if node else _PENDING
    text = text.replace(NAME, name.encode()).replace(VERSION, b"%d" % version).replace(PHASE, phase.encode())
    return text.replace(NODE, node.encode()) if node else text


def node(name: str, version: int) -> bytes:
    """Returns a node as JSON."""
    return _NODE.replace(NAME, name.encode()).replace(VERSION, b"%d" % version)


def event(kind: str, obj: bytes) -> bytes:
    """Returns a line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)
