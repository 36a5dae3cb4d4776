"""Themes of the NodeAffinity plugin: node selectors, required and preferred terms, affinity added by the configuration."""

from .nodes import GENERATIONS
from .world import HOSTNAME, RACK, REGION, ZONE, Object, World

LABELS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/arch": ("amd64", "arm64", "riscv64"),
    ZONE: ("z0", "z1", "z2", "z9"),
    REGION: ("r0", "r1"),
    RACK: ("rack0", "rack1", "rack2", "rack3"),
    "disk": ("ssd", "hdd", "nvme", ""),
    "gen": GENERATIONS,
    "absent": ("x",),
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NO_BOUNDS = ("1.5", "abc", "")
"""What Gt and Lt cannot read, though the API server lets it pass."""

BOUNDS = ("0", "1", "2", "5", "10", "99", "007", "9223372036854775807")


def node_selector(world: World) -> None:
    """Gives the pod a node selector of one to three labels, half of them taken from a node."""
    wanted: dict[str, str] = {}
    if world.maybe(0.6):
        node_labels = world.pick(world.nodes)["metadata"]["labels"]
        wanted = {key: node_labels[key] for key in world.some(sorted(node_labels), 1, 2) if key != HOSTNAME}
    if not wanted or world.maybe(0.25):
        key = world.pick(sorted(LABELS))
        wanted[key] = world.pick(LABELS[key])
    world.spec.setdefault("nodeSelector", {}).update(wanted)


def expression(world: World) -> Object:
    """Draws one requirement on node labels, with any of the six operators."""
    kind = world.rng.random()
    if kind < 0.25:
        bound = world.pick(NO_BOUNDS) if world.maybe(0.02) else world.pick(BOUNDS)
        return {"key": "gen", "operator": world.pick(("Gt", "Lt")), "values": [bound]}
    key = world.pick(sorted(LABELS))
    if kind < 0.45:
        return {"key": key, "operator": world.pick(("Exists", "DoesNotExist"))}
    return {"key": key, "operator": world.pick(("In", "In", "NotIn")), "values": world.some(LABELS[key], 1, 2)}


def field(world: World) -> Object:
    """Draws one requirement on the node's name, at times that of no node."""
    name = world.pick(world.node_names) if world.maybe(0.9) else "elsewhere"
    return {"key": "metadata.name", "operator": "In" if world.maybe(0.7) else "NotIn", "values": [name]}


def term(world: World, empty_chance: float = 0.06) -> Object:
    """Draws a node selector term; an empty one is legal and matches nothing."""
    if world.maybe(empty_chance):
        return {}
    made: Object = {}
    if world.maybe(0.8):
        made["matchExpressions"] = [expression(world) for _ in range(world.number(1, 2))]
    if not made or world.maybe(0.15):
        made["matchFields"] = [field(world) for _ in range(1 if world.maybe(0.85) else 2)]
    return made


def names_only(world: World) -> list[Object]:
    """Draws terms that all pin the node's name, so that PreFilter narrows the search."""
    terms = [{"matchFields": [{**field(world), "operator": "In"}]} for _ in range(world.number(1, 3))]
    if world.maybe(0.2):
        other = {"key": "metadata.name", "operator": "In", "values": [world.pick(world.node_names)]}
        terms[0]["matchFields"].append(other)
    if world.maybe(0.2):
        terms[-1]["matchExpressions"] = [expression(world)]
    return terms


def required(world: World) -> Object:
    """Draws required node affinity."""
    if world.maybe(0.2):
        return {"nodeSelectorTerms": names_only(world)}
    return {"nodeSelectorTerms": [term(world) for _ in range(world.number(1, 3))]}


def preferred(world: World) -> list[Object]:
    """Draws preferred terms of any legal weight."""
    weights = (1, 2, 5, 30, 50, 99, 100)
    return [{"weight": world.pick(weights), "preference": term(world, 0.1)} for _ in range(world.number(1, 4))]


def node_affinity(world: World) -> None:
    """Gives the pod required node affinity."""
    affinity = world.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity[REQUIRED] = required(world)
    if world.maybe(0.2):
        node_selector(world)


def node_preference(world: World) -> None:
    """Gives the pod preferred node affinity."""
    affinity = world.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity[PREFERRED] = preferred(world)


def added_affinity(world: World) -> None:
    """Lets the configuration add node affinity to every pod."""
    added: Object = {}
    if world.maybe(0.75):
        added[REQUIRED] = {"nodeSelectorTerms": [term(world, 0) for _ in range(world.number(1, 2))]}
    if not added or world.maybe(0.5):
        added[PREFERRED] = preferred(world)
    _keep_readable(added)
    world.configure("NodeAffinity", addedAffinity=added)
    if world.maybe(0.4):
        node_affinity(world)
    if world.maybe(0.4):
        node_preference(world)


def _keep_readable(added: Object) -> None:
    """Replaces the bounds that Gt and Lt cannot read: the configuration refuses what the API server lets pass."""
    terms = list(added.get(REQUIRED, {}).get("nodeSelectorTerms", ()))
    terms += [one["preference"] for one in added.get(PREFERRED, ())]
    for requirement in (one for term in terms for one in term.get("matchExpressions", ())):
        if requirement["operator"] in {"Gt", "Lt"} and requirement["values"][0] in NO_BOUNDS:
            requirement["values"] = ["5"]
