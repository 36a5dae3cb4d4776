"""Dialects: every way of saying which pods start together, in the order in which one wins over another.

For whoever turns API objects into pods and gangs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .coscheduling import COSCHEDULING
from .dialect import Dialect, GroupSource
from .own import OWN, gang_from_api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.api import ApiPod
    from scheduler.model.gang import Membership

__all__ = ["DIALECTS", "GROUPS", "Dialect", "GroupSource", "gang_from_api", "membership_of"]

#: Where a pod speaks several, the first one counts.
DIALECTS: tuple[Dialect, ...] = (OWN, COSCHEDULING)
#: Dialects whose PodGroups are of the same shape as ours, to the API group of that.
GROUPS = {dialect.name: dialect.sources[0].group for dialect in (OWN, COSCHEDULING)}


def membership_of(pod: ApiPod, dialects: Sequence[Dialect] = DIALECTS) -> Membership | None:
    """Return what a pod says of its gang, in the first dialect that it speaks; None if it belongs to no gang."""
    for dialect in dialects:
        if (found := dialect.member(pod)) is not None:
            return found
    return None
