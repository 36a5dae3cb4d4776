"""Themes of the InterPodAffinity plugin: terms of the pending pod and of pods that run, required and preferred."""

from .pods import add_bound
from .selectors import merge_label_keys, selector
from .world import ABSENT, HOSTNAME, RACK, REGION, ZONE, Object, World

KEYS = (HOSTNAME, HOSTNAME, ZONE, ZONE, REGION, RACK, RACK)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME_FAST_PATH = "InterPodAffinityHostnameFastPath"


def term(world: World, own: dict[str, str], own_chance: float = 0.3) -> Object:
    """Draws a pod affinity term of a pod with the labels `own`."""
    made: Object = {"topologyKey": ABSENT if world.maybe(0.05) else world.pick(KEYS)}
    chosen = selector(world, own, own_chance)
    if chosen is not None:
        made["labelSelector"] = chosen
    if world.maybe(0.3):
        made["namespaces"] = world.some(("default", "team-a", "team-b", "missing"), 1, 2)
    if world.maybe(0.4):
        made["namespaceSelector"] = world.pick(
            (
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
                {"matchLabels": {"kubernetes.io/metadata.name": "bare"}},
            )
        )
    merge_label_keys(world, made, own, 0.2, can_mismatch=True)
    return made


def weighted(world: World, own: dict[str, str]) -> Object:
    """Draws a preferred term."""
    return {"weight": world.pick((1, 2, 7, 50, 99, 100)), "podAffinityTerm": term(world, own)}


def own_labels(manifest: Object) -> dict[str, str]:
    """Returns a pod's labels."""
    found: dict[str, str] = manifest["metadata"].get("labels", {})
    return found


def add_term(manifest: Object, kind: str, strictness: str, added: Object) -> None:
    """Adds a term to a pod; `kind` is podAffinity or podAntiAffinity."""
    affinity = manifest["spec"].setdefault("affinity", {}).setdefault(kind, {})
    affinity.setdefault(strictness, []).append(added)


def populate(world: World) -> None:
    """Adds pods where there are hardly any, as these themes are about pods that run."""
    if len(world.bound()) < 4 and world.maybe(0.85):
        for _ in range(world.number(4, 10)):
            add_bound(world, f"p{len(world.pods)}")


def pod_affinity(world: World) -> None:
    """Gives the pod required affinity, half of it to pods like itself."""
    own = own_labels(world.pending)
    for _ in range(1 if world.maybe(0.65) else world.number(2, 3)):
        made = term(world, own, 0.5)
        if world.maybe(0.5):
            made["namespaceSelector"] = {}
        add_term(world.pending, "podAffinity", REQUIRED, made)
    _fast_path(world)


def solitary_affinity(world: World) -> None:
    """Gives the pod required affinity to itself alone, or nearly, where the first pod of a group is let in."""
    world.pending["metadata"]["labels"] = {"tier": "front", **own_labels(world.pending), "app": "solo"}
    for key in world.some((HOSTNAME, ZONE, RACK), 1, 2):
        chosen = {"matchLabels": {"app": "solo"}} if world.maybe(0.8) else {"matchLabels": {"tier": "front"}}
        add_term(world.pending, "podAffinity", REQUIRED, {"topologyKey": key, "labelSelector": chosen})
    for index in range(world.number(0, 2)):
        peer = add_bound(world, f"solo{index}")
        if peer is not None:
            peer["metadata"]["labels"] = {"app": "solo", "tier": "back"}
            peer["metadata"]["namespace"] = world.namespace if world.maybe(0.5) else "team-b"


def pod_anti_affinity(world: World) -> None:
    """Gives the pod required anti-affinity."""
    populate(world)
    own = own_labels(world.pending)
    for _ in range(world.number(1, 2)):
        add_term(world.pending, "podAntiAffinity", REQUIRED, term(world, own))
    _fast_path(world)


def guarded(world: World) -> None:
    """Lets pods that run refuse others by their own required anti-affinity; some of it is aimed at the pending pod."""
    populate(world)
    target = own_labels(world.pending)
    for manifest in world.bound():
        if world.maybe(0.25):
            made = term(world, own_labels(manifest))
            if target and world.maybe(0.6):
                made = {"topologyKey": made["topologyKey"], "labelSelector": selector(world, target, 1.0)}
                if world.maybe(0.7):
                    made["namespaces"] = [world.namespace]
            add_term(manifest, "podAntiAffinity", REQUIRED, made)
    _fast_path(world)


def pod_preferences(world: World) -> None:
    """Gives the pod and pods that run preferred terms, and some of the latter required affinity, which scores too."""
    populate(world)
    own = own_labels(world.pending)
    if world.maybe(0.8):
        for _ in range(world.number(1, 3)):
            kind = world.pick(("podAffinity", "podAntiAffinity"))
            add_term(world.pending, kind, PREFERRED, weighted(world, own))
    for manifest in world.bound():
        if world.maybe(0.25):
            kind = world.pick(("podAffinity", "podAntiAffinity"))
            add_term(manifest, kind, PREFERRED, _attracted(world, manifest, own, preferred=True))
        if world.maybe(0.15):
            add_term(manifest, "podAffinity", REQUIRED, _attracted(world, manifest, own, preferred=False))
    if world.maybe(0.15):
        world.configure("InterPodAffinity", ignorePreferredTermsOfExistingPods=True)
    if world.maybe(0.3):
        world.configure("InterPodAffinity", hardPodAffinityWeight=world.pick((0, 1, 5, 100)))
    _fast_path(world)


def _attracted(world: World, manifest: Object, target: dict[str, str], *, preferred: bool) -> Object:
    """Draws a term of a pod that runs, often one about the pending pod."""
    made = term(world, own_labels(manifest))
    if target and world.maybe(0.5):
        made = {
            "topologyKey": made["topologyKey"],
            "labelSelector": selector(world, target, 1.0),
            "namespaceSelector": {},
        }
    return {"weight": world.pick((1, 10, 100)), "podAffinityTerm": made} if preferred else made


def _fast_path(world: World) -> None:
    if world.maybe(0.2):
        world.gates[HOSTNAME_FAST_PATH] = True
