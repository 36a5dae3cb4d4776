"""Proves parity with the real kube-scheduler: `python -m e2e.oracle --verdicts N [--allocations M] --seed S [--keep FOLDER]`.

Seeded cases go, chunk by chunk, through the oracle and through `ai-scheduler explain` until every filter plugin has given
N verdicts, every score plugin N/5 vectors, and N/20 preemptions were tried.  Exits with 1 on any mismatch that
`differences` does not name, or if a filter plugin has hardly ever passed, or hardly ever refused, a node.  The allocator of
devices is compared alone as well, in M cases, a fifth of N if it is not said; `--verdicts 0` compares nothing else.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from . import allocations, streams
from .build import UNAVAILABLE_EXIT_CODE, OracleUnavailableError, build
from .compare import report
from .generate import DEFAULT_THEMES
from .tally import FILTERS, PASSED, SCORES, Tally
from .themes import THEMES, Ground

LEAST_OF_EACH_VERDICT = 200
VERDICTS_PER_RARER_ONE = 20
"""Most nodes pass most filters whatever a case is about: refusals are asked for on their own."""

VERDICTS_PER_VECTOR = 5
VECTORS_PER_VARIED_ONE = 10
VERDICTS_PER_PREEMPTION = 20
VERDICTS_PER_ALLOCATION = 5
CHUNK_CASES = 1500
SHOWN_MISMATCHES = 60
MOST_CASES_PER_VERDICT = 10
"""A goal that the generator does not reach in so many cases is out of its reach; the run fails instead of going on."""


@dataclass(frozen=True)
class Goal:
    """How much has to be covered."""

    verdicts: int

    def lacking_themes(self, tally: Tally) -> list[str]:
        """Returns the themes aimed at what is not covered yet, each once."""
        least = max(LEAST_OF_EACH_VERDICT, self.verdicts // VERDICTS_PER_RARER_ONE)
        filters = {
            plugin
            for plugin in FILTERS
            if tally.verdicts[plugin].total() < self.verdicts
            or min(tally.rejections(plugin), tally.verdicts[plugin][PASSED]) < least
        }
        vectors = self.verdicts // VERDICTS_PER_VECTOR
        scores = {
            plugin
            for plugin in SCORES
            if tally.vectors[plugin] < vectors or tally.varied[plugin] < vectors // VECTORS_PER_VARIED_ONE
        }
        needs_preemption = tally.preemptions["dry runs"] < self.verdicts // VERDICTS_PER_PREEMPTION
        needs_requests = tally.requests < self.verdicts // VERDICTS_PER_PREEMPTION
        return [
            name
            for name in DEFAULT_THEMES
            if filters & {*THEMES[name].filters}
            or scores & {*THEMES[name].scores}
            or (needs_preemption and THEMES[name].ground is Ground.FULL)
            or (needs_requests and THEMES[name].ground is Ground.NONE)
        ]

    def shortcomings(self, tally: Tally) -> list[str]:
        """Returns the filter plugins that have given one of their verdicts too rarely to mean anything."""
        return [
            f"{plugin} {what} only {count} nodes"
            for plugin in FILTERS
            for what, count in (("refused", tally.rejections(plugin)), ("passed", tally.verdicts[plugin][PASSED]))
            if count < LEAST_OF_EACH_VERDICT
        ]


def run(goal: Goal, seed: int, folder: Path, oracle: Path, *, is_alone: bool) -> Tally:
    """Runs chunks until the goal is reached; the first covers every theme, later ones what is lacking."""
    tally = Tally()
    used = dict.fromkeys(DEFAULT_THEMES, 0)
    themes = list(DEFAULT_THEMES)
    chunk = 0
    while themes and tally.cases < CHUNK_CASES + MOST_CASES_PER_VERDICT * goal.verdicts:
        started = time.monotonic()
        made = streams.take(themes, used, seed, CHUNK_CASES)
        files = streams.answer(folder / f"{chunk:05d}", made, oracle, is_alone=is_alone)
        mismatches = [tally.add(case, ours, theirs) for case, ours, theirs in files.triples()]
        if not any(mismatches):
            files.forget()
        themes = goal.lacking_themes(tally)
        chunk += 1
        seconds = time.monotonic() - started
        print(
            f"{tally.cases} cases, {tally.mismatch_count} mismatches, {len(made) / seconds:.0f} cases/s, "
            f"{len(themes)} themes to go",
            file=sys.stderr,
            flush=True,
        )
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Runs the comparison, prints what it covered and what differs, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e.oracle", description=__doc__)
    parser.add_argument("--verdicts", type=int, default=1000, help="verdicts for each filter plugin")
    parser.add_argument("--allocations", type=int, metavar="M", help="cases of the allocator of devices alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep cases and results of chunks with mismatches")
    parser.add_argument("--alone", action="store_true", help="run the oracle alone, to see the coverage of the cases")
    options = parser.parse_args(arguments)
    try:
        oracle = build()
    except OracleUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return UNAVAILABLE_EXIT_CODE
    allocation_count = (
        options.verdicts // VERDICTS_PER_ALLOCATION if options.allocations is None else options.allocations
    )
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        is_equal = True
        if options.verdicts:
            is_equal = _verdicts(Goal(options.verdicts), options, folder, oracle)
        if allocation_count and not options.alone:
            is_equal &= _allocations(allocation_count, options, folder, oracle)
    return 0 if is_equal else 1


def _verdicts(goal: Goal, options: argparse.Namespace, folder: Path, oracle: Path) -> bool:
    """Compares verdicts, prints what was covered and what differs, and tells whether all is well."""
    tally = run(goal, options.seed, folder, oracle, is_alone=options.alone)
    shortcomings = goal.shortcomings(tally)
    print("\n".join(tally.table()))
    for line in [*report(tally.mismatches[:SHOWN_MISMATCHES]), *shortcomings]:
        print(line)
    return not tally.mismatch_count and not shortcomings


def _allocations(count: int, options: argparse.Namespace, folder: Path, oracle: Path) -> bool:
    """Does the same for the allocator of devices."""
    tally = allocations.run(count, options.seed, folder, oracle)
    shortcomings = tally.shortcomings()
    print("\n".join(tally.table()))
    for line in [*map(str, tally.mismatches[:SHOWN_MISMATCHES]), *shortcomings]:
        print(line)
    for identity in sorted({one.case_id for one in tally.mismatches[:SHOWN_MISMATCHES]}):
        print(allocations.reproduction(identity))
    return not tally.mismatches and not shortcomings


if __name__ == "__main__":
    sys.exit(main())
