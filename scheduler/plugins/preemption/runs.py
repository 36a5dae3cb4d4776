"""Runs: the dry run that a profile's arguments ask for, on one row after another.

For DefaultPreemption and for explanations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cheapest import CheapestRun
from .dry_run import NO_VICTIMS, DryRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.framework.counting import Counting
    from scheduler.framework.handle import Handle
    from scheduler.framework.status import Status
    from scheduler.model import Budget, Pod

    from .candidate import Candidate


def a_run(
    handle: Handle, pod: Pod, look: Callable[[int], Status | None] | None, *,
    budgets: Sequence[Budget] | None = None, protect_gangs: bool = False, minimize_loss: bool = False,
    counting: Counting | None = None,
) -> DryRun:  # fmt: skip
    """Return what tries rows for a pod now; `look` may be left out where `counting` answers for all rows."""
    now, budgets = handle.now(), handle.budgets() if budgets is None else budgets
    if minimize_loss:
        return CheapestRun(handle, pod, look, now, budgets, counting=counting)
    return DryRun(handle, pod, look, now, budgets, protect_gangs=protect_gangs, counting=counting)


def dry_runs(
    handle: Handle, pod: Pod, rows: Iterable[int], look: Callable[[int], Status | None], *,
    budgets: Sequence[Budget] | None = None, protect_gangs: bool = False, minimize_loss: bool = False,
    counting: Counting | None = None,
) -> Iterator[tuple[int, Candidate | Status]]:  # fmt: skip
    """Yield for each row whom to evict there, or why that does not help; the snapshot is left as it was.

    `look` tells what Filter says of a row as the snapshot is then, with nominated pods counted; where `counting` says the
    same, it does.  `budgets` stand for the cluster's own, in the order in which they are charged.
    """
    weak = handle.snapshot.nodes.requested_below(pod.priority, "pods") > 0
    run = a_run(
        handle, pod, look, budgets=budgets, protect_gangs=protect_gangs, minimize_loss=minimize_loss, counting=counting
    )
    for row in rows:
        yield row, run.of(row) if weak[row] else NO_VICTIMS
