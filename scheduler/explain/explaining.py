"""Explaining: asks every plugin of a profile about one pending pod, as a cycle would, and goes on where a cycle would stop.

For the explanations of cases and snapshots.  The order, and what counts when, are kube-scheduler's: each PreFilter and Filter
alone, then Filter with nominated pods counted and without, then scores of all feasible nodes, or else the dry run of
preemption on every node that it might help.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from scheduler.engine.messages import fit_text, narrowed_text
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.runtime import PluginError, call, nowhere_text
from scheduler.framework.status import Code, PreFilterResult, Reason, Status
from scheduler.model import pod_from_api
from scheduler.model.dialects import DIALECTS

from .explanation import Explanation, Scores
from .preempting import explain_preemption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.engine.core import Core
    from scheduler.framework.plugin import Plugin
    from scheduler.framework.verdicts import Verdicts
    from scheduler.model import Pod
    from scheduler.model.api import ApiPod
    from scheduler.model.dialects import Dialect


def waiting(api: ApiPod, dialects: Sequence[Dialect] = DIALECTS) -> Pod:
    """Return a pod as one that waits: it asks what it asks for, and a node that it names binds NodeName alone."""
    pod = pod_from_api(structs.replace(api, spec=structs.replace(api.spec, node_name="")), dialects)
    return structs.replace(pod, node_name=api.spec.node_name)


def explain(core: Core, pod: Pod) -> Explanation:
    """Return what the profile that a pod names says of it, in the cluster that the core knows, where it waits."""
    core.cluster.set_pod(structs.replace(pod, node_name=""))
    core.access.snapshot = core.cluster.snapshot()
    cycle = _Cycle(core, pod)
    found = cycle.explanation
    try:
        cycle.run()
    except PluginError as error:
        found.error = error.status.message
    return found


class _Cycle:
    """One attempt that leaves nothing out."""

    def __init__(self, core: Core, pod: Pod) -> None:
        self._handle = core.access
        self._runtime = core.runtimes[pod.scheduler_name]
        self._snapshot = core.access.snapshot
        self._nodes = self._snapshot.nodes
        self._pod = pod
        self._state = CycleState()
        #: What PreFilter wrote after it had refused the pod: to look on, as a cycle would not.
        self._beyond = self._state
        #: Set if PreFilter refused the pod.
        self._early: Status | None = None
        #: The nodes that PreFilter left, and who narrowed them.
        self._narrowed: frozenset[str] | None = None
        self._narrowing: list[str] = []
        #: Plugins that failed at Filter, and how.
        self._accidents: dict[str, PluginError] = {}
        self.explanation = Explanation(pod, self._nodes.names)

    def run(self) -> None:
        """Fill the explanation in; PluginError where a cycle would end with an error."""
        accident = self._pre_filter()
        verdicts = self._filter_alone()
        found = self.explanation
        if not found.node_names:
            found.filter, found.feasible = [], []
            found.event = fit_text(0, {})
            return
        if accident is not None:
            raise accident
        found.filter = self._filter(verdicts)
        found.feasible = [position for position, status in enumerate(found.filter) if status is None]
        if found.feasible:
            self._score(found.feasible)
            return
        found.preemption = explain_preemption(
            self._handle, self._runtime, self._state, self._pod, found.filter, early=self._early, look=self.look
        )
        self._tell()

    def look(self, row: int) -> Status | None:
        """Return what Filter says of a row as the snapshot is now: with the pods for which room is kept there first, then without."""
        nominated = self._handle.kept_from(self._pod, self._snapshot.all_rows[row].node.name)
        if nominated:
            undo = [self._snapshot.place(other, row) for other in nominated]
            try:
                status = self._status(row)
            finally:
                for step in reversed(undo):
                    step()
            if status is not None:
                return status
        return self._status(row)

    def _status(self, row: int) -> Status | None:
        nodes = self._nodes.select(np.array([row], dtype=np.int64))
        return self._runtime.filter(self._state, self._pod, nodes).status_at(0)

    def _pre_filter(self) -> PluginError | None:
        """Ask every PreFilter; return the accident that would have ended the cycle, if there is one."""
        found = self.explanation
        narrowing = self._narrowing
        is_over = False
        for plugin in self._runtime.plugins("pre_filter"):
            name, status = plugin.NAME, None
            try:
                said = call(plugin, "pre_filter", self._beyond, self._pod, self._nodes)
            except PluginError as error:
                said = error.status
            if isinstance(said, PreFilterResult) and said.node_names is not None:
                found.prefilter_nodes[name] = sorted(said.node_names)
                if not is_over:
                    narrowing.append(name)
                    self._narrowed = said.node_names if self._narrowed is None else self._narrowed & said.node_names
                    if not self._narrowed:
                        status = Status.unresolvable(Reason("NowhereLeft", nowhere_text(narrowing)))
            elif isinstance(said, Status) and said.code is Code.SKIP:
                self._beyond.skipped_filters.add(name)
                found.skipped.append(name)
            elif isinstance(said, Status) and said.code is not Code.SUCCESS:
                found.prefilter[name] = status = said.stamped(name)
            if status is not None and not is_over:
                # Evictions may cure Unschedulable, so that the others are asked too; anything else ends the cycle.
                self._early = status
                is_over = status.code is not Code.UNSCHEDULABLE
                if is_over:
                    self._beyond = self._state.clone()
        found.skipped.sort()
        return _accident(self._early) if self._early is not None and self._early.code is Code.ERROR else None

    def _filter_alone(self) -> list[tuple[Plugin, Verdicts | None]]:
        """Run every Filter over all nodes by itself, without those whose PreFilter skipped or refused."""
        state = self._beyond.clone()
        state.skipped_filters |= self.explanation.prefilter.keys()
        plugins = [p for p in self._runtime.plugins("filter") if p.NAME not in state.skipped_filters]
        found: list[tuple[Plugin, Verdicts | None]] = []
        try:
            found += self._runtime.filter(state, self._pod, self._nodes, keeps_errors=True).by_plugin
        except PluginError:
            for plugin in plugins:
                state.skipped_filters = {p.NAME for p in self._runtime.plugins("filter") if p is not plugin}
                try:
                    found += self._runtime.filter(state, self._pod, self._nodes, keeps_errors=True).by_plugin
                except PluginError as error:
                    found.append((plugin, None))
                    self._accidents[plugin.NAME] = error
        self.explanation.filters = {plugin.NAME: verdicts for plugin, verdicts in found}
        return found

    def _filter(self, by_plugin: list[tuple[Plugin, Verdicts | None]]) -> list[Status | None]:
        """Return what counts for every node: PreFilter's no, else the first Filter that refuses it."""
        if self._early is not None:
            return [self._early] * len(self._nodes)
        statuses: list[Status | None] = []
        outside = Status.unresolvable(Reason("NotNarrowed", narrowed_text(self._narrowing)))
        for row, name in enumerate(self.explanation.node_names):
            if self._narrowed is not None and name not in self._narrowed:
                statuses.append(outside)
            elif self._handle.nominated(name):
                statuses.append(self.look(row))
            else:
                statuses.append(_first(by_plugin, row, self._accidents))
        return statuses

    def _score(self, feasible: list[int]) -> None:
        """Score the feasible nodes, also a single one."""
        found = self.explanation
        nodes = self._nodes.select(np.array(feasible, dtype=np.int64))
        parts = self._runtime.pre_score(self._state, self._pod, nodes)
        found.score_skipped = sorted(self._state.skipped_scores)
        totals = np.zeros(len(feasible), dtype=np.int64)
        for part in parts:
            raw = self._runtime.raw_scores(part, self._state, self._pod, nodes)
            normalized = self._runtime.normalized(part, self._state, self._pod, raw)
            found.scores[part.plugin.NAME] = Scores(part.weight, raw, normalized)
            totals += normalized * part.weight
        found.totals = totals.tolist()

    def _tell(self) -> None:
        """Write the text of the event."""
        found, preemption = self.explanation, self.explanation.preemption
        assert preemption is not None
        if self._early is not None:
            text = fit_text(len(found.node_names), {}, early=self._early.message)
        else:
            parts = Counter(reason.text for status in found.filter if status for reason in status.reasons)
            text = fit_text(len(found.node_names), parts)
        said = preemption.post_filter.message if preemption.post_filter else ""
        found.event = f"{text} {said}" if said else text


def _first(
    by_plugin: list[tuple[Plugin, Verdicts | None]], position: int, accidents: Mapping[str, PluginError]
) -> Status | None:
    """Return the first refusal of a node; PluginError if a plugin that failed would have been asked."""
    for plugin, verdicts in by_plugin:
        if verdicts is None:
            raise accidents[plugin.NAME]
        if (status := verdicts.status_at(position)) is not None:
            if status.code is Code.ERROR:
                raise PluginError(plugin.NAME, "Filter", status.message)
            return status.stamped(plugin.NAME)
    return None


def _accident(status: Status) -> PluginError:
    return PluginError(status.plugin, "PreFilter", status.message)
