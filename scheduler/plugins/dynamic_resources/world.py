"""World: slices, classes and claims as they are now, made ready for questions about nodes.

For the plugin beside it; everything derived is kept until what it is derived from changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.devices.alike import model_of
from scheduler.devices.allocator import as_listed
from scheduler.devices.cel import CelEvaluator
from scheduler.devices.connections import (
    ConnectedFirst,
    Connections,
    connections_of,
    gpus_of,
    machine_of_slices,
    numbers_of,
)
from scheduler.devices.pools import Catalog, Site
from scheduler.model.devices import DeviceClass, DeviceSlice, DeviceTaintRule
from scheduler.model.node_topology import NodeTopology
from scheduler.state.device_classes import DeviceClasses
from scheduler.topology import read_machine

from .assumed import Assumed
from .extended import ExtendedClaims

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from scheduler.devices.ledger import DeviceId
    from scheduler.devices.pools import Candidate, Pool
    from scheduler.devices.requests import Want
    from scheduler.devices.search import Search
    from scheduler.model import Node
    from scheduler.model.device_claims import DeviceClaim
    from scheduler.state.objects import Objects

_encoder = msgspec.json.Encoder(order="sorted")


class Place:
    """A node: its pools, and how its GPUs are linked."""

    __slots__ = ("_model", "connections", "gpu_numbers", "gpus", "node", "pools", "site", "topology")

    def __init__(self, node: Node, topology: NodeTopology | None, catalog: Catalog, *, is_linked: bool) -> None:
        """Put the pools together."""
        self.node = node
        self.topology = topology
        self.site = Site(node.name, node.labels)
        self.pools: list[Pool] = catalog.pools_for(self.site)
        self._model: bytes | None = None
        self.connections: Connections | None = None
        self.gpu_numbers: dict[DeviceId, int] = {}
        self.gpus: frozenset[DeviceId] = frozenset()
        if is_linked and self.pools:
            self.gpus = gpus_of(self.pools)
            self.gpu_numbers = numbers_of(self.pools)
            told = machine_of_slices(self.pools)
            machine = read_machine(node.labels, node.annotations, topology, of_slices=told).machine
            self.connections = connections_of(self.pools, machine if machine is not None and machine.is_whole else None)

    @property
    def model(self) -> bytes:
        """What is equal for nodes whose devices nobody can tell apart but by their names; empty for one that is like no other."""
        if self._model is None:
            self._model = model_of(self.pools, self.connections)
        return self._model

    def devices(self) -> Iterator[DeviceId]:
        """Walk over the devices of all pools, as listed, and those that count against their counters alone."""
        for pool in self.pools:
            for candidate in pool.devices:
                yield candidate.id
            for device, _ in pool.others:
                yield device


class World:
    """What is known of devices."""

    def __init__(
        self, objects: Objects, is_alive: Callable[[str], bool], *, prefers_connected: bool, is_fractional: bool = False
    ) -> None:
        """Take the objects, and whether a pod is there and has not ended, by its uid.

        `prefers_connected` puts the best connected devices first, `is_fractional` is the allocator's.
        """
        self.objects = objects
        self.assumed = Assumed(objects, is_alive)
        self.extended = ExtendedClaims(DeviceClasses(objects), self.assumed)
        self.evaluator = CelEvaluator()
        self._prefers_connected = prefers_connected
        self.is_fractional = is_fractional
        self._catalog = Catalog(())
        self._catalog_at = (-1, -1)
        self._places: dict[str, Place] = {}
        self._wishes: dict[int, tuple[DeviceClaim, bytes]] = {}

    @property
    def catalog(self) -> Catalog:
        """The slices, with the taints of rules."""
        at = (self.objects.generation(DeviceSlice), self.objects.generation(DeviceTaintRule))
        if at != self._catalog_at:
            self._catalog_at = at
            self._catalog = Catalog(self.objects.all(DeviceSlice).values(), self.objects.all(DeviceTaintRule).values())
            self._places.clear()
        return self._catalog

    def class_of(self, name: str) -> DeviceClass | None:
        """Return a class; None if there is none."""
        return self.objects.get(DeviceClass, "", name)

    def place(self, node: Node) -> Place:
        """Return a node's pools, put together once until slices or the node change."""
        catalog, topology = self.catalog, self.objects.get(NodeTopology, "", node.name)
        place = self._places.get(node.name)
        if place is None or place.node is not node or place.topology is not topology:
            place = Place(node, topology, catalog, is_linked=self._prefers_connected)
            self._places[node.name] = place
        return place

    def stamps(self) -> Hashable:
        """Return what changes with slices, rules for taints and classes."""
        return (self.catalog, self.objects.generation(DeviceClass))

    def stamp(self, place: Place) -> Hashable:
        """Return what changes with whatever may change an answer about a node."""
        versions = self.assumed.versions
        used = tuple([versions[pool.id] for pool in place.pools])
        return (self._catalog_at, self.objects.generation(DeviceClass), used)

    def generations(self) -> tuple[int, ...]:
        """Return numbers of which one grows whenever an answer may change."""
        kinds = (DeviceSlice, DeviceTaintRule, DeviceClass)
        return (*[self.objects.generation(kind) for kind in kinds], self.assumed.generation)

    def order(self, places: Sequence[Place]) -> Callable[[Search, Want, list[Candidate]], list[Candidate]]:
        """Return the order in which devices are tried."""
        if not any(place.connections for place in places):
            return as_listed
        return ConnectedFirst({place.site.name: place.connections for place in places})

    def wish(self, claim: DeviceClaim) -> bytes:
        """Return what is equal for claims that ask for the same."""
        known = self._wishes.get(id(claim))
        if known is None or known[0] is not claim:
            if len(self._wishes) > _MOST_WISHES:
                self._wishes.clear()
            known = (claim, _encoder.encode((claim.requests, claim.constraints)))
            self._wishes[id(claim)] = known
        return known[1]


_MOST_WISHES = 65_536
