"""What is written of a promised start: the condition of a pod that has no group of ours to tell it.

For the writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.promise import PROMISED_START, promise_text

if TYPE_CHECKING:
    from scheduler.framework.effects import SetPromisedStart
    from scheduler.model.api import Condition


def promised_condition(effect: SetPromisedStart, seen: Condition | None, now: str) -> dict[str, str]:
    """Return the condition; its transition is when a start was first told, or withdrawn."""
    status, reason, message = "False", "Withdrawn", "when it will start cannot be told any more"
    if effect.start is not None:
        status, reason, message = "True", "Reserved", promise_text(effect.start)
    condition = {"type": PROMISED_START, "status": status, "reason": reason, "message": message}
    if seen is None or seen.status != status:
        condition["lastTransitionTime"] = now
    return condition
