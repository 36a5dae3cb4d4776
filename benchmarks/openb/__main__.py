"""How much of a GPU cluster can be allocated, and how much of the rest is fragments, beside six published policies.

    python -m benchmarks.openb [--nodes FILE] [--pods FILE] [--seeds 42-51] [--ties fixed|random] [-o json]

The trace is openb (1,213 nodes, 6,212 GPUs; `benchmarks/openb/data/README.md` tells where it is from), the protocol that of Weng et
al., USENIX ATC 2023: the pods of a list are shuffled and drawn again until 130 % of the GPUs are asked for, submitted one by one to
the engine with its default profile, and never leave; what does not fit is dropped.  Without files, the copied node list and the
workload multigpu30; any list of that form will do.  `--ties` says how the engine ends ties between equally good nodes: by one
arbitrary order of nodes per seed, as the published figures do, or by chance for each pod.

JSON: {
  "openb": [{"workload", "ties", "seed",
             "alloc_pct": {"90", "95", "100", "130"},   GPUs in use, percent of the cluster, when so many percent had been asked for
             "frag_ratio": {"50", "80", "90"},          expected fragments, percent of what is idle
             "decisions_per_second"}],                  in the engine alone, on an otherwise idle machine
  "mean": {"alloc_pct", "frag_ratio", "decisions_per_second"},
  "published": {policy: {"alloc_pct", "frag_ratio"}}    empty for a workload that was not published
}
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .playing import ALLOC_POINTS, FRAG_POINTS, Run
from .published import published
from .workload import DATA, WorkloadError, read_nodes, read_pods

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES, PODS = DATA / "openb_node_list_gpu_node.csv", DATA / "openb_pod_list_multigpu30.csv"


def measure(nodes_file: Path, pods_file: Path, seeds: Sequence[int], ties: str) -> dict[str, Any]:
    """Return all figures; WorkloadError if a file cannot be read."""
    nodes, pods, workload = read_nodes(nodes_file), read_pods(pods_file), pods_file.name.partition(".")[0]
    runs = []
    for seed in seeds:
        run = Run(nodes, pods, seed, ties)
        figures = run.play()
        speed = run.decided / run.seconds
        runs.append({"workload": workload, "ties": ties, "seed": seed, **figures, "decisions_per_second": speed})
    means: dict[str, Any] = {
        key: {point: _mean([run[key][point] for run in runs]) for point in runs[0][key]}
        for key in ("alloc_pct", "frag_ratio")
    }
    means["decisions_per_second"] = _mean([run["decisions_per_second"] for run in runs])
    return {"openb": runs, "mean": means, "published": published(workload)}


def show(found: dict[str, Any]) -> None:
    """Print a table."""
    first, count = found["openb"][0], len(found["openb"])
    print(
        f"{first['workload']}, ties {first['ties']}, mean of {count} seeds: percent, when so many percent of all GPUs were asked for"
    )
    alloc = "".join(f"{f'@{point}':>9}" for point in ALLOC_POINTS)
    frag = "".join(f"{f'@{point}':>9}" for point in FRAG_POINTS)
    print(f"{'':16}{'GPUs in use':>{9 * len(ALLOC_POINTS)}}{'fragments, of what is idle':>{9 * len(FRAG_POINTS) + 4}}")
    print(f"{'':16}{alloc}    {frag}")
    for name, figures in {**found["published"], "ai-scheduler": found["mean"]}.items():
        alloc = "".join(_number(figures["alloc_pct"][str(point)]) for point in ALLOC_POINTS)
        frag = "".join(_number(figures["frag_ratio"][str(point)]) for point in FRAG_POINTS)
        print(f"{name:16}{alloc}    {frag}")
    print(f"{found['mean']['decisions_per_second']:.0f} decisions per second, default profile")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.2f}':>9}"


def _seeds(text: str) -> list[int]:
    """Read `42`, `42-51` or `42,44`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) < int(first):
            raise argparse.ArgumentTypeError(
                f"{text!r} is no list of seeds; allowed are forms such as 42, 42-51 and 42,44"
            )
        found += range(int(first), int(last or first) + 1)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; a file that cannot be read ends it with exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.openb", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=Path, default=NODES, metavar="FILE", help="node list (default: the trace's)")
    parser.add_argument("--pods", type=Path, default=PODS, metavar="FILE", help="pod list (default: multigpu30)")
    parser.add_argument("--seeds", type=_seeds, default=_seeds("42-51"), metavar="42-51")
    parser.add_argument("--ties", choices=("fixed", "random"), default="fixed")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    try:
        found = measure(options.nodes, options.pods, options.seeds, options.ties)
    except WorkloadError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if options.output == "json":
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
