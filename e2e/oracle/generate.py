"""Generates cases from a seed: `python -m e2e.oracle.generate --seed S --count N [--theme NAME] > cases.jsonl`.

A case is a pure function of seed, theme and index; its id `THEME-SEED-INDEX` says all three, so that one case can be made
again alone with `--case ID`.  What the cases hold is what an API server would accept; `oracle -admit` proves it.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator

from . import nodes
from .pods import container, fill, fix_quality_of_service, labels, pod, small_requests
from .resources import cover_containers
from .themes import EXCLUSIVE, JOINS_PREEMPTION, THEMES, Ground
from .world import PODS_PER_NODE, Object, World

DEFAULT_THEMES = tuple(THEMES)
JOINING = tuple(
    name for name, theme in THEMES.items() if theme.joins and theme.ground not in {Ground.FULL, Ground.NONE}
)
SOFT_JOINING = tuple(name for name in JOINING if THEMES[name].is_soft)


def case_id(theme: str, seed: int, index: int) -> str:
    """Returns the id of a case."""
    return f"{theme}-{seed}-{index}"


def case(theme: str, seed: int, index: int) -> Object:
    """Returns one case; the same arguments always give the same."""
    name = case_id(theme, seed, index)
    world = World(random.Random(name), name)
    world.tags.append(theme)
    ground = THEMES[theme].ground
    if ground is not Ground.NONE:
        _lay_ground(world, ground)
    THEMES[theme].apply(world)
    if ground is Ground.FULL:
        _join_preemption(world, theme)
    elif ground is not Ground.NONE:
        _join(world, theme)
    manifests = [world.pending, *world.pods]
    cover_containers(manifests)
    fix_quality_of_service(manifests)
    return world.case()


def case_of(identity: str) -> Object:
    """Returns the case of an id."""
    theme, seed, index = identity.rsplit("-", 2)
    return case(theme, int(seed), int(index))


def cases(seed: int, count: int, theme: str | None = None) -> Iterator[Object]:
    """Yields cases of one theme, or of all themes in turn."""
    chosen = (theme,) if theme else DEFAULT_THEMES
    for position in range(count):
        yield case(chosen[position % len(chosen)], seed, position // len(chosen))


def _lay_ground(world: World, ground: Ground) -> None:
    """Makes nodes, pods that run and a pending pod."""
    sizes = nodes.TIGHT if ground is Ground.TIGHT else nodes.ROOMY
    count = world.number(2, 6) if ground is Ground.FULL else world.number(2, 9)
    world.nodes = [nodes.node(world, index, sizes) for index in range(count)]
    place = world.pick(("default", "default", "team-a"))
    first = [container(world, "main", small_requests(world))]
    world.pending = pod(world, "pending", place, labels(world), first)
    if ground is not Ground.FULL:
        fill(world, min(world.pick((0, 3, 8, 15, 25)), count * (PODS_PER_NODE - 3)))


def _join(world: World, theme: str) -> None:
    """Lets up to two other themes shape the case too; a theme about scores is mostly joined by such themes."""
    for _ in range(world.pick((0, 0, 1, 1, 2))):
        pool = SOFT_JOINING if THEMES[theme].scores and world.maybe(0.8) else JOINING
        other = world.pick(pool)
        if other in world.tags or any(other in group and group & set(world.tags) for group in EXCLUSIVE):
            continue
        world.tags.append(other)
        THEMES[other].apply(world)


def _join_preemption(world: World, theme: str) -> None:
    for tag, apply, chance in JOINS_PREEMPTION:
        if world.maybe(chance) and not any(tag in group and theme in group for group in EXCLUSIVE):
            world.tags.append(tag)
            apply(world)


def main(arguments: list[str] | None = None) -> int:
    """Writes cases to standard output, one a line."""
    parser = argparse.ArgumentParser(prog="python -m e2e.oracle.generate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--theme", choices=sorted(THEMES), help="only cases of this theme")
    parser.add_argument("--case", metavar="ID", help="only the case of this id")
    options = parser.parse_args(arguments)
    made = [case_of(options.case)] if options.case else cases(options.seed, options.count, options.theme)
    for one in made:
        sys.stdout.write(to_line(one))
    return 0


def to_line(one: Object) -> str:
    """Returns a case as a line."""
    return json.dumps(one, separators=(",", ":"), sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.exit(main())
