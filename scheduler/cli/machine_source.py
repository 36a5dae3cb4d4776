"""Where `topology show` gets a machine from: a file of any form that tells one, or a node of a cluster."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import msgspec
import yaml

from scheduler.model.api import ApiNode
from scheduler.model.device_api import ApiResourceSlice
from scheduler.model.devices import device_slice_from_api
from scheduler.model.gang import PREFIX
from scheduler.model.node import node_from_api
from scheduler.model.node_topology import (
    NODE_TOPOLOGY_RESOURCE,
    ApiNodeTopology,
    NodeTopology,
    node_topology_from_api,
)
from scheduler.state.slice_machines import machine_told_by
from scheduler.topology import (
    NODE_TOPOLOGY_ANNOTATION,
    PRODUCT_LABEL,
    Machine,
    Source,
    TopologyError,
    machine_of,
    mask_of_gpus,
    read_machine,
)

GPU = "nvidia.com/gpu"
_VERSION = "v1alpha1"
#: Group, version, plural and name.
_NAMED = 4


class SourceError(Exception):
    """What was named is there and tells no machine, or is not there; the message says which."""


def machine_of_file(content: bytes, product: str) -> tuple[Machine, int]:
    """Return the machine that a file tells, and its free GPUs; raises TopologyError or SourceError."""
    text = content.decode("utf-8", "replace")
    node, topology, slices = _objects_of(text)
    if node is None and slices:
        node = {"kind": "Node", "metadata": {"name": str(slices[0].get("spec", {}).get("nodeName", ""))}}
    if node is None and topology is None:
        try:
            machine = machine_of({PRODUCT_LABEL: product}, {NODE_TOPOLOGY_ANNOTATION: text})
        except TopologyError as error:
            raise SourceError(str(error).removeprefix(f"annotation {NODE_TOPOLOGY_ANNOTATION}: ")) from error
        assert machine is not None, "there is an annotation"
        return machine, machine.all_gpus
    return _machine(node or {}, topology, product, slices)


def machine_of_node(name: str, product: str) -> tuple[Machine, int]:
    """Return the machine of a node of the cluster, and its free GPUs; raises TopologyError or SourceError."""
    from kubernetes import client, config  # noqa: PLC0415 - it is slow to import, and only this needs it
    from kubernetes.config import ConfigException  # noqa: PLC0415 - likewise
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - likewise

    try:
        with redirect_stdout(StringIO()):  # the client prints there that it tries the service account
            config.load_config()  # type: ignore[no-untyped-call]
        core: Any = client.CoreV1Api()
        node = msgspec.json.decode(core.read_node(name, _preload_content=False).data)
        topology = _custom(client, PREFIX, _VERSION, NODE_TOPOLOGY_RESOURCE, name)
        slices = _slices_of_node(client, name)
    except client.ApiException as error:
        said = "it is no file, and there is no such node" if error.status == 404 else f"{error.status} {error.reason}"  # noqa: PLR2004
        raise SourceError(said) from error
    except ConfigException as error:
        raise SourceError(f"it is no file, and no cluster is configured: {error}") from error
    except HTTPError as error:
        raise SourceError(f"it is no file, and the cluster does not answer: {error}") from error
    return _machine(node, topology, product, slices)


def _custom(client: Any, *where: str, **query: str) -> dict[str, Any] | None:
    """Return an object by group, version, plural and name, or a list without a name; None if the cluster has no such."""
    api, has_name = client.CustomObjectsApi(), len(where) == _NAMED
    try:
        read = api.get_cluster_custom_object if has_name else api.list_cluster_custom_object
        found: dict[str, Any] = read(*where, **query)
    except client.ApiException as error:
        if error.status == 404:  # noqa: PLR2004
            return None
        raise
    return found


def _slices_of_node(client: Any, name: str) -> list[dict[str, Any]]:
    """Return the ResourceSlices of a node; none where the cluster does not serve them."""
    found = _custom(client, "resource.k8s.io", "v1", "resourceslices", field_selector=f"spec.nodeName={name}")
    return list(found["items"]) if found is not None else []


def _objects_of(text: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the Node, the NodeTopology and the ResourceSlices that a text has as manifests; None for those that it has not.

    Several nodes are a SourceError: each has a machine of its own.
    """
    try:
        documents = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except (yaml.YAMLError, ValueError):  # a matrix is no YAML
        return None, None, []
    items = [item for document in documents for item in document.get("items") or [document] if isinstance(item, dict)]
    names = sorted({str((item.get("metadata") or {}).get("name")) for item in items if item.get("kind") == "Node"})
    if len(names) > 1:
        raise SourceError(
            f"it has {len(names)} nodes ({', '.join(names[:3])}{', …' if names[3:] else ''}); allowed is one"
        )
    by_kind = {str(item.get("kind")): item for item in reversed(items)}
    slices = [item for item in items if item.get("kind") == "ResourceSlice"]
    return by_kind.get("Node"), by_kind.get("NodeTopology"), slices


def _machine(
    node: dict[str, Any], topology: dict[str, Any] | None, product: str, slices: list[dict[str, Any]]
) -> tuple[Machine, int]:
    """Return the machine of the best source, and what is reported free; raises SourceError with what is wrong with each."""
    try:
        view = node_from_api(msgspec.convert(node, ApiNode))
        told: NodeTopology | None = None
        if topology is not None:
            told = node_topology_from_api(msgspec.convert(topology, ApiNodeTopology))
        of_slices = machine_told_by(
            [device_slice_from_api(msgspec.convert(each, ApiResourceSlice)) for each in slices], view.name
        )
    except (msgspec.ValidationError, ValueError) as error:
        raise SourceError(str(error)) from error
    labels = view.labels | ({PRODUCT_LABEL: product} if product else {})
    offered = view.allocatable.get(GPU, 0)
    reading = read_machine(labels, view.annotations, told, gpu_count=offered, of_slices=of_slices)
    if reading.machine is None:
        problems = "; ".join(f"{problem.source}: {problem.text}" for problem in reading.problems)
        raise SourceError(
            problems
            or f"nothing tells its machine: no ResourceSlice, no NodeTopology, no annotation, no label {PRODUCT_LABEL}"
        )
    if reading.source is not Source.OBJECT and topology is not None and not node:
        raise TopologyError(reading.problems[0].text)
    is_of_these = reading.source is Source.OBJECT or (
        reading.source is Source.SLICES and told is not None and len(told.machine.gpus) == reading.machine.gpu_count
    )
    report = told.report if told is not None and is_of_these else None
    all_gpus = reading.machine.all_gpus
    return reading.machine, all_gpus if report is None else mask_of_gpus(report.free) & all_gpus
