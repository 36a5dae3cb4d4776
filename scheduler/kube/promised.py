"""What is written of a promised start: a time, and the condition of a pod that has no group of ours to tell it.

For the writer.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scheduler.model.gang import PREFIX

if TYPE_CHECKING:
    from scheduler.framework.effects import SetPromisedStart
    from scheduler.model.api import Condition

#: The condition of a pod that tells when it is expected to start.
PROMISED_START = f"{PREFIX}/PromisedStart"


def time_text(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as the API writes it: to the second, and not before it."""
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def promised_condition(effect: SetPromisedStart, seen: Condition | None, now: str) -> dict[str, str]:
    """Return the condition; its transition is when a start was first told, or withdrawn."""
    status, reason, message = "False", "Withdrawn", "when it will start cannot be told any more"
    if effect.start is not None:
        status, reason, message = "True", "Reserved", f"room is reserved from {time_text(effect.start)} on"
    condition = {"type": PROMISED_START, "status": status, "reason": reason, "message": message}
    if seen is None or seen.status != status:
        condition["lastTransitionTime"] = now
    return condition
