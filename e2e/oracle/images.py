"""Theme of the ImageLocality plugin: which nodes hold which images, under which names, of which sizes."""

from .pods import IMAGES, attach, container, pull_policy
from .world import World

MEBIBYTE = 1 << 20
SIZES = (5 * MEBIBYTE, 22 * MEBIBYTE, 23 * MEBIBYTE, 40 * MEBIBYTE, 350 * MEBIBYTE, 800 * MEBIBYTE, 1000 * MEBIBYTE)
HUGE = (2600 * MEBIBYTE, 5000 * MEBIBYTE)
DIGEST = "example.test/web@sha256:" + "0123456789abcdef" * 4


def with_tag(image: str) -> str:
    """Returns an image name as kubelets report it, tag included."""
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"


def images(world: World) -> None:
    """Puts images on nodes; at times sizes differ between nodes, names are short or digests, and volumes are images."""
    sizes = {image: world.pick(HUGE if "huge" in image else SIZES) for image in (*IMAGES, DIGEST, "redis:7")}
    for one in world.nodes:
        held = world.some(sorted(sizes), 0, 5)
        if not held:
            continue
        one["status"]["images"] = [
            {
                "names": [with_tag(image), *([f"{image}-alias"] if "@" not in image and world.maybe(0.2) else [])],
                "sizeBytes": sizes[image] + (world.number(0, 9) * MEBIBYTE if world.maybe(0.1) else 0),
            }
            for image in held
        ]
    for one in world.spec["containers"]:
        one["image"] = _image(world)
        one["imagePullPolicy"] = pull_policy(one["image"])
    if world.maybe(0.4):
        attach(world.spec, "containers", container(world, "more", image=_image(world)))
    if world.maybe(0.4):
        attach(world.spec, "initContainers", container(world, "loading", image=_image(world)))
    if world.maybe(0.25):
        volumes = world.spec.setdefault("volumes", [])
        for index in range(world.number(1, 2)):
            source = {"reference": with_tag(_image(world)), "pullPolicy": "IfNotPresent"}
            volumes.append({"name": f"image{index}", "image": source})


def _image(world: World) -> str:
    return world.pick((*IMAGES, *IMAGES, DIGEST, "redis:7", "example.test/web:v1-alias", "example.test/nowhere:v1"))
