"""Checkpoints: what a pod, or its group, says of the work that an eviction would lose.

For preemption, which weighs it, and for the intake, which tells what cannot be read.

| annotation (prefix `scheduling.ai-scheduler.io/`) | on | meaning |
|---|---|---|
| `last-checkpoint` | pod or its group | when its work was last saved, as an RFC 3339 time |
| `restart-seconds` | pod or its group | how long it takes from a start until work goes on; without it 120 |
| `eviction-notice-seconds` | pod or its group | how long before its eviction it is told, to save its work; without it what its queue says, or nothing |

What the pod says counts before what its group says.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from .gang import PREFIX
from .times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .gang import Gang
    from .pod import Pod

LAST_CHECKPOINT: Final = f"{PREFIX}/last-checkpoint"
RESTART_SECONDS: Final = f"{PREFIX}/restart-seconds"
NOTICE_SECONDS: Final = f"{PREFIX}/eviction-notice-seconds"
#: What a pod is told: when it will be evicted, and by which scheduler for which workload.
NOTICE: Final = f"{PREFIX}/eviction-notice"
NOTICE_FOR: Final = f"{PREFIX}/eviction-notice-for"
#: The longest notice, in seconds.
MOST_NOTICE_SECONDS: Final = 600.0
#: How long a start takes that says nothing of it: to pull images, load weights and join, in seconds.
DEFAULT_RESTART_SECONDS: Final = 120.0
#: By so many seconds the clock of whoever writes a checkpoint may be ahead.
CLOCK_SKEW_SECONDS: Final = 60.0
#: The largest restart time that is believed: a week.
MOST_RESTART_SECONDS: Final = 7 * 24 * 3600.0
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_ACCELERATORS: Final = ("gpu", "tpu", "npu", "gaudi", "neuron", "neuroncore", "neurondevice")


def checkpoint_of(annotations: Mapping[str, str], now: float) -> tuple[float | None, str]:
    """Return when work was last saved, in seconds since the epoch, and what is wrong; None for no checkpoint that counts."""
    text = annotations.get(LAST_CHECKPOINT)
    if text is None:
        return None, ""
    moment = _moment_of(text)
    if moment is None:
        return None, f"{LAST_CHECKPOINT}: {text!r} is no time; allowed is one such as 2026-01-31T08:00:00Z"
    if moment > now + CLOCK_SKEW_SECONDS:
        return None, f"{LAST_CHECKPOINT}: {text} is in the future; allowed are times up to now"
    return min(moment, now), ""


@lru_cache(maxsize=16_384)
def _moment_of(text: str) -> float | None:
    try:
        return parse_time(text.upper()) if _RFC_3339.fullmatch(text) else None
    except ValueError:
        return None


def restart_of(annotations: Mapping[str, str]) -> tuple[float | None, str]:
    """Return how long a start takes, in seconds, and what is wrong; None where nothing that counts is said."""
    return _seconds_of(annotations, RESTART_SECONDS, MOST_RESTART_SECONDS)


def notice_of(annotations: Mapping[str, str]) -> tuple[float | None, str]:
    """Return how long before an eviction notice is wanted, in seconds, and what is wrong; None where nothing that counts is said."""
    return _seconds_of(annotations, NOTICE_SECONDS, MOST_NOTICE_SECONDS)


def _seconds_of(annotations: Mapping[str, str], key: str, most: float) -> tuple[float | None, str]:
    text = annotations.get(key)
    if text is None:
        return None, ""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= most:
        return None, f"{key}: {text!r} is no time; allowed are seconds from 0 to {most:.0f}"
    return seconds, ""


def told_problems(annotations: Mapping[str, str], now: float) -> tuple[str, ...]:
    """Return what is wrong with what is said of checkpoints and restarts, as sentences."""
    found = checkpoint_of(annotations, now)[1], restart_of(annotations)[1], notice_of(annotations)[1]
    return tuple(text for text in found if text)


def saved_at(pod: Pod, gang: Gang | None, now: float) -> float:
    """Return since when a running pod's work would be lost: its last checkpoint or its start, whichever is later."""
    started = now if pod.started is None else min(pod.started, now)
    saved = checkpoint_of(pod.annotations, now)[0] if LAST_CHECKPOINT in pod.annotations else None
    if saved is None and gang is not None and LAST_CHECKPOINT in gang.annotations:
        saved = checkpoint_of(gang.annotations, now)[0]
    return started if saved is None else max(started, saved)


def restart_seconds(pod: Pod, gang: Gang | None) -> float:
    """Return how long a pod takes from its start until work goes on, in seconds."""
    for told in (pod.annotations, gang.annotations if gang is not None else {}):
        if RESTART_SECONDS in told and (seconds := restart_of(told)[0]) is not None:
            return seconds
    return DEFAULT_RESTART_SECONDS


def notice_seconds(pod: Pod, gang: Gang | None, queued: float | None) -> float:
    """Return how long before its eviction a pod is told, in seconds: what it says or its group, at most what its queue grants."""
    for told in (pod.annotations, gang.annotations if gang is not None else {}):
        if NOTICE_SECONDS in told and (seconds := notice_of(told)[0]) is not None:
            return seconds if queued is None else min(seconds, queued)
    return queued or 0.0


def accelerators(pod: Pod) -> int:
    """Return how many GPUs, or devices like them, a pod asks for; each ResourceClaim counts as one if no resource does."""
    found = sum(count for name, count in pod.requests.items() if _is_accelerator(name))
    return found or len(pod.claims)


@lru_cache(maxsize=1024)
def _is_accelerator(resource: str) -> bool:
    _, slash, name = resource.rpartition("/")
    return bool(slash) and (name in _ACCELERATORS or name.startswith("mig-"))
