"""What the adapters share: the metadata of group objects, and numbers with their bounds.

For the adapters.  What is out of range becomes a sentence that names the field and what is allowed; nothing is raised.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scheduler.model.gang import GangKey
from scheduler.model.times import parse_time

from .counts import shown

if TYPE_CHECKING:
    from scheduler.model.api import ObjectMeta

HIGHEST_INT32 = 2**31 - 1
#: More digits than any number of the API has.
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def identity(dialect: str, api_version: str, meta: ObjectMeta) -> dict[str, Any]:
    """Return the fields of a Gang that come from its object's metadata alone."""
    try:
        created = parse_time(meta.creation_timestamp) or 0.0
    except ValueError:
        created = 0.0
    return {
        "key": GangKey(dialect, meta.namespace or "default", meta.name),
        "uid": meta.uid,
        "api_version": api_version,
        "generation": meta.generation,
        "created": created,
        "annotations": meta.annotations or {},
        "labels": meta.labels or {},
    }


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


def annotation(key: str) -> str:
    """Return how problems name an annotation."""
    return f"metadata.annotations[{key}]"


def label(key: str) -> str:
    """Return how problems name a label."""
    return f"metadata.labels[{key}]"


def _allowed(least: int, most: int) -> str:
    return f"allowed are numbers from {least}" + (f" to {most}" if most != HIGHEST_INT32 else "")
