"""Manifests of nodes, pods and groups for end-to-end tests, and how to ask about them."""

from typing import Any

from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import ControlPlane
from e2e.waiting import wait_until

GROUP = "scheduling.ai-scheduler.io"
GPU = "nvidia.com/gpu"
H100 = "NVIDIA-H100-80GB-HBM3"
V100 = "Tesla-V100-SXM2-32GB"
FAKE = "example.com/fake"
"""A resource of nodes that nothing but a test knows."""
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ROLE = "e2e/role"
"""A label of nodes that means nothing to anybody."""


def node(
    name: str,
    pool: str,
    gpus: int = 8,
    product: str = H100,
    cpu: str = "64",
    labels: dict[str, str] | None = None,
    resources: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A node of a pool; a test's pods ask for its pool, so that tests do not share nodes."""
    amounts = {"cpu": cpu, "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", **(resources or {})}
    marks = {"kubernetes.io/hostname": name, "e2e/pool": pool, **(labels or {})}
    if gpus:
        amounts[GPU] = str(gpus)
        marks |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": marks, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(
    name: str,
    pool: str,
    gpus: int = 0,
    cpu: str = "100m",
    gang: str = "",
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod for ai-scheduler on the nodes of a pool."""
    requested = {"cpu": cpu, **(requests or {})}
    limits = {name: amount for name, amount in requested.items() if "/" in name}
    limits |= {GPU: str(gpus)} if gpus else {}
    labels = {f"{GROUP}/pod-group": gang} if gang else {}
    labels |= spec.pop("labels", {})
    metadata = {"name": name, "labels": labels, "annotations": spec.pop("annotations", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": "ai-scheduler",
            "nodeSelector": {"e2e/pool": pool},
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": requested, "limits": limits},
                    **spec.pop("container", {}),
                }
            ],
            **spec,
        },
    }


def group(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    """A PodGroup of ours."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum, **spec},
    }


def is_in(key: str, *values: str) -> dict[str, Any]:
    """A term for the labels of a node."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def spread(app: str, key: str, when: str = "DoNotSchedule") -> list[dict[str, Any]]:
    """The constraint that pods with a label `app` are evenly spread, one more or less."""
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}]


def beside(app: str, key: str) -> dict[str, Any]:
    """What required affinity, or anti-affinity, to pods with a label `app` consists of."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(app, key)]}


def affinity_term(app: str, key: str) -> dict[str, Any]:
    """The term for pods with a label `app` in the same part of a topology."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


class World:
    """Nodes of one test's pool and objects in its namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        """Takes the namespace; the pool has its name."""
        self.plane = plane
        self.namespace = namespace
        self.pool = namespace
        self._nodes: list[str] = []
        self._shared: list[str] = []

    def node(self, name: str, **more: Any) -> str:
        """Makes a node and waits until kwok has it ready; returns its full name."""
        full = f"{self.namespace}-{name}"
        self.plane.request("POST", "/api/v1/nodes", node(full, self.pool, **more))
        self._nodes.append(full)
        wait_until(lambda: not self.taints(full), what=f"node {full} to be ready")
        return full

    def bare_node(self, name: str, **more: Any) -> str:
        """Makes a node that nobody plays the kubelet of: pods stay pending there; returns its full name."""
        full = f"{self.namespace}-{name}"
        body = node(full, self.pool, **more)
        del body["metadata"]["annotations"]
        self.plane.request("POST", "/api/v1/nodes", body)
        self._nodes.append(full)
        return full

    def nodes(self, count: int, **more: Any) -> list[str]:
        """Makes some equal nodes."""
        return [self.node(f"n{i}", **more) for i in range(count)]

    def taints(self, name: str) -> list[str]:
        """Returns the not-ready taints of a node."""
        taints = self.plane.request("GET", f"/api/v1/nodes/{name}")["spec"].get("taints", [])
        return [t["key"] for t in taints if t["key"].startswith("node.kubernetes.io/not-ready")]

    def pod(self, name: str, **more: Any) -> None:
        """Makes a pod."""
        self.plane.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod(name, self.pool, **more))

    def gang(self, name: str, count: int, minimum: int | None = None, gpus: int = 8, **more: Any) -> list[str]:
        """Makes a group and its pods; returns the pods' names."""
        self.group(name, minimum or count)
        return self.members(name, range(count), gpus=gpus, **more)

    def members(self, gang: str, numbers: Any, gpus: int = 8, **more: Any) -> list[str]:
        """Makes members of a group."""
        names = [f"{gang}-{i}" for i in numbers]
        for name in names:
            self.pod(name, gang=gang, gpus=gpus, **more)
        return names

    def job(self, name: str, count: int, **more: Any) -> None:
        """Makes an Indexed Job whose evicted pods do not count as failures."""
        template = pod(name, self.pool, **more)
        template["spec"]["restartPolicy"] = "Never"
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        spec = {
            "parallelism": count,
            "completions": count,
            "completionMode": "Indexed",
            "podFailurePolicy": {"rules": [ignored]},
            "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]},
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.plane.request("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)

    def group(self, name: str, minimum: int, **spec: Any) -> None:
        """Makes a PodGroup."""
        path = f"/apis/{GROUP}/v1alpha1/namespaces/{self.namespace}/podgroups"
        self.plane.request("POST", path, group(name, minimum, **spec))

    def priority(self, name: str, value: int) -> str:
        """Makes a PriorityClass of this test; returns its name."""
        full = f"{self.namespace}-{name}"
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": full},
            "value": value,
        }
        self.plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        return full

    def make(self, api: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Makes an object in the namespace; `kind` is the plural, `api` such as `/apis/apps/v1`."""
        made: dict[str, Any] = self.plane.request("POST", f"{api}/namespaces/{self.namespace}/{kind}", body)
        return made

    def make_shared(self, api: str, kind: str, name: str, body: dict[str, Any]) -> str:
        """Makes an object without a namespace, for this test only; returns its full name."""
        full = f"{self.namespace}-{name}"
        labels = {"e2e/pool": self.pool}
        self.plane.request("POST", f"{api}/{kind}", {"metadata": {"name": full, "labels": labels}, **body})
        self._shared.append(f"{api}/{kind}/{full}")
        return full

    def get(self, name: str) -> dict[str, Any]:
        """Returns a pod; an empty mapping if there is none."""
        try:
            return self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    def placed(self) -> dict[str, str]:
        """Returns pod name → node name, of pods on nodes that are not going."""
        items = self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {
            p["metadata"]["name"]: p["spec"]["nodeName"]
            for p in items
            if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")
        }

    def wait_placed(self, *names: str, timeout_seconds: float = 30) -> dict[str, str]:
        """Waits until pods are on nodes; returns where they are."""

        def all_there() -> dict[str, str] | None:
            found = self.placed()
            return found if all(name in found for name in names) else None

        return wait_until(all_there, timeout_seconds, lambda: f"{names} placed; placed are {self.placed()}")

    def condition(self, name: str) -> dict[str, Any]:
        """Returns a pod's PodScheduled condition, or an empty mapping."""
        conditions = self.get(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    def wait_condition(self, name: str, reason: str, timeout_seconds: float = 30) -> dict[str, Any]:
        """Waits until PodScheduled has a reason; returns the condition."""

        def there() -> dict[str, Any] | None:
            found = self.condition(name)
            return found if found.get("reason") == reason else None

        return wait_until(there, timeout_seconds, lambda: f"{name} with reason {reason}; it has {self.condition(name)}")

    def group_status(self, name: str) -> dict[str, Any]:
        """Returns a PodGroup's status."""
        path = f"/apis/{GROUP}/v1alpha1/namespaces/{self.namespace}/podgroups/{name}"
        return self.plane.request("GET", path).get("status", {})

    def events(self, reason: str) -> list[dict[str, Any]]:
        """Returns the events of this namespace with a reason."""
        items = self.plane.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return [e for e in items if e.get("reason") == reason]

    def delete_pod(self, name: str) -> None:
        """Deletes a pod with its grace period."""
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def close(self) -> None:
        """Removes the nodes and what else has no namespace."""
        for path in [*(f"/api/v1/nodes/{name}" for name in self._nodes), *self._shared]:
            try:
                self.plane.request("DELETE", path)
            except ApiError as error:
                if error.status != 404:
                    raise


class DefaultWorld(World):
    """A world for pods of `default-scheduler` on small nodes without GPUs."""

    def node(self, name: str, **more: Any) -> str:
        """Makes a node of 4 CPUs unless asked otherwise."""
        return super().node(name, **{"gpus": 0, "cpu": "4", **more})

    def pod(self, name: str, **more: Any) -> None:
        """Makes a pod."""
        super().pod(name, **{"schedulerName": "default-scheduler", **more})

    def template(self, **more: Any) -> dict[str, Any]:
        """Returns what a controller makes its pods from."""
        body = pod("any", self.pool, **{"schedulerName": "default-scheduler", **more})
        metadata = {key: body["metadata"][key] for key in ("labels", "annotations")}
        return {"metadata": metadata, "spec": body["spec"]}

    def controller(self, kind: str, name: str, replicas: int, more: dict[str, Any] | None = None, **of: Any) -> None:
        """Makes a ReplicaSet, Deployment or StatefulSet (`kind` is the plural) whose pods have the label `app`."""
        labels = {"app": name, **of.pop("labels", {})}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": self.template(labels=labels, **of),
            **(more or {}),
        }
        self.make("/apis/apps/v1", kind, {"metadata": {"name": name}, "spec": spec})

    def pods(self, **labels: str) -> list[dict[str, Any]]:
        """Returns the pods with some labels that are not going."""
        selector = ",".join(f"{key}%3D{value}" for key, value in labels.items())
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}"
        return [p for p in self.plane.request("GET", path)["items"] if not p["metadata"].get("deletionTimestamp")]

    def wait_made(self, count: int, **labels: str) -> list[str]:
        """Waits until just so many pods with some labels are there, placed or not; returns their names."""

        def all_there() -> list[str]:
            found = [p["metadata"]["name"] for p in self.pods(**labels)]
            return found if len(found) == count else []

        return wait_until(all_there, what=lambda: f"{count} pods {labels}; there are {len(self.pods(**labels))}")

    def wait_pods(self, count: int, **labels: str) -> list[str]:
        """Waits until just so many pods with some labels are there and on nodes; returns their nodes."""

        def all_placed() -> list[str]:
            found = [p["spec"].get("nodeName", "") for p in self.pods(**labels)]
            return found if len(found) == count and all(found) else []

        return wait_until(all_placed, what=lambda: f"{count} pods {labels} placed; placed are {self.placed()}")

    def wait_refused(self, name: str, words: str) -> str:
        """Waits until a pod is refused with some words in its condition and in an event; returns all words of the event."""

        def told() -> str:
            condition = self.condition(name)
            if condition.get("reason") != "Unschedulable" or words not in condition["message"]:
                return ""
            events = (e for e in self.events("FailedScheduling") if e["regarding"]["name"] == name)
            return next((str(e["note"]) for e in events if words in e["note"]), "")

        return wait_until(told, what=lambda: f"{name} refused with {words!r}; it has {self.condition(name)}")
