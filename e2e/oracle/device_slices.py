"""Devices at random, made to be hard on an allocator: slices of nodes and of the network, classes, taint rules.

What drivers publish here is what an API server accepts; that slices of one pool contradict each other, are missing or are
of another generation is what it accepts, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .world import ZONE, Object, World

GPU_DRIVER = "gpu.example.test"
NIC_DRIVER = "nic.example.test"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
MODELS = ("a", "b", "c")
CLASSES = ("any", "gpu", "nic", "big")
RESOURCES = "resource.k8s.io/v1"
MEMORY = ("10Gi", "20Gi", "40Gi", "40Gi")


@dataclass(frozen=True)
class Style:
    """Which of the rarer kinds of devices there are in a case."""

    has_taints: bool
    has_partitions: bool
    has_shares: bool
    has_conditions: bool
    is_ragged: bool
    """Pools may be incomplete, outdated or contradict themselves, devices may lack attributes."""


def style(world: World) -> Style:
    """Draws what a case is about."""
    return Style(*(world.maybe(chance) for chance in (0.35, 0.3, 0.35, 0.2, 0.3)))


def publish(world: World, node_names: Sequence[str], drawn: Style) -> None:
    """Adds classes, the pools of nodes, pools of the network, and rules that taint devices."""
    _classes(world)
    for node in node_names:
        for driver in (GPU_DRIVER, NIC_DRIVER):
            if world.maybe(0.9 if driver == GPU_DRIVER else 0.5):
                Pool(world, driver, node, drawn).publish({"nodeName": node}, world.number(2, 7))
    if world.maybe(0.3):
        where: Object = {"allNodes": True}
        if world.maybe(0.6):
            zone = {"key": ZONE, "operator": "In", "values": [world.pick(("z0", "z1", "z2"))]}
            where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
        Pool(world, GPU_DRIVER, "fabric", drawn).publish(where, world.number(1, 3))
    if world.maybe(0.15):
        pool = Pool(world, GPU_DRIVER, "reach", drawn)
        pool.node_names = node_names
        pool.publish({"perDeviceNodeSelection": True}, world.number(1, 4))
    if drawn.has_taints and world.maybe(0.4):
        _rule(world, node_names)


def _classes(world: World) -> None:
    of_driver = 'device.driver == "{}"'
    expressions: dict[str, list[str]] = {
        "any": [],
        "gpu": [of_driver.format(GPU_DRIVER)],
        "nic": [of_driver.format(NIC_DRIVER)],
        "big": [of_driver.format(GPU_DRIVER), f'"memory" in device.capacity["{GPU_DRIVER}"]'],
    }
    for name, lines in expressions.items():
        spec: Object = {"selectors": [{"cel": {"expression": line}} for line in lines]}
        if world.maybe(0.1):
            spec["config"] = [{"opaque": {"driver": GPU_DRIVER, "parameters": {"of": name}}}]
        world.add(RESOURCES, "DeviceClass", name, spec=spec)


def _rule(world: World, node_names: Sequence[str]) -> None:
    selector: Object = {"driver": world.pick((GPU_DRIVER, NIC_DRIVER))}
    if world.maybe(0.5):
        selector["pool"] = world.pick(node_names)
    if world.maybe(0.5):
        selector["device"] = f"d{world.number(0, 3)}"
    world.add(RESOURCES, "DeviceTaintRule", "rule", spec={"deviceSelector": selector, "taint": taint(world)})


def taint(world: World) -> Object:
    """Draws a taint of a device."""
    made: Object = {"key": world.pick(("broken", "busy")), "effect": world.pick(("NoSchedule", "NoExecute", "None"))}
    if world.maybe(0.5):
        made["value"] = world.pick(("yes", "no"))
    return made


class Pool:
    """One pool in the making."""

    def __init__(self, world: World, driver: str, name: str, drawn: Style) -> None:
        """Start without slices."""
        self.world, self.driver, self.name, self.style = world, driver, name, drawn
        self.node_names: Sequence[str] = ()
        self.is_partitioned = driver == GPU_DRIVER and drawn.has_partitions and world.maybe(0.7)
        self.is_shared = drawn.has_shares and world.maybe(0.7)
        self.generation = 1

    def publish(self, where: Object, count: int) -> None:
        """Adds the slices of so many devices; what is wrong with some pools is that of real drivers in trouble."""
        world, ragged = self.world, self.style.is_ragged
        devices = [self._device(index) for index in range(count)]
        if ragged and world.maybe(0.1):
            devices[-1] = {**devices[-1], "name": "d0"}
        parts = [devices[: count // 2], devices[count // 2 :]] if count > 1 and world.maybe(0.3) else [devices]
        if len({device["name"] for device in devices}) < count:  # twice in one slice is not accepted
            parts = [[device] for device in devices]
        specs: list[Object] = [{"devices": part, **where} for part in parts]
        if self.is_partitioned:
            specs.append({"sharedCounters": self._counter_sets(), **self._counters_where(where)})
        listed = len(specs) + (1 if ragged and world.maybe(0.15) else 0)
        for spec in specs:
            self._slice(spec, listed)
        if ragged and world.maybe(0.25):
            self.generation = world.pick((0, 2))
            old = [self._device(index) for index in range(world.number(1, 2))]
            place = {"nodeName": "elsewhere"} if "nodeName" in where and world.maybe(0.3) else where
            self._slice({"devices": old, **place}, world.number(1, 2))

    def _slice(self, spec: Object, listed: int) -> None:
        name = f"{self.world.pick('abc')}-{len(self.world.others)}"
        pool = {"name": self.name, "generation": self.generation, "resourceSliceCount": listed}
        self.world.add(RESOURCES, "ResourceSlice", name, spec={"driver": self.driver, "pool": pool, **spec})

    def _counters_where(self, where: Object) -> Object:
        if "perDeviceNodeSelection" in where or self.world.maybe(0.2):
            return {"allNodes": True}
        return where

    def _counter_sets(self) -> list[Object]:
        world = self.world
        names = ["set0", "set1"] if not self.style.is_ragged or world.maybe(0.9) else ["set0"]
        return [
            {
                "name": name,
                "counters": {
                    "memory": {"value": world.pick(("40Gi", "80Gi"))},
                    "slices": {"value": str(world.number(2, 8))},
                },
            }
            for name in names
        ]

    def _device(self, index: int) -> Object:
        world = self.world
        device: Object = {"name": f"d{index}", "attributes": self._attributes(index)}
        if world.maybe(0.6) or self.is_shared:
            device["capacity"] = {"memory": {"value": world.pick(MEMORY)}}
        if self.node_names:
            device |= world.pick(({"allNodes": True}, *({"nodeName": name} for name in self.node_names)))
        if self.is_partitioned and world.maybe(0.9):
            device["consumesCounters"] = self._consumption()
        if self.is_shared and world.maybe(0.8):
            self._share(device)
        if self.style.has_taints and world.maybe(0.3):
            device["taints"] = [taint(world) for _ in range(world.number(1, 2))]
        if self.style.has_conditions and world.maybe(0.4):
            device |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["lost"]}
        if self.style.has_conditions and world.maybe(0.3):
            device["bindsToNode"] = True
        return device

    def _attributes(self, index: int) -> Object:
        world = self.world
        made: Object = {
            "model": {"string": world.pick(MODELS)},
            "index": {"int": index},
            "healthy": {"bool": world.maybe(0.8)},
            "firmware": {"version": world.pick(("1.0.0", "1.2.0", "2.0.0-rc.1"))},
            PCIE_ROOT: {"string": f"pci0000:0{world.number(0, 2)}"},
            f"{GPU_DRIVER}/numa": {"int": world.number(0, 1)},
        }
        if self.style.is_ragged:
            for name in list(made):
                if world.maybe(0.08):
                    del made[name]
        return made

    def _consumption(self) -> list[Object]:
        world = self.world
        names = world.some(("set0", "set1"), 1)
        counters = {"memory": {"value": world.pick(MEMORY)}, "slices": {"value": str(world.number(1, 4))}}
        kept = world.some(sorted(counters), 1)
        if self.style.is_ragged and world.maybe(0.04):
            return [{"counterSet": "set9", "counters": {"slices": {"value": "1"}}}]
        return [{"counterSet": name, "counters": {key: counters[key] for key in kept}} for name in sorted(names)]

    def _share(self, device: Object) -> None:
        world = self.world
        device["allowMultipleAllocations"] = True
        capacity: Object = device["capacity"]
        policy = world.pick(POLICIES)
        if policy:
            capacity["memory"] = {"value": "40Gi", "requestPolicy": policy}
        if world.maybe(0.5):
            capacity["cores"] = {"value": world.pick(("3", "3500m", "4")), "requestPolicy": world.pick(CORE_POLICIES)}


POLICIES: tuple[Object, ...] = (
    {},
    {"default": "10Gi"},
    {"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]},
    {"default": "10Gi", "validRange": {"min": "10Gi", "step": "5Gi"}},
    {"default": "20Gi", "validRange": {"min": "5Gi", "max": "30Gi", "step": "5Gi"}},
    {"default": "1Gi", "validRange": {"min": "1Gi", "max": "40Gi"}},
)
CORE_POLICIES: tuple[Object, ...] = (
    {"default": "1"},
    {"default": "500m", "validRange": {"min": "250m", "step": "250m"}},
    {"default": "1", "validRange": {"min": "0", "max": "1"}},
    {"default": "100m", "validValues": ["100m", "1200m", "3"]},
)
