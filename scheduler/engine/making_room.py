"""Making room: the PostFilter plugins are asked in turn what could be done for a workload that has no place.

For `cycle`.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator
from typing import TYPE_CHECKING

from scheduler.framework.plugin import Failure, PostFilterResult
from scheduler.framework.runtime import PluginError, call
from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.state.snapshot import Bools, Snapshot

    from .candidates import Candidate
    from .placement import Placer

Answer = PostFilterResult | Status | None


class RoomMaker:
    """Asks for one workload in one attempt."""

    def __init__(
        self,
        runtime: Runtime,
        snapshot: Snapshot,
        workload: Workload,
        placer: Placer,
        state: CycleState,
        *,
        as_gang: bool,
    ) -> None:
        """Take what the attempt depends on; `as_gang`: single pods make room by the same rules as gangs."""
        self._runtime = runtime
        self._snapshot = snapshot
        self._workload = workload
        self._placer = placer
        self._state = state
        self._is_gang = workload.gang is not None or (as_gang and bool(runtime.plugins("pod_group_post_filter")))
        #: When it is worth another attempt though nothing happens, seconds since the epoch; None if nobody says.
        self.retry_at: float | None = None
        #: So many pods could be placed by evictions, if a plugin counted that.
        self.reachable = 0

    def run(
        self, shown: Candidate, early: Status | None, *, is_never: bool = False
    ) -> Generator[int, None, tuple[PostFilterResult | None, str]]:
        """Return the first plan or none, and what the plugins say.

        `is_never`: no eviction can help, so only those are asked that may help in another way.
        """
        failure = Failure(self._snapshot.nodes, early=early)
        if not self._is_gang:
            failure.statuses, failure.resolvable = shown.statuses(), self._open_to_evictions(shown.resolvable())
        self.retry_at, self.reachable = self._placer.barred_until, 0
        said = []
        point = "pod_group_post_filter" if self._is_gang else "post_filter"
        # without nodes there is nobody to evict, and kube-scheduler asks none of them either
        plugins = self._runtime.plugins(point) if self._snapshot.all_rows else ()
        for plugin in [p for p in plugins if p.HELPS_WITHOUT_VICTIMS or not is_never]:
            if self._is_gang:
                answer = call(plugin, "post_filter_gang", self._state, self._workload, failure)
                if isinstance(answer, Generator):
                    answer = yield from _drive(plugin.NAME, answer)
            else:
                answer = call(plugin, "post_filter", shown.state.clone(), shown.pod, failure)
            yield 1
            if isinstance(answer, PostFilterResult):
                self.reachable = 0
                return answer, answer.message
            if answer is None:
                continue
            if not isinstance(answer, Status) or answer.code is Code.ERROR:
                raise PluginError(plugin.NAME, "PostFilter", getattr(answer, "message", f"no status: {answer!r}"))
            self._note_numbers(answer)
            if answer.message:
                said.append(answer.message)
            if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                break
        return None, ", ".join(said)

    def _open_to_evictions(self, rows: Bools) -> Bools:
        """Return rows without those where nobody is evicted for the workload for now."""
        if not self._placer.barred:
            return rows
        left = rows.copy()
        left[list(self._placer.barred)] = False
        return left

    def _note_numbers(self, answer: Status) -> None:
        """Note how many pods evictions could make room for, and when it is worth another attempt."""
        numbers = {name: number for reason in answer.reasons for name, number in reason.numbers}
        if "retry_at" in numbers:
            self.retry_at = min(float(numbers["retry_at"]), self.retry_at or float("inf"))
        self.reachable = max(self.reachable, int(numbers.get("reachable", 0)))


def _drive(name: str, steps: Generator[int, None, Answer]) -> Generator[int, None, Answer]:
    """Go through a plugin's steps; what it raises becomes a PluginError."""
    try:
        return (yield from steps)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(name, "PostFilter", repr(error), traceback.format_exc()) from error
