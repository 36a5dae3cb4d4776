"""Runtime: calls the plugins of one profile in order, narrow or wide, and turns accidents into statuses.

For the engine.  Methods are resolved once, when the profile is made; a plugin that raises costs its workload an Error
status and nothing else.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .filter_result import FilterResult
from .status import ClusterEvent, Code, PreFilterResult, Reason, Status
from .verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .cycle_state import CycleState
    from .plugin import Plugin
    from .registry import ResolvedProfile
    from .workload import Workload

_MOST_CACHED_SHAPES = 1024
_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
MAX_NODE_SCORE = 100


class PluginError(Exception):
    """A plugin raised or answered nonsense; carries the Error status with the plugin's name and stack."""

    def __init__(self, plugin: str, point: str, detail: str, stack: str = "") -> None:
        """Describe the accident; the stack is for logs, not for conditions."""
        super().__init__(f"plugin {plugin} failed at {point}: {detail}")
        numbers = (("stack", stack),) if stack else ()
        self.status = Status(Code.ERROR, (Reason("SchedulerError", str(self), numbers=numbers),), plugin)


@dataclass(slots=True)
class ScorePart:
    """One Score plugin's part in the totals."""

    plugin: Plugin
    weight: int
    method: Callable[..., Any]
    normalize: Callable[..., Any] | None


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
        self._scores = [
            ScorePart(e.plugin, e.weight, _wide_score(e.plugin), getattr(e.plugin, "normalize", None))
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
        self._signs = [plugin.sign for plugin in looking if hasattr(plugin, "sign")]
        #: Plugins for which a change on one node may change what was said of others.
        self._far = {p.NAME: p for p in looking if not (p.READS_ONE_NODE or p.READS_NODES_ONLY)}
        self._settling = [(name, getattr(plugin, "is_settled", None)) for name, plugin in self._far.items()]
        self._plugins = {point: tuple(e.plugin for e in enabled) for point, enabled in points.items()}
        self._counting = [
            count for p, _ in self._filters if (count := getattr(p, "counted_requests", None)) is not None
        ]

    def plugins(self, point: str) -> tuple[Plugin, ...]:
        """Return the plugins of a point, in order."""
        return self._plugins[point]

    def sort_key(self, workload: Workload) -> tuple[Any, ...]:
        """Return what the queue sorts by, lowest first."""
        return tuple(_guard(self.plugins("queue_sort")[0].NAME, "QueueSort", self._sort_key, workload))

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
        try:
            return (pod.shape, *[sign(pod) for sign in self._signs])
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
            if method is None or not _guard(name, "IsSettled", method, state, pod, point):
                return False
        return True

    def is_part_settled(self, part: ScorePart, state: CycleState, pod: Pod) -> bool:
        """Tell whether one plugin's scores still hold where nothing changed."""
        plugin = self._far.get(part.plugin.NAME)
        return plugin is None or self._is_one_settled(plugin, state, pod, "score")

    def _is_one_settled(self, plugin: Plugin, state: CycleState, pod: Pod, point: str) -> bool:
        method = getattr(plugin, "is_settled", None)
        return method is not None and bool(_guard(plugin.NAME, "IsSettled", method, state, pod, point))

    def counted_requests(self, pod: Pod) -> dict[str, int] | None:
        """Return the requests that some Filter plugin counts against what nodes have free; None if none does."""
        if not self._counting:
            return None
        counted: dict[str, int] = {}
        for method in self._counting:
            counted |= _guard("", "CountedRequests", method, pod)
        return counted

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[Status | None, Bools | None]:
        """Return a rejection, or the mask of nodes worth looking at (None: all)."""
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        refusal: Status | None = None
        state.skipped_filters.clear()
        for name, method in self._pre_filters:
            said = _pre_filter_answer(name, _guard(name, "PreFilter", method, state, pod, nodes))
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
            said = _pre_filter_answer(name, _guard(name, "PreFilter", method, state, pod, nodes))
            state.skipped_filters.discard(name)
            if isinstance(said, Status) and said.code is Code.SKIP:
                state.skipped_filters.add(name)
            elif said is not None:
                return False
        return True

    def filter(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, changing_only: bool = False, sight: str = ""
    ) -> FilterResult:
        """Run every Filter that PreFilter did not skip over some nodes.

        `changing_only`: those that read pods; `sight`: only the `near` ones, which look at one node, or only the `far` ones.
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
                verdicts = _verdicts(plugin, method, state, pod, nodes)
            result.by_plugin.append((plugin, verdicts))
        return result

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[ScorePart]:
        """Run PreScore over feasible nodes; return the parts of those plugins that are to score."""
        state.skipped_scores.clear()
        for name, method in self._pre_scores:
            status = _guard(name, "PreScore", method, state, pod, nodes)
            if status is not None and status.code is Code.SKIP:
                state.skipped_scores.add(name)
            elif status is not None and status.code is not Code.SUCCESS:
                raise PluginError(name, "PreScore", status.message)
        return [part for part in self._scores if part.plugin.NAME not in state.skipped_scores]

    def pre_score_again(self, part: ScorePart, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
        """Run PreScore of one part again; False if it does not score any more."""
        for name, method in self._pre_scores:
            if name == part.plugin.NAME:
                status = _guard(name, "PreScore", method, state, pod, nodes)
                if status is not None and status.code not in (Code.SUCCESS, Code.SKIP):
                    raise PluginError(name, "PreScore", status.message)
                return status is None or status.code is Code.SUCCESS
        return True

    def has_silent_far_score(self, state: CycleState, pod: Pod) -> bool:
        """Tell whether a far-sighted plugin that said Skip at PreScore may say otherwise now."""
        return any(
            name in self._far and not self._is_one_settled(self._far[name], state, pod, "score")
            for name in state.skipped_scores
        )

    def raw_scores(self, part: ScorePart, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return one plugin's scores of some nodes, shape (len(nodes),), before they are normalised."""
        scores: Ints = _guard(part.plugin.NAME, "Score", part.method, state, pod, nodes)
        if getattr(scores, "shape", None) != (len(nodes),):
            raise PluginError(part.plugin.NAME, "Score", "there must be one score for each node")
        return scores if part.normalize is not None else _in_range(part, "Score", scores)

    def normalized(self, part: ScorePart, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Return the scores of all feasible nodes, normalised."""
        if part.normalize is None:
            return scores
        normal: Ints = _guard(part.plugin.NAME, "NormalizeScore", part.normalize, state, pod, scores)
        if getattr(normal, "shape", None) != scores.shape:
            raise PluginError(part.plugin.NAME, "NormalizeScore", "there must be one score for each node")
        return _in_range(part, "NormalizeScore", normal)

    def cures(self, plugin_name: str, reason: Reason, event: ClusterEvent, change: Any, pod: Pod) -> bool:
        """Tell whether an event could cure a plugin's refusal of a pod."""
        if not reason.cures & event:
            return False
        plugin = self._by_name.get(plugin_name)
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
                (plugin.NAME, _verdicts(plugin, method, state, pod, nodes))
                for plugin, method in self._filters
                if plugin.READS_NODES_ONLY and plugin.NAME not in state.skipped_filters
            ]
            cached = self._static[pod.shape] = (generation, found)
        return dict(cached[1])


def nowhere_text(plugins: Iterable[str]) -> str:
    """Return what is said when the nodes that PreFilter plugins narrow to have none in common."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def call(plugin: Plugin, method: str, *arguments: Any) -> Any:
    """Call a plugin's method; an exception becomes PluginError."""
    return _guard(plugin.NAME, method, getattr(plugin, method), *arguments)


def answer(plugin: Plugin, method: str, *arguments: Any) -> Status | None:
    """Call a method that answers with a status; None for success, PluginError for what is no status."""
    found = call(plugin, method, *arguments)
    if found is None or (isinstance(found, Status) and found.code is Code.SUCCESS):
        return None
    if not isinstance(found, Status):
        raise PluginError(plugin.NAME, method, f"the answer is no status: {found!r}")
    return found.stamped(plugin.NAME)


def _pre_filter_answer(name: str, said: object) -> Status | PreFilterResult | None:
    """Return what PreFilter answered, None for success; PluginError for an Error, or for what is no answer."""
    if said is None or isinstance(said, PreFilterResult):
        return said
    if not isinstance(said, Status):
        raise PluginError(name, "PreFilter", f"the answer is no status: {said!r}")
    if said.code is Code.ERROR:
        raise PluginError(name, "PreFilter", said.message)
    return None if said.code is Code.SUCCESS else said


def _verdicts(plugin: Plugin, method: Callable[..., Any], state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
    """Run one Filter; PluginError for an Error, or for verdicts that are none."""
    verdicts: Verdicts = _guard(plugin.NAME, "Filter", method, state, pod, nodes)
    if not isinstance(verdicts, Verdicts) or verdicts.size != len(nodes):
        raise PluginError(plugin.NAME, "Filter", "the answer must be Verdicts over all nodes")
    for _, code, reason in verdicts.rejections:
        if code not in _REJECTIONS:
            raise PluginError(plugin.NAME, "Filter", reason.text)
    return verdicts


def _in_range(part: ScorePart, point: str, scores: Ints) -> Ints:
    if len(scores) and scores.astype(np.int64, copy=False).view(np.uint64).max() > MAX_NODE_SCORE:  # below 0 is huge
        raise PluginError(part.plugin.NAME, point, f"a score lies outside 0 to {MAX_NODE_SCORE}")
    return scores


def _guard(plugin: str, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(plugin, point, repr(error), traceback.format_exc()) from error


def _wide_filter(plugin: Plugin) -> Callable[..., Verdicts]:
    """Return the wide Filter, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "filter_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.filter  # type: ignore[attr-defined]

    def looped(state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        answers = [narrow(state, pod, node) for node in nodes]
        if (odd := next((a for a in answers if a is not None and not isinstance(a, Status)), None)) is not None:
            raise PluginError(plugin.NAME, "Filter", f"filter answered {odd!r}; allowed are None and a Status")
        return Verdicts.from_statuses(answers)

    return looped


def _wide_score(plugin: Plugin) -> Callable[..., Ints]:
    """Return the wide Score, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "score_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.score  # type: ignore[attr-defined]

    def looped(state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        answers = [narrow(state, pod, node) for node in nodes]
        if (odd := next((a for a in answers if not isinstance(a, int | np.integer)), None)) is not None:
            raise PluginError(plugin.NAME, "Score", f"score answered {odd!r}; allowed are whole numbers from 0 to 100")
        return np.array(answers, dtype=np.int64)

    return looped


def _looks_at_nodes(plugin: Plugin) -> bool:
    return any(hasattr(plugin, m) for m in ("pre_filter", "filter", "filter_all", "pre_score", "score", "score_all"))
