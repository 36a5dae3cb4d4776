"""Nodes with the labels of a network: of Topograph's models in `data/fabric`, and of a regular tree of blocks and racks.

nodes = nodes_of_model("nvl72")
nodes = nodes_of_tree(zones=2, blocks=8, racks=16, nodes=2)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.builders import NodeBuilder, a_node

DATA = Path(__file__).parent / "data" / "fabric"
TIER = "fabric.topograph.run/tier-"
ACCELERATOR = "accelerator.topograph.run/domain"
ZONE = "topology.kubernetes.io/zone"


def nodes_of_model(name: str, gpus: int = 8) -> list[NodeBuilder]:
    """Return the nodes of a model with the labels that Topograph would give them: switches by tier, 0 the nearest."""
    model = yaml.safe_load((DATA / f"{name}.yaml").read_text())
    switches: dict[str, dict[str, Any]] = model["switches"]
    parents = {child: parent for parent, switch in switches.items() for child in switch.get("switches", ())}
    found: list[NodeBuilder] = []
    for block in model["blocks"]:
        path = [block["switch"]]
        while path[-1] in parents:
            path.append(parents[path[-1]])
        for host in (host for pattern in block["nodes"] for host in _expanded(pattern)):
            node = a_node(host).gpus(gpus)
            for tier, switch in enumerate(path):
                node.label(f"{TIER}{tier}", switch)
                for key, value in switches.get(switch, {}).get("labels", {}).items():
                    node.label(key, value)
            for key, value in block.get("annotations", {}).items():
                node.label(key.replace("accelerator.topology.test/", "accelerator.topograph.run/"), value)
            found.append(node)
    return found


def nodes_of_tree(zones: int = 2, blocks: int = 8, racks: int = 16, nodes: int = 2, gpus: int = 8) -> list[NodeBuilder]:
    """Return the nodes of a tree: so many blocks in each zone, racks in each block (tier-0 in tier-1), nodes in each rack."""
    return [
        a_node(f"z{zone}-b{block}-r{rack}-n{number}")
        .gpus(gpus)
        .label(ZONE, f"zone-{zone}")
        .label(f"{TIER}1", f"z{zone}-b{block}")
        .label(f"{TIER}0", f"z{zone}-b{block}-r{rack}")
        for zone in range(zones)
        for block in range(blocks)
        for rack in range(racks)
        for number in range(nodes)
    ]


def _expanded(pattern: str) -> list[str]:
    """Return the names that a pattern such as `node[1101-1118]` stands for."""
    ranged = re.fullmatch(r"(.*)\[(\d+)-(\d+)\]", pattern)
    if ranged is None:
        return [pattern]
    prefix, first, last = ranged.groups()
    return [f"{prefix}{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
