"""Promised starts as they stand in the API: in the status of a group of ours, or as a condition of a pod.

For the edge, which writes them, and for the engine, which takes up what a former process promised.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .gang import PREFIX
from .times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .api import Condition

#: The condition of a pod that tells when it is expected to start.
PROMISED_START: Final = f"{PREFIX}/PromisedStart"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def time_text(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as the API writes it: to the second, and not before it."""
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def promise_text(start: float) -> str:
    """Return the message of the condition; `promised_in` reads it."""
    return f"room is reserved from {time_text(start)} on"


def promised_in(conditions: Iterable[Condition]) -> float | None:
    """Return the start that a pod was promised, in seconds since the epoch; None if it was promised none."""
    found = next((c for c in conditions if c.type == PROMISED_START and c.status == "True"), None)
    return moment_in(found.message) if found is not None else None


def moment_in(text: str | None) -> float | None:
    """Return the first time in a text, in seconds since the epoch; None if there is none that makes sense."""
    found = _TIME.search(text or "")
    try:
        return parse_time(found.group()) if found is not None else None
    except ValueError:
        return None
