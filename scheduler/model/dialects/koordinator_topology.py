"""Koordinator's `network-topology-spec`: layers of the network that the pods of a gang gather in, as JSON in an annotation.

For the Koordinator adapter.  Layers are levels by their own name.  The list is read from the tightest layer to the widest,
as in Koordinator's manual; which layer holds which is told by its ClusterNetworkTopology alone, so several MustGather are a
problem unless they repeat one layer.  `podCountMultiple` is kept by segments of that size, which stand in one domain of the
layer each: Koordinator counts the same way, and takes it as a must with either strategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.model.volume_api import ApiStruct

from .counts import checked, shown
from .reading import annotation

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION = "gang.scheduling.koordinator.sh/network-topology-spec"
MUST, PREFER = "MustGather", "PreferGather"


class GatherRule(ApiStruct, frozen=True):
    """What is asked of one layer."""

    layer: str = ""
    strategy: str = ""
    pod_count_multiple: int | None = None


class TopologySpec(ApiStruct, frozen=True):
    """The content of the annotation."""

    gather_strategy: list[GatherRule] | None = None


def topology_of(annotations: Mapping[str, str], problems: list[str]) -> TopologyConstraint | None:
    """Return the constraint that a gang's annotation is; None if it asks for nothing, or cannot be read."""
    if not (text := annotations.get(ANNOTATION)):
        return None
    path = annotation(ANNOTATION)
    try:
        rules = msgspec.json.decode(text, type=TopologySpec).gather_strategy or []
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        reason = str(error).removesuffix(".")
        problems.append(f"{path}: it cannot be read: {reason}; allowed is a JSON object with gatherStrategy")
        return None
    for index, rule in enumerate(rules):
        field = f"{path}.gatherStrategy[{index}]"
        if not rule.layer:
            problems.append(f"{field}.layer: it is empty; allowed is the name of a layer")
        if rule.strategy not in (MUST, PREFER):
            problems.append(f"{field}.strategy: {shown(rule.strategy)} is unknown; allowed are {MUST} and {PREFER}")
    required = list(dict.fromkeys(rule.layer for rule in rules if rule.strategy == MUST))
    if len(required) > 1:
        problems.append(
            f"{path}: {MUST} names {' and '.join(map(shown, required))}; allowed is the tightest of them alone"
        )
    size, layer = _segments(rules, path, problems)
    constraint = TopologyConstraint(
        required=required[0] if required else "",
        preferred=tuple(dict.fromkeys(rule.layer for rule in rules if rule.strategy == PREFER and rule.layer)),
        segment_size=size,
        segment_required=layer,
    )
    return constraint if constraint.levels else None


def _segments(rules: list[GatherRule], path: str, problems: list[str]) -> tuple[int, str]:
    """Return the size of segments and the layer that each stands in; 0 and the empty text for none."""
    found: dict[tuple[int, str], None] = {}
    for index, rule in enumerate(rules):
        field = f"{path}.gatherStrategy[{index}].podCountMultiple"
        if rule.pod_count_multiple and (multiple := checked(rule.pod_count_multiple, field, problems, 0)) > 1:
            found[multiple, rule.layer] = None
    if len(found) > 1:
        problems.append(f"{path}: podCountMultiple stands with several layers; allowed is one layer")
    return next(iter(found), (0, ""))
