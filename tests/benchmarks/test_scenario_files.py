"""`python -m benchmarks.scenarios`: what it prints, how it ends, what it compares, and what it says of files that it cannot use."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from benchmarks.scenarios.__main__ import main
from benchmarks.scenarios.comparing import Standing, differences
from benchmarks.scenarios.form import Scenario

FITS: dict[str, Any] = {
    "kind": "allocate",
    "id": "fits",
    "nodes": {"node0": {"gpus": 2}},
    "jobs": [{"name": "job", "gpus_per_task": 1, "priority": 50, "queue": "q", "tasks": [{"state": "Pending"}]}],
    "expect_jobs": {"job": {"status": "Running", "node": "node0", "gpus": 1}},
    "expect_calls": {"binds": 1, "evictions": 0, "pipelined": 0},
}
WAITS = FITS | {"id": "waits", "kind": "preempt", "expect_jobs": {"job": {"status": "Pending"}}}
#: What "waits" does instead.
DIFFERENCE = "after round 2: job-0 is Running on node0, expected Pending"


@pytest.fixture
def file(tmp_path):
    """Return how a file is written: objects as they are, texts as lines; it returns the file's name."""

    def write(*lines: Any) -> str:
        path = tmp_path / "some.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return str(path)

    return write


def test_all_as_expected_exits_with_0(file, capsys):
    """A line for each scenario, and the sum last."""
    assert main([file(FITS)]) == 0
    assert capsys.readouterr().out == "ok       fits\n1 of 1\n"


def test_a_difference_exits_with_1(file, capsys):
    """What differs stands below the scenario."""
    assert main([file(FITS, "", WAITS)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok       fits",
        "differs  waits",
        f"         {DIFFERENCE}",
        "1 of 2",
    ]


def test_json_is_pure(file, capsys):
    """One document on standard output, the sum on standard error."""
    assert main([file(FITS, WAITS), "-o", "json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "scenarios": [
            {"id": "fits", "ok": True, "difference": ""},
            {"id": "waits", "ok": False, "difference": DIFFERENCE},
        ]
    }
    assert said.err == "1 of 2\n"


def test_kinds_are_listed_and_chosen(file, capsys):
    """Only scenarios of a kind are run; a kind that is not there is no success."""
    name = file(FITS, WAITS)
    assert main([name, "--list-kinds"]) == 0
    assert capsys.readouterr().out.split() == ["allocate", "1", "preempt", "1"]
    assert main([name, "--kind", "allocate"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1\n")
    assert main([name, "--kind", "topology"]) == 2


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return a scenario with another value at a path of keys and numbers."""
    *way, last = path.split(".")
    scenario = place = copy.deepcopy(FITS)
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return scenario


PROBLEMS = [
    (
        changed("jobs.0.tasks", [{"state": "Runing"}]),
        "jobs[0].tasks[0].state: 'Runing' is unknown; allowed: Pending, Gated,",
    ),
    (changed("jobs.0.tasks", []), "jobs[0].tasks: [] is out of range; allowed: not empty"),
    (changed("jobs.0.gpus_per_task", 0.5), "jobs[0].gpus_per_task: 0.5 is no whole number; allowed: a whole number"),
    (changed("jobs.0.gpus_per_tasks", 1), "jobs[0].gpus_per_tasks: unknown key, did you mean gpus_per_task?; allowed"),
    (changed("jobs.0.min_available", 2), "jobs[0].min_available: 2 is out of range: the job has 1 tasks"),
    (
        changed("jobs.0.mem_per_task", "1Gi"),
        "jobs[0].mem_per_task: '1Gi' is no amount; allowed: a whole number of bytes",
    ),
    (changed("jobs.0.tasks", [{"state": "Running"}]), "jobs[0].tasks[0].node: '' is not there; allowed: node0"),
    (changed("jobs.0.topology", {"Topology": "t"}), "jobs[0].topology.Topology: 't' is not there; allowed: nothing"),
    (changed("queues", [{"name": "other"}]), "jobs[0].queue: 'q' is not there; allowed: other"),
    (changed("queues", [{"name": "q"}, {"name": "q"}]), "queues: 'q' is there 2 times; allowed: each name once"),
    (changed("expect_jobs", {"jib": {"status": "Running"}}), "expect_jobs.jib: 'jib' is not there; allowed: job"),
    (changed("expect_jobs.job.node", "node1"), "expect_jobs.job.node: 'node1' is not there; allowed: node0"),
    (changed("expect_jobs.job.gpus", 2), "expect_jobs.job.gpus: 2 is not what it asks for; allowed: 1"),
    (
        changed("nodes.node0.gpus", 10**30),
        "nodes.node0.gpus: 1000000000000000000000000000000 is out of range; allowed: from 0 to",
    ),
    (changed("nodes.node0.gpu", 1), "nodes.node0.gpu: unknown key, did you mean gpus?; allowed: gpus, cpu_milli"),
    (changed("expect_jobs.job", 1), "expect_jobs.job: 1 is no mapping; allowed: a mapping"),
    (changed("kind", "none"), "kind: 'none' is unknown; allowed: allocate, topology"),
    ('{"kind": "allocate", "kind": "topology"}', "no JSON: the key 'kind' stands twice in one object"),
    ("[1, 2", "no JSON: "),
    ("[" * 100_000, "no JSON: "),
    ('{"weight": NaN}', "no JSON: NaN is no number"),
    ("[1, 2]", "[1, 2] is no mapping; allowed: a mapping"),
]


@pytest.mark.parametrize(("line", "problem"), PROBLEMS, ids=[problem for _, problem in PROBLEMS])
def test_problem_is_told_with_its_place(file, capsys, line, problem):
    """File, line, field, and what is allowed; nothing runs."""
    name = file(WAITS, "", line)
    assert main([name]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{name}:3: {problem}")


def test_what_stands_on_a_node_fits_it(file, capsys):
    """A cluster that cannot be is refused."""
    full = changed("jobs.0.tasks", [{"state": "Running", "node": "node0"}] * 3)
    del full["expect_jobs"]["job"]["gpus"]
    assert main([file(full)]) == 2
    assert "nodes.node0.gpus: 2 is less than the 3 of its tasks; allowed: from 3" in capsys.readouterr().err


def test_id_stands_once(file, capsys):
    """Results are told by id."""
    name = file(FITS, FITS)
    assert main([name]) == 2
    assert capsys.readouterr().err == f"{name}:2: id: 'fits' stands on line 1 already; allowed: each id once\n"


@pytest.mark.parametrize("lines", [(), ("", "  ")])
def test_empty_file_is_no_success(file, capsys, lines):
    """Nothing to run is said."""
    assert main([file(*lines)]) == 2
    assert capsys.readouterr().err.endswith("it is empty; allowed: one scenario a line\n")


def test_file_that_is_not_there_is_told(tmp_path, capsys):
    """With its name, and no traceback."""
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err


def two_tasks(first: str, second: str) -> Scenario:
    """Return a scenario with two equal tasks that are expected on two nodes."""
    nodes = {"a": {"gpus": 1}, "b": {"gpus": 1}}
    scenario = changed("jobs.0.tasks", [{"state": "Pending"}] * 2) | {"nodes": nodes, "expect_jobs": {}}
    scenario["expect_tasks"] = {
        "job-0": {"status": "Binding", "node": first},
        "job-1": {"status": "Binding", "node": second},
    }
    return Scenario.model_validate(scenario)


def test_equal_tasks_are_interchangeable():
    """It does not matter which of two equal tasks is on which of two expected nodes."""
    standings = {"job-0": Standing("Binding", "a"), "job-1": Standing("Binding", "b")}
    assert differences(two_tasks("b", "a"), standings) == []
    assert differences(two_tasks("", "a"), standings) == []
    assert differences(two_tasks("b", "b"), standings) == ["job-1 is Binding on a, expected Binding on b"]


def test_tasks_that_began_on_different_nodes_are_not_interchangeable():
    """A victim on one node is not the victim on another."""
    scenario = two_tasks("a", "b").model_dump(by_alias=True)
    scenario["jobs"][0]["tasks"] = [{"state": "Running", "node": "a"}, {"state": "Running", "node": "b"}]
    scenario["expect_tasks"] = {"job-0": {"status": "Releasing"}, "job-1": {"status": "Running"}}
    standings = {"job-0": Standing("Running", "a"), "job-1": Standing("Releasing", "b")}
    assert differences(Scenario.model_validate(scenario), standings) == [
        "job-0 is Running on a, expected Releasing",
        "job-1 is Releasing on b, expected Running",
    ]
