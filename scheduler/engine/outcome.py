"""Outcome: what a cycle is told of quota, and how it ended.

For `cycle`, which returns it, and the engine, which commits it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scheduler.framework.plugin import PostFilterResult
    from scheduler.framework.status import Reason, Status
    from scheduler.model import Pod

    from .candidates import Candidate
    from .kept_quota import Refusal
    from .lack import Lack


class Quota(NamedTuple):
    """What queues say of an attempt."""

    #: There are queues: single pods make room by the same rules as gangs.
    is_on: bool = False
    #: Why the workload may not be placed now.
    refusal: Status | None = None
    #: Why it may not be though it has quota, as that is kept for others, and when that ends; nobody makes room for it then.
    kept: Refusal | None = None


@dataclass(slots=True)
class Outcome:
    """How a cycle ended."""

    #: None if the workload was placed.
    status: Status | None = None
    #: Pod uid → pod and row.
    placed: dict[str, tuple[Pod, int]] = field(default_factory=dict)
    domain: str = ""
    #: A plan to make room, if a PostFilter plugin has one.
    room: PostFilterResult | None = None
    #: Which plugin gave which reason.
    blame: tuple[tuple[str, Reason], ...] = ()
    #: What a gang lacked, if that can be counted.
    lack: Lack | None = None
    #: The candidate of the first pod that found no node, or of the first pod.
    shown: Candidate | None = None
    evaluations: int = 0
    #: When it is worth another attempt though nothing happens, seconds since the epoch; None if nobody says.
    retry_at: float | None = None
