"""Request cases: a pod alone, with everything that decides how much it asks for and how much it takes once bound."""

from .pods import FPGA, GPU, HUGEPAGES, container, labels, pod
from .resources import add_inits, add_overhead, add_pod_level, add_resize, requests
from .world import World


def request(world: World) -> None:
    """Makes the case a request case."""
    world.is_request = True
    containers = [container(world, f"c{index}", requests(world)) for index in range(world.number(1, 3))]
    if world.maybe(0.35):
        resource = world.pick((GPU, FPGA, HUGEPAGES))
        wanted = world.pick(("2Mi", "64Mi")) if resource == HUGEPAGES else world.pick(("1", "2", "0"))
        containers.append(container(world, "ext", {"cpu": "10m", resource: wanted}, {resource: wanted}))
    world.pending = pod(world, "pending", "default", labels(world), containers)
    parts = (("inits", add_inits, 0.6), ("overhead", add_overhead, 0.3), ("pod_level", add_pod_level, 0.3))
    for tag, add, chance in parts:
        if world.maybe(chance):
            add(world, world.pending)
            world.tags.append(tag)
    if world.maybe(0.4):
        world.pending["status"]["phase"] = "Running"
        add_resize(world, world.pending)
        world.tags.append("in_place")
