"""Compares what has become of tasks with what is expected of them.

For the player.  Tasks of one job that began alike are interchangeable: what is expected of them may be met by any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .form import NODELESS, Expected, Job, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Standing(NamedTuple):
    """What has become of a task."""

    status: str
    #: Empty if it has none.
    node: str = ""

    def __str__(self) -> str:
        """Return the words that a difference uses."""
        return f"{self.status} on {self.node}" if self.node else self.status


def differences(scenario: Scenario, standings: Mapping[str, Standing]) -> list[str]:
    """Return what differs, one sentence each, in the order of the scenario."""
    jobs = {job.name: job for job in scenario.jobs}
    found = [line for name, one in scenario.expect_jobs.items() for line in _job(jobs[name], one, standings)]
    wanted: dict[str, Expected] = {}
    for name, one in scenario.expect_tasks.items():
        if name in scenario.task_names:
            wanted[name] = one
        else:  # A job's name stands for all of its tasks.
            wanted |= dict.fromkeys(_names(jobs[name]), one)
    for job in scenario.jobs:
        for group in _alike(job):
            expected = {name: wanted[name] for name in group if name in wanted}
            found += _unmet(expected, {name: standings[name] for name in group})
    return list(dict.fromkeys(found))


def exceeded(scenario: Scenario, calls: Mapping[str, int]) -> list[str]:
    """Return which upper limits were passed."""
    limits = scenario.expect_calls.model_dump() if scenario.expect_calls is not None else {}
    return [f"{calls[name]} {name}, at most {most}" for name, most in limits.items() if calls[name] > most]


def _job(job: Job, expected: Expected, standings: Mapping[str, Standing]) -> Iterator[str]:
    for name in _names(job):
        if not _meets(expected, standings[name]):
            yield _sentence(name, standings[name], expected)


def _unmet(expected: Mapping[str, Expected], standings: Mapping[str, Standing]) -> Iterator[str]:
    """Give each expectation a task that meets it, its own one first; tell of those that are left.

    Expectations with a node choose first: tasks that meet one of them are all equal, so no choice is wrong.
    """
    free = dict(standings)
    left: list[str] = []
    for name in sorted(expected, key=lambda name: not expected[name].node):
        one = expected[name]
        met_by = next((task for task in (name, *free) if task in free and _meets(one, free[task])), None)
        if met_by is None:
            left.append(name)
        else:
            del free[met_by]
    for name in sorted(left, key=list(expected).index):
        task = name if name in free else next(iter(free))
        yield _sentence(name, free.pop(task), expected[name])


def _meets(expected: Expected, standing: Standing) -> bool:
    if expected.status != standing.status:
        return False
    # KAI leaves the node of the start on a task that waits; it stands nowhere.
    return not expected.node or expected.status in NODELESS or expected.node == standing.node


def _sentence(name: str, standing: Standing, expected: Expected) -> str:
    where = f" on {expected.node}" if expected.node and expected.status not in NODELESS else ""
    return f"{name} is {standing}, expected {expected.status}{where}"


def _alike(job: Job) -> Iterable[list[str]]:
    """Return the names of tasks in groups of those that began alike."""
    groups: dict[tuple[str, str], list[str]] = {}
    for index, task in enumerate(job.tasks):
        node = "" if task.state in NODELESS else task.node
        groups.setdefault((task.state, node), []).append(job.task_name(index))
    return groups.values()


def _names(job: Job) -> list[str]:
    return [job.task_name(index) for index in range(len(job.tasks))]
