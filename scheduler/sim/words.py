"""Numbers and names as people read them, for reports and pages."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_NUMBERED = re.compile(r"(.*?)(\d+)")


def duration(seconds: float) -> str:
    """Return a time as its two largest units: 12s, 3m05s, 1h02m, 2d03h."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def when(seconds: float) -> str:
    """Return a time after the start; a dump has times before it."""
    return f"{duration(-seconds)} before" if round(seconds) < 0 else duration(max(0.0, seconds))


def count(number: int, word: str) -> str:
    """Return a number with its word, in the plural where it belongs."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def percent(share: float) -> str:
    """Return a share, 0 to 1, as a percentage."""
    return f"{100 * share:.0f}%"


def short_names(names: Iterable[str]) -> str:
    """Return names with common beginnings and running numbers drawn together: `gpu-[01-04,09]`."""
    numbered: dict[str, list[str]] = {}
    for name in sorted(names):
        match = _NUMBERED.fullmatch(name)
        if match is None:
            numbered[f"{name} "] = [""]
        else:
            numbered.setdefault(match[1], []).append(match[2])
    return ", ".join(_drawn_together(prefix, numbers) for prefix, numbers in numbered.items())


def _drawn_together(prefix: str, numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]}".strip()
    ordered = sorted(numbers, key=lambda number: (int(number), number))
    runs = []
    for _, group in groupby(enumerate(ordered), key=lambda item: int(item[1]) - item[0]):
        run = [number for _, number in group]
        runs.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return f"{prefix}[{','.join(runs)}]"


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts running numbers by their value: node-9 before node-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(shares: Sequence[float]) -> str:
    """Return shares, 0 to 1, as a line of bars."""
    return "".join(_BARS[min(len(_BARS) - 1, int(share * len(_BARS)))] for share in shares)
