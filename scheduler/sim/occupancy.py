"""Who held what when: which GPU belonged to whom, when a workload ran and when it waited.  Arithmetic for the charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .outcome import Outcome, PodOutcome, WorkloadOutcome


#: The name under which the pods of other schedulers hold GPUs.
OTHERS = "pods of other schedulers"


@dataclass(frozen=True, slots=True)
class Stay:
    """A workload on a GPU; `turn` is the workload's place in the outcome, that of others is behind the last."""

    first: float
    last: float
    turn: int
    owner: str


@dataclass(frozen=True, slots=True)
class Run:
    """A time in which at least one pod of a workload was placed."""

    first: float
    #: None: to the end.
    last: float | None
    #: Evicted or Failed if that is why it ended.
    outcome: str


def stays_by_gpu(outcome: Outcome) -> dict[tuple[str, int], list[Stay]]:
    """Return the stays on each GPU of each node, by time.

    A pod whose set nobody knows is drawn on the lowest GPUs that are free then.
    """
    holders = [(f"{workload.kind} {workload.key}", workload.pods) for workload in outcome.workloads]
    holders.append((OTHERS, outcome.others))
    lives = sorted(
        ((pod.bound, turn, pod) for turn, (_, pods) in enumerate(holders) for pod in pods if pod.gpus),
        key=lambda life: (life[0], life[1], life[2].name),
    )
    gpus = {node.name: node.gpus for node in outcome.nodes}
    stays: dict[tuple[str, int], list[Stay]] = {}
    for _, turn, pod in lives:
        stay = Stay(pod.bound, _end(pod, outcome), turn, holders[turn][0])
        for gpu in pod.gpu_set or _free(pod, gpus.get(pod.node, 0), stays):
            stays.setdefault((pod.node, gpu), []).append(stay)
    return stays


def _free(pod: PodOutcome, gpus: int, stays: dict[tuple[str, int], list[Stay]]) -> list[int]:
    """Return the lowest GPUs that nobody holds when a pod is bound."""
    free = [gpu for gpu in range(gpus) if owner_at(stays.get((pod.node, gpu), []), pod.bound) is None]
    return free[: pod.gpus]


def _end(pod: PodOutcome, outcome: Outcome) -> float:
    return outcome.end_seconds + 1 if pod.ended is None else pod.ended


def owner_at(stays: Sequence[Stay], moment: float) -> str | None:
    """Return who holds a GPU at a moment."""
    return next((stay.owner for stay in stays if stay.first <= moment < stay.last), None)


def busiest_moment(outcome: Outcome) -> float:
    """Return the first moment at which the most GPUs were in use."""
    return max(outcome.samples, key=lambda sample: (sample.gpus, -sample.seconds)).seconds if outcome.samples else 0.0


def runs_of(workload: WorkloadOutcome) -> list[Run]:
    """Return when a workload ran: the lives of its pods, drawn together where they overlap."""
    runs: list[Run] = []
    for pod in sorted(workload.pods, key=lambda pod: (pod.bound, pod.name)):
        former = runs[-1] if runs else None
        if former is None or (former.last is not None and _is_apart(former, pod)):
            runs.append(Run(pod.bound, pod.ended, pod.outcome))
        elif former.last is not None and (pod.ended is None or pod.ended >= former.last):
            runs[-1] = Run(former.first, pod.ended, pod.outcome)
    return runs


def _is_apart(former: Run, pod: PodOutcome) -> bool:
    """Tell whether a pod begins a new run; one that takes the place of an evicted one at once does, too."""
    assert former.last is not None
    return pod.bound > former.last or (pod.bound == former.last and former.outcome == "Evicted")


def waits_of(workload: WorkloadOutcome, end: float) -> Iterator[tuple[float, float]]:
    """Yield when a workload waited as a whole: before its runs and between them, and to the end if it still waits."""
    since = workload.submitted
    last: float | None = since
    for run in runs_of(workload):
        if run.first > since:
            yield since, run.first
        last = run.last
        if last is None:
            return
        since = last
    if workload.waiting and last is not None:
        yield since, end
