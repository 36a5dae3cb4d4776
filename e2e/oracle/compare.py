"""Compares what two implementations say of the same cases, field by field.

A result is flattened to leaves by path, with the parts that are sets spread out to one leaf for each member, so that one
rule (equal leaves, absent means empty) serves every field.  `python -m e2e.oracle.compare CASES OURS THEIRS` compares
files of lines; what is known to differ on purpose stands in `differences`.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from .world import Object

Leaf = tuple[str, ...]
ABSENT = "absent"

SETS = frozenset({"feasible", "best", "skipped", "scoreSkipped", "potential", "chosen"})
"""Fields whose lists are sets; so are those within `prefilterNodes`."""

REQUEST_PARTS = ("incoming", "scored", "bound", "boundNonZero")
SHOWN_LENGTH = 400


@dataclass(frozen=True)
class Mismatch:
    """One leaf on which the implementations differ; a leaf that one of them lacks is shown as absent."""

    case_id: str
    path: Leaf
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        """Show the mismatch on three lines."""
        return (
            f"{self.case_id}: {'/'.join(self.path)}\n    ours   {_shown(self.ours)}\n    theirs {_shown(self.theirs)}"
        )


def compare(case_id: str, ours: Object, theirs: Object) -> list[Mismatch]:
    """Returns every difference; of errors only the presence counts."""
    if bool(ours.get("error")) != bool(theirs.get("error")):
        values = (one.get("error") or ABSENT for one in (ours, theirs))
        return [Mismatch(case_id, ("error",), *values)]
    if _is_bare_error(ours) or _is_bare_error(theirs):
        return []
    left, right = (dict(leaves(_comparable(one, theirs))) for one in (ours, theirs))
    return [
        Mismatch(case_id, path, left.get(path, ABSENT), right.get(path, ABSENT))
        for path in sorted(left.keys() | right.keys())
        if left.get(path, ABSENT) != right.get(path, ABSENT)
    ]


def _is_bare_error(result: Object) -> bool:
    return result.keys() <= {"id", "error"} and "error" in result


def _comparable(result: Object, theirs: Object) -> Object:
    """Returns the fields that can be compared: texts only where chance does not decide what the oracle's would be."""
    kept = {key: value for key, value in result.items() if key not in {"id", "error"}}
    if not theirs.get("fitError"):
        kept.pop("fitError", None)
    preemption = kept.get("preemption") or {}
    post_filter = preemption.get("postFilter")
    if post_filter and len(theirs.get("preemption", {}).get("chosen", ())) > 1:
        kept["preemption"] = {**preemption, "postFilter": {**post_filter, "reasons": []}}
    return kept


def leaves(value: Any, path: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Yields what a result says, leaf by leaf; an empty text, list, map or a false flag says nothing."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        yield from _list_leaves(value, path)
    elif _says_something(value, path):
        yield path, value


def _list_leaves(values: list[Any], path: Leaf) -> Iterator[tuple[Leaf, Any]]:
    if path[-1] in SETS or path[0] == "prefilterNodes":
        for member in values:
            yield (*path, member), True
    elif path[-1] == "reasons":
        if values:
            yield path, tuple(sorted(values))
    elif values:
        yield path, tuple(values)


def _says_something(value: Any, path: Leaf) -> bool:
    """Tells whether a leaf counts: a score of 0 does, a request of 0 is the same as none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return bool(value) or (is_number and path[0] not in REQUEST_PARTS)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}… ({len(text)} characters)"


def reproduction(case_id: str) -> str:
    """Returns the commands that show a case and both results again."""
    return (
        f"python -m e2e.oracle.generate --case {case_id} > case.jsonl; "
        '"$(python -m e2e.oracle.build)" < case.jsonl; ai-scheduler explain --cases case.jsonl'
    )


def read_lines(path: Path) -> Iterator[Object]:
    """Yields the objects of a file of JSON lines."""
    with path.open() as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def triples(cases: Path, ours: Path, theirs: Path) -> Iterator[tuple[Object, Object, Object]]:
    """Yields each case with both results; raises `ValueError` where the files do not belong together."""
    for case, left, right in zip_longest(read_lines(cases), read_lines(ours), read_lines(theirs)):
        if case is None or left is None or right is None:
            raise ValueError(f"{cases}, {ours} and {theirs} differ in length")
        if not case["id"] == left["id"] == right["id"]:
            raise ValueError(f"{case['id']}, {left['id']} and {right['id']} stand on the same line")
        yield case, left, right


def report(mismatches: Iterable[Mismatch], per_case: int = 5) -> Iterator[str]:
    """Yields lines about mismatches: the first few of each case, how many more, and how to see them again."""
    by_case: dict[str, list[Mismatch]] = {}
    for mismatch in mismatches:
        by_case.setdefault(mismatch.case_id, []).append(mismatch)
    for case_id, found in by_case.items():
        for mismatch in found[:per_case]:
            yield str(mismatch)
        if len(found) > per_case:
            yield f"    … and {len(found) - per_case} more in {case_id}"
        yield f"    again: {reproduction(case_id)}"


def main(arguments: list[str] | None = None) -> int:
    """Compares three files and prints coverage and mismatches; returns 1 if there are any."""
    from .tally import Tally  # noqa: PLC0415 - the tally needs this module

    parser = argparse.ArgumentParser(prog="python -m e2e.oracle.compare", description=__doc__)
    for name in ("cases", "ours", "theirs"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args(arguments)
    tally = Tally()
    for case, ours, theirs in triples(options.cases, options.ours, options.theirs):
        tally.add(case, ours, theirs)
    print("\n".join([*tally.table(), *report(tally.mismatches)]))
    return 1 if tally.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
