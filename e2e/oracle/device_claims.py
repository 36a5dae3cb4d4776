"""Claims at random over the devices of `device_slices`: those to be served, and those that hold devices already."""

from collections.abc import Sequence

from .device_slices import GPU_DRIVER, MODELS, NIC_DRIVER, PCIE_ROOT, RESOURCES
from .world import Object, World

ATTRIBUTE = f'device.attributes["{GPU_DRIVER}"]'
SELECTORS = (
    *(f'device.driver == "{GPU_DRIVER}" && {ATTRIBUTE}.model == "{model}"' for model in MODELS),
    f'device.driver == "{GPU_DRIVER}" && {ATTRIBUTE}.index < 2',
    f'"{GPU_DRIVER}" in device.attributes && {ATTRIBUTE}.?healthy.orValue(false)',
    f'device.driver != "{GPU_DRIVER}" || {ATTRIBUTE}.firmware.compareTo(semver("1.1.0")) >= 0',
    f'{ATTRIBUTE}.?model.orValue("") in ["a", "b"]',
    f'device.capacity["{GPU_DRIVER}"].?memory.orValue(quantity("0")).isGreaterThan(quantity("15Gi"))',
    'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("").startsWith("pci0000:0")',
    f'device.driver in ["{GPU_DRIVER}", "{NIC_DRIVER}"].filter(d, d.startsWith("g"))',
    f'["a", "c"].exists(m, m == {ATTRIBUTE}.?model.orValue("none"))',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "true",
)
HARSH_SELECTORS = (
    f'{ATTRIBUTE}.model == "a"',
    f"{ATTRIBUTE}.numa == 1",
    f'{ATTRIBUTE}.index == "1"',
    f'{ATTRIBUTE}.absent == "x"',
    "false",
    f"100 / {ATTRIBUTE}.?index.orValue(0) > 1",
)
"""Those that fail on devices of another driver, or on some, or on all."""

MATCHED = (PCIE_ROOT, f"{GPU_DRIVER}/model", f"{GPU_DRIVER}/numa", f"{GPU_DRIVER}/index", f"{GPU_DRIVER}/firmware")
CLASS_NAMES = ("gpu", "gpu", "gpu", "any", "any", "nic", "big")


def claim(world: World, name: str, namespace: str) -> Object:
    """Adds a claim that asks for a few devices."""
    requests = [_request(world, f"r{index}") for index in range(world.pick((1, 1, 1, 2, 2, 3)))]
    devices: Object = {"requests": requests}
    constraints = [_constraint(world, requests) for _ in range(world.pick((0, 0, 0, 1, 1, 2)))]
    if constraints:
        devices["constraints"] = constraints
    if world.maybe(0.1):
        wanted = world.some([request["name"] for request in requests])
        config: Object = {"opaque": {"driver": GPU_DRIVER, "parameters": {"for": name}}}
        devices["config"] = [{**config, "requests": wanted} if wanted else config]
    return world.add(RESOURCES, "ResourceClaim", name, namespace, spec={"devices": devices}, status={})


def choice(world: World, name: str, namespace: str) -> Object:
    """Adds a claim with alternatives that nodes differ in."""
    requests = []
    for turn in range(world.pick((1, 1, 2))):
        alternatives = []
        for place in range(world.number(2, 4)):
            expression = SELECTORS[place % len(MODELS)] if world.maybe(0.7) else world.pick(SELECTORS)
            selectors = [{"cel": {"expression": expression}}]
            count = {"allocationMode": "ExactCount", "count": world.pick((1, 1, 2, 3))}
            alternatives.append({"name": f"s{place}", "deviceClassName": "any", "selectors": selectors, **count})
        requests.append({"name": f"r{turn}", "firstAvailable": alternatives})
    return world.add(RESOURCES, "ResourceClaim", name, namespace, spec={"devices": {"requests": requests}}, status={})


def holders(world: World, namespace: str, most: int = 3) -> list[Object]:
    """Adds claims that hold some of the devices, shares of those that may be shared; returns them."""
    slices = [one for one in world.others if one["kind"] == "ResourceSlice"]
    ids = sorted(
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in slices
        for device in one["spec"].get("devices", ())
    )
    shared = {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in slices
        for device in one["spec"].get("devices", ())
        if device.get("allowMultipleAllocations")
    }
    made = []
    for turn, identity in enumerate(world.some(sorted(set(ids)), 0, most) if ids else ()):
        result = {"request": "r", **dict(zip(("driver", "pool", "device"), identity, strict=True))}
        if identity in shared and world.maybe(0.9):
            result |= {"shareID": world.uid(), "consumedCapacity": {"memory": world.pick(("5Gi", "10Gi", "20Gi"))}}
        elif world.maybe(0.1):
            result["adminAccess"] = True
        made.append(held(world, f"held-{turn}", namespace, [result]))
    return made


def held(world: World, name: str, namespace: str, results: Sequence[Object]) -> Object:
    """Adds a claim that was given these devices."""
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": len(results)},
    }
    status = {"allocation": {"devices": {"results": list(results)}}}
    return world.add(
        RESOURCES, "ResourceClaim", name, namespace, spec={"devices": {"requests": [request]}}, status=status
    )


def _request(world: World, name: str) -> Object:
    if world.maybe(0.25):
        alternatives = [{"name": f"s{turn}", **_exactly(world)} for turn in range(world.number(1, 3))]
        return {"name": name, "firstAvailable": alternatives}
    exactly = _exactly(world)
    if world.maybe(0.05):
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _exactly(world: World) -> Object:
    made: Object = {"deviceClassName": world.pick(CLASS_NAMES), "allocationMode": "ExactCount"}
    if world.maybe(0.01):
        made["deviceClassName"] = "absent"
    if world.maybe(0.08):
        made["allocationMode"] = "All"
    else:
        made["count"] = world.pick((1, 1, 1, 1, 2, 2, 3))
    expressions = world.some(SELECTORS, 1, world.pick((1, 1, 2))) if world.maybe(0.35) else []
    if world.maybe(0.03):
        expressions.append(world.pick(HARSH_SELECTORS))
    if expressions:
        made["selectors"] = [{"cel": {"expression": each}} for each in expressions]
    if world.maybe(0.25):
        made["tolerations"] = [_toleration(world) for _ in range(world.number(1, 2))]
    if world.maybe(0.15):
        asked = {"memory": world.pick(("5Gi", "7Gi", "10Gi", "12Gi", "35Gi"))}
        if world.maybe(0.3):
            asked["cores"] = world.pick(("200m", "1", "333m"))
        made["capacity"] = {"requests": asked}
    return made


def _toleration(world: World) -> Object:
    made: Object = {"operator": world.pick(("Exists", "Equal"))}
    if made["operator"] == "Equal":
        made |= {"key": world.pick(("broken", "busy")), "value": world.pick(("yes", "no"))}
    elif world.maybe(0.6):
        made["key"] = world.pick(("broken", "busy"))
    if world.maybe(0.4):
        made["effect"] = world.pick(("NoSchedule", "NoExecute"))
    return made


def _constraint(world: World, requests: Sequence[Object]) -> Object:
    kind = world.pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
    made: Object = {kind: world.pick(MATCHED)}
    if world.maybe(0.5):
        names = [request["name"] for request in requests]
        names += [
            f"{request['name']}/{each['name']}" for request in requests for each in request.get("firstAvailable", ())
        ]
        made["requests"] = _without_doubles(world.some(names, 1))
    return made


def _without_doubles(names: Sequence[str]) -> list[str]:
    """Returns names of which none stands for a part of another."""
    return sorted(name for name in names if name.partition("/")[0] not in names or "/" not in name)
