"""How tests describe NUMA nodes, and ask NodeResourceTopologyMatch with the engine's own handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.engine.access import Access, Ties
from scheduler.engine.flights import Flights
from scheduler.framework.cycle_state import CycleState
from scheduler.model.node_resource_topology import (
    ApiNodeResourceTopology,
    NodeResourceTopology,
    node_resource_topology_from_api,
)
from scheduler.plugins.node_resource_topology_match import NodeResourceTopologyMatch, NodeResourceTopologyMatchArgs
from scheduler.state.cluster import ClusterState
from tests.builders import EPOCH, a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model import Node, Pod
    from tests.builders import PodBuilder

Amounts = dict[str, Any]


def report(
    name: str, *zones: Amounts, policy: str = "single-numa-node", scope: str = "container",
    costs: Iterable[dict[int, int]] = (), numbers: Iterable[int] = (), totals: Iterable[Amounts] = (), **more: Any,
) -> NodeResourceTopology:  # fmt: skip
    """Return a report of zones, each given as what is available; `numbers` are those of the NUMA nodes, from 0 by default.

    `totals` is what is allocatable, the same by default; `written` and `fingerprint` may be given.
    """
    ids, every = list(numbers) or list(range(len(zones))), list(totals) or list(zones)
    distances = list(costs) or [{} for _ in zones]
    attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
    if "fingerprint" in more:
        attributes["nodeTopologyPodsFingerprint"] = more.pop("fingerprint")
    if "method" in more:
        attributes["nodeTopologyPodsFingerprintMethod"] = more.pop("method")
    manifest = {
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "costs": [{"name": f"node-{other}", "value": value} for other, value in distance.items()],
                "resources": [
                    {"name": key, "available": left, "allocatable": total.get(key, left)} for key, left in zone.items()
                ],
            }
            for number, zone, total, distance in zip(ids, zones, every, distances, strict=True)
        ],
    }
    view = node_resource_topology_from_api(msgspec.convert(manifest, ApiNodeResourceTopology))
    assert not view.problems
    return msgspec.structs.replace(view, **more)


def a_machine(view: NodeResourceTopology, **offered: str) -> Node:
    """Return a node that offers what its NUMA nodes have together, and more."""
    node = a_node(view.name)
    total: dict[str, int] = {}
    for zone in view.zones:
        for resource, count in zone.allocatable.items():
            total[resource] = total.get(resource, 0) + count
    for resource, count in total.items():
        node.offer(resource, f"{count}m" if resource == "cpu" else count)
    for resource, quantity in offered.items():
        node.offer(resource, quantity)
    return node.build()


def guaranteed(*containers: Amounts, inits: Iterable[Amounts] = (), sidecars: Iterable[Amounts] = (), name: str = "p") -> PodBuilder:  # fmt: skip
    """Start a pod whose containers have their requests as limits."""
    return a_pod(name).patch_spec(
        containers=[_container(f"c{i}", amounts) for i, amounts in enumerate(containers)],
        initContainers=[
            *(_container(f"i{i}", amounts) for i, amounts in enumerate(inits)),
            *(_container(f"s{i}", amounts) | {"restartPolicy": "Always"} for i, amounts in enumerate(sidecars)),
        ],
    )


def _container(name: str, amounts: Amounts) -> dict[str, Any]:
    texts = {resource: str(amount) for resource, amount in amounts.items()}
    return {"name": name, "image": "example.test/app", "resources": {"requests": texts, "limits": texts}}


class Desk:
    """The plugin at a cluster of nodes with reports; `now` is the time."""

    def __init__(
        self, *reports: NodeResourceTopology, nodes: Iterable[Node] = (), args: dict[str, Any] | None = None
    ) -> None:
        """Make a machine for each report that has no node."""
        self.now = EPOCH + 10_000.0
        self.cluster = ClusterState()
        runtimes: Any = {"ai-scheduler": None}
        self.access = Access(self.cluster, Flights(self.cluster, 0), lambda: self.now, runtimes, Ties("name", 0))
        self.plugin = NodeResourceTopologyMatch(NodeResourceTopologyMatchArgs.model_validate(args or {}), self.access)
        given = {node.name: node for node in nodes}
        for view in reports:
            self.tell(view)
            given.setdefault(view.name, a_machine(view))
        for node in given.values():
            self.cluster.set_node(node)

    def tell(self, *reports: NodeResourceTopology) -> Desk:
        """Take reports as the engine does."""
        for view in reports:
            self.cluster.objects.put(view)
            self.cluster.look_again(view.name)
        return self

    def add(self, *pods: PodBuilder | Pod) -> Desk:
        """Take pods, or changes of them."""
        for pod in pods:
            self.cluster.set_pod(pod.build() if hasattr(pod, "build") else pod)
        return self

    def assume(self, pod: PodBuilder, node: str) -> Desk:
        """Count a pending pod on a node."""
        view = pod.build()
        self.cluster.set_pod(view)
        self.cluster.assume(view.uid, node)
        return self

    def refusals(self, pod: PodBuilder) -> dict[str, str]:
        """Return why Filter refuses nodes, by name; nobody if PreFilter leaves the pod alone."""
        self.access.snapshot = snapshot = self.cluster.snapshot()
        return self.refusals_now(pod, snapshot)

    def refusals_now(self, pod: PodBuilder, snapshot: Any) -> dict[str, str]:
        """Return the same of a snapshot as it is, perhaps with a what-if on it."""
        view = pod.build()
        self.plugin.sign(view)
        if self.plugin.pre_filter(CycleState(), view, snapshot.nodes) is not None:
            return {}
        verdicts = self.plugin.filter_all(CycleState(), view, snapshot.nodes)
        statuses = {name: verdicts.status_at(row) for name, row in snapshot.row_of.items()}
        return {name: status.message for name, status in statuses.items() if status is not None}

    def scores(self, pod: PodBuilder) -> dict[str, int]:
        """Return the score of every node."""
        self.access.snapshot = snapshot = self.cluster.snapshot()
        raw = self.plugin.score_all(CycleState(), pod.build(), snapshot.nodes)
        return dict(zip(snapshot.nodes.names, raw.tolist(), strict=True))
