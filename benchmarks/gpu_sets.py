"""How good the chosen GPUs are: links on a DGX-1V, what later pods lose, the speed of training, and what a table costs.

    python -m benchmarks.gpu_sets [--seed 1] [--occupancies 2000] [--sequences 1000] [-o json]

Links: over random occupancies of a DGX-1V, the links inside the chosen set divided by those of the best free set, which is found by
trying all; beside a random free set and the lowest free GPUs (first-fit).

Lost: pods of 1, 2, 4 and 8 GPUs come and go in random sequences; one that finds enough free GPUs loses what its set lacks to the
best set of its size on the empty machine.  All ways see the same pods, with the same ends.

Training: the estimate for jobs of Gavel's table (V100, 2 and 4 GPUs).  Its times for one step, consolidated and spread, are taken as those of
a set with all links that there can be and of one with none, and between them time falls linearly with the links.  Printed is the time
with a random free set over that with the chosen one, the geometric mean over jobs and occupancies.  It is an estimate: spread means
several nodes in the table.

JSON: {"seed", "links": [{"k", way: share of the best}], "lost": {"sequences", way: GB/s per pod}, "training": [{"gpus", "jobs", "speedUp"}],
"costs": [{"machine", "buildMilliseconds", "firstMicroseconds", "lookupMicroseconds"}], "goals": [{"what", "goal", "value", "met"}]}
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from scheduler.topology import GpuSetTable, NvLink, PcieLayout, build_machine, gpus_of_mask, known_machine, mask_of_gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.topology import Machine

    #: From the free GPUs as a mask and a size to the chosen mask.
    Way = Callable[[int, int], int]

GAVEL = Path(__file__).parent / "data" / "consolidation_sensitivity.csv"
GBPS_PER_LINK = 25
SIZES = (2, 3, 4, 5, 6)
#: Sizes of pods that come and go, by how often.
COMING = (1, 1, 2, 2, 2, 4, 4, 8)
EVENTS = 40
LOST_GOAL, LOOKUP_GOAL = 0.5, 5.0


def dgx1() -> Machine:
    """Return the machine of all figures about links."""
    return known_machine("Tesla-V100-SXM2-16GB", 8)


@cache
def links(mask: int) -> int:
    """Count the NVLinks inside a set of a DGX-1V."""
    direct = dgx1().direct_links
    return sum(int(direct[one, other]) for one, other in combinations(gpus_of_mask(mask), 2))


@cache
def best_links(free: int, k: int) -> int:
    """Return the most links that k free GPUs can have, by trying all sets."""
    return max(links(mask_of_gpus(gpus)) for gpus in combinations(gpus_of_mask(free), k))


def ways(chance: random.Random) -> dict[str, Way]:
    """Return how GPUs are chosen: ours first, then by chance, then the lowest."""
    table = GpuSetTable(dgx1())

    def chosen(free: int, k: int) -> int:
        best = table.best(free, k)
        assert best is not None, "enough are free"
        return best.mask

    return {
        "chosen": chosen,
        "random": lambda free, k: mask_of_gpus(chance.sample(gpus_of_mask(free), k)),
        "firstFit": lambda free, k: mask_of_gpus(gpus_of_mask(free)[:k]),
    }


def occupancies(chance: random.Random, k: int, count: int) -> list[int]:
    """Return masks of at least k free GPUs, in which any set has a link at all."""
    found: list[int] = []
    while len(found) < count:
        free = mask_of_gpus(chance.sample(range(8), chance.randint(k, 8)))
        if best_links(free, k):
            found.append(free)
    return found


def link_shares(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield for each size what share of the most links each way gets, on the average."""
    chance = random.Random(seed)
    for k in SIZES:
        free = occupancies(chance, k, count)
        shares = {
            name: fmean(links(way(mask, k)) / best_links(mask, k) for mask in free)
            for name, way in ways(random.Random(seed)).items()
        }
        yield {"k": k, **shares}


def lost(seed: int, sequences: int) -> dict[str, Any]:
    """Return what a pod loses on the average, in GB/s per direction, by way."""
    found: dict[str, Any] = {"sequences": sequences}
    for name, way in ways(random.Random(seed)).items():
        chance, losses = random.Random(seed), []
        for _ in range(sequences):
            losses += _play(way, chance)
        found[name] = fmean(losses) * GBPS_PER_LINK
    return found


def _play(way: Way, chance: random.Random) -> list[int]:
    """Let pods come and go; return the links that each one lacks.

    Whether a pod fits depends on how many GPUs are free and not on which, so all ways see the same.
    """
    free, running, losses = 0xFF, [], []
    for _ in range(EVENTS):
        k, leaves = chance.choice(COMING), chance.random()
        if running and leaves < 0.45:
            free |= running.pop(int(leaves / 0.45 * len(running)))
        elif k <= free.bit_count():
            mask = way(free, k)
            losses.append(best_links(0xFF, k) - links(mask))
            running.append(mask)
            free &= ~mask
    return losses


def training(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield by size how much faster jobs of Gavel's table run on the chosen GPUs than on random ones, as estimated."""
    with GAVEL.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == "v100"]
    for k in (2, 4):
        chance, by_name = random.Random(seed), ways(random.Random(seed))
        jobs = [row for row in rows if int(row["scale_factor"]) == k]
        times = [
            (1 / float(job["consolidated_steps_per_s"]), 1 / float(job["unconsolidated_steps_per_s"])) for job in jobs
        ]
        ratios = []
        for free in occupancies(chance, k, count):
            shares = [links(by_name[way](free, k)) / best_links(0xFF, k) for way in ("random", "chosen")]
            for near, far in times:
                random_time, chosen_time = (far + (near - far) * share for share in shares)
                ratios.append(random_time / chosen_time)
        yield {"gpus": k, "jobs": len(jobs), "speedUp": geometric_mean(ratios)}


def uneven(count: int) -> Machine:
    """Return a machine of so many GPUs in meshes of four, so that a table is needed."""
    direct = {
        (i, j): NvLink(4, 100) for start in range(0, count, 4) for i, j in combinations(range(start, start + 4), 2)
    }
    return build_machine(f"{count} GPUs", count, layout=PcieLayout.of_numa([0] * count), direct=direct)


def costs() -> Iterator[dict[str, Any]]:
    """Yield what a table costs: all sizes of an empty machine, then one question that is new and one that is not."""
    for name, machine in (("DGX-1V", dgx1()), ("16 GPUs, uneven", uneven(16))):
        started = time.process_time()
        table = GpuSetTable(machine)
        for k in range(1, machine.gpu_count + 1):
            table.best(machine.all_gpus, k)
        built = time.process_time()
        masks = list(range(1, 1 << machine.gpu_count, max(1, (1 << machine.gpu_count) // 256)))
        questions = [(mask, k) for mask in masks for k in (1, 2, 4) if k <= mask.bit_count()]
        for mask, k in questions:
            table.best(mask, k)
        asked = time.process_time()
        rounds = 50
        for _ in range(rounds):
            for mask, k in questions:
                table.best(mask, k)
        again = time.process_time()
        yield {
            "machine": name,
            "buildMilliseconds": 1e3 * (built - started),
            "firstMicroseconds": 1e6 * (asked - built) / len(questions),
            "lookupMicroseconds": 1e6 * (again - asked) / len(questions) / rounds,
        }


def measure(seed: int, count: int, sequences: int) -> dict[str, Any]:
    """Return all figures."""
    shares, losses = list(link_shares(seed, count)), lost(seed, sequences)
    lines = list(costs())
    goals = [_goal(f"DGX-1V, k = {row['k']}: links per most", 1.0, row["chosen"], at_least=True) for row in shares]
    goals.append(_goal("bandwidth lost by pods, of first-fit's", LOST_GOAL, losses["chosen"] / losses["firstFit"]))
    goals += [_goal(f"{line['machine']}: lookup, µs", LOOKUP_GOAL, line["lookupMicroseconds"]) for line in lines]
    return {
        "seed": seed,
        "links": shares,
        "lost": losses,
        "training": list(training(seed, count)),
        "costs": lines,
        "goals": goals,
    }


def _goal(what: str, goal: float, value: float, *, at_least: bool = False) -> dict[str, Any]:
    return {"what": what, "goal": goal, "value": value, "met": value >= goal if at_least else value <= goal}


def show(found: dict[str, Any]) -> None:
    """Print tables."""
    print(f"GPUs of a DGX-1V, seed {found['seed']}: links in the set per most links of a free set")
    print(f"{'k':>4}{'chosen':>10}{'random':>10}{'first-fit':>11}")
    for row in found["links"]:
        print(f"{row['k']:>4}{row['chosen']:>10.3f}{row['random']:>10.3f}{row['firstFit']:>11.3f}")
    losses = found["lost"]
    print(f"\nlost by a pod, GB/s per direction, over {losses['sequences']} sequences of pods that come and go")
    print(f"  chosen {losses['chosen']:.1f}, random {losses['random']:.1f}, first-fit {losses['firstFit']:.1f}")
    for row in found["training"]:
        print(
            f"training on {row['gpus']} V100, {row['jobs']} jobs: {row['speedUp']:.2f} times as fast as on random GPUs (estimate)"
        )
    print(f"\n{'table, processor time':24}{'build ms':>10}{'first µs':>10}{'lookup µs':>11}")
    for line in found["costs"]:
        figures = line["buildMilliseconds"], line["firstMicroseconds"], line["lookupMicroseconds"]
        print(f"{line['machine']:24}{figures[0]:>10.1f}{figures[1]:>10.1f}{figures[2]:>11.2f}")
    missed = [goal for goal in found["goals"] if not goal["met"]]
    print(f"\n{len(found['goals']) - len(missed)} of {len(found['goals'])} goals are met")
    for goal in missed:
        print(f"  missed: {goal['what']}: {goal['value']:.3f}, goal {goal['goal']}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--occupancies", type=int, default=2000, help="random occupancies for each size")
    parser.add_argument("--sequences", type=int, default=1000, help="sequences of pods that come and go")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    if options.occupancies < 1 or options.sequences < 1:
        parser.error("at least one occupancy and one sequence are needed")
    found = measure(options.seed, options.occupancies, options.sequences)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
