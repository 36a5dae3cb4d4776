"""`python -m benchmarks.policies`: who runs first when GPUs are short: our order beside published ones, on two traces.

The published policies are simulated with their authors' semantics, and their published figures stand beside what comes out: so
trace reader, clock, overheads and metrics can be trusted.  Needs nothing but Python; 13 seconds of processor time.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from scheduler.sim.policies.run import POLICIES, policy_json, run_policy
from scheduler.sim.traces.muri import read_muri
from scheduler.sim.traces.trace import ClusterShape

_TRACES = Path(__file__).parent.parent / "tests" / "data" / "traces"
_PUBLISHED = {"srsf": "SRSF", "srtf": "SRTF", "tiresias": "Tiresias_L"}


def run(names: list[str]) -> list[dict[str, Any]]:
    """Return the figures of every policy on some traces (`trace1`, `trace3`), with the published average where there is one."""
    with (_TRACES / "muri_published_results.csv").open(newline="") as file:
        published = {
            (row["policy"], name): row
            for row in csv.DictReader(file)
            if row["metric_seconds"] == "avg_jct"
            for name in names
        }
    found = []
    for name in names:
        shape = ClusterShape()
        trace = read_muri(str(_TRACES / f"muri_{name}.csv"), shape)
        for policy in POLICIES:
            row = published.get((_PUBLISHED.get(policy, ""), name))
            figures = policy_json(run_policy(policy, trace, shape))
            found.append({"trace": name, "published_mean_jct_seconds": float(row[name]) if row else None} | figures)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", description=__doc__)
    parser.add_argument("--trace", action="append", choices=["trace1", "trace3"], help="one of them alone")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)
    rows = run(chosen.trace or ["trace1", "trace3"])
    if chosen.output == "json":
        print(json.dumps({"policies": rows}, indent=2))
        return
    print("\nWho runs first: 64 GPUs, traces of Muri (seconds; * knows how long jobs run)")
    print(
        f"{'trace':8}{'policy':12}{'average JCT':>14}{'published':>14}{'p99 JCT':>14}{'makespan':>14}{'preemptions':>13}{'GPU-s lost':>13}"
    )
    for row in rows:
        figures = row["metrics"]
        told = row["published_mean_jct_seconds"]
        name = row["policy"] + ("*" if row["knows_run_times"] else "")
        print(
            f"{row['trace']:8}{name:12}{figures['mean_jct_seconds']:>14,.0f}{'-' if told is None else f'{told:,.0f}':>14}"
            f"{figures['p99_jct_seconds']:>14,.0f}{figures['makespan_seconds']:>14,.0f}{figures['preemptions']:>13,}"
            f"{figures['lost_gpu_seconds']:>13,.0f}"
        )


if __name__ == "__main__":
    main()
