"""Themes of NodeResourcesFit and NodeResourcesBalancedAllocation: what pods ask for, in every place they can say it."""

from collections.abc import Iterable
from math import ceil

from .pods import FPGA, GPU, HUGEPAGES, attach, container, millicores, small_requests
from .quantities import amount, container_total
from .world import Object, World

CPU = ("0", "1", "50m", "100m", "250m", "666m", "1500m", "3")
MEMORY = ("0", "64Mi", "128Mi", "384Mi", "1Gi", "1500Mi", "4Gi", "1500M", "100k")
STORAGE = ("1Gi", "5Gi", "20Gi", "60Gi", "0")
GIBIBYTE = 1 << 30


def requests(world: World) -> Object:
    """Draws requests of any size."""
    drawn: Object = {}
    if world.maybe(0.8):
        drawn["cpu"] = world.pick(CPU)
    if world.maybe(0.8):
        drawn["memory"] = world.pick(MEMORY)
    if world.maybe(0.25):
        drawn["ephemeral-storage"] = world.pick(STORAGE)
    return drawn


def heavy(world: World) -> None:
    """Lets the pod ask for about as much as nodes have left, and some of its peers for much."""
    world.spec["containers"][0]["resources"] = {
        "requests": {
            "cpu": world.pick(("1", "1500m", "2", "3", "5", "12")),
            "memory": world.pick((*MEMORY[3:], "6Gi", "12Gi")),
        }
    }
    if world.maybe(0.3):
        world.spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = world.pick(STORAGE)
    for manifest in world.bound():
        if world.maybe(0.4):
            manifest["spec"]["containers"][0]["resources"] = {"requests": requests(world)}


def extended(world: World) -> None:
    """Asks for devices and huge pages, as counts that nodes have, lack or have only in part."""
    for index, manifest in enumerate([world.pending, *world.bound()]):
        if index and not world.maybe(0.3):
            continue
        resource = world.pick((GPU, GPU, FPGA, HUGEPAGES))
        amounts = ("2Mi", "64Mi", "128Mi", "300Mi") if resource == HUGEPAGES else ("1", "2", "4", "0", "16")
        wanted = world.pick(amounts)
        asked = {resource: wanted, "cpu": "10m"}
        attach(manifest["spec"], "containers", container(world, "ext", asked, {resource: wanted}))
    if world.maybe(0.3):
        ignored = world.pick(({"ignoredResources": [FPGA]}, {"ignoredResourceGroups": ["nvidia.com"]}))
        world.configure("NodeResourcesFit", **ignored)
    if world.maybe(0.1):
        world.configure("NodeResourcesFit", ignoredResources=[GPU, FPGA], ignoredResourceGroups=["example.test"])


def crowded(world: World) -> None:
    """Leaves nodes little room for another pod, whatever it asks for."""
    for name, one in zip(world.node_names, world.nodes, strict=True):
        count = len([pod for pod in world.bound() if pod["spec"]["nodeName"] == name])
        limit = str(max(0, count + world.pick((-1, 0, 0, 1, 1, 5))))
        for part in ("allocatable", "capacity"):
            one["status"][part]["pods"] = limit
        if world.maybe(0.04):
            del one["status"]["allocatable"]["pods"]


def zero(world: World) -> None:
    """Lets the pod ask for nothing, by saying so or by saying nothing."""
    nothing: tuple[Object, ...] = ({}, {"requests": {"cpu": "0", "memory": "0"}}, {"requests": {"cpu": "0"}})
    for one in world.spec["containers"]:
        one["resources"] = world.pick(nothing)


def inits(world: World) -> None:
    """Gives the pod and some peers init containers, sidecars before and after them among these."""
    for index, manifest in enumerate([world.pending, *world.bound()]):
        if index == 0 or world.maybe(0.15):
            add_inits(world, manifest)


def add_inits(world: World, manifest: Object) -> None:
    """Adds one to three init containers to a pod."""
    for position in range(world.number(1, 3)):
        made = container(world, f"i{position}", requests(world))
        if world.maybe(0.5):
            made["restartPolicy"] = "Always"
        attach(manifest["spec"], "initContainers", made)


def overhead(world: World) -> None:
    """Gives the pod and some peers the overhead of a runtime class."""
    for index, manifest in enumerate([world.pending, *world.bound()]):
        if index == 0 or world.maybe(0.15):
            add_overhead(world, manifest)


def add_overhead(world: World, manifest: Object) -> None:
    """Adds overhead to a pod."""
    amounts = {"cpu": world.pick(("250m", "1", "333m")), "memory": world.pick(("120Mi", "1Gi"))}
    kept = amounts if world.maybe(0.8) else {"cpu": amounts["cpu"]}
    manifest["spec"] |= {"overhead": kept, "runtimeClassName": "kata"}


def pod_level(world: World) -> None:
    """Gives the pod and some peers resources of their own, above those of their containers."""
    for index, manifest in enumerate([world.pending, *world.bound()]):
        if index == 0 or world.maybe(0.15):
            add_pod_level(world, manifest)


def add_pod_level(world: World, manifest: Object) -> None:
    """Adds pod-level requests that are at least those of the containers, which the API server asks for.

    Limits come with requests for the same resources, so that no default changes the pod.
    """
    spec = manifest["spec"]
    cpu = ceil(container_total(spec, "cpu") * 1000) + world.pick((0, 0, 1, 500, 3000))
    memory = ceil(container_total(spec, "memory")) + world.pick((0, 0, 1, GIBIBYTE, 2 * GIBIBYTE))
    asked: Object = {}
    if world.maybe(0.85):
        asked["cpu"] = millicores(cpu)
    if world.maybe(0.85) or not asked:
        asked["memory"] = str(memory)
    limits: Object = {}
    pages = ceil(container_total(spec, HUGEPAGES))
    if pages or world.maybe(0.1):
        asked[HUGEPAGES] = limits[HUGEPAGES] = str(pages + 64 * 2**20)
    if world.maybe(0.25):
        asked |= {"cpu": millicores(cpu), "memory": str(memory)}
        limits |= {"cpu": millicores(cpu + 1000), "memory": str(memory + GIBIBYTE)}
    spec["resources"] = {"requests": asked, **({"limits": limits} if limits else {})}


def cover_containers(manifests: Iterable[Object]) -> None:
    """Raises pod-level amounts to those of containers that were added or enlarged after them."""
    for spec in (manifest["spec"] for manifest in manifests if manifest["spec"].get("resources")):
        asked, limits = spec["resources"]["requests"], spec["resources"].get("limits", {})
        for resource, unit in (("cpu", 1000), ("memory", 1), (HUGEPAGES, 1)):
            least = ceil(container_total(spec, resource) * unit)
            text = millicores(least) if resource == "cpu" else str(least)
            if least and resource == HUGEPAGES and resource not in asked:
                asked[resource] = text
                spec["resources"].setdefault("limits", limits)[resource] = text
            for amounts in (asked, limits):
                if resource in amounts and amount(amounts[resource]) * unit < least:
                    amounts[resource] = text


def in_place(world: World) -> None:
    """Lets pods that run be in the midst of a resize: allocated and actual amounts differ from the wanted ones."""
    for manifest in world.bound():
        if world.maybe(0.5):
            add_resize(world, manifest)
    if world.maybe(0.5):
        heavy(world)


def add_resize(world: World, manifest: Object) -> None:
    """Gives a pod the status of a resize, complete or with parts that the kubelet has not reported."""
    status = manifest["status"]
    for field, group in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        reported = [_reported(world, one) for one in manifest["spec"].get(group, ()) if world.maybe(0.85)]
        if reported:
            status[field] = reported
    if manifest["spec"].get("resources") and world.maybe(0.7):
        for name in ("allocatedResources", "resources"):
            if world.maybe(0.85):
                amounts = _amounts(world)
                status[name] = amounts if name == "allocatedResources" else {"requests": amounts}
    reason = world.pick(("Infeasible", "Deferred", None, None))
    if reason:
        status.setdefault("conditions", []).append(
            {
                "type": "PodResizePending",
                "status": "True",
                "reason": reason,
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        )


def _amounts(world: World) -> Object:
    return {"cpu": world.pick(("100m", "1", "2", "3")), "memory": world.pick(("64Mi", "1Gi", "2Gi"))}


def _reported(world: World, one: Object) -> Object:
    made: Object = {
        "name": one["name"],
        "image": one["image"],
        "imageID": "",
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "state": {},
    }
    if world.maybe(0.8):
        made["allocatedResources"] = _amounts(world)
    if world.maybe(0.8):
        made["resources"] = {"requests": _amounts(world)}
    return made


SCORED = ("cpu", "memory", "ephemeral-storage", GPU, FPGA, HUGEPAGES)


def fit_strategy(world: World) -> None:
    """Configures one of the three scoring strategies, over resources that nodes and pod may lack."""
    names = world.some(SCORED, 1, 4)
    if world.maybe(0.6):
        names = list(dict.fromkeys(["cpu", "memory", *names]))
    weighted = [{"name": name, "weight": world.pick((1, 1, 2, 3, 10, 100))} for name in names]
    strategy: Object = {"type": world.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))}
    strategy["resources"] = weighted
    if strategy["type"] == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": shape(world)}
    world.configure("NodeResourcesFit", scoringStrategy=strategy)
    if world.maybe(0.3):
        extended(world)


def shape(world: World) -> list[Object]:
    """Draws a piecewise-linear function of the utilization, rising, falling or neither."""
    points = sorted(world.some((0, 1, 10, 33, 50, 66, 90, 99, 100), 1, 4))
    return [{"utilization": point, "score": world.number(0, 10)} for point in points]


def balanced(world: World) -> None:
    """Configures the resources of the balance; now and then the pod asks for none of them."""
    names = world.some(SCORED, 1, 4)
    if world.maybe(0.6):
        names = list(dict.fromkeys(["cpu", *names, "memory"]))
    world.configure("NodeResourcesBalancedAllocation", resources=[{"name": name, "weight": 1} for name in names])
    if world.maybe(0.3):
        extended(world)
    else:
        world.spec["containers"][0]["resources"] = {"requests": small_requests(world) or {"cpu": "1"}}
