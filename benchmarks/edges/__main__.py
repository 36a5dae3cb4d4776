"""What the edges cost, against a lean scripted server on loopback: `python -m benchmarks.edges [reading|whole]`.

| part | what it shows | goal |
|---|---|---|
| reading | 10,000 pods listed; 20,000 watch events with their handler | 0.3 s and 80 MiB; one second |
| whole | start until the first binding, 5,000 nodes and 50,000 pods; a burst of 10,000 pods by both ways of intake | 3 s; the Lease renewed in time, no pause of the collector over 20 ms |

Seconds of a machine that others use tell little: CPU seconds stand beside them, and what the standard library's `json` takes
for one of the pods, on the same machine at the same time (55 µs on an idle core).
"""

import argparse
import asyncio
import json
import subprocess
import sys
import timeit

from benchmarks.edges.objects import pod
from benchmarks.edges.whole import Server, measure


def yardstick_microseconds() -> float:
    """Returns what it takes here and now to decode one pod with the standard library, at best."""
    text = pod("p", 1, "n", "Running")
    return min(timeit.repeat(lambda: json.loads(text), number=100, repeat=20)) / 100 * 1e6


def reading(events: int) -> None:
    """Prints what lists and watch events take: the best of some rounds."""
    print(f"json.loads of a pod of {len(pod('p', 1, 'n'))} bytes: {yardstick_microseconds():.0f} µs")
    with Server(nodes=100, pods=10_000) as server:
        command = [sys.executable, "-m", "benchmarks.edges.reading", server.url, str(events), "4"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout.splitlines()
    listed, *watched = map(json.loads, lines)
    print(
        f"list of {listed['pods']:,} pods: {listed['seconds']:.2f} s, {listed['cpu_seconds']:.2f} CPU s, "
        f"{listed['mib']:.0f} MiB more ({listed['peak_mib']:.0f} at most)"
    )
    best, cpu = (min(run[key] for run in watched) for key in ("seconds", "cpu_seconds"))
    print(f"{events:,} watch events: {events / best:,.0f}/s; {events / cpu:,.0f} per CPU second")


def whole(nodes: int, pods: int, burst: int) -> None:
    """Prints what a start and a burst take, by both ways of intake."""
    for intake in ("kopf", "reflector"):
        print(
            f"\nintake {intake}: {nodes:,} nodes, {pods:,} pods, a burst of {burst:,}; yardstick {yardstick_microseconds():.0f} µs"
        )
        for name, value in asyncio.run(measure(intake, nodes, pods, burst)).items():
            print(
                f"  {name}: {value:.3f}" if isinstance(value, float) else f"  {name}: {json.dumps(value)}", flush=True
            )


def main() -> None:
    """Runs the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["reading", "whole"], default=["reading", "whole"])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--burst", type=int, default=10_000)
    options = parser.parse_args()
    if "reading" in options.parts:
        reading(options.events)
    if "whole" in options.parts:
        whole(options.nodes, options.pods, options.burst)


if __name__ == "__main__":
    main()
