"""What is inside a node: which GPUs are joined how, which of them are free, and which a pod should get.

Pure and deterministic: equal inputs give equal answers. Plugins ask `machine_of` for the machine of a node, `free_gpus` for its
free GPUs, and `table_of(machine)` for the best set of them. How nodes are joined to each other is not told here, except for the
NVLink clique that spans nodes (`clique_of`).
"""

from .annotation import NODE_TOPOLOGY_ANNOTATION, parse_node_topology
from .besteffort import BestEffortPolicy, pair_score, pair_scores
from .free import GPUS_ANNOTATION, Basis, BoundPod, FreeGpus, format_gpus, free_gpus, parse_gpus
from .gpusets import GpuSet, GpuSetTable, table_of
from .graph import (
    MAX_GPUS,
    Machine,
    Nic,
    NvLink,
    TopologyError,
    build_machine,
    gpus_of_mask,
    machine_of_graph,
    mask_of_gpus,
)
from .machines import COUNT_LABEL, PRODUCT_LABEL, known_machine
from .nics import (
    NIC_SCOPE_ANNOTATION,
    NICS_ANNOTATION,
    NicAsk,
    NicChoice,
    NicScope,
    choose_nics,
    parse_nics,
    parse_scope,
)
from .parse import parse_topology
from .pcie import LinkKind, NodeKind, PcieClass, PcieLayout
from .source import GFD_CLIQUE_LABEL, Problem, Reading, Source, clique_of, machine_of, read_machine
from .told import machine_of_told

__all__ = [
    "COUNT_LABEL",
    "GFD_CLIQUE_LABEL",
    "GPUS_ANNOTATION",
    "MAX_GPUS",
    "NICS_ANNOTATION",
    "NIC_SCOPE_ANNOTATION",
    "NODE_TOPOLOGY_ANNOTATION",
    "PRODUCT_LABEL",
    "Basis",
    "BestEffortPolicy",
    "BoundPod",
    "FreeGpus",
    "GpuSet",
    "GpuSetTable",
    "LinkKind",
    "Machine",
    "Nic",
    "NicAsk",
    "NicChoice",
    "NicScope",
    "NodeKind",
    "NvLink",
    "PcieClass",
    "PcieLayout",
    "Problem",
    "Reading",
    "Source",
    "TopologyError",
    "build_machine",
    "choose_nics",
    "clique_of",
    "format_gpus",
    "free_gpus",
    "gpus_of_mask",
    "known_machine",
    "machine_of",
    "machine_of_graph",
    "machine_of_told",
    "mask_of_gpus",
    "pair_score",
    "pair_scores",
    "parse_gpus",
    "parse_nics",
    "parse_node_topology",
    "parse_scope",
    "parse_topology",
    "read_machine",
    "table_of",
]
