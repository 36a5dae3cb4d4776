"""Alike: which nodes have devices that nobody can tell apart, and which use of them is the same.

For the plugin of dynamic resources, which asks the allocator once for nodes that are alike.  Names of nodes and pools do not count:
no selector, constraint or counter can see them, and devices are tried in the same order.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from .connections import Connections
    from .ledger import DeviceId, Ledger
    from .pools import Pool

_encoder = msgspec.json.Encoder(order="sorted")


def model_of(pools: Sequence[Pool], linked: Connections | None) -> bytes:
    """Return what is equal for the pools of nodes that are alike; empty if some pool is broken, or seen from other nodes as well."""
    parts = []
    for pool in pools:
        is_own = all(candidate.where.node_name for candidate in pool.devices)
        if pool.is_incomplete or pool.problem or pool.others or not is_own:
            return b""
        counters = {name: {key: str(value) for key, value in each.items()} for name, each in pool.counters.items()}
        parts.append((pool.id[0], [candidate.device for candidate in pool.devices], counters))
    links = None
    if linked is not None:
        numbers = [linked.gpu_of.get(candidate.id) for pool in pools for candidate in pool.devices]
        links = (linked.machine.fingerprint, numbers)
    return hashlib.blake2b(_encoder.encode((parts, links)), digest_size=16).digest()


def use_of(devices: Iterable[DeviceId], ledger: Ledger) -> Hashable:
    """Return what is equal for nodes that are alike if the same of their devices, in order, are used alike; O(devices)."""
    return tuple([(turn, use) for turn, each in enumerate(devices) if (use := ledger.use_of(each)) is not None])
