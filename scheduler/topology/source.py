"""Picks the source that knows a node's machine best, and reads which NVLink clique the node belongs to.

In order of trust: the `node-topology` annotation, then the labels of NVIDIA's GPU feature discovery (GFD). DRA ResourceSlices
and NodeTopology objects come before both where a cluster has them; they are not read here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .annotation import NODE_TOPOLOGY_ANNOTATION, parse_node_topology
from .graph import MAX_GPUS, TopologyError
from .machines import COUNT_LABEL, PRODUCT_LABEL, board_of, known_machine, parse_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .graph import Machine

GFD_CLIQUE_LABEL = "nvidia.com/gpu.clique"

OTHER_CLIQUE_LABELS = (
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
)
"""Labels that name the NVLink domain of a node: Topograph from 1.0 on, Topograph before, AWS UltraServers."""

_CLIQUE = re.compile(r"(?P<cluster>[0-9A-Fa-f-]{36})\.[0-9]{1,10}")


def machine_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Machine | None:
    """Return the machine of a node from its annotation, else its labels; None when neither speaks of NVIDIA GPUs.

    With the annotation, the product label still gives the speed of NVLinks and slots. Raises TopologyError that names the
    annotation or label and what it may hold; a caller that wants the labels then asks again without annotations.
    """
    product, count = labels.get(PRODUCT_LABEL), labels.get(COUNT_LABEL)
    annotation = annotations.get(NODE_TOPOLOGY_ANNOTATION)
    if annotation is not None:
        board = board_of(product or "")
        if board is None:
            return parse_node_topology(annotation)
        return parse_node_topology(annotation, board.gbps_per_link, board.pcie_gbps)
    if product is None and count is None:
        return None
    if count is None:
        raise TopologyError(
            f"label {COUNT_LABEL}: missing beside {PRODUCT_LABEL}; allowed is a whole number, 1 to {MAX_GPUS}"
        )
    return known_machine(product or "", parse_count(count))


def clique_of(labels: Mapping[str, str]) -> str | None:
    """Return the name of the NVLink domain that spans nodes, or None for a node that is in none.

    GFD's label is `<cluster uuid>.<clique id>`; a malformed one, and the all-zero cluster of a machine that is joined to no
    other, count as none. The first label that is set wins: a cluster should use one kind.
    """
    clique = _CLIQUE.fullmatch(labels.get(GFD_CLIQUE_LABEL, ""))
    if clique is not None and clique["cluster"].strip("0-"):
        return clique[0]
    return next((labels[label] for label in OTHER_CLIQUE_LABELS if labels.get(label)), None)
