"""Pods as the API server stores them: every default filled in, quantities in canonical form.

Themes of all kinds build their containers, labels and selectors here, so that no pod is refused for a reason that is not
the point of its theme.
"""

from collections.abc import Iterable
from typing import Any

from .world import PODS_PER_NODE, Object, World

EPOCH = "2026-01-01T"
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
VERSIONS = ("v1", "v2")
IMAGES = (
    "example.test/web:v1",
    "example.test/db:v2",
    "example.test/cache",
    "example.test/tool:v1",
    "example.test/huge:v9",
)
HUGEPAGES = "hugepages-2Mi"
GPU = "nvidia.com/gpu"
FPGA = "example.test/fpga"

SMALL_CPU = ("50m", "100m", "250m", "333m", "500m", "1", "0")
SMALL_MEMORY = ("64Mi", "128Mi", "500Mi", "1Gi", "2Gi", "0", "500M", "100k")


def millicores(amount: int) -> str:
    """Returns a cpu quantity in canonical form."""
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def clock(seconds: int) -> str:
    """Returns a time stamp so many seconds after the epoch of all cases (less than a day)."""
    return f"{EPOCH}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"


def labels(world: World) -> dict[str, str]:
    """Draws a pod's labels; one pod in twelve has none."""
    if world.maybe(0.08):
        return {}
    drawn = {"app": world.pick(APPS), "tier": world.pick(TIERS)}
    if world.maybe(0.6):
        drawn["version"] = world.pick(VERSIONS)
    return drawn


def pull_policy(image: str) -> str:
    """Returns the default for an image: always, if its tag is `latest` or missing."""
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "Always" if "@" not in image and tag in {"", "latest"} else "IfNotPresent"


def container(
    world: World,
    name: str,
    requests: Object | None = None,
    limits: Object | None = None,
    image: str | None = None,
    **fields: Any,
) -> Object:
    """Returns a container; its pull policy follows from the tag, as upstream defaults it."""
    image = image or world.pick(IMAGES)
    resources: Object = {}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy(image),
        "resources": resources,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **fields,
    }


def attach(spec: Object, group: str, made: Object) -> None:
    """Adds a container to a pod's `containers` or `initContainers` under a name that the pod has not used yet."""
    taken = {one["name"] for one in [*spec["containers"], *spec.get("initContainers", ())]}
    name = made["name"]
    while made["name"] in taken:
        name = made["name"] = f"{name}x"
    spec.setdefault(group, []).append(made)


def template_spec(containers: list[Object]) -> Object:
    """Returns what the spec of a pod and that of a pod template have in common."""
    return {
        "containers": containers,
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def pod(
    world: World, name: str, namespace: str, pod_labels: dict[str, str], containers: list[Object], **spec: Any
) -> Object:
    """Returns a pending pod."""
    metadata: Object = {"name": name, "namespace": namespace, "uid": world.uid(), "generation": 1}
    if pod_labels:
        metadata["labels"] = pod_labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            **template_spec(containers),
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            **spec,
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def bind(world: World, manifest: Object, node: str, seconds: int | None = None) -> Object:
    """Puts a pod on a node, running since so many seconds after the epoch (by chance if not said)."""
    manifest["spec"]["nodeName"] = node
    manifest["status"] |= {
        "phase": "Running",
        "startTime": clock(world.number(0, 7200) if seconds is None else seconds),
    }
    return manifest


def terminate(manifest: Object) -> None:
    """Marks a pod as being deleted."""
    manifest["metadata"] |= {"deletionTimestamp": "2026-02-01T00:00:00Z", "deletionGracePeriodSeconds": 30}


def small_requests(world: World) -> Object:
    """Draws small requests; either resource may be missing."""
    requests: Object = {}
    if world.maybe(0.8):
        requests["cpu"] = world.pick(SMALL_CPU)
    if world.maybe(0.8):
        requests["memory"] = world.pick(SMALL_MEMORY)
    return requests


def namespace(world: World) -> str:
    """Draws a namespace; half of all pods are in the default one."""
    return "default" if world.maybe(0.5) else world.pick(("team-a", "team-b", "bare"))


def add_bound(world: World, name: str, node: str | None = None, **spec: Any) -> Object | None:
    """Adds a small pod on a node, or none if the nodes it may be on are full."""
    open_nodes = [one for one in ([node] if node else world.node_names) if len(world.pods_on(one)) < PODS_PER_NODE]
    if not open_nodes:
        return None
    made = pod(world, name, namespace(world), labels(world), [container(world, "main", small_requests(world))], **spec)
    world.pods.append(bind(world, made, world.pick(open_nodes)))
    return made


def fill(world: World, count: int) -> None:
    """Adds bound pods, some of them ended or being deleted."""
    for index in range(count):
        made = add_bound(world, f"e{index}")
        if made is None:
            return
        if world.maybe(0.06):
            terminate(made)
        elif world.maybe(0.04):
            made["status"]["phase"] = world.pick(("Succeeded", "Failed"))


def fix_quality_of_service(manifests: Iterable[Object]) -> None:
    """Sets `status.qosClass` as the API server would compute it from the resources."""
    for manifest in manifests:
        manifest["status"]["qosClass"] = _quality_of_service(manifest["spec"])


def _quality_of_service(spec: Object) -> str:
    if spec.get("resources"):
        parts = [spec["resources"]]
    else:
        parts = [one["resources"] for one in [*spec["containers"], *spec.get("initContainers", [])]]
    computed = ("cpu", "memory")
    amounts = [
        part.get(kind, {}).get(name, "0") for part in parts for kind in ("requests", "limits") for name in computed
    ]
    if all(amount == "0" for amount in amounts):
        return "BestEffort"
    is_guaranteed = all(
        part.get("limits", {}).get(name, "0") != "0" and part["limits"][name] == part.get("requests", {}).get(name)
        for part in parts
        for name in computed
    )
    return "Guaranteed" if is_guaranteed else "Burstable"
