"""`python -m benchmarks.peers`: every workload with every scheduler in turns; a table, and all figures as JSON.

    python -m benchmarks.peers [--only WORD…] [--schedulers NAME…] [--repetitions 3] [--small] [-o FILE]
    python -m benchmarks.peers --page FILE  # the table of an earlier run
    python -m benchmarks.peers --check      # small, once; fails if counts or ratios are not as reviewed (ranges.yaml)

Each turn has a fresh control plane and a fresh scheduler.  The file is written after every turn, so that a run that is
interrupted keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from e2e.controlplane import build
from scheduler.kube.event_loop import new_runner

from .client import Api
from .plane import FreshPlane, fresh_plane
from .ranges import found_values, problems
from .results import Results, page
from .schedulers import running
from .stage import Stage
from .work import counters
from .workloads import ALL, WORKLOADS, Sizes, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What may go wrong in one turn without ending the run.
FAILURES = (TimeoutError, RuntimeError, OSError, aiohttp.ClientError, ExceptionGroup)
PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "kube-scheduler")


def turn(
    workloads: list[Workload], name: str, programs: Path, *, is_small: bool, profile: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Let one scheduler do workloads on a fresh control plane; yield figures and counted requests, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="ai-scheduler-peers-") as text, ExitStack() as stack:
        fresh: FreshPlane | None = None
        for workload in workloads:
            began = time.monotonic()
            sizes = workload.small if is_small and workload.small else workload.full
            try:
                fresh = fresh or stack.enter_context(fresh_plane(programs, Path(text)))
                idle = 2 if is_small else 5
                with new_runner() as runner:
                    found = runner.run(
                        work(workload, name, sizes, Path(text), fresh, idle_seconds=idle, profile=profile)
                    )
            except FAILURES as error:
                print("\n".join([repr(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
                found = {"error": str(error) or repr(error)}
            yield {"workload": workload.name, "scheduler": name, "seconds": round(time.monotonic() - began, 1), **found}


async def work(
    workload: Workload,
    name: str,
    sizes: Sizes,
    folder: Path,
    fresh: FreshPlane,
    *,
    idle_seconds: float,
    profile: Path | None = None,
) -> dict[str, Any]:
    """Let a fresh scheduler do one workload, with nothing left of an earlier one."""
    plane = fresh.plane
    async with Api(plane.server, plane.token, plane.certificate_authority) as api:
        await Stage.clear(api)
        await Stage.make_nodes(api, sizes.nodes, workload.gpus)
        with running(
            name, plane, fresh.token, folder, sizes.nodes, profile and profile / f"{workload.name}.prof"
        ) as scheduler:
            stage = Stage(api, fresh.audit, scheduler, idle_seconds)
            await stage.warm_up()
            figures = await workload.run(stage, sizes)
        return {"figures": figures, "requests": {what: dict(n.most_common()) for what, n in stage.requests.items()}}


def chosen(options: argparse.Namespace, name: str) -> list[Workload]:
    """Return the workloads that a scheduler has to do."""
    found = [w for w in WORKLOADS if not options.only or any(word in w.name for word in options.only)]
    if options.small:
        found = [w for w in found if w.small is not None and (name in w.small_schedulers or options.schedulers)]
    return [w for w in found if name in w.schedulers]


def batches(options: argparse.Namespace, repetition: int) -> Iterator[tuple[str, list[Workload]]]:
    """Yield who does what on one control plane: one workload, or all of them if they are small.

    Who goes first changes from one repetition to the next.
    """
    wanted = options.schedulers or list(ALL)
    shift = repetition % len(wanted)
    names = wanted[shift:] + wanted[:shift]
    if options.small:
        yield from ((name, found) for name in names if (found := chosen(options, name)))
    else:
        yield from ((name, [w]) for w in WORKLOADS for name in names if w in chosen(options, name))


def report(results: Results) -> None:
    """Say what the last turn found."""
    last = results.turns[-1]
    print(
        f"{last['workload']}, {last['scheduler']}, repetition {last['repetition']} ({last['seconds']:.0f} s):",
        flush=True,
    )
    for part, figures in last.get("figures", {}).items():
        said = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        print(f"  {part}{': ' if part else ''}{said}", flush=True)
    if "error" in last:
        print(f"  failed: {last['error']}", flush=True)


def run(options: argparse.Namespace, results: Results, programs: Path) -> None:
    """Let all take their turns."""
    for repetition in range(options.repetitions):
        for name, workloads in batches(options, repetition):
            for found in turn(workloads, name, programs, is_small=options.small, profile=options.profile):
                results.add({"repetition": repetition + 1, **found})
                report(results)


def arguments(words: list[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", help="only workloads with one of these words in their name"
    )
    parser.add_argument("--schedulers", nargs="+", choices=ALL, help="only these")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N")
    parser.add_argument("--small", action="store_true", help="small clusters, for a look whether all works")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all figures to this file, as JSON")
    parser.add_argument("--check", action="store_true", help="small, once, and compared with the reviewed ranges")
    parser.add_argument(
        "--profile", type=Path, metavar="FOLDER", help="run ai-scheduler under cProfile, and keep what it finds"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="print the table of a file of an earlier run, and end"
    )
    options = parser.parse_args(words)
    if options.check:
        options.small, options.repetitions = True, 1
    return options


def checked(results: Results) -> int:
    """Say which counts and ratios are out of their reviewed ranges; 1 if one is."""
    found = problems({**found_values(results.turns), **counters()})
    print("\n".join([f"out of range: {line}" for line in found] or ["all counts and ratios are in their ranges"]))
    return 1 if found else 0


def main(words: list[str]) -> int:
    """Run, and print the table, also of a run that was interrupted; 1 if a turn failed, 3 if there is no control plane."""
    options = arguments(words)
    if options.page:
        print(page(json.loads(options.page.read_text())))
        return 0
    try:
        programs = build.build(PROGRAMS)
    except build.ControlPlaneUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return build.UNAVAILABLE_EXIT_CODE
    results = Results(programs, words, options.output)
    try:
        run(options, results, programs)
    except KeyboardInterrupt:
        print("interrupted; what was measured until now:", file=sys.stderr)
    print(f"\n{results.page}")
    failed = any("error" in each for each in results.turns)
    return max(int(failed), checked(results) if options.check else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
