"""Runs the scenarios of a file on our engine and compares the end states; README.md says what the files mean.

    python -m benchmarks.scenarios FILE.jsonl [--kind KIND] [-o json]
    python -m benchmarks.scenarios FILE.jsonl --list-kinds

The exit code is 0 if all are as expected, 1 if one differs, 2 if the file cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from .form import Kind
from .playing import Outcome, play
from .reading import ScenarioError, read_scenarios

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .form import Scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        scenarios = read_scenarios(options.file)
    except ScenarioError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return 2
    if options.kind:
        scenarios = [scenario for scenario in scenarios if scenario.kind in options.kind]
        if not scenarios:
            print(f"{options.file}: it has no scenario of kind {', '.join(options.kind)}", file=sys.stderr)
            return 2
    if options.list_kinds:
        for kind, count in sorted(Counter(scenario.kind for scenario in scenarios).items()):
            print(f"{kind:14} {count:4}")
        return 0
    outcomes = _json(scenarios) if options.output == "json" else _text(scenarios)
    return 0 if all(outcome.is_ok for outcome in outcomes) else 1


def _text(scenarios: Sequence[Scenario]) -> list[Outcome]:
    """Print a line for each scenario as it ends, then how many went as expected."""
    outcomes = []
    for scenario in scenarios:
        outcome = play(scenario)
        print(f"{'ok' if outcome.is_ok else 'differs':8} {scenario.id}", flush=True)
        if not outcome.is_ok:
            print(f"         {outcome.difference}")
        outcomes.append(outcome)
    print(_sum(outcomes))
    return outcomes


def _json(scenarios: Iterable[Scenario]) -> list[Outcome]:
    """Print one document, and on standard error how many went as expected."""
    outcomes = [play(scenario) for scenario in scenarios]
    found = [{"id": one.id, "ok": one.is_ok, "difference": one.difference} for one in outcomes]
    print(json.dumps({"scenarios": found}, indent=2))
    print(_sum(outcomes), file=sys.stderr)
    return outcomes


def _sum(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(outcome.is_ok for outcome in outcomes)} of {len(outcomes)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scenarios", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, metavar="FILE.jsonl", help="one scenario a line")
    parser.add_argument(
        "--kind", action="append", choices=get_args(Kind), help="only scenarios of this kind; may be repeated"
    )
    parser.add_argument("--list-kinds", action="store_true", help="say how many scenarios of each kind there are")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text if it is not given")
    return parser


if __name__ == "__main__":
    sys.exit(main())
