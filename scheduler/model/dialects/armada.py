"""Armada's gangs: pods that carry the id and the size of their gang, and the node label that must be equal for all.

For the list of dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.gang import Gang, GangKey, Membership
from scheduler.model.topology_constraint import TopologyConstraint

from .counts import count_in
from .dialect import Dialect
from .ranks import rank_of

if TYPE_CHECKING:
    from scheduler.model.api import ApiPod

NAME = "armada"
GANG_ID_ANNOTATION = "armadaproject.io/gangId"
CARDINALITY_ANNOTATION = "armadaproject.io/gangCardinality"
UNIFORMITY_ANNOTATION = "armadaproject.io/gangNodeUniformityLabel"


def member(pod: ApiPod) -> Membership | None:
    """Read the gang's id, size and uniformity label; all jobs of a gang start together."""
    annotations = pod.metadata.annotations
    if not annotations or not (name := annotations.get(GANG_ID_ANNOTATION)):
        return None
    problems: list[str] = []
    key = GangKey(NAME, pod.metadata.namespace or "default", name)
    level = annotations.get(UNIFORMITY_ANNOTATION)
    topology = TopologyConstraint(required=level) if level else None
    size = count_in(annotations.get(CARDINALITY_ANNOTATION), f"annotation {CARDINALITY_ANNOTATION}", problems)
    return Membership(
        key=key,
        rank=rank_of(pod),
        implied=None if size is None else Gang(key=key, min_member=size, topology=topology),
        problems=tuple(problems),
    )


ARMADA = Dialect(NAME, member, keys=frozenset({GANG_ID_ANNOTATION}))
