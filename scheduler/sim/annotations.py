"""The annotations that tell a simulation what a kubelet or a user would do.  No real cluster reads them.

| annotation (prefix `scheduling.ai-scheduler.io/`) | on | meaning |
|---|---|---|
| `run-seconds` | pod, pod template, Job | how long a pod runs before it ends; without it, it runs on |
| `submit-seconds` | any object | when the object is created, in seconds after the start |
| `exit-code` | pod, pod template | what the pod ends with: 0 succeeds (the default), anything else fails |
| `fail-count` | pod template | with an exit code: only so many pods of the controller fail, the later ones succeed |
| `checkpoint-grace-seconds` | pod, pod template | how long an evicted pod takes to end, at most its grace period |
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scheduler.model.checkpoints import LAST_CHECKPOINT, NOTICE, NOTICE_FOR, NOTICE_SECONDS, RESTART_SECONDS
from scheduler.model.dialects.own import GROUP_LABEL
from scheduler.model.dialects.owner_objects import MIN_MEMBER_ANNOTATION
from scheduler.model.dialects.owners import GANG_LABEL
from scheduler.model.gang import PREFIX
from scheduler.topology import GPUS_ANNOTATION, NIC_SCOPE_ANNOTATION, NICS_ANNOTATION, NODE_TOPOLOGY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: No simulation is longer: about 30 years.
MOST_SECONDS = 10**9
RUN_SECONDS = f"{PREFIX}/run-seconds"
SUBMIT_SECONDS = f"{PREFIX}/submit-seconds"
EXIT_CODE = f"{PREFIX}/exit-code"
FAIL_COUNT = f"{PREFIX}/fail-count"
CHECKPOINT_GRACE_SECONDS = f"{PREFIX}/checkpoint-grace-seconds"

_SECONDS = (RUN_SECONDS, SUBMIT_SECONDS, CHECKPOINT_GRACE_SECONDS)
_HIGHEST_EXIT_CODE = 255
#: All keys with our prefix that mean something, to the simulation or in a cluster.
_LABELS = (GROUP_LABEL, GANG_LABEL, *(f"{PREFIX}/{name}" for name in ("role", "rank", "queue")))
_ANNOTATIONS = (
    *_SECONDS, EXIT_CODE, FAIL_COUNT, MIN_MEMBER_ANNOTATION, GPUS_ANNOTATION, NODE_TOPOLOGY_ANNOTATION,
    NICS_ANNOTATION, NIC_SCOPE_ANNOTATION, LAST_CHECKPOINT, RESTART_SECONDS, NOTICE_SECONDS, NOTICE, NOTICE_FOR,
    *(f"{PREFIX}/{name}" for name in ("domain", "placement", "expected-run-seconds", "restartable")),
)  # fmt: skip
_OUR_WORD = "ai-scheduler"


def seconds_of(annotations: Mapping[str, str] | None, key: str) -> float | None:
    """Return an annotation as seconds, or None where it is absent; ValueError says what is allowed."""
    text = (annotations or {}).get(key)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"{text!r} is no time; allowed: seconds from 0 to {MOST_SECONDS}, such as '600'")
    return seconds


def count_of(annotations: Mapping[str, str] | None, key: str, highest: int | None = None) -> int | None:
    """Return an annotation as a whole number from 0, or None where it is absent; ValueError says what is allowed."""
    text = (annotations or {}).get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or (highest is not None and int(text) > highest):
        raise ValueError(f"{text!r} is not allowed; allowed: whole numbers from 0{f' to {highest}' if highest else ''}")
    return int(text)


def annotation_problems(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield (key, sentence) for each of these annotations that makes no sense."""
    for key in _SECONDS:
        try:
            seconds_of(annotations, key)
        except ValueError as error:
            yield key, str(error)
    for key, highest in ((EXIT_CODE, _HIGHEST_EXIT_CODE), (FAIL_COUNT, None)):
        try:
            count_of(annotations, key, highest)
        except ValueError as error:
            yield key, str(error)


def key_problems(labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield (path, sentence) for each key that is meant for us and that nobody reads: misspelt, or in the wrong place."""
    for place, keys, known, other, others in (
        ("labels", labels, _LABELS, "an annotation, no label", _ANNOTATIONS),
        ("annotations", annotations, _ANNOTATIONS, "a label, no annotation", _LABELS),
    ):
        for key in keys or ():
            if key in known or _OUR_WORD not in key.partition("/")[0] or "/" not in key:
                continue
            allowed = f"allowed with the prefix {PREFIX}/: {', '.join(name.partition('/')[2] for name in known)}"
            if key in others:
                yield f"{place}[{key}]", f"is {other}; {allowed}"
            else:
                names = [name.partition("/")[2] for name in (*known, *others)]
                close = [f"{PREFIX}/{name}" for name in get_close_matches(key.partition("/")[2], names, n=1)]
                yield f"{place}[{key}]", f"is unknown{f', did you mean {close[0]}?' if close else ''}; {allowed}"
