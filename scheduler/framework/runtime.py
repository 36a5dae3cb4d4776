"""Runtime: calls the plugins of one profile in order, narrow or wide, and turns accidents into statuses.

For the engine.  Methods are resolved once, when the profile is made; a plugin that raises costs its workload an Error
status and nothing else.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .status import ClusterEvent, Code, PreFilterResult, Reason, Status
from .verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .cycle_state import CycleState
    from .plugin import Plugin
    from .registry import ResolvedProfile
    from .workload import Workload

_MOST_CACHED_SHAPES = 1024
MAX_NODE_SCORE = 100


class PluginError(Exception):
    """A plugin raised or answered nonsense; carries the Error status with the plugin's name and stack."""

    def __init__(self, plugin: str, point: str, detail: str) -> None:
        """Describe the accident."""
        super().__init__(f"plugin {plugin} failed at {point}: {detail}")
        self.status = Status.error(str(self)).stamped(plugin)


@dataclass(slots=True)
class FilterResult:
    """What all Filter plugins say of some nodes; per node the first plugin that rejects counts."""

    nodes: Nodes
    by_plugin: list[tuple[str, Verdicts]] = field(default_factory=list)

    def passes(self) -> Bools:
        """Return which nodes pass, shape (len(nodes),)."""
        passing = np.ones(len(self.nodes), dtype=np.bool_)
        for _, verdicts in self.by_plugin:
            for where, _, _ in verdicts.rejections:
                passing &= ~where
        return passing

    def status_at(self, position: int) -> Status | None:
        """Return one node's status, with the plugin's name."""
        for name, verdicts in self.by_plugin:
            if (status := verdicts.status_at(position)) is not None:
                return status.stamped(name)
        return None

    def counts(self) -> dict[tuple[str, Reason], int]:
        """Count the nodes per (plugin, reason), each node only under the first plugin that rejects it."""
        left = np.ones(len(self.nodes), dtype=np.bool_)
        counts: dict[tuple[str, Reason], int] = {}
        for name, verdicts in self.by_plugin:
            if not verdicts.rejections:
                continue
            for where, _, reason in verdicts.rejections:
                if number := int(np.count_nonzero(where & left)):
                    counts[name, reason] = counts.get((name, reason), 0) + number
            left &= verdicts.passes()
        return counts

    def unresolvable(self) -> Bools:
        """Return the nodes whose first rejection evictions cannot cure."""
        result = np.zeros(len(self.nodes), dtype=np.bool_)
        left = np.ones(len(self.nodes), dtype=np.bool_)
        for _, verdicts in self.by_plugin:
            if verdicts.rejections:
                codes = verdicts.codes()
                result |= left & (codes >= Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
                left &= codes == 0
        return result


@dataclass(slots=True)
class ScorePart:
    """One Score plugin's part in the totals."""

    plugin: Plugin
    weight: int
    method: Callable[..., Any]
    #: Normalised, 0 to 100, before the weight.
    scores: Ints


class Runtime:
    """The plugins of one profile, ready to be called."""

    def __init__(self, profile: ResolvedProfile) -> None:
        """Resolve every method once."""
        self.profile = profile
        self.scheduler_name = profile.scheduler_name
        points = profile.points
        self._pre_filters = [(e.plugin.NAME, e.plugin.pre_filter) for e in points["pre_filter"]]  # type: ignore[attr-defined]
        self._filters = [(e.plugin, _wide_filter(e.plugin)) for e in points["filter"]]
        self._pre_scores = [(e.plugin.NAME, e.plugin.pre_score) for e in points["pre_score"]]  # type: ignore[attr-defined]
        self._scores = [(e.plugin, e.weight, _wide_score(e.plugin)) for e in points["score"] if e.weight]
        self._sort_key = points["queue_sort"][0].plugin.sort_key  # type: ignore[attr-defined]
        self._static: dict[bytes, tuple[int, list[tuple[str, Verdicts]]]] = {}
        #: Pods of one shape share verdicts only if every plugin that filters or scores reads nothing else of them.
        self.shares_shapes = all(p.READS_SHAPE_ONLY for p in profile.plugins.values() if _looks_at_nodes(p))

    def plugins(self, point: str) -> list[Plugin]:
        """Return the plugins of a point, in order."""
        return [e.plugin for e in self.profile.points[point]]

    def sort_key(self, workload: Workload) -> tuple[Any, ...]:
        """Return what the queue sorts by, lowest first."""
        return tuple(self._sort_key(workload))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return the first objection to trying a pod at all."""
        for plugin in self.plugins("pre_enqueue"):
            status: Status | None = call(plugin, "pre_enqueue", pod)
            if status is not None and status.code is not Code.SUCCESS:
                return status.stamped(plugin.NAME)
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[Status | None, Bools | None]:
        """Return a rejection, or the mask of nodes worth looking at (None: all)."""
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        for name, method in self._pre_filters:
            answer = _guard(name, "PreFilter", method, state, pod, nodes)
            if answer is None:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.node_names is not None:
                    names = answer.node_names if names is None else names & answer.node_names
                    narrowing.append(name)
            elif answer.code is Code.SKIP:
                state.skipped_filters.add(name)
            elif answer.code is not Code.SUCCESS:
                refusal: Status = answer.stamped(name)
                return refusal, None
        if names is None:
            return None, None
        known = frozenset(names) & nodes.snapshot.row_of.keys()
        mask = np.zeros(len(nodes), dtype=np.bool_)
        rows = [nodes.snapshot.row_of[node] for node in known]
        mask[np.isin(nodes.rows, rows)] = True
        state.write("narrowed-by", tuple(sorted(narrowing)))
        return None, mask

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> FilterResult:
        """Run every Filter that PreFilter did not skip over some nodes."""
        result = FilterResult(nodes)
        whole = nodes.is_whole
        static = self._static_verdicts(state, pod, nodes) if whole and self.shares_shapes and pod.shape else None
        for plugin, method in self._filters:
            if plugin.NAME in state.skipped_filters:
                continue
            if static is not None and plugin.READS_NODES_ONLY:
                verdicts = static[plugin.NAME]
            else:
                verdicts = _guard(plugin.NAME, "Filter", method, state, pod, nodes)
            result.by_plugin.append((plugin.NAME, verdicts))
            if any(code is Code.ERROR for _, code, _ in verdicts.rejections):
                raise PluginError(
                    plugin.NAME, "Filter", "; ".join(r.text for _, c, r in verdicts.rejections if c is Code.ERROR)
                )
        return result

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[ScorePart]:
        """Return each plugin's normalised scores over feasible nodes, shape (len(nodes),)."""
        state.skipped_scores.clear()
        for name, method in self._pre_scores:
            answer = _guard(name, "PreScore", method, state, pod, nodes)
            if answer is not None and answer.code is Code.SKIP:
                state.skipped_scores.add(name)
            elif answer is not None and answer.code is not Code.SUCCESS:
                raise PluginError(name, "PreScore", answer.message)
        return [
            ScorePart(plugin, weight, method, self.score_one(plugin, method, state, pod, nodes))
            for plugin, weight, method in self._scores
            if plugin.NAME not in state.skipped_scores
        ]

    def score_one(self, plugin: Plugin, method: Callable[..., Any], state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return one plugin's normalised scores; PluginError if one lies outside 0 to 100."""
        scores: Ints = _guard(plugin.NAME, "Score", method, state, pod, nodes)
        if (normalize := getattr(plugin, "normalize", None)) is not None:
            scores = _guard(plugin.NAME, "NormalizeScore", normalize, state, pod, scores)
        if len(scores) and (scores.min() < 0 or scores.max() > MAX_NODE_SCORE):
            raise PluginError(plugin.NAME, "Score", f"a score lies outside 0 to {MAX_NODE_SCORE}")
        return scores

    def cures(self, plugin_name: str, reason: Reason, event: ClusterEvent, change: Any, pod: Pod) -> bool:
        """Tell whether an event could cure a plugin's refusal of a pod."""
        if not reason.cures & event:
            return False
        plugin = self.profile.plugins.get(plugin_name)
        hint = getattr(plugin, "queueing_hint", None)
        return True if hint is None else bool(_guard(plugin_name, "QueueingHint", hint, event, change, pod, reason))

    def _static_verdicts(self, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, Verdicts]:
        """Return the verdicts of plugins that read only Node objects, kept per shape until a node changes."""
        generation = nodes.snapshot.node_generation
        cached = self._static.get(pod.shape)
        if cached is None or cached[0] != generation:
            if len(self._static) >= _MOST_CACHED_SHAPES:
                self._static.clear()
            found = [
                (plugin.NAME, _guard(plugin.NAME, "Filter", method, state, pod, nodes))
                for plugin, method in self._filters
                if plugin.READS_NODES_ONLY and plugin.NAME not in state.skipped_filters
            ]
            cached = self._static[pod.shape] = (generation, found)
        return dict(cached[1])


def call(plugin: Plugin, method: str, *arguments: Any) -> Any:
    """Call a plugin's method; an exception becomes PluginError."""
    return _guard(plugin.NAME, method, getattr(plugin, method), *arguments)


def _guard(plugin: str, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin, point, f"{error!r}\n{traceback.format_exc()}") from error


def _wide_filter(plugin: Plugin) -> Callable[..., Verdicts]:
    """Return the wide Filter, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "filter_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.filter  # type: ignore[attr-defined]
    return lambda state, pod, nodes: Verdicts.from_statuses([narrow(state, pod, node) for node in nodes])


def _wide_score(plugin: Plugin) -> Callable[..., Ints]:
    """Return the wide Score, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "score_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.score  # type: ignore[attr-defined]
    return lambda state, pod, nodes: np.array([narrow(state, pod, node) for node in nodes], dtype=np.int64)


def _looks_at_nodes(plugin: Plugin) -> bool:
    return any(hasattr(plugin, m) for m in ("pre_filter", "filter", "filter_all", "pre_score", "score", "score_all"))
