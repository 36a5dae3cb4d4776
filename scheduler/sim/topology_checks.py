"""What the API server would refuse of Topologies and HyperNodes, and what makes no sense in a NodeResourceTopology.

For the loader; see `checks`.  What only other objects can tell (members that are not there, cycles) is no problem of one object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from scheduler.model.gang import PREFIX
from scheduler.model.hypernode import ApiHyperNode, hypernode_from_api
from scheduler.model.node_resource_topology import ApiNodeResourceTopology, node_resource_topology_from_api
from scheduler.model.node_topology import ApiNodeTopology, node_topology_from_api
from scheduler.model.node_topology_crd import NodeTopology
from scheduler.model.topology_api import ApiTopology, topology_from_api
from scheduler.model.topology_crd import MOST_LEVELS
from scheduler.model.topology_crd import Topology as TopologyDefinition
from scheduler.topology import TopologyError, machine_of_told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.model.hypernode import HyperNode
    from scheduler.model.node_resource_topology import NodeResourceTopology
    from scheduler.model.topology import Topology
    from scheduler.model.topology_api import ApiLevel

    from .checks import Found

#: Fields of a level by group, besides `nodeLabel`.
_NAME_FIELDS = {PREFIX: "name", "kai.scheduler": "alias"}


def network_problems(
    api: ApiTopology | ApiHyperNode | ApiNodeResourceTopology, body: dict[str, Any], group: str
) -> Iterator[Found]:
    """Check an object that tells what is near what; Topologies of ours by the models of their definition."""
    for text in _view(api).problems:
        path, _, said = text.partition(": ")
        yield path, said
    if isinstance(api, ApiTopology):
        yield from _level_problems(api.spec.levels or [], body, group)


def _view(api: ApiTopology | ApiHyperNode | ApiNodeResourceTopology) -> Topology | HyperNode | NodeResourceTopology:
    match api:
        case ApiTopology():
            return topology_from_api(api)
        case ApiHyperNode():
            return hypernode_from_api(api)
    return node_resource_topology_from_api(api)


def node_topology_problems(body: dict[str, Any]) -> Iterator[Found]:
    """Check what is told of a machine by the models of its definition, and that its parts fit each other."""
    try:
        NodeTopology.model_validate({key: body[key] for key in ("spec", "status") if key in body})
        machine_of_told(node_topology_from_api(msgspec.convert(body, ApiNodeTopology)).machine)
    except ValidationError as error:
        for wrong in error.errors():
            yield ".".join(map(str, wrong["loc"])), wrong["msg"]
    except TopologyError as error:
        path, _, said = str(error).partition(": ")
        yield path, said


def _level_problems(levels: list[ApiLevel], body: dict[str, Any], group: str) -> Iterator[Found]:
    if len(levels) > MOST_LEVELS:
        yield "spec.levels", f"has {len(levels)} levels; allowed: up to {MOST_LEVELS}"
    name_field = _NAME_FIELDS.get(group)
    known = ("nodeLabel", *((name_field,) if name_field else ()))
    for index, level in enumerate(body.get("spec", {}).get("levels") or []):
        for key in level:
            if key not in known:
                yield f"spec.levels[{index}].{key}", f"is unknown; allowed: {', '.join(known)}"
    if group == PREFIX:
        yield from _own_problems(levels)


def _own_problems(levels: list[ApiLevel]) -> Iterator[Found]:
    """Check names and labels as the definition does."""
    for index, level in enumerate(levels):
        if not level.name:
            yield f"spec.levels[{index}].name", "is missing; allowed: a word such as rack"
        elif level.node_label:
            written = {"levels": [msgspec.to_builtins(level)]}
            try:
                TopologyDefinition.model_validate({"spec": written})
            except ValidationError as error:
                for wrong in error.errors():
                    yield f"spec.levels[{index}].{wrong['loc'][-1]}", f"{wrong['input']!r}: {wrong['msg']}"
