"""Feeds of the objects that tell about gangs, in every dialect but our own, about queues, and about the network.

For `feeds`.  All are optional, and found by discovery.  Our own PodGroups come through Kopf (`operator.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from scheduler.engine.inputs import GangChanged, GangRemoved, ObjectChanged, ObjectRemoved
from scheduler.model.dialects.own import NAME as OWN_NAME
from scheduler.model.gang import PREFIX
from scheduler.model.hypernode import HYPERNODE_GROUP, HYPERNODE_VERSION, ApiHyperNode, HyperNode, hypernode_from_api
from scheduler.model.node_resource_topology import (
    GROUP,
    RESOURCE,
    VERSION,
    ApiNodeResourceTopology,
    NodeResourceTopology,
    node_resource_topology_from_api,
)
from scheduler.model.node_topology import (
    NODE_TOPOLOGY_RESOURCE,
    ApiNodeTopology,
    NodeTopology,
    node_topology_from_api,
)
from scheduler.model.queue_dialects import QUEUE_KINDS, QueueKind
from scheduler.model.topology import Topology
from scheduler.model.topology_api import TOPOLOGY_KINDS, ApiTopology, TopologyKind, topology_from_api

from .discovery import Api
from .reflector import HasMetadata, Reflector, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.model import Gang, GangKey
    from scheduler.model.dialects import Dialect, GroupSource

    from .discovery import Discovery, Served
    from .inbox import Put
    from .wire import ObjectKey

T = TypeVar("T", bound=HasMetadata)


class MakeServed(Protocol):
    """Makes a reflector of an optional API, whose sink is two functions."""

    def __call__(
        self,
        resource: Resource[T],
        changed: Callable[[T], None],
        removed: Callable[[ObjectKey, T | None], None],
        served: Served,
        /,
    ) -> Reflector[T]:
        """Return it, not yet running."""


class GroupFeed:
    """Turns the objects of one source into gangs that came, changed and went."""

    def __init__(self, source: GroupSource, served: Served, put: Put) -> None:
        """Keep where the inputs go; `served` knows in which version objects are read."""
        self._read = source.read
        self._served = served
        self._put = put
        #: What each object told last, by its namespace and name.
        self._told: dict[tuple[str, str], dict[GangKey, Gang]] = {}
        #: How many objects tell of each gang: of a group of gangs, all that are in it.
        self._tellers: Counter[GangKey] = Counter()

    def changed(self, api: Any) -> None:
        """Take an object; of its gangs, those that are new or different are told, and those that it tells no more of go."""
        if not api.api_version:
            api = msgspec.structs.replace(api, api_version=self._served.api_version)
        gangs = {gang.key: gang for gang in self._read(api)}
        place = (api.metadata.namespace, api.metadata.name)
        before = self._told.get(place, {})
        self._told[place] = gangs
        self._tellers.update(gangs.keys() - before.keys())
        for key in before:
            if key not in gangs:
                self._no_longer(key)
        for key, gang in gangs.items():
            if before.get(key) != gang:
                self._put(GangChanged(gang))

    def removed(self, key: ObjectKey, last: Any) -> None:
        """Take that an object is gone, and with it the gangs that it alone told of."""
        del last
        for gang_key in self._told.pop(key.name_key, {}):
            self._no_longer(gang_key)

    def _no_longer(self, key: GangKey) -> None:
        """An object tells of a gang no more, which goes with the last one."""
        self._tellers[key] -= 1
        if not self._tellers[key]:
            del self._tellers[key]
            self._put(GangRemoved(key))


def group_feeds(
    make: MakeServed, put: Put, discovery: Discovery, dialects: Sequence[Dialect]
) -> Iterator[Reflector[Any]]:
    """Yield a reflector for each kind of object that tells about gangs."""
    for dialect in dialects:
        for source in dialect.sources if dialect.name != OWN_NAME else ():
            served = discovery.want(Api(source.group, source.versions, source.resource))
            feed = GroupFeed(source, served, put)
            resource = Resource(f"{source.resource}.{source.group}", "", source.api_type, is_optional=True)
            yield make(resource, feed.changed, feed.removed, served)


def queue_feeds(make: MakeServed, put: Put, discovery: Discovery) -> Iterator[Reflector[Any]]:
    """Yield a reflector for each kind of object that tells of a queue, ours first."""
    for kind in QUEUE_KINDS:
        yield _queues(kind, make, put, discovery)


def _queues(kind: QueueKind, make: MakeServed, put: Put, discovery: Discovery) -> Reflector[Any]:
    served = discovery.want(Api(kind.group, kind.versions, kind.resource))
    return make(
        Resource(f"{kind.resource}.{kind.group}", "", kind.api_type, is_optional=True),
        lambda api: put(ObjectChanged(kind.read(api))),
        lambda key, _: put(ObjectRemoved(kind.view, kind.key(key.namespace, key.name))),
        served,
    )


def topology_feeds(make: MakeServed, put: Put, discovery: Discovery) -> Iterator[Reflector[Any]]:
    """Yield a reflector for each kind of object that tells what the network looks like, between nodes and inside them."""
    for kind in TOPOLOGY_KINDS:
        yield _topologies(kind, make, put, discovery)
    served = discovery.want(Api(HYPERNODE_GROUP, (HYPERNODE_VERSION,), "hypernodes"))
    yield make(
        Resource(f"hypernodes.{HYPERNODE_GROUP}", "", ApiHyperNode, is_optional=True),
        lambda api: put(ObjectChanged(hypernode_from_api(api))),
        lambda key, _: put(ObjectRemoved(HyperNode, ("", key.name))),
        served,
    )
    served = discovery.want(Api(PREFIX, ("v1alpha1",), NODE_TOPOLOGY_RESOURCE))
    yield make(
        Resource(f"{NODE_TOPOLOGY_RESOURCE}.{PREFIX}", "", ApiNodeTopology, is_optional=True),
        lambda api: put(ObjectChanged(node_topology_from_api(api))),
        lambda key, _: put(ObjectRemoved(NodeTopology, ("", key.name))),
        served,
    )


def numa_feed(make: MakeServed, put: Put, discovery: Discovery) -> Reflector[Any]:
    """Return the reflector of the objects that tell what the NUMA nodes of a machine have free."""
    return make(
        Resource(f"{RESOURCE}.{GROUP}", "", ApiNodeResourceTopology, is_optional=True),
        lambda api: put(ObjectChanged(node_resource_topology_from_api(api))),
        lambda key, _: put(ObjectRemoved(NodeResourceTopology, ("", key.name))),
        discovery.want(Api(GROUP, (VERSION,), RESOURCE)),
    )


def _topologies(kind: TopologyKind, make: MakeServed, put: Put, discovery: Discovery) -> Reflector[ApiTopology]:
    served = discovery.want(Api(kind.group, kind.versions, "topologies"))
    return make(
        Resource(f"topologies.{kind.group}", "", ApiTopology, is_optional=True),
        lambda api: put(ObjectChanged(topology_from_api(api, kind.dialect))),
        lambda key, _: put(ObjectRemoved(Topology, (kind.dialect, key.name))),
        served,
    )
