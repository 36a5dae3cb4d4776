"""Theme of the DynamicResources plugin, drawn only on demand: a pod that claims devices of resource slices."""

from .world import Object, World

DRIVER = "dra.example.test"
CLASS = "gpu.example.test"
MODEL = 'device.attributes["dra.example.test"].model == "{}"'


def claims(world: World) -> None:
    """Lets the pod claim one or two devices, of a model now and then, that some nodes have."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.add("resource.k8s.io/v1", "DeviceClass", CLASS, spec={"selectors": selectors})
    for name in world.node_names:
        if world.maybe(0.7):
            _slice(world, name)
    exactly: Object = {"allocationMode": "ExactCount", "count": world.number(1, 2), "deviceClassName": CLASS}
    if world.maybe(0.5):
        exactly["selectors"] = [{"cel": {"expression": MODEL.format(world.pick(("big", "small")))}}]
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    world.add("resource.k8s.io/v1", "ResourceClaim", "mine", world.namespace, spec=spec, status={})
    world.spec["resourceClaims"] = [{"name": "acc", "resourceClaimName": "mine"}]
    world.spec["containers"][0]["resources"]["claims"] = [{"name": "acc"}]


def _slice(world: World, name: str) -> None:
    devices = [
        {
            "name": f"d{index}",
            "attributes": {"index": {"int": index}, "model": {"string": world.pick(("big", "small"))}},
        }
        for index in range(world.number(1, 4))
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    world.add("resource.k8s.io/v1", "ResourceSlice", f"slice-{name}", spec=spec)
