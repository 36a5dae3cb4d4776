"""`ai-scheduler simulate --trace`: what it prints, with which exit code, and which options go together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import main

from .tables import MURI, PHILLY, a_table

if TYPE_CHECKING:
    from pathlib import Path

#: Two jobs that want the whole of two nodes, and one that wants one.
JOBS = ("0,16,0,1,bert,1,100000,1", "1,16,0,1,bert,1,100000,1", "2,8,10000,1,bert,1,50000,1")


def call(*arguments: str, stdin: bytes | None = None) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, ["simulate", *arguments], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a trace."""
    path = tmp_path / "jobs.csv"
    path.write_bytes(a_table(MURI, *JOBS))
    return str(path)


def test_a_trace_that_finishes_exits_with_0(file: str) -> None:
    """A ends at 102 s, b at 204 s, c, which came at 10 s, at 256 s: 184 s on average."""
    result = call("--trace", "muri", file, "--nodes", "2")
    assert result.exit_code == 0, result.output
    heading, *rows = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    assert heading == f"muri trace {file} on 2 nodes × 8 GPUs, with gangs; 4m16s simulated"
    figures = {name.strip(): figure for name, figure in (row.rsplit(maxsplit=1) for row in rows)}
    assert figures == {
        "jobs": "3", "finished": "3", "dead-locked": "0", "waiting": "0", "average JCT, s": "184", "p99 JCT, s": "246",
        "average wait, s": "101", "makespan, s": "256", "GPU utilisation": "88%", "GPU-hours held idle": "0",
    }  # fmt: skip
    assert result.stderr == ""


def test_a_dead_lock_exits_with_1_and_names_who_holds_what(file: str) -> None:
    """With some seed, two jobs of two pods each hold one; --exit-zero makes that no failure."""
    arguments = ("--trace", "muri", file, "--nodes", "2", "--gangs", "off", "--seed")
    seed = next(str(seed) for seed in range(20) if call(*arguments, str(seed)).exit_code == 1)
    found = call(*arguments, seed)
    assert "Dead-lock since 0s: nothing is left that could happen." in found.stdout
    assert "job-0 holds 8 of 16 GPUs (1 of 2 pods) and waits for the rest" in found.stdout
    assert call(*arguments, seed, "--exit-zero").exit_code == 0


def test_json_has_the_documented_keys(file: str) -> None:
    """Scripts get JSON and nothing else."""
    result = call("--trace", "muri", file, "--nodes", "2", "--first", "1", "-o", "json")
    assert json.loads(result.stdout) == {
        "trace": {"format": "muri", "file": file},
        "cluster": {"nodes": 2, "gpus_per_node": 8, "gpus": 16},
        "gangs": True, "seed": 0, "end_seconds": 102.0, "is_cut": False, "is_deadlocked": False,
        "metrics": {
            "jobs": 1, "finished": 1, "running": 0, "incomplete": 0, "waiting": 0, "deadlocked": 0,
            "mean_jct_seconds": 102.0, "p99_jct_seconds": 102.0, "mean_wait_seconds": 2.0, "makespan_seconds": 102.0,
            "gpu_utilisation": 0.98, "gpu_hours_held_idle": 0.0,
        },
        "jobs": [{
            "name": "job-0", "phase": "Finished", "gpus": 16, "pods": 2, "pods_placed": 0,
            "submitted": 0.0, "started": 2.0, "finished": 102.0, "jct_seconds": 102.0,
        }],
    }  # fmt: skip


def test_a_philly_trace_from_standard_input() -> None:
    """One virtual cluster of two."""
    data = a_table(PHILLY, "2017-10-09 07:00:00,60,1,60,a", "2017-10-09 07:00:00,60,1,60,b")
    arguments = ("--trace", "philly", "-", "-o", "json", "--virtual-cluster")
    assert json.loads(call(*arguments, "b", stdin=data).stdout)["jobs"][0]["name"] == "job-3"
    refused = call(*arguments, "c", stdin=data)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "standard input: column cluster: no job is of 'c'; allowed: a, b" in refused.stderr


def test_a_trace_that_cannot_be_used_exits_with_2(file: str) -> None:
    """A job that is larger than the cluster: nothing is simulated."""
    result = call("--trace", "muri", file, "--nodes", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{file}:2: column num_gpu: '16' is not allowed; allowed: whole numbers from 1 to 8" in result.stderr
    assert result.stderr.endswith("Nothing was simulated.\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "Missing argument 'PATH...', or --trace."),
        (("examples/demo", "--seed", "1"), "--seed: not allowed without --trace."),
        (("--trace", "muri", "FILE", "examples/demo"), "PATH: not allowed with --trace."),
        (("--trace", "muri", "FILE", "--schedule-all", "--report", "x.html"),
         "--schedule-all, --report: not allowed with --trace."),
        (("--trace", "muri", "FILE", "--virtual-cluster", "a"), "--virtual-cluster: allowed with --trace philly only"),
        (("--trace", "helios", "FILE"), "'helios' is not one of 'muri', 'philly'."),
        (("--trace", "muri", "FILE", "--nodes", "0"), "0 is not in the range 1<=x<=10000."),
        (("--trace", "muri", "FILE", "--first", "0"), "0 is not in the range x>=1."),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(arguments: tuple[str, ...], text: str, file: str) -> None:
    """Exit code 2, and which ones they are."""
    result = call(*(file if argument == "FILE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_policy_runs_without_engine(file: str) -> None:
    """Every job ends, and JSON has the documented keys."""
    result = call("--trace", "muri", file, "--nodes", "2", "--policy", "srsf", "-o", "json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert set(told) == {"trace", "policy", "knows_run_times", "cluster", "metrics"}
    assert (told["policy"], told["knows_run_times"], told["metrics"]["finished"]) == ("srsf", True, 3)
    assert set(told["metrics"]) == {
        "jobs", "finished", "mean_jct_seconds", "p99_jct_seconds", "mean_wait_seconds", "makespan_seconds",
        "gpu_utilisation", "preemptions", "lost_gpu_seconds",
    }  # fmt: skip
    table = call("--trace", "muri", file, "--nodes", "2", "--policy", "fifo")
    assert "under policy fifo (no engine, no pods)" in table.stdout


def test_a_policy_refuses_options_of_the_engine(file: str) -> None:
    """They would mean nothing."""
    result = call("--trace", "muri", file, "--policy", "fifo", "--gangs", "off", "--until", "5")
    assert result.exit_code == 2
    assert "--gangs, --until: not allowed with --policy" in result.stderr
    assert call("--policy", "fifo", "x.yaml").exit_code == 2
