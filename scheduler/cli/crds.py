"""CustomResourceDefinitions from pydantic models: structural schemas, printer columns, and the YAML in `crds/`.

For `scheduler.cli.generate`.  It knows the part of JSON Schema that pydantic writes for our models, and no more.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from scheduler.model.node_topology_crd import NodeTopology
from scheduler.model.podgroup import GROUP, VERSION, PodGroup
from scheduler.model.queue_crd import Queue
from scheduler.model.topology_crd import Topology

if TYPE_CHECKING:
    from pydantic import BaseModel

#: What pydantic writes and a structural schema does not take, or takes only where it means something else.
_DROPPED = frozenset({"title", "additionalProperties", "default", "$defs"})
#: What comes first in a schema, so that the file reads well; the rest follows by name.
_FIRST = ("description", "type", "format", "required", "properties", "items")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; those of priority 1 are shown by `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""

    def to_api(self) -> dict[str, Any]:
        """Return the column as the API has it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        return column | ({"priority": self.priority} if self.priority else {})


_SCHEDULED = '.status.conditions[?(@.type=="Scheduled")]'
POD_GROUP_COLUMNS = (
    Column("Min", ".spec.minMember", "integer", description="How many pods must start together"),
    Column("Phase", ".status.phase"),
    Column("Bound", ".status.counts.bound", "integer", description="Members with a node that do not run yet"),
    Column("Running", ".status.counts.running", "integer"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Pending", ".status.counts.pending", "integer", priority=1),
    Column("Promised", ".status.promisedStart", description="From when on room is reserved", priority=1),
    Column("Reason", f"{_SCHEDULED}.reason", priority=1),
    Column("Message", f"{_SCHEDULED}.message", priority=1),
)
_GPUS = '.status.resources[?(@.name=="nvidia.com/gpu")]'
_USABLE = '.status.conditions[?(@.type=="Usable")]'
TOPOLOGY_COLUMNS = (
    #: A column shows one value, so not all levels.
    Column("Widest", ".spec.levels[0].name", description="The widest level"),
    Column("Tightest", ".spec.levels[-1:].name", description="The tightest level above the nodes"),
    Column("Usable", f"{_USABLE}.status"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Message", f"{_USABLE}.message", priority=1),
)
_READY = '.status.conditions[?(@.type=="Ready")]'
NODE_TOPOLOGY_COLUMNS = (
    Column("Source", ".spec.source"),
    #: A column shows one value, so not how many there are.
    Column("Last GPU", ".spec.gpus[-1:].index", "integer", description="The highest index of a GPU"),
    Column("Free", ".status.free.gpus", description="The GPUs that were free when that was seen"),
    Column("Seen", ".status.observedTime", "date", description="When it was seen what is free"),
    Column("Ready", f"{_READY}.status"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Message", f"{_READY}.message", priority=1),
)

QUEUE_COLUMNS = (
    Column("Parent", ".spec.parent"),
    Column("GPUs", f"{_GPUS}.allocated", description="GPUs that its pods on nodes ask for"),
    Column("Guaranteed", f"{_GPUS}.guaranteed", description="GPUs that it is guaranteed"),
    Column("Limit", '.spec.resources[?(@.name=="nvidia.com/gpu")].limit', description="GPUs that it may use at most"),
    Column("Share", ".status.share", description="The largest part of any resource of the cluster that it uses"),
    Column("Pending", ".status.pendingWorkloads", "integer", description="Pods and gangs that wait"),
    Column("Usable", f"{_USABLE}.status"),
    Column("Age", ".metadata.creationTimestamp", "date"),
    Column("Ordering", ".spec.ordering", priority=1),
    Column("Message", f"{_USABLE}.message", priority=1),
)


def pod_group_yaml() -> str:
    """Return the definition of our PodGroup as YAML."""
    names = {
        "kind": "PodGroup",
        "listKind": "PodGroupList",
        "plural": "podgroups",
        "singular": "podgroup",
        "shortNames": ["aipg"],
        "categories": ["ai-scheduler"],
    }
    return definition_yaml(PodGroup, names, POD_GROUP_COLUMNS, source="scheduler/model/podgroup.py")


def topology_yaml() -> str:
    """Return the definition of our Topology as YAML."""
    names = {
        "kind": "Topology",
        "listKind": "TopologyList",
        "plural": "topologies",
        "singular": "topology",
        "shortNames": ["aitopo"],
        "categories": ["ai-scheduler"],
    }
    source = "scheduler/model/topology_crd.py"
    return definition_yaml(Topology, names, TOPOLOGY_COLUMNS, source, scope="Cluster")


def node_topology_yaml() -> str:
    """Return the definition of our NodeTopology as YAML."""
    names = {
        "kind": "NodeTopology",
        "listKind": "NodeTopologyList",
        "plural": "nodetopologies",
        "singular": "nodetopology",
        "shortNames": ["aintopo"],
        "categories": ["ai-scheduler"],
    }
    source = "scheduler/model/node_topology_crd.py"
    return definition_yaml(NodeTopology, names, NODE_TOPOLOGY_COLUMNS, source, scope="Cluster")


def queue_yaml() -> str:
    """Return the definition of our Queue as YAML."""
    names = {
        "kind": "Queue",
        "listKind": "QueueList",
        "plural": "queues",
        "singular": "queue",
        "shortNames": ["aiq"],
        "categories": ["ai-scheduler"],
    }
    return definition_yaml(Queue, names, QUEUE_COLUMNS, "scheduler/model/queue_crd.py", scope="Cluster")


def definition_yaml(
    model: type[BaseModel], names: dict[str, Any], columns: tuple[Column, ...], source: str, scope: str = "Namespaced"
) -> str:
    """Return the CustomResourceDefinition of a model as YAML; `scope` is Namespaced or Cluster."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [column.to_api() for column in columns],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": structural_schema(model)},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }
    text = yaml.safe_dump(definition, sort_keys=False, allow_unicode=True, width=120)
    return f"# Generated from {source} by `make generate`: edits here are lost.\n{text}"


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a whole object as the API server takes it, with apiVersion, kind and metadata."""
    json_schema = model.model_json_schema(by_alias=True)
    schema: dict[str, Any] = _structural(json_schema, json_schema.get("$defs", {}))
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    ordered = head | schema["properties"]
    return {key: ordered if key == "properties" else value for key, value in schema.items()}


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: C901 - one case per keyword
    """Return one schema without references, titles and nulls."""
    if reference := schema.get("$ref"):
        target = definitions[reference.rpartition("/")[2]]
        return _structural({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if options := schema.get("anyOf"):
        (option,) = [option for option in options if option.get("type") != "null"]
        return _structural({**option, **{key: value for key, value in schema.items() if key != "anyOf"}}, definitions)
    result: dict[str, Any] = {}
    if schema.get("x-kubernetes-int-or-string"):
        schema = {key: value for key, value in schema.items() if key != "type"}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _structural(part, definitions) for name, part in value.items()}
        elif key == "items":
            result[key] = _structural(value, definitions)
        elif key == "description":
            result[key] = " ".join(value.split())
        elif key in ("exclusiveMinimum", "exclusiveMaximum"):  # a number here, but a flag beside the bound there
            result[key.removeprefix("exclusive").lower()], result[key] = value, True
        elif key == "additionalProperties" and isinstance(value, dict):
            result[key] = _structural(value, definitions)
        elif key not in _DROPPED:
            result[key] = deepcopy(value)  # a part that is used twice would become an alias
    return {key: result[key] for key in [*_FIRST, *sorted(result.keys() - set(_FIRST))] if key in result}
