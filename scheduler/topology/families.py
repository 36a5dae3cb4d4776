"""Which node labels tell the network, by who writes them: the levels of each family, from the widest to the tightest.

For `levels`, which reads the values.  Numbering runs in opposite directions: Topograph's tier 0 and AWS's highest layer are the
nearest to the node.

| family | labels, widest first | level names | also called |
|---|---|---|---|
| Kubernetes | `topology.kubernetes.io/region`, `/zone` | region, zone | |
| Topograph from 1.0 on | `fabric.topograph.run/tier-N` … `tier-0` | tier-N … tier-0 | tier-2 core, tier-1 spine and block, tier-0 leaf and rack |
| Topograph before | `network.topology.nvidia.com/core` (or `datacenter`), `spine`, `leaf` (or `block`) | core, spine, leaf | leaf rack |
| AWS | `topology.k8s.aws/network-node-layer-1` … `-N` | layer-1 … layer-N | layer-1 spine, the highest one leaf and rack |
| GKE | `cloud.google.com/gce-topology-block`, `-subblock`, `-host` | block, subblock, physical-host | subblock rack |
| OCI | `oci.oraclecloud.com/host.network_block_id`, `host.rack_id` | network-block, rack | network-block block |
| NVLink | `accelerator.topograph.run/domain` (or those of Topograph before 1.0 and AWS UltraServers), `/sub-domain`, `nvidia.com/gpu.clique` | accelerator, sub-accelerator, clique | the tightest nvlink; accelerator clique where no node has one |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.topology import Level

from .source import GFD_CLIQUE_LABEL, OTHER_CLIQUE_LABELS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    Family = list["Source"]

SUB_DOMAIN_LABEL = "accelerator.topograph.run/sub-domain"
_TOPOGRAPH, _AWS = "fabric.topograph.run/tier-", "topology.k8s.aws/network-node-layer-"
_OLD, _GKE, _OCI = "network.topology.nvidia.com/", "cloud.google.com/gce-topology-", "oci.oraclecloud.com/host."
_CANONICAL = re.compile(r"0|[1-9][0-9]{0,3}")


class Source(NamedTuple):
    """A level, and the labels that tell it: the first one that a node has counts."""

    level: Level
    labels: tuple[str, ...]


def geography(keys: Collection[str]) -> Family:
    """Return the levels that Kubernetes itself knows."""
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    return [*_source(keys, "region", (region,)), *_source(keys, "zone", (zone,))]


def networks(keys: Collection[str]) -> list[Family]:
    """Return the families of which nodes have labels, without empty ones."""
    found = [
        _topograph(keys),
        [
            *_source(keys, "core", (f"{_OLD}core", f"{_OLD}datacenter"), "datacenter"),
            *_source(keys, "spine", (f"{_OLD}spine",)),
            *_source(keys, "leaf", (f"{_OLD}leaf", f"{_OLD}block"), "rack"),
        ],
        _aws(keys),
        [
            *_source(keys, "block", (f"{_GKE}block",)),
            *_source(keys, "subblock", (f"{_GKE}subblock",), "rack"),
            *_source(keys, "physical-host", (f"{_GKE}host",)),
        ],
        [
            *_source(keys, "network-block", (f"{_OCI}network_block_id",), "block"),
            *_source(keys, "rack", (f"{_OCI}rack_id",)),
        ],
    ]
    return [family for family in found if family]


def accelerators(keys: Collection[str]) -> Family:
    """Return the levels of NVLink domains that span nodes."""
    found = [
        *_source(keys, "accelerator", OTHER_CLIQUE_LABELS, *(() if GFD_CLIQUE_LABEL in keys else ("clique",))),
        *_source(keys, "sub-accelerator", (SUB_DOMAIN_LABEL,)),
        *_source(keys, "clique", (GFD_CLIQUE_LABEL,)),
    ]
    for source in found[-1:]:
        level = source.level
        found[-1] = Source(level._replace(aliases=(*level.aliases, "nvlink")), source.labels)
    return found


def _source(keys: Collection[str], name: str, labels: tuple[str, ...], *aliases: str) -> Iterator[Source]:
    """Yield a level if nodes have one of its labels; the first of these is the level's, the others name it too."""
    present = tuple(label for label in labels if label in keys)
    if present:
        yield Source(Level(name, present[0], (*present[1:], *aliases)), present)


def _topograph(keys: Collection[str]) -> Family:
    words = {0: ("leaf", "rack"), 1: ("spine", "block"), 2: ("core",)}
    numbers = sorted(_numbers(keys, _TOPOGRAPH), reverse=True)
    return [
        source
        for number in numbers
        for source in _source(keys, f"tier-{number}", (f"{_TOPOGRAPH}{number}",), *words.get(number, ()))
    ]


def _aws(keys: Collection[str]) -> Family:
    numbers = sorted(_numbers(keys, _AWS))
    found: Family = []
    for number in numbers:
        words = (("spine",) if number == 1 else ()) + (("leaf", "rack") if number == numbers[-1] else ())
        found += _source(keys, f"layer-{number}", (f"{_AWS}{number}",), *words)
    return found


def _numbers(keys: Collection[str], prefix: str) -> list[int]:
    """Return the numbers that follow a prefix among the keys."""
    tails = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    return [int(tail) for tail in tails if _CANONICAL.fullmatch(tail)]
