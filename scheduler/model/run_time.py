"""Run times as users state them: an annotation of ours, and Kueue's maximum execution time.

For the engine, which plans with them.  Nothing is enforced here; a value that makes no sense counts as none, and is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gang import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How long a pod is expected to run, in whole seconds; on the pod, its PodGroup or its Job.
EXPECTED_RUN_SECONDS = f"{PREFIX}/expected-run-seconds"
#: After how many seconds Kueue ends a workload (a label, KEP-3125).
MAX_EXEC_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
#: Reason of the event that names what is wrong with the annotation.
INVALID_RUN_TIME = "InvalidRunTime"
#: About 30 years.
MOST_SECONDS = 10**9
_LONGEST_SHOWN = 40


def seconds_at(keys: Mapping[str, str], key: str) -> int | None:
    """Return a stated time in seconds; None if there is none, or one that makes no sense."""
    text = keys.get(key)
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST_SECONDS)):
        return None
    seconds = int(text)
    return seconds if 1 <= seconds <= MOST_SECONDS else None


def problem_at(annotations: Mapping[str, str]) -> str:
    """Return what is wrong with the annotation, with what is allowed; empty if nothing is."""
    text = annotations.get(EXPECTED_RUN_SECONDS)
    if text is None or seconds_at(annotations, EXPECTED_RUN_SECONDS) is not None:
        return ""
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    return (
        f"annotation {EXPECTED_RUN_SECONDS}: {shown!r} is no run time and does not count; "
        f"allowed: whole seconds from 1 to {MOST_SECONDS}, such as '3600'"
    )
