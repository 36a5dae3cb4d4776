"""Pools: the devices that can be used from one node, put together from the slices that drivers publish.

For the allocator.  Rules are those of `structured/internal/incubating/pools_incubating.go` (Kubernetes 1.37): the newest
generation of a pool counts; a pool of which slices are missing is incomplete, one that contradicts itself invalid, and
neither gives devices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from scheduler.model.selectors import matches_node

from .amounts import amount_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from scheduler.model.devices import Device, DeviceSlice, DeviceTaintRule, Where

    from .ledger import DeviceId

PoolId = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Site:
    """The node that devices are to be used from."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device of a pool that can be used from a node."""

    id: DeviceId
    device: Device
    #: Where it can be used from: what the slice says, or the device itself.
    where: Where
    pool: Pool


@dataclass(slots=True, eq=False)
class Pool:
    """A pool as one node sees it."""

    id: PoolId
    is_incomplete: bool = False
    #: Why it is invalid; empty if it is not.
    problem: str = ""
    #: In the order in which they are tried: by name of slice, then as listed.
    devices: list[Candidate] = field(default_factory=list)
    #: Devices of slices that are not for this node: they count against shared counters alone.
    others: list[tuple[DeviceId, Device]] = field(default_factory=list)
    counters: dict[str, dict[str, Fraction]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages name it."""
        return "/".join(self.id)


class Catalog:
    """All slices at one time, with the taints that rules add; pools are put together for a node when asked for."""

    def __init__(self, slices: Iterable[DeviceSlice], rules: Iterable[DeviceTaintRule] = ()) -> None:
        """Sort the slices by pool and node; O(devices)."""
        ordered = sorted(rules, key=lambda rule: rule.name)
        self._of_node: dict[str, list[DeviceSlice]] = {}
        self._shared: list[DeviceSlice] = []
        self._of_pool: dict[PoolId, list[DeviceSlice]] = {}
        for each in sorted(slices, key=lambda each: each.name):
            known = tainted(each, ordered)
            self._of_pool.setdefault((known.driver, known.pool), []).append(known)
            if known.where.node_name:
                self._of_node.setdefault(known.where.node_name, []).append(known)
            else:
                self._shared.append(known)

    @property
    def has_shared(self) -> bool:
        """Some devices may be used from several nodes."""
        return bool(self._shared)

    def nodes_of(self, pool: PoolId) -> frozenset[str] | None:
        """Return the names of the nodes that see something of a pool; None if they are not named one by one."""
        names = {each.where.node_name for each in self._of_pool.get(pool, ())}
        return None if not all(names) else frozenset(name for name in names if name)

    def pools_for(self, site: Site) -> list[Pool]:
        """Return the pools that a node sees, those with binding conditions last, else by driver and name."""
        found: dict[PoolId, list[DeviceSlice]] = {}
        for each in (*self._of_node.get(site.name, ()), *self._shared):
            if not each.is_unknown and _is_for(each, site):
                found.setdefault((each.driver, each.pool), []).append(each)
        pools = [pool for key, slices in sorted(found.items()) if (pool := self._pool(key, slices)) is not None]
        return sorted(pools, key=_has_binding_conditions)

    def _pool(self, key: PoolId, slices: list[DeviceSlice]) -> Pool | None:
        """Put a pool together; None if a newer generation has nothing for the node."""
        generation = max(each.generation for each in slices)
        mine = [each for each in slices if each.generation == generation]
        count = mine[0].slice_count
        if len(mine) == count:
            return _built(key, mine, ())
        everywhere = self._of_pool[key]
        if any(each.generation > generation for each in everywhere):
            return None
        known = [each for each in everywhere if each.generation == generation and not each.is_unknown]
        if len(known) != count:
            return Pool(key, is_incomplete=True)
        names = {each.name for each in mine}
        return _built(key, mine, [each for each in known if each.name not in names])


def tainted(each: DeviceSlice, rules: Sequence[DeviceTaintRule]) -> DeviceSlice:
    """Return a slice with the taints that rules add to its devices."""
    covering = [rule for rule in rules if rule.covers(each.driver, each.pool)]
    if not covering:
        return each
    devices = [
        replace(device, taints=(*device.taints, *[r.taint for r in covering if r.device in (None, device.name)]))
        for device in each.devices
    ]
    return replace(each, devices=tuple(devices))


def reaches(where: Where, site: Site) -> bool:
    """Tell whether devices can be used from a node."""
    if where.node_name:
        return where.node_name == site.name
    return where.all_nodes or (where.selector is not None and matches_node(where.selector, site.labels, site.name))


def _is_for(each: DeviceSlice, site: Site) -> bool:
    """Tell whether a slice has something for a node; one that says nothing known about nodes has not."""
    if each.where.is_set:
        return reaches(each.where, site)
    return each.is_per_device and any(reaches(device.where, site) for device in each.devices)


def _built(key: PoolId, mine: Sequence[DeviceSlice], others: Sequence[DeviceSlice]) -> Pool:
    """Return a complete pool, invalid if its slices contradict each other."""
    pool = Pool(key)
    sets = [named for each in (*mine, *others) for named in each.counters]
    pool.counters = {name: {c: amount_of(text) for c, text in counters.items()} for name, counters in sets}
    for each in mine:
        if not each.counters:
            pool.devices += [
                Candidate((*key, device.name), device, device.where if each.is_per_device else each.where, pool)
                for device in each.devices
            ]
    pool.others = [((*key, device.name), device) for each in others if not each.counters for device in each.devices]
    problem = _contradiction(pool, [name for name, _ in sets])
    return Pool(key, problem=problem) if problem else pool


def _contradiction(pool: Pool, sets: list[str]) -> str:
    """Return what is contradictory in a pool, or nothing."""
    names = Counter(candidate.device.name for candidate in pool.devices)
    if twice := next((name for name, count in names.items() if count > 1), None):
        return f"duplicate device name {twice}"
    if twice := next((name for name, count in Counter(sets).items() if count > 1), None):
        return f"duplicate counter set name {twice}"
    for device in (*(candidate.device for candidate in pool.devices), *(device for _, device in pool.others)):
        for name, used in device.consumes:
            if name not in pool.counters:
                return f"counter set {name} not found"
            if missing := next((counter for counter, _ in used if counter not in pool.counters[name]), None):
                return f"counter {missing} not found in counter set {name}"
    return ""


def _has_binding_conditions(pool: Pool) -> bool:
    return any(candidate.device.binding_conditions is not None for candidate in pool.devices)
