"""Dialects: every way of saying which pods start together, in the order in which one wins over another.

For whoever turns API objects into pods and gangs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .armada import ARMADA
from .coscheduling import COSCHEDULING
from .dialect import Dialect, Dialects, GroupSource
from .kai import KAI
from .koordinator import KOORDINATOR
from .kueue import KUEUE
from .native import NATIVE
from .own import OWN, gang_from_api
from .owner_kinds import owner_kinds
from .owners import owner_dialects
from .volcano import VOLCANO
from .yunikorn import YUNIKORN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.config import GroupKind
    from scheduler.model.api import ApiPod
    from scheduler.model.gang import Membership

__all__ = ["DIALECTS", "GROUPS", "Dialect", "Dialects", "GroupSource", "dialects_of", "gang_from_api", "membership_of"]

#: Those in which a user, or a controller made for gangs, says it; before what follows from a pod's owner alone.
_SAID = (OWN, NATIVE, COSCHEDULING, VOLCANO, KAI, KOORDINATOR, KUEUE, YUNIKORN, ARMADA)


def dialects_of(group_kinds: Sequence[GroupKind] = ()) -> Dialects:
    """Return the dialects of a configuration with these `groupKinds`; where a pod speaks several, the first one counts."""
    return Dialects((*_SAID, *owner_dialects(owner_kinds(group_kinds))))


#: Those without a configuration.
DIALECTS: Dialects = dialects_of()
#: Dialects whose PodGroups are of the same shape as ours, to the API group of that.
GROUPS = {dialect.name: dialect.sources[0].group for dialect in (OWN, COSCHEDULING)}


def membership_of(pod: ApiPod, dialects: Sequence[Dialect] = DIALECTS) -> Membership | None:
    """Return what a pod says of its gang, in the first dialect that it speaks; None if it belongs to no gang."""
    if isinstance(dialects, Dialects):
        dialects = dialects.of_keys((*(pod.metadata.labels or ()), *(pod.metadata.annotations or ())))
    for dialect in dialects:
        if (found := dialect.member(pod)) is not None:
            return found
    return None
