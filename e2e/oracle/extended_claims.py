"""Theme of extended resources that DeviceClasses stand for: nodes offer them through a device plugin, have devices for them, or neither."""

from .claims import PLAIN, use
from .device_claims import claim, holders
from .device_slices import RESOURCES, publish, style
from .pods import FPGA, GPU, attach, container
from .world import Object, World

IMPLICIT = "deviceclass.resource.kubernetes.io/"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
CREATED = ("2025-01-01T00:00:00Z", "2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z", "2025-04-01T00:00:00Z")


def claims_extended(world: World) -> None:
    """Lets the pod, and some of its peers, ask for resources of classes, in containers of every kind."""
    publish(world, world.node_names, PLAIN if world.maybe(0.6) else style(world))
    _name_resources(world)
    for node in world.nodes:
        for resource in (GPU, FPGA):
            if world.maybe(0.5):
                for part in ("allocatable", "capacity"):
                    node["status"][part].pop(resource, None)
    holders(world, world.namespace, 5)
    for index, manifest in enumerate([world.pending, *world.bound()]):
        if index == 0 or world.maybe(0.2):
            _ask(world, manifest)
    if world.maybe(0.2):
        use(world, claim(world, "mine", world.namespace))
    if world.maybe(0.06):
        _leave_behind(world)
    if world.maybe(0.1):
        world.configure("NodeResourcesFit", ignoredResources=[world.pick((GPU, FPGA))])


def _name_resources(world: World) -> None:
    """Lets classes stand for resources; of two that stand for the same the later one does, as they come in that order."""
    classes = [one for one in world.others if one["kind"] == "DeviceClass"]
    for created, one in zip(CREATED, classes, strict=True):
        one["metadata"]["creationTimestamp"] = created
        if world.maybe(0.6):
            one["spec"]["extendedResourceName"] = world.pick((GPU, GPU, FPGA))


def _ask(world: World, manifest: Object) -> None:
    """Adds containers, init containers and sidecars that ask for some."""
    for group, name in (
        ("containers", "ext"),
        ("containers", "more"),
        ("initContainers", "first"),
        ("initContainers", "side"),
    ):
        if (group == "containers" and name == "ext") or world.maybe(0.25):
            names = world.some((GPU, GPU, FPGA, f"{IMPLICIT}gpu", f"{IMPLICIT}any", f"{IMPLICIT}absent"), 1, 2)
            wanted = {
                each: world.pick(("1", "1", "1", "2", "3", "0"))
                for each in names
                if "absent" not in each or world.maybe(0.2)
            }
            made = container(world, name, {"cpu": "10m", **wanted}, wanted)
            if name == "side":
                made["restartPolicy"] = "Always"
            attach(manifest["spec"], group, made)


def _leave_behind(world: World) -> None:
    """Leaves a claim that was made for the pod in an earlier attempt, allocated or not."""
    metadata = world.pending["metadata"]
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}}
    made = world.add(
        RESOURCES, "ResourceClaim", "left", world.namespace, spec=spec, status={}, annotations={ANNOTATION: "true"}
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
