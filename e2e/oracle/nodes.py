"""The nodes of a case, and the themes about nodes that close themselves: cordons, taints, names, features."""

from typing import Any

from .pods import FPGA, GPU, HUGEPAGES
from .world import HOSTNAME, RACK, REGION, ZONE, Object, World

ROOMY = {"cpu": ("16", "24", "31500m", "64"), "memory": ("64Gi", "30000Mi", "24Gi", "128G"), "pods": ("110",)}
TIGHT = {"cpu": ("2", "3500m", "4", "8"), "memory": ("4Gi", "7000Mi", "8Gi"), "pods": ("110", "12", "5", "3")}
GENERATIONS = ("0", "1", "2", "5", "10", "100", "007", "abc", "9223372036854775808")
"""Values that Gt and Lt read as whole numbers, with some that are none."""

NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def node(world: World, index: int, sizes: dict[str, tuple[str, ...]]) -> Object:
    """Returns a node whose size is drawn from `sizes`."""
    name = f"n{index}"
    allocatable = {resource: world.pick(values) for resource, values in sizes.items()}
    if world.maybe(0.7):
        allocatable["ephemeral-storage"] = world.pick(("10Gi", "50Gi", "100Gi"))
    if world.maybe(0.4):
        allocatable[GPU] = world.pick(("1", "2", "4", "8"))
    if world.maybe(0.15):
        allocatable[FPGA] = world.pick(("1", "2", "0"))
    if world.maybe(0.3):
        allocatable[HUGEPAGES] = world.pick(("64Mi", "256Mi", "0"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": world.uid(), "labels": _labels(world, name)},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "capacity": dict(allocatable),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(NODE_INFO, ""),
        },
    }


def _labels(world: World, name: str) -> dict[str, str]:
    drawn = {"kubernetes.io/arch": world.pick(("amd64", "arm64")), "kubernetes.io/os": "linux"}
    if world.maybe(0.97):
        drawn[HOSTNAME] = name
    if world.maybe(0.87):
        drawn[ZONE] = world.pick(("z0", "z1", "z2"))
        drawn[REGION] = world.pick(("r0", "r1"))
    if world.maybe(0.75):
        drawn[RACK] = f"rack{world.number(0, 3)}"
    if world.maybe(0.6):
        drawn["disk"] = world.pick(("ssd", "hdd", "nvme", ""))
    if world.maybe(0.6):
        drawn["gen"] = world.pick(GENERATIONS)
    return drawn


def unschedulable(world: World) -> None:
    """Cordons nodes, with the taint of the node controller or without, and tolerates it in ways right and wrong."""
    for one in world.nodes:
        if world.maybe(0.45):
            one["spec"]["unschedulable"] = True
            if world.maybe(0.4):
                _taint(one, "node.kubernetes.io/unschedulable", None, "NoSchedule")
    tolerate(
        world,
        world.some(
            (
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Equal", "value": "true"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"},
                {"operator": "Exists", "effect": "PreferNoSchedule"},
                {"operator": "Exists"},
            ),
            0,
            1,
        )
        if world.maybe(0.55)
        else [],
    )


def node_name(world: World) -> None:
    """Names the node in the pod's spec before it is scheduled, at times one that does not exist."""
    world.spec["nodeName"] = world.pick(world.node_names) if world.maybe(0.9) else "elsewhere"


FEATURE = "RestartAllContainersOnContainerExits"


def declared(world: World) -> None:
    """Lets nodes declare features, and the pod need one by its restart rules, or only seem to."""
    for one in world.nodes:
        if world.maybe(0.65):
            features = sorted(
                {*world.some(("AnotherFeature", "ZFeature"), 0, 2), *([FEATURE] if world.maybe(0.6) else [])}
            )
            if features:
                one["status"]["declaredFeatures"] = features
    action = world.pick(("RestartAllContainers", "RestartAllContainers", "RestartAllContainers", "Restart"))
    rule = {"action": action, "exitCodes": {"operator": world.pick(("In", "NotIn")), "values": [world.number(1, 99)]}}
    world.spec["containers"][-1] |= {
        "restartPolicy": world.pick(("Never", "OnFailure", "Always")),
        "restartPolicyRules": [rule],
    }


TAINT_KEYS = ("dedicated", "spot", "maint")
TAINT_VALUES = ("a", "b", "5", None)
NUMBERS = ("5", "10", "007", "0", "50", "1.5", "9223372036854775807", "9223372036854775808", "x1")


def taints(world: World) -> None:
    """Taints nodes with every effect, and tolerates some of the taints exactly and others nearly."""
    strength = world.pick((0.25, 0.5, 0.8))
    for one in world.nodes:
        for _ in range(world.number(1, 2) if world.maybe(strength) else 0):
            _taint(one, world.pick(TAINT_KEYS), world.pick(TAINT_VALUES), _effect(world))
    tolerate(world, [_toleration(world) for _ in range(world.number(0, 4))])


def soft_taints(world: World) -> None:
    """Taints nodes with PreferNoSchedule only, so that they differ in score."""
    for one in world.nodes:
        for key in world.some(TAINT_KEYS, 0, 3):
            _taint(one, key, world.pick(TAINT_VALUES), "PreferNoSchedule")
    tolerate(world, [_toleration(world) for _ in range(world.number(0, 2))])


def taint_numbers(world: World) -> None:
    """Compares taint values with numbers by the operators Lt and Gt, with odd numbers on both sides."""
    for one in world.nodes:
        if world.maybe(0.85):
            _taint(
                one,
                "level",
                world.pick(NUMBERS),
                world.pick(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")),
            )
    if world.maybe(0.7):
        world.gates["TaintTolerationComparisonOperators"] = True
        values = ("5", "6", "0", "-1", "49", "100", "9223372036854775807", "-9223372036854775808")
        tolerations: list[Object] = [
            {"key": "level", "operator": world.pick(("Lt", "Gt")), "value": world.pick(values)}
            for _ in range(world.number(1, 2))
        ]
    else:
        tolerations = [
            {"key": "level", "operator": world.pick(("Equal", "Equal", "Exists")), "value": world.pick(NUMBERS)}
            for _ in range(world.number(1, 3))
        ]
    for one in tolerations:
        if one["operator"] == "Exists":
            del one["value"]
        if world.maybe(0.4):
            one["effect"] = world.pick(("NoSchedule", "PreferNoSchedule", "NoExecute"))
    tolerate(world, tolerations)


def tolerate(world: World, tolerations: list[Object]) -> None:
    """Adds tolerations to the pending pod."""
    if tolerations:
        world.spec.setdefault("tolerations", []).extend(tolerations)


def _effect(world: World) -> str:
    return world.pick(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))


def _taint(one: Object, key: str, value: str | None, effect: str) -> None:
    """Adds a taint unless the node has one of that key and effect, which the API server refuses twice."""
    existing = one["spec"].setdefault("taints", [])
    if any((taint["key"], taint["effect"]) == (key, effect) for taint in existing):
        return
    made: dict[str, Any] = {"key": key, "effect": effect}
    if value is not None:
        made["value"] = value
    if effect == "NoExecute":
        made["timeAdded"] = "2026-01-01T00:00:00Z"
    existing.append(made)


def _toleration(world: World) -> Object:
    made: Object = {}
    if world.maybe(0.06):
        made["operator"] = "Exists"
    elif world.maybe(0.35):
        made |= {"key": world.pick(TAINT_KEYS), "operator": "Exists"}
    else:
        made["key"] = world.pick(TAINT_KEYS)
        if world.maybe(0.7):
            made["operator"] = "Equal"
        value = world.pick(TAINT_VALUES)
        if value is not None:
            made["value"] = value
    if world.maybe(0.6):
        made["effect"] = _effect(world)
    if made.get("effect") == "NoExecute" and world.maybe(0.5):
        made["tolerationSeconds"] = world.pick((0, 60, 300))
    return made
