"""How tests ask a plugin that looks at the whole cluster: in a core with kube-scheduler's plugins, over all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from tests.builders import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.framework.plugin import Plugin
    from scheduler.state.objects import Keyed
    from tests.builders import NodeBuilder, PodBuilder

SKIPPED = "skipped"


class Cluster:
    """Nodes, pods and objects, and the plugins of `kube-default`."""

    def __init__(
        self, nodes: Iterable[NodeBuilder], pods: Iterable[PodBuilder] = (), objects: Iterable[Keyed] = (), *,
        args: Mapping[str, dict[str, Any]] | None = None, gates: Mapping[str, bool] | None = None,
    ) -> None:  # fmt: skip
        """Fill a core; `args` are those of plugins, as in a configuration."""
        config = [{"name": name, "args": given} for name, given in (args or {}).items()]
        profile = {"schedulerName": "ai-scheduler", "base": "kube-default", "pluginConfig": config}
        values = {"profiles": [profile], "featureGates": dict(gates or {})}
        self.core = Core(SchedulerConfiguration.model_validate(values), lambda: EPOCH + 1000, 0)
        for node in nodes:
            self.core.cluster.set_node(node.build())
        for pod in pods:
            self.core.cluster.set_pod(pod.build())
        for thing in objects:
            self.core.cluster.objects.put(thing)
        self.core.access.snapshot = self.snapshot = self.core.cluster.snapshot()

    def plugin(self, name: str) -> Plugin:
        """Return a plugin by name."""
        return self.core.runtimes["ai-scheduler"].profile.plugins[name]

    def filter(self, name: str, pod: PodBuilder) -> dict[str, Any] | str:
        """Return code and texts of each node that a plugin refuses, "skipped", or PreFilter's refusal."""
        plugin: Any = self.plugin(name)
        state, view = CycleState(), pod.build()
        said = plugin.pre_filter(state, view, self.snapshot.nodes)
        if isinstance(said, Status):
            return SKIPPED if said.code is Code.SKIP else f"{said.code.upstream_name}: {said.message}"
        verdicts = plugin.filter_all(state, view, self.snapshot.nodes)
        statuses = {name: verdicts.status_at(row) for name, row in self.snapshot.row_of.items()}
        return {name: (s.code, s.message) for name, s in statuses.items() if s is not None}

    def score(self, name: str, pod: PodBuilder, feasible: Iterable[str] | None = None) -> Any:
        """Return raw and normalised scores of the feasible nodes (all by default), or "skipped"."""
        plugin: Any = self.plugin(name)
        state, view, nodes = CycleState(), pod.build(), self.snapshot.nodes
        if feasible is not None:
            nodes = nodes.select(np.array(sorted(self.snapshot.row_of[n] for n in feasible), dtype=np.int64))
        said = plugin.pre_score(state, view, nodes)
        if isinstance(said, Status):
            return SKIPPED
        raw = plugin.score_all(state, view, nodes)
        normal = plugin.normalize(state, view, raw)
        return {n: (int(r), int(s)) for n, r, s in zip(nodes.names, raw, normal, strict=True)}
