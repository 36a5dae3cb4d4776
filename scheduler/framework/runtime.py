"""Runtime: calls the plugins of one profile in order, narrow or wide, and turns accidents into statuses.

For the engine.  Methods are resolved once, when the profile is made; a plugin that raises costs its workload an Error
status and nothing else.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.state.rows import NodeView

from .calling import (
    PluginError,
    answer,
    call,
    check_score,
    check_verdict,
    guard,
    in_range,
    pre_filter_answer,
    verdicts_of,
    wide_filter,
    wide_score,
)  # fmt: skip
from .filter_result import FilterResult
from .status import ClusterEvent, Code, PreFilterResult, Reason, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .cycle_state import CycleState
    from .plugin import Plugin
    from .registry import ResolvedProfile
    from .verdicts import Verdicts
    from .workload import Workload

__all__ = ["PluginError", "Runtime", "ScorePart", "answer", "call", "nowhere_text"]

_MOST_CACHED_SHAPES = 1024


@dataclass(slots=True)
class ScorePart:
    """One Score plugin's part in the totals."""

    plugin: Plugin
    weight: int
    method: Callable[..., Any]
    normalize: Callable[..., Any] | None
    #: Scores one node; None if the plugin has only the wide form.
    narrow: Callable[..., Any] | None
    #: Tells whether all nodes have the same score; None if the plugin never does.
    same: Callable[..., Any] | None


class Runtime:
    """The plugins of one profile, ready to be called."""

    def __init__(self, profile: ResolvedProfile) -> None:
        """Resolve every method once."""
        self.profile = profile
        self.scheduler_name = profile.scheduler_name
        points = profile.points
        self._pre_filters = [(e.plugin.NAME, e.plugin.pre_filter) for e in points["pre_filter"]]  # type: ignore[attr-defined]
        self._filters = [(e.plugin, wide_filter(e.plugin)) for e in points["filter"]]
        self._pre_scores = [(e.plugin.NAME, e.plugin.pre_score) for e in points["pre_score"]]  # type: ignore[attr-defined]
        self._scores = [
            ScorePart(
                e.plugin,
                e.weight,
                wide_score(e.plugin),
                getattr(e.plugin, "normalize", None),
                getattr(e.plugin, "score", None),
                getattr(e.plugin, "same_score", None),
            )
            for e in points["score"]
            if e.weight
        ]
        #: By NAME, as statuses say it; profiles know plugins by the names of the configuration.
        self._by_name = {plugin.NAME: plugin for plugin in profile.plugins.values()}
        self._sort_key = points["queue_sort"][0].plugin.sort_key  # type: ignore[attr-defined]
        self._static: dict[bytes, tuple[int, list[tuple[str, Verdicts]]]] = {}
        #: Pods of one shape share verdicts only if every plugin that filters or scores reads nothing else of them.
        looking = [plugin for plugin in profile.plugins.values() if _looks_at_nodes(plugin)]
        self.shares_shapes = all(plugin.READS_SHAPE_ONLY for plugin in looking)
        self._signs = [p.sign for p in looking if hasattr(p, "sign") and not p.SIGNS_STORAGE_ONLY]
        self._storage_signs = [p.sign for p in looking if hasattr(p, "sign") and p.SIGNS_STORAGE_ONLY]
        #: Plugins for which a change on one node may change what was said of others.
        self._far = {p.NAME: p for p in looking if not (p.READS_ONE_NODE or p.READS_NODES_ONLY)}
        #: Filters that look at one node and the pods on it, with their narrow forms.
        self._near_filters = [
            (plugin, wide, getattr(plugin, "filter", None))
            for plugin, wide in self._filters
            if not plugin.READS_NODES_ONLY and plugin.NAME not in self._far
        ]
        self._narrow_filters = {plugin.NAME: plugin.filter for plugin, _ in self._filters if hasattr(plugin, "filter")}
        self._changing_filters = [plugin for plugin, _ in self._filters if not plugin.READS_NODES_ONLY]
        self._far_filters = frozenset([plugin.NAME for plugin, _ in self._filters if plugin.NAME in self._far])
        self._settling = [(name, getattr(plugin, "is_settled", None)) for name, plugin in self._far.items()]
        self._plugins = {point: tuple(e.plugin for e in enabled) for point, enabled in points.items()}
        self._counting = [p.counted_requests for p, _ in self._filters if hasattr(p, "counted_requests")]

    def plugins(self, point: str) -> tuple[Plugin, ...]:
        """Return the plugins of a point, in order."""
        return self._plugins[point]

    def sort_key(self, workload: Workload) -> tuple[Any, ...]:
        """Return what the queue sorts by, lowest first."""
        return tuple(guard(self.plugins("queue_sort")[0].NAME, "QueueSort", self._sort_key, workload))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return the first objection to trying a pod at all; an accident is an Error."""
        for plugin in self.plugins("pre_enqueue"):
            try:
                status = answer(plugin, "pre_enqueue", pod)
            except PluginError as error:
                return error.status
            if status is not None:
                return status
        return None

    def key_of(self, pod: Pod) -> Hashable | None:
        """Return what plugins read of a pod, so that pods with equal keys share verdicts; None if they cannot."""
        if not self.shares_shapes or not pod.shape:
            return None
        signs = self._signs
        if pod.volumes or pod.claims or pod.extended:
            signs = signs + self._storage_signs
        try:
            return (pod.shape, *[sign(pod) for sign in signs])
        except Exception:  # noqa: BLE001 - what fails here fails at Filter, too, where it is told; the pod shares nothing
            return None

    def is_far_sighted(self, plugin: Plugin) -> bool:
        """Tell whether a change on one node may change what a plugin said of others."""
        return plugin.NAME in self._far

    def looks_far(self, name: str) -> bool:
        """Tell the same of a plugin by its NAME."""
        return name in self._far

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether what far-sighted plugins said at `filter` or `score` still holds where nothing changed."""
        for name, method in self._settling:
            try:
                if method is None or not method(state, pod, point):
                    return False
            except (Exception, SystemExit) as error:
                raise PluginError(name, "IsSettled", repr(error), traceback.format_exc()) from error
        return True

    def is_part_settled(self, part: ScorePart, state: CycleState, pod: Pod) -> bool:
        """Tell whether one plugin's scores still hold where nothing changed."""
        plugin = self._far.get(part.plugin.NAME)
        return plugin is None or self._is_one_settled(plugin, state, pod, "score")

    def _is_one_settled(self, plugin: Plugin, state: CycleState, pod: Pod, point: str) -> bool:
        method = getattr(plugin, "is_settled", None)
        return method is not None and bool(guard(plugin.NAME, "IsSettled", method, state, pod, point))

    def counted_requests(self, pod: Pod) -> dict[str, int] | None:
        """Return the requests that some Filter plugin counts against what nodes have free; None if none does."""
        if not self._counting:
            return None
        counted: dict[str, int] = {}
        for method in self._counting:
            counted |= guard("", "CountedRequests", method, pod)
        return counted

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[Status | None, Bools | None]:
        """Return a rejection, or the mask of nodes worth looking at (None: all)."""
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        refusal: Status | None = None
        state.skipped_filters.clear()
        for name, method in self._pre_filters:
            said = pre_filter_answer(name, guard(name, "PreFilter", method, state, pod, nodes))
            if isinstance(said, PreFilterResult):
                if said.node_names is not None:
                    names = said.node_names if names is None else names & said.node_names
                    narrowing.append(name)
                    if not names:
                        return Status.unresolvable(Reason("NoNodeInCommon", nowhere_text(narrowing))), None
            elif said is not None and said.code is Code.SKIP:
                state.skipped_filters.add(name)
            elif said is not None and said.code is Code.UNSCHEDULABLE:  # evictions may help, and will ask every Filter
                refusal = said.stamped(name)
            elif said is not None:
                return said.stamped(name), None
        if refusal is not None:
            return refusal, None
        if names is None:
            return None, None
        mask = np.zeros(len(nodes), dtype=np.bool_)
        mask[np.isin(nodes.rows, [nodes.snapshot.row_of[n] for n in names if n in nodes.snapshot.row_of])] = True
        state.write("narrowed-by", tuple(sorted(narrowing)))
        return None, mask

    def pre_filter_again(self, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
        """Run PreFilter of the far-sighted plugins again; False if one refuses or narrows, so that all must be asked."""
        for name, method in self._pre_filters:
            if name not in self._far:
                continue
            said = pre_filter_answer(name, guard(name, "PreFilter", method, state, pod, nodes))
            state.skipped_filters.discard(name)
            if isinstance(said, Status) and said.code is Code.SKIP:
                state.skipped_filters.add(name)
            elif said is not None:
                return False
        return True

    def filter(
        self, state: CycleState, pod: Pod, nodes: Nodes, *,
        changing_only: bool = False, sight: str = "", keeps_errors: bool = False,
    ) -> FilterResult:  # fmt: skip
        """Run every Filter that PreFilter did not skip over some nodes; PluginError for an Error that counts.

        `changing_only`: those that read pods; `sight`: only the `near` ones, which look at one node, or only the `far` ones;
        `keeps_errors`: an Error is a verdict like others, for who wants to see what each plugin says.
        """
        result = FilterResult(nodes)
        shares = nodes.is_whole and self.shares_shapes and pod.shape
        static = self._static_verdicts(state, pod, nodes) if shares else {}
        for plugin, method in self._filters:
            if plugin.NAME in state.skipped_filters or (changing_only and plugin.READS_NODES_ONLY):
                continue
            if sight and (sight == "far") is not (plugin.NAME in self._far):
                continue
            verdicts = static.get(plugin.NAME)
            if verdicts is None:
                verdicts = verdicts_of(plugin, method, state, pod, nodes, _nowhere if keeps_errors else result.passes)
            result.by_plugin.append((plugin, verdicts))
        return result

    def status_at(self, state: CycleState, pod: Pod, nodes: Nodes, row: int) -> Status | None:
        """Return what the first Filter says that refuses a row; None if none does. `nodes` are all rows."""
        node, one = nodes[row], nodes.one(row)
        for plugin, wide in self._filters:
            if plugin.NAME in state.skipped_filters:
                continue
            if (narrow := self._narrow_filters.get(plugin.NAME)) is None:
                said = verdicts_of(plugin, wide, state, pod, one).status_at(0)
            else:
                said = guard(plugin.NAME, "Filter", narrow, state, pod, node)
            if said is not None and (not isinstance(said, Status) or said.code is not Code.SUCCESS):
                check_verdict(plugin, said)
                return said.stamped(plugin.NAME)
        return None

    def counting_filter(self, state: CycleState, pod: Pod) -> tuple[Plugin, dict[str, int]] | None:
        """Return the Filter that counts, with what it counts, if nothing else that pods on a node do keeps this one off."""
        found = [plugin for plugin in self._changing_filters if plugin.NAME not in state.skipped_filters]
        if len(found) != 1 or not found[0].COUNTS_ONLY:
            return None
        sign = getattr(found[0], "sign", None)
        if sign is not None and guard(found[0].NAME, "Sign", sign, pod):
            return None  # it reads more of the pod than what it counts
        method = found[0].counted_requests  # type: ignore[attr-defined]
        return found[0], guard(found[0].NAME, "CountedRequests", method, pod)

    def opened(self, state: CycleState, pod: Pod, nodes: Nodes) -> Bools:
        """Return which nodes pass the Filters that read Node objects alone, shape (len(nodes),); `nodes` are all rows."""
        result = FilterResult(nodes)
        static = self._static_verdicts(state, pod, nodes) if self.shares_shapes and pod.shape else {}
        for plugin, method in self._filters:
            if plugin.READS_NODES_ONLY and plugin.NAME not in state.skipped_filters:
                verdicts = static.get(plugin.NAME)
                if verdicts is None:
                    verdicts = verdicts_of(plugin, method, state, pod, nodes)
                result.by_plugin.append((plugin, verdicts))
        return result.passes()

    def verdict_of(self, plugin: Plugin, state: CycleState, pod: Pod, record: Row) -> Status | None:
        """Return what one plugin's narrow Filter says of a node with what a record has on it; None if it passes."""
        said: Status | None = guard(
            plugin.NAME, "Filter", self._narrow_filters[plugin.NAME], state, pod, NodeView(record)
        )
        if said is None or (isinstance(said, Status) and said.code is Code.SUCCESS):
            return None
        check_verdict(plugin, said)
        return said.stamped(plugin.NAME)

    def has_far_filter(self, state: CycleState) -> bool:
        """Tell whether a Filter that looks further than at one node has something to say of a pod."""
        return not self._far_filters <= state.skipped_filters

    def passes_near(self, state: CycleState, pod: Pod, nodes: Nodes, row: int) -> bool:
        """Tell whether a node passes the Filters that look at one node and the pods there; `nodes` are all rows."""
        node = nodes[row]
        for plugin, wide, narrow in self._near_filters:
            if plugin.NAME in state.skipped_filters:
                continue
            if narrow is None:
                if verdicts_of(plugin, wide, state, pod, nodes.one(row)).rejections:
                    return False
                continue
            said = guard(plugin.NAME, "Filter", narrow, state, pod, node)
            if said is not None and (not isinstance(said, Status) or said.code is not Code.SUCCESS):
                check_verdict(plugin, said)
                return False
        return True

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[ScorePart]:
        """Run PreScore over feasible nodes; return the parts of those plugins that are to score."""
        state.skipped_scores.clear()
        for name, method in self._pre_scores:
            status = guard(name, "PreScore", method, state, pod, nodes)
            if status is not None and status.code is Code.SKIP:
                state.skipped_scores.add(name)
            elif status is not None and status.code is not Code.SUCCESS:
                raise PluginError(name, "PreScore", status.message)
        return [part for part in self._scores if part.plugin.NAME not in state.skipped_scores]

    def pre_score_again(self, part: ScorePart, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
        """Run PreScore of one part again; False if it does not score any more."""
        for name, method in self._pre_scores:
            if name == part.plugin.NAME:
                status = guard(name, "PreScore", method, state, pod, nodes)
                if status is not None and status.code not in (Code.SUCCESS, Code.SKIP):
                    raise PluginError(name, "PreScore", status.message)
                return status is None or status.code is Code.SUCCESS
        return True

    def has_silent_far_score(self, state: CycleState, pod: Pod) -> bool:
        """Tell whether a far-sighted plugin that said Skip at PreScore may say otherwise now."""
        skipped = state.skipped_scores
        for name, plugin in self._far.items():
            if name in skipped and not self._is_one_settled(plugin, state, pod, "score"):
                return True
        return False

    def same_score(self, part: ScorePart, pod: Pod, nodes: Nodes) -> int | None:
        """Return the score, normalised, that one plugin gives every node, whatever stands there; None if it has to be asked."""
        if part.same is None:
            return None
        score = guard(part.plugin.NAME, "SameScore", part.same, pod, nodes)
        return None if score is None else check_score(part.plugin, score, is_final=True)

    def raw_scores(self, part: ScorePart, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return one plugin's scores of some nodes, shape (len(nodes),), before they are normalised."""
        scores: Ints = guard(part.plugin.NAME, "Score", part.method, state, pod, nodes)
        if getattr(scores, "shape", None) != (len(nodes),):
            raise PluginError(part.plugin.NAME, "Score", "there must be one score for each node")
        return scores if part.normalize is not None else in_range(part.plugin, "Score", scores)

    def raw_score(self, part: ScorePart, state: CycleState, pod: Pod, nodes: Nodes, row: int, node: NodeView) -> int:
        """Return one plugin's score of one node, before it is normalised; `nodes` are all rows."""
        if part.narrow is None:
            return int(self.raw_scores(part, state, pod, nodes.one(row))[0])
        score = guard(part.plugin.NAME, "Score", part.narrow, state, pod, node)
        return check_score(part.plugin, score, is_final=part.normalize is None)

    def normalized(self, part: ScorePart, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return the scores of all feasible nodes, normalised."""
        if part.normalize is None:
            return scores
        normal: Ints = guard(part.plugin.NAME, "NormalizeScore", part.normalize, state, pod, scores)
        if getattr(normal, "shape", None) != scores.shape:
            raise PluginError(part.plugin.NAME, "NormalizeScore", "there must be one score for each node")
        return in_range(part.plugin, "NormalizeScore", normal)

    def cures(self, plugin_name: str, reason: Reason, event: ClusterEvent, change: Any, pod: Pod) -> bool:
        """Tell whether an event could cure a plugin's refusal of a pod."""
        if not reason.cures & event:
            return False
        plugin = self._by_name.get(plugin_name)
        hint = getattr(plugin, "queueing_hint", None)
        return True if hint is None else bool(guard(plugin_name, "QueueingHint", hint, event, change, pod, reason))

    def _static_verdicts(self, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, Verdicts]:
        """Return the verdicts of plugins that read only Node objects, kept per shape until a node changes."""
        generation = nodes.snapshot.node_generation
        cached = self._static.get(pod.shape)
        if cached is None or cached[0] != generation:
            if len(self._static) >= _MOST_CACHED_SHAPES:
                self._static.clear()
            found = [
                (plugin.NAME, verdicts_of(plugin, method, state, pod, nodes))
                for plugin, method in self._filters
                if plugin.READS_NODES_ONLY and plugin.NAME not in state.skipped_filters
            ]
            cached = self._static[pod.shape] = (generation, found)
        return dict(cached[1])


def _nowhere() -> Bools:
    """Return no node, for any number of nodes."""
    return np.zeros(1, dtype=np.bool_)


def nowhere_text(plugins: Iterable[str]) -> str:
    """Return what is said when the nodes that PreFilter plugins narrow to have none in common."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def _looks_at_nodes(plugin: Plugin) -> bool:
    return any(hasattr(plugin, m) for m in ("pre_filter", "filter", "filter_all", "pre_score", "score", "score_all"))
