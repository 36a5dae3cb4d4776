"""Label selectors over the labels that pods of a case carry, with all operators and all ways of being empty."""

from .pods import APPS, TIERS, VERSIONS
from .world import Object, World


def expression(world: World) -> Object:
    """Draws one requirement on pod labels."""
    key, values = world.pick((("app", APPS), ("tier", TIERS), ("version", VERSIONS), ("absent", ("x", "y"))))
    operator = world.pick(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": world.some(values, 1, 2)}


def selector(world: World, own: dict[str, str] | None = None, own_chance: float = 0.4) -> Object | None:
    """Draws a selector; with `own_chance` one that matches the labels `own`.  None stands for no selector at all."""
    if own and world.maybe(own_chance):
        return {"matchLabels": {key: own[key] for key in world.some(sorted(own), 1, 2)}}
    kind = world.rng.random()
    if kind < 0.45:
        return {"matchLabels": {"app": world.pick(APPS)}}
    if kind < 0.6:
        return {"matchLabels": {"app": world.pick(APPS), "tier": world.pick(TIERS)}}
    if kind < 0.85:
        return {"matchExpressions": [expression(world) for _ in range(world.number(1, 2))]}
    if kind < 0.93:
        return {}
    return None


def named_keys(chosen: Object) -> set[str]:
    """Returns the label keys that a selector speaks of."""
    return {*chosen.get("matchLabels", {}), *(one["key"] for one in chosen.get("matchExpressions", ()))}


def merge_label_keys(
    world: World, term: Object, own: dict[str, str], chance: float, *, can_mismatch: bool = False
) -> None:
    """Adds `matchLabelKeys` or `mismatchLabelKeys` to a term and merges them into its selector, as the API server does."""
    chosen = term.get("labelSelector")
    if chosen is None or not world.maybe(chance):
        return
    free = [key for key in ("version", "tier", "absent") if key not in named_keys(chosen)]
    keys = world.some(free, 1, 2)
    if not keys:
        return
    mismatched = keys[1:] if can_mismatch and world.maybe(0.5) else []
    if can_mismatch and world.maybe(0.3):
        mismatched = keys
    matched = [key for key in keys if key not in mismatched]
    if matched:
        term["matchLabelKeys"] = matched
    if mismatched:
        term["mismatchLabelKeys"] = mismatched
    merged = [
        {"key": key, "operator": operator, "values": [own[key]]}
        for operator, listed in (("In", matched), ("NotIn", mismatched))
        for key in listed
        if key in own
    ]
    if merged:
        term["labelSelector"] = {**chosen, "matchExpressions": [*chosen.get("matchExpressions", ()), *merged]}
