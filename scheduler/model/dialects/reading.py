"""Metadata of group objects: what of a gang follows from it alone, and how problems name a label or an annotation.

For the adapters; numbers are read in `counts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.gang import GangKey
from scheduler.model.times import parse_time

if TYPE_CHECKING:
    from scheduler.model.api import ObjectMeta


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


def annotation(key: str) -> str:
    """Return how problems name an annotation."""
    return f"metadata.annotations[{key}]"


def label(key: str) -> str:
    """Return how problems name a label."""
    return f"metadata.labels[{key}]"
