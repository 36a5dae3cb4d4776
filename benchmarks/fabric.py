"""How near together gangs are placed in the fabric, and what that costs: leaf switches, waits and speed, against other ways.

    python -m benchmarks.fabric [--seed 1] [--gangs 450] [--rounds 5] [-o json]

Fabrics: two of Topograph's models and a tree of 256 racks with 4,096 GPUs.  Gangs: 8 to 512 pods with 1, 2, 4 or 8 GPUs each,
that ask for nothing, prefer a leaf or else a block, require one domain, or come in segments of one leaf each.  The ways: the engine;
`node scores`, the engine without FabricTopology and without what gangs ask for; `random`, each pod on any node with room.

Leaf switches used are divided by two minima.  `leavesPerMinimum` takes the fewest leaves possible with what was free at that moment
and with what the gang asks for: no scheduler could do better, so this is what the goals speak of (1.0 on the empty cluster, at most
1.15 at 80 % load; medians and means).  `leavesPerIdleMinimum` takes the fewest if everything were idle, which tells how much worse a
busy cluster is for the gang.  Each way is measured by what it left free itself.

JSON: {
  "seed", "gangs" (how many arrive on each fabric),
  "fabrics": {name: {
    "nodes", "leaves",
    "empty": {kind: {way: figures}},                     each gang alone on the empty cluster
    "load": {"load": {way: share of GPUs in use while gangs arrive}, "kinds": {kind or "all": {way: figures}}}
  }},
  "speed": [{"what", "budgetMilliseconds", "firstMilliseconds" (a shape that the engine has not seen), "againMilliseconds"}],
  "goals": [{"what", "goal", "value", "met"}]
}
figures: {
  "gangs", "placed" (until the last one arrived), "placedInTheEnd" (when all others had left),
  "kept" (of those placed, how many stand as they ask; a gang that asks for nothing always does),
  "leavesPerMinimum", "leavesPerIdleMinimum": {"median", "mean", "worst"},
  "blocksMean" (domains of the level above leaves that a gang is in), "waitSeconds": {"median", "mean", "p90"}
}
The first third of the gangs only fills the cluster and is not counted.  Figures without gangs are null.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .fabric_arrivals import on_empty, under_load
from .fabric_layout import layouts
from .fabric_placing import WAYS
from .fabric_speed import speed

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY_GOAL, LOAD_GOAL = 1.0, 1.15
OURS = WAYS[0]
#: With fewer, nothing would be left to be counted on some fabric.
FEWEST_GANGS = 12


def measure(seed: int, gangs: int, rounds: int) -> dict[str, Any]:
    """Return all figures."""
    fabrics = {
        layout.name: {
            "nodes": len(layout.nodes),
            "leaves": int(layout.domains["tier-0"].max()) + 1,
            "empty": on_empty(layout, seed),
            "load": under_load(layout, gangs, seed),
        }
        for layout in layouts()
    }
    lines = list(speed(rounds))
    return {"seed": seed, "gangs": gangs, "fabrics": fabrics, "speed": lines, "goals": goals(fabrics, lines)}


def goals(fabrics: dict[str, Any], lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was to be reached, and whether it was."""
    found = []
    for name, fabric in fabrics.items():
        empty = [kind[OURS] for kind in fabric["empty"].values()]
        worst = max(ratios["worst"] for figures in empty if (ratios := figures["leavesPerMinimum"]) is not None)
        found.append(_goal(f"{name}, empty: leaves per minimum, worst", EMPTY_GOAL, worst))
        refused = sum(figures["gangs"] - figures["placed"] for figures in empty)
        found.append(_goal(f"{name}, empty: gangs that fit and were refused", 0, refused))
        loaded = fabric["load"]["kinds"]["all"][OURS]
        for key in ("median", "mean"):
            value = loaded["leavesPerMinimum"][key]
            found.append(_goal(f"{name}, 80 % load: leaves per minimum, {key}", LOAD_GOAL, value))
        broken = loaded["placed"] - loaded["kept"]
        found.append(_goal(f"{name}, 80 % load: gangs placed otherwise than they ask", 0, broken))
    for line in lines:
        values = [value for key in ("firstMilliseconds", "againMilliseconds") if (value := line[key]) is not None]
        found.append(_goal(f"{line['what']}, ms", line["budgetMilliseconds"], max(values)))
    return found


def _goal(what: str, goal: float, value: float) -> dict[str, Any]:
    return {"what": what, "goal": goal, "value": value, "met": value <= goal}


def show(found: dict[str, Any]) -> None:
    """Print tables."""
    print(
        f"Gangs in the fabric, seed {found['seed']}: leaves used per fewest possible, now (the goal) and if all were idle"
    )
    for name, fabric in found["fabrics"].items():
        print(f"\n{name}: {fabric['nodes']} nodes, {fabric['leaves']} leaf switches; each gang alone")
        _show_kinds(fabric["empty"], with_waits=False)
        load = ", ".join(f"{way} {share:.0%}" for way, share in fabric["load"]["load"].items())
        print(f"\n{name}: {found['gangs']} gangs come and go, 80 % of the GPUs asked for; in use: {load}")
        _show_kinds(fabric["load"]["kinds"], with_waits=True)
    print(f"\n{'speed, ms of processor time, median':62}{'first':>9}{'again':>9}{'budget':>9}")
    for line in found["speed"]:
        first, again = (_number(line[key], 1) for key in ("firstMilliseconds", "againMilliseconds"))
        print(f"{line['what']:62}{first:>9}{again:>9}{line['budgetMilliseconds']:>9.0f}")
    missed = [goal for goal in found["goals"] if not goal["met"]]
    print(f"\n{len(found['goals']) - len(missed)} of {len(found['goals'])} goals are met")
    for goal in missed:
        print(f"  missed: {goal['what']}: {goal['value']}, goal {goal['goal']}")


def _show_kinds(kinds: dict[str, Any], *, with_waits: bool) -> None:
    head = f"  {'asks for':10}{'way':13}{'placed':>9}{'kept':>6}{'now: median':>13}{'mean':>7}{'worst':>7}"
    head += f"{'idle: median':>14}{'mean':>7}{'blocks':>8}"
    print(head + (f"{'wait s: median':>16}{'mean':>7}{'p90':>7}" if with_waits else ""))
    for kind, ways in kinds.items():
        for way, figures in ways.items():
            now, idle = (figures[key] or {} for key in ("leavesPerMinimum", "leavesPerIdleMinimum"))
            row = f"  {kind:10}{way:13}{figures['placed']:>5}/{figures['gangs']:<3}{figures['kept']:>6}"
            row += f"{_number(now.get('median')):>13}{_number(now.get('mean')):>7}{_number(now.get('worst')):>7}"
            row += (
                f"{_number(idle.get('median')):>14}{_number(idle.get('mean')):>7}{_number(figures['blocksMean'], 1):>8}"
            )
            waits = figures["waitSeconds"] or {}
            if with_waits:
                row += f"{_number(waits.get('median'), 0):>16}{_number(waits.get('mean'), 0):>7}{_number(waits.get('p90'), 0):>7}"
            print(row)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gangs", type=int, default=450, help="how many arrive on each fabric")
    parser.add_argument("--rounds", type=int, default=5, help="how often each speed is measured")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    if options.gangs < FEWEST_GANGS or options.rounds < 1:
        parser.error(f"at least {FEWEST_GANGS} gangs and one round are needed")
    found = measure(options.seed, options.gangs, options.rounds)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
