"""What may be wrong between the parts of a scenario: names that mean nothing or stand twice, sums that do not add up.

For the reader, which has checked each part by itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.config import Problem

from .form import ENDED, NODELESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .form import Constraint, Scenario


def problems_of_scenario(scenario: Scenario) -> list[Problem]:
    """Return what is wrong between the parts: names that mean nothing, or stand twice."""
    return [*_twice(scenario), *_jobs(scenario), *_room(scenario), *_queues(scenario), *_expected(scenario)]


def _twice(scenario: Scenario) -> Iterator[Problem]:
    named: tuple[tuple[str, Iterable[str]], ...] = (
        ("jobs", (job.name for job in scenario.jobs)),
        ("queues", (queue.name for queue in scenario.queues)),
        ("departments", (department.name for department in scenario.departments)),
    )
    for field, names in named:
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(field, f"{name!r} is there {count} times; allowed: each name once")


def _jobs(scenario: Scenario) -> Iterator[Problem]:
    queues = [queue.name for queue in scenario.queues]
    for index, job in enumerate(scenario.jobs):
        path = f"jobs[{index}]"
        if queues and job.queue not in queues:
            yield _unknown(f"{path}.queue", job.queue, queues)
        if job.minimum > len(job.tasks):
            count = len(job.tasks)
            text = f"{job.minimum} is out of range: the job has {count} tasks; allowed: from 1 to {count}"
            yield Problem(f"{path}.min_available", text)
        for number, task in enumerate(job.tasks):
            if task.node not in scenario.nodes and (task.node or task.state not in NODELESS):
                yield _unknown(f"{path}.tasks[{number}].node", task.node, scenario.nodes)
        if job.topology is not None:
            yield from _constraint(scenario, job.topology, f"{path}.topology")


def _room(scenario: Scenario) -> Iterator[Problem]:
    """Tell of nodes on which more stands at the start than they have."""
    used: Counter[tuple[str, str]] = Counter()
    for job in scenario.jobs:
        for task in job.tasks:
            if task.state not in NODELESS | ENDED:
                used[task.node, "gpus"] += job.gpus_per_task
                used[task.node, "cpu_milli"] += job.cpu_per_task
                used[task.node, "memory_bytes"] += job.mem_per_task
    for (name, field), count in used.items():
        if name in scenario.nodes and count > (most := getattr(scenario.nodes[name], field)):
            yield Problem(
                f"nodes.{name}.{field}", f"{most} is less than the {count} of its tasks; allowed: from {count}"
            )


def _constraint(scenario: Scenario, constraint: Constraint, path: str) -> Iterator[Problem]:
    if constraint.topology not in scenario.topologies:
        yield _unknown(f"{path}.Topology", constraint.topology, scenario.topologies)
        return
    levels = scenario.topologies[constraint.topology]
    for field, level in (("RequiredLevel", constraint.required), ("PreferredLevel", constraint.preferred)):
        if level and level not in levels:
            yield _unknown(f"{path}.{field}", level, levels)


def _queues(scenario: Scenario) -> Iterator[Problem]:
    parents = [department.name for department in scenario.departments] + [queue.name for queue in scenario.queues]
    for index, queue in enumerate(scenario.queues):
        # Without departments KAI's tests give all queues one parent that stands nowhere.
        if queue.parent and scenario.departments and queue.parent not in parents:
            yield _unknown(f"queues[{index}].parent", queue.parent, parents)


def _expected(scenario: Scenario) -> Iterator[Problem]:
    jobs = {job.name: job for job in scenario.jobs}
    tasks = scenario.task_names
    for field, known in (("expect_jobs", jobs), ("expect_tasks", {**tasks, **jobs})):
        for name, expected in getattr(scenario, field).items():
            path = f"{field}.{name}"
            if name not in known:
                yield _unknown(path, name, known)
                continue
            if expected.node and expected.node not in scenario.nodes:
                yield _unknown(f"{path}.node", expected.node, scenario.nodes)
            asked = known[name].gpus_per_task * (1 if name in tasks else len(known[name].tasks))
            if expected.gpus not in (None, asked):
                yield Problem(f"{path}.gpus", f"{expected.gpus} is not what it asks for; allowed: {asked}")


def _unknown(path: str, value: str, allowed: Iterable[str]) -> Problem:
    return Problem(path, f"{value!r} is not there; allowed: {', '.join(allowed) or 'nothing, as there is none'}")
