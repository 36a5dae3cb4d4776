"""NodeResourceTopology: what each NUMA node of a machine has free, as an exporter on the node reports it.

For the edges, which watch or load the objects, and for the plugin that keeps pods off nodes whose kubelet would reject them.
Read is `topology.node.k8s.io/v1alpha2`: zones of type Node, their costs and resources, the kubelet's topology manager from
the attributes or else from `topologyPolicies`, which are deprecated, and the fingerprint of the pods that were counted.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .api import ObjectMeta, Quantity
from .quantity import QuantityError, amount
from .times import parse_time
from .volume_api import ApiStruct

GROUP: Final = "topology.node.k8s.io"
VERSION: Final = "v1alpha2"
RESOURCE: Final = "noderesourcetopologies"

SINGLE_NUMA_NODE: Final = "single-numa-node"
POLICIES: Final = ("none", "best-effort", "restricted", SINGLE_NUMA_NODE)
CONTAINER_SCOPE, POD_SCOPE = "container", "pod"
SCOPES: Final = (CONTAINER_SCOPE, POD_SCOPE)

FINGERPRINT_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"
FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
FINGERPRINT_METHOD: Final = "nodeTopologyPodsFingerprintMethod"
POLICY: Final = "topologyManagerPolicy"
SCOPE: Final = "topologyManagerScope"

#: A bitmask of the kubelet has so many bits; nodes are numbered from 0.
MOST_NUMA_NODES: Final = 64
#: What ACPI's table of distances has for "unknown" (SLIT), and the largest that counts.
LARGEST_COST: Final = 255
#: The deprecated names of policy and scope.
_OLD_POLICIES: Final = {
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER_SCOPE),
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD_SCOPE),
    "RestrictedContainerLevel": ("restricted", CONTAINER_SCOPE),
    "RestrictedPodLevel": ("restricted", POD_SCOPE),
    "BestEffortContainerLevel": ("best-effort", CONTAINER_SCOPE),
    "BestEffortPodLevel": ("best-effort", POD_SCOPE),
    "Restricted": ("restricted", CONTAINER_SCOPE),
    "BestEffort": ("best-effort", CONTAINER_SCOPE),
    "None": ("none", CONTAINER_SCOPE),
}


class Write(ApiStruct, frozen=True):
    """Who wrote an object, and when."""

    time: str | None = None


class ReportMeta(ObjectMeta, frozen=True):
    """The metadata of a report: besides the usual, when it was written."""

    managed_fields: list[Write] | None = None


class ApiAttribute(ApiStruct, frozen=True):
    """A name with a value."""

    name: str = ""
    value: str = ""


class ApiCost(ApiStruct, frozen=True):
    """How far another zone is."""

    name: str = ""
    value: int = 0


class ApiResource(ApiStruct, frozen=True):
    """What a zone has of a resource: all, what pods may use, and what is left of that."""

    name: str = ""
    capacity: Quantity = "0"
    allocatable: Quantity = "0"
    available: Quantity = "0"


class ApiZone(ApiStruct, frozen=True):
    """A part of the machine; NUMA nodes are of type Node."""

    name: str = ""
    type: str = ""
    parent: str = ""
    costs: list[ApiCost] | None = None
    attributes: list[ApiAttribute] | None = None
    resources: list[ApiResource] | None = None


class ApiNodeResourceTopology(ApiStruct, frozen=True):
    """A NodeResourceTopology, cluster-scoped and named as its node."""

    metadata: ReportMeta = ReportMeta()
    topology_policies: list[str] | None = None
    zones: list[ApiZone] | None = None
    attributes: list[ApiAttribute] | None = None


class NumaZone(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One NUMA node; amounts in millicores for cpu, bytes for memory, pieces otherwise."""

    id: int
    available: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    #: Number of another NUMA node (or its own) to the distance.
    costs: dict[int, int] = {}


class NodeResourceTopology(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is reported of one node."""

    #: The node's name.
    name: str
    policy: str = "none"
    scope: str = CONTAINER_SCOPE
    #: By number.
    zones: tuple[NumaZone, ...] = ()
    #: Which pods were counted, as a hash of their names; empty if that is not told. The method says which pods are meant.
    fingerprint: str = ""
    fingerprint_method: str = ""
    #: When it was written last, in seconds since the epoch; 0 if that is not told.
    written: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """No namespace, and the name."""
        return "", self.name


def node_resource_topology_from_api(api: ApiNodeResourceTopology) -> NodeResourceTopology:
    """Return the view of an object; what makes no sense is left out and named in its problems."""
    problems: list[str] = []
    attributes = {attribute.name: attribute.value for attribute in api.attributes or ()}
    policy, scope = _OLD_POLICIES.get((api.topology_policies or [""])[0], ("none", CONTAINER_SCOPE))
    annotations = api.metadata.annotations or {}
    writes = [parse_time(write.time) or 0.0 for write in api.metadata.managed_fields or ()]
    return NodeResourceTopology(
        name=api.metadata.name,
        policy=_one_of(attributes, POLICY, POLICIES, policy, problems),
        scope=_one_of(attributes, SCOPE, SCOPES, scope, problems),
        zones=_zones(api.zones or [], problems),
        fingerprint=attributes.get(FINGERPRINT) or annotations.get(FINGERPRINT_ANNOTATION, ""),
        fingerprint_method=attributes.get(FINGERPRINT_METHOD, "") if attributes.get(FINGERPRINT) else "",
        written=max(writes, default=0.0),
        problems=tuple(problems),
    )


def _one_of(
    attributes: dict[str, str], name: str, allowed: tuple[str, ...], otherwise: str, problems: list[str]
) -> str:
    """Return the value of an attribute if it is allowed."""
    value = attributes.get(name)
    if value is None or value in allowed:
        return otherwise if value is None else value
    problems.append(f"attributes[{name}]: {value!r} is unknown; allowed: {', '.join(allowed)}; {otherwise} is taken")
    return otherwise


def _zones(zones: list[ApiZone], problems: list[str]) -> tuple[NumaZone, ...]:
    """Return the NUMA nodes; zones of other types tell nothing that a kubelet goes by."""
    found: dict[int, NumaZone] = {}
    for index, zone in enumerate(zones):
        if zone.type != "Node":
            continue
        number = _number(zone.name)
        if number is None or number in found:
            why = "no NUMA node" if number is None else "there twice"
            allowed = f"node-0 to node-{MOST_NUMA_NODES - 1}, each once"
            problems.append(f"zones[{index}].name: {zone.name!r} is {why}; allowed: {allowed}; it is left out")
            continue
        available, allocatable = _amounts(zone.resources or [], f"zones[{index}]", problems)
        costs = {n: min(max(0, c.value), LARGEST_COST) for c in zone.costs or () if (n := _number(c.name)) is not None}
        found[number] = NumaZone(id=number, available=available, allocatable=allocatable, costs=costs)
    return tuple(found[number] for number in sorted(found))


def _number(name: str) -> int | None:
    """Return the number of a NUMA node by the name of its zone, or None if it names none."""
    kind, _, text = name.partition("-")
    if kind != "node" or not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST_NUMA_NODES)):
        return None
    return int(text) if int(text) < MOST_NUMA_NODES else None


def _amounts(resources: list[ApiResource], path: str, problems: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return what is available and what is allocatable; an amount that makes no sense counts as 0."""
    available: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    for resource in resources:
        for kind, total in (("available", available), ("allocatable", allocatable)):
            text = getattr(resource, kind)
            try:
                total[resource.name] = max(0, amount(resource.name, text))
            except QuantityError as error:
                problems.append(f"{path}.resources[{resource.name}].{kind}: {error}; it counts as 0")
                total[resource.name] = 0
    return available, allocatable
