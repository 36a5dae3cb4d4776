"""Calling plugins: every call goes through here, and accidents become PluginError with the plugin's name and stack.

For the runtime, which calls them in order; nonsense that a plugin answers is an accident as well.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

from .status import Code, PreFilterResult, Reason, Status
from .verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Nodes

    from .cycle_state import CycleState
    from .plugin import Plugin

_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
MAX_NODE_SCORE = 100
OUT_OF_RANGE = f"a score lies outside 0 to {MAX_NODE_SCORE}"
ALLOWED_VERDICTS = "allowed are None and a Status"
ALLOWED_SCORES = "allowed are whole numbers from 0 to 100"


class PluginError(Exception):
    """A plugin raised or answered nonsense; carries the Error status with the plugin's name and stack."""

    def __init__(self, plugin: str, point: str, detail: str, stack: str = "") -> None:
        """Describe the accident; the stack is for logs, not for conditions."""
        super().__init__(f"plugin {plugin} failed at {point}: {detail}")
        numbers = (("stack", stack),) if stack else ()
        self.status = Status(Code.ERROR, (Reason("SchedulerError", str(self), numbers=numbers),), plugin)
        self._detail = detail

    def at_a_node(self) -> Status:
        """Return the Error of one node in a dry run, which goes on with other nodes, in kube-scheduler's words."""
        text = f'running "{self.status.plugin}" filter plugin: {self._detail}'
        return Status(Code.ERROR, (Reason("SchedulerError", text),), self.status.plugin)


def call(plugin: Plugin, method: str, *arguments: Any) -> Any:
    """Call a plugin's method; an exception becomes PluginError."""
    return guard(plugin.NAME, method, getattr(plugin, method), *arguments)


def answer(plugin: Plugin, method: str, *arguments: Any) -> Status | None:
    """Call a method that answers with a status; None for success, PluginError for what is no status."""
    found = call(plugin, method, *arguments)
    if found is None or (isinstance(found, Status) and found.code is Code.SUCCESS):
        return None
    if not isinstance(found, Status):
        raise PluginError(plugin.NAME, method, f"the answer is no status: {found!r}")
    return found.stamped(plugin.NAME)


def pre_filter_answer(name: str, said: object) -> Status | PreFilterResult | None:
    """Return what PreFilter answered, None for success; PluginError for an Error, or for what is no answer."""
    if said is None or isinstance(said, PreFilterResult):
        return said
    if not isinstance(said, Status):
        raise PluginError(name, "PreFilter", f"the answer is no status: {said!r}")
    if said.code is Code.ERROR:
        raise PluginError(name, "PreFilter", said.message)
    return None if said.code is Code.SUCCESS else said


def verdicts_of(
    plugin: Plugin, method: Callable[..., Any], state: CycleState, pod: Pod, nodes: Nodes,
    is_asked: Callable[[], Bools] | None = None,
) -> Verdicts:  # fmt: skip
    """Run one Filter; PluginError for an Error, or for verdicts that are none.

    `is_asked` returns the nodes that no earlier plugin has refused: an Error counts on these alone.
    """
    verdicts: Verdicts = guard(plugin.NAME, "Filter", method, state, pod, nodes)
    if not isinstance(verdicts, Verdicts) or verdicts.size != len(nodes):
        raise PluginError(plugin.NAME, "Filter", "the answer must be Verdicts over all nodes")
    for where, code, reason in verdicts.rejections:
        if code not in _REJECTIONS and (is_asked is None or (where & is_asked()).any()):
            raise PluginError(plugin.NAME, "Filter", reason.text)
    return verdicts


def check_verdict(plugin: Plugin, said: object) -> None:
    """Raise PluginError for what a narrow Filter must not answer."""
    if not isinstance(said, Status):
        raise PluginError(plugin.NAME, "Filter", f"filter answered {said!r}; {ALLOWED_VERDICTS}")
    if said.code not in _REJECTIONS:
        raise PluginError(plugin.NAME, "Filter", said.message or said.code.upstream_name)


def in_range(plugin: Plugin, point: str, scores: Ints) -> Ints:
    """Return scores; PluginError if one lies outside 0 to 100."""
    if len(scores) and scores.astype(np.int64, copy=False).view(np.uint64).max() > MAX_NODE_SCORE:  # below 0 is huge
        raise PluginError(plugin.NAME, point, OUT_OF_RANGE)
    return scores


def guard(plugin: str, point: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Call anything of a plugin; an exception becomes PluginError."""
    try:
        return method(*arguments)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(plugin, point, repr(error), traceback.format_exc()) from error


def wide_filter(plugin: Plugin) -> Callable[..., Verdicts]:
    """Return the wide Filter, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "filter_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.filter  # type: ignore[attr-defined]

    def looped(state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        answers = [narrow(state, pod, node) for node in nodes]
        if (odd := next((a for a in answers if a is not None and not isinstance(a, Status)), None)) is not None:
            raise PluginError(plugin.NAME, "Filter", f"filter answered {odd!r}; {ALLOWED_VERDICTS}")
        return Verdicts.from_statuses(answers)

    return looped


def wide_score(plugin: Plugin) -> Callable[..., Ints]:
    """Return the wide Score, looping the narrow one where there is no wide one."""
    if (wide := getattr(plugin, "score_all", None)) is not None:
        return wide  # type: ignore[no-any-return]
    narrow = plugin.score  # type: ignore[attr-defined]

    def looped(state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        answers = [narrow(state, pod, node) for node in nodes]
        if (odd := next((a for a in answers if not isinstance(a, int | np.integer)), None)) is not None:
            raise PluginError(plugin.NAME, "Score", f"score answered {odd!r}; {ALLOWED_SCORES}")
        return np.array(answers, dtype=np.int64)

    return looped


def check_score(plugin: Plugin, score: object, *, is_final: bool) -> int:
    """Return what a narrow Score answered; PluginError for what is no score, or, of what is not normalised, out of range."""
    if not isinstance(score, int | np.integer):
        raise PluginError(plugin.NAME, "Score", f"score answered {score!r}; {ALLOWED_SCORES}")
    if is_final and not 0 <= score <= MAX_NODE_SCORE:
        raise PluginError(plugin.NAME, "Score", OUT_OF_RANGE)
    return int(score)
