"""The goals: what the medians of one scheduler must be beside those of the others, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .schedulers import BARE, KUBE, OURS, REFLECTOR

#: By scheduler and figure.
Medians = Mapping[str, Mapping[str, float]]
SINGLES = ("singles on 1,000 nodes", "singles on 5,000 nodes")
GANGS, CHURN, CLAIMS = "gangs of 4 × 2 GPUs", "gangs into churn", "device claims"
NO_YES = "no, then yes"


@dataclass(frozen=True)
class Goal:
    """One goal: a figure of ours, and the bound that it must keep, which may depend on others' figures."""

    row: str
    figure: str
    text: str
    bound: Callable[[Medians], float]
    is_floor: bool = False
    scheduler: str = OURS

    def judge(self, medians: Medians) -> str:
        """Return what was found, with "met" or "missed"; empty where something was not measured."""
        try:
            found, bound = medians[self.scheduler][self.figure], self.bound(medians)
        except KeyError:
            return ""
        is_met = found >= bound if self.is_floor else found <= bound
        return f"{'met' if is_met else 'missed'}: {found:.3g}, {self.text} {bound:.3g}"


def times(factor: float, scheduler: str, figure: str) -> Callable[[Medians], float]:
    """Return a bound that is another scheduler's figure, so many times."""
    return lambda medians: factor * medians[scheduler][figure]


def fixed(value: float) -> Callable[[Medians], float]:
    """Return a bound that is the same always."""
    return lambda _: value


def _no_idle_writes(row: str) -> Goal:
    return Goal(row, "idle_writes", "writes while nothing changes at most", fixed(0))


def _costs(row: str) -> list[Goal]:
    cpu = "cpu_s_per_1000_pods"
    return [
        Goal(row, cpu, "CPU seconds per 1,000 pods at most 2 × kube-scheduler:", times(2, KUBE, cpu)),
        _no_idle_writes(row),
    ]


def _beside(row: str, factor: float, p99: str) -> list[Goal]:
    """Return the goals of a burst beside kube-scheduler."""
    rate = "pods_per_s"
    return [
        Goal(row, rate, f"pods/s at least {factor} × kube-scheduler:", times(factor, KUBE, rate), is_floor=True),
        Goal(row, p99, "p99 no worse than kube-scheduler:", times(1, KUBE, p99)),
        *_costs(row),
    ]


GOALS = [
    *[
        goal
        for row in SINGLES
        for goal in (
            *_beside(row, 1.0, "p99_s"),
            Goal(
                row,
                "pods_per_s",
                "pods/s at least half of the bare client:",
                times(0.5, BARE, "pods_per_s"),
                is_floor=True,
            ),
        )
    ],
    Goal(
        SINGLES[0],
        "pods_per_s",
        "pods/s with the reflector at least 0.8 of the bare client:",
        times(0.8, BARE, "pods_per_s"),
        is_floor=True,
        scheduler=REFLECTOR,
    ),
    *_beside(GANGS, 1.9, "gang_p99_s"),
    Goal(GANGS, "gang_p99_s", "gang p99 in s below", fixed(2.0)),
    Goal(GANGS, "requests_per_pod", "requests per bound pod at most", fixed(2.2)),
    *[
        goal
        for row in ("one gang of 256", "one gang of 512")
        for goal in (
            *_beside(row, 1.9, "p99_s"),
            Goal(row, "requests_per_pod", "requests per bound pod at most", fixed(2.2)),
        )
    ],
    Goal(NO_YES, "no_s", "s to the last member's no at most", fixed(0.05)),
    Goal(NO_YES, "yes_s", "s from room to the last binding at most", fixed(0.5)),
    _no_idle_writes(NO_YES),
    *_beside(CHURN, 1.0, "gang_p99_s"),
    Goal(CHURN, "requests_per_pod", "requests per bound pod at most", fixed(2.2)),
    *_beside(CLAIMS, 1.0, "p99_s"),
]
