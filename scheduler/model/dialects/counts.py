"""Numbers as objects, labels and annotations give them, with their bounds; what is no such number becomes a problem.

For the adapters.  A problem is a sentence that names the field and what is allowed; nothing is raised.

| what it is | read by | out of bounds |
|---|---|---|
| a number of the API, which its schema has checked, or a text that has to be one | `checked`, `number_of` | the least that is allowed |
| a number of pods that no schema has checked, in a field or a text | `count_of`, `count_in` | None |
| an index, where having none is no fault | `index_in` | None, and no problem |
"""

from __future__ import annotations

import re

HIGHEST_INT32 = 2**31 - 1
#: More pods than any cluster runs: beyond it lies a slip of the pen.
MOST_PODS = 1_000_000
#: More digits than any index has; longer texts are no numbers to anybody.
_LONGEST_NUMBER = 18
_LONGEST_SHOWN = 60
#: A number of the API, with a sign or without.
_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{_LONGEST_NUMBER}}}")


def checked(value: int, field: str, problems: list[str], least: int = 1, most: int = HIGHEST_INT32) -> int:
    """Return the number; out of range, it is the least that is allowed and a problem."""
    if least <= value <= most:
        return value
    problems.append(f"{field}: {shown(value)} is out of range; {_allowed(least, most)}")
    return least


def number_of(text: str, field: str, problems: list[str], least: int = 1, most: int = HIGHEST_INT32) -> int:
    """Return the number that a text is; if it is none, the least that is allowed and a problem."""
    if _NUMBER.fullmatch(text):
        return checked(int(text), field, problems, least, most)
    problems.append(f"{field}: {shown(text)} is no number; {_allowed(least, most)}")
    return least


def count_of(value: object, where: str, problems: list[str], lowest: int = 0) -> int | None:
    """Return a field that is a number of pods; None, with a problem, if it is something else."""
    if isinstance(value, bool) or not isinstance(value, int):
        problems.append(f"{where}: {shown(value)} is no whole number; allowed are numbers from {lowest}")
        return None
    if not lowest <= value <= MOST_PODS:
        allowed = f"allowed are numbers from {lowest} to {MOST_PODS}"
        problems.append(f"{where}: {shown(value)} is out of range; {allowed}")
        return None
    return value


def count_in(text: str | None, where: str, problems: list[str], lowest: int = 1) -> int | None:
    """Return the number of pods that an annotation spells; None, with a problem, if it is absent or spells none."""
    if text is None:
        problems.append(f"{where}: is missing; allowed are numbers from {lowest}")
        return None
    index = index_in(text)
    return count_of(text if index is None else index, where, problems, lowest)


def index_in(text: str | None) -> int | None:
    """Return the index that a label or annotation spells; None if it spells none."""
    is_index = text and text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if text and is_index else None


def shown(value: object) -> str:
    """Return a value as it stands in a message: cut where it would fill the line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _allowed(least: int, most: int) -> str:
    return f"allowed are numbers from {least}" + (f" to {most}" if most != HIGHEST_INT32 else "")
