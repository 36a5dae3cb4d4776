"""Numbers of pods as foreign objects and annotations give them, with the problem if they give none.

For the adapters that read what no schema has checked.
"""

from __future__ import annotations

#: More pods than any cluster runs: beyond it lies a slip of the pen.
MOST_PODS = 1_000_000
#: More digits than any index has; longer texts are no numbers to anybody.
_LONGEST_NUMBER = 18
_LONGEST_SHOWN = 60


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
