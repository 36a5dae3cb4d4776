"""Theme of the NodePorts plugin: host ports of containers and sidecars, addresses, protocols, the host network."""

from .pods import add_bound, attach, container
from .world import Object, World

PORTS = (80, 80, 9090)
ADDRESSES = (None, None, "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1")
PROTOCOLS = ("TCP", "TCP", "TCP", "UDP", "SCTP")


def port(world: World) -> Object:
    """Draws a container port that claims a host port, or now and then none."""
    number = world.pick(PORTS)
    made: Object = {"containerPort": number, "protocol": world.pick(PROTOCOLS)}
    if world.maybe(0.95):
        made["hostPort"] = number
        address = world.pick(ADDRESSES)
        if address is not None:
            made["hostIP"] = address
    return made


def put_ports(world: World, spec: Object) -> None:
    """Gives a pod ports on its containers, a sidecar or an ordinary init container.

    The API server refuses one port twice in a pod's containers whatever the address, so every place gets other numbers.
    """
    drawn = _different([port(world) for _ in range(world.number(1, 2))])
    spec["containers"][0]["ports"] = drawn
    if world.maybe(0.25):
        sidecar = container(world, "ported", {"cpu": "10m"}, ports=[port(world)])
        if world.maybe(0.6):
            sidecar["restartPolicy"] = "Always"
        attach(spec, "initContainers", sidecar)
    if world.maybe(0.12):
        spec["hostNetwork"] = True
        for one in [*spec["containers"], *spec.get("initContainers", [])]:
            for exposed in one.get("ports", ()):
                exposed["hostPort"] = exposed["containerPort"]


def _different(ports: list[Object]) -> list[Object]:
    kept: dict[tuple[int, str], Object] = {}
    for one in ports:
        kept.setdefault((one["containerPort"], one["protocol"]), one)
    return list(kept.values())


def host_ports(world: World) -> None:
    """Lets the pod and its peers on several nodes claim host ports."""
    put_ports(world, world.spec)
    for index, name in enumerate(world.node_names):
        if world.maybe(0.9) and (peer := add_bound(world, f"port{index}", name)) is not None:
            put_ports(world, peer["spec"])
