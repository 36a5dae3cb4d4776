"""The benchmark of the openb trace judges rightly: its stream of pods, its books, and the form of what it prints."""

from __future__ import annotations

import json

import pytest

from benchmarks.openb.__main__ import NODES, PODS, main
from benchmarks.openb.ledger import Ledger, OverCommitError
from benchmarks.openb.playing import Run
from benchmarks.openb.published import published
from benchmarks.openb.workload import NodeLine, PodLine, WorkloadError, read_nodes, read_pods, stream

NODE = NodeLine("n", 8000, 8192, 2, "T4")
ONE = PodLine("one", 1000, 1024, 1, 1000)
HALF = PodLine("half", 1000, 1024, 1, 500)


def test_the_copied_files_are_those_of_the_trace():
    """As the paper counts them: 1,213 nodes with 6,212 GPUs and 107,018 cores; 8,508 pods."""
    nodes = read_nodes(NODES)
    assert (len(nodes), sum(n.gpus for n in nodes), sum(n.cpu_milli for n in nodes)) == (1213, 6212, 107_018_000)
    assert len(read_pods(PODS)) == 8508


def test_published_figures_are_read_by_workload():
    """FGD, default workload: 95.23 % allocated when as much is asked for as there is (table 1.5 of the trace's authors)."""
    found = published("openb_pod_list_default")
    assert found["FGD"]["alloc_pct"]["100"] == pytest.approx(95.23, abs=0.01)
    assert found["FGD"]["frag_ratio"]["90"] == pytest.approx(49.97, abs=0.01)
    assert published("mine") == {}


def test_stream_has_every_pod_once_and_then_draws_until_enough_is_asked_for():
    """Two pods ask for 1.5 of 4 GPUs; the last drawn one is the first to reach 5.2."""
    arriving = stream([ONE, HALF], 4000, 42)
    assert sorted(arriving[:2]) == sorted([ONE, HALF])
    asked = [pod.asked_milli for pod in arriving]
    assert sum(asked[:-1]) < 5200 <= sum(asked)
    assert arriving == stream([HALF, ONE], 4000, 42) != stream([ONE, HALF], 4000, 43)


def test_ledger_counts_what_typical_pods_cannot_use():
    """Half of the pods ask for a whole GPU, half for 500: of 1000 and 500 idle the first can use 1000, the second all."""
    ledger = Ledger([NODE], [ONE, HALF])
    assert (ledger.allocated(), ledger.fragmented()) == (0, 0)
    ledger.place(HALF, "n", [1])
    assert ledger.allocated() == pytest.approx(25)
    assert ledger.fragmented() == pytest.approx(100 * 0.5 * 500 / 1500)


def test_pods_without_gpus_make_all_that_is_idle_a_fragment():
    """They are one of two typical shapes, so half of what is idle counts, as in the published measure."""
    assert Ledger([NODE], [ONE, PodLine("cpu", 1000, 1024, 0, 0)]).fragmented() == pytest.approx(50)


@pytest.mark.parametrize(
    ("pod", "gpus"),
    [
        (PodLine("p", 9000, 1024, 1, 1000), [0]),
        (PodLine("p", 1000, 9000, 1, 1000), [0]),
        (ONE, []),
        (ONE, [2]),
        (PodLine("p", 1000, 1024, 2, 1000), [0, 0]),
        (PodLine("p", 1000, 1024, 1, 1000, ("P100",)), [0]),
    ],
)
def test_ledger_takes_nothing_for_which_there_is_no_room(pod, gpus):
    """Cores, memory, GPUs that are not there or named twice, and models."""
    with pytest.raises(OverCommitError):
        Ledger([NODE], [ONE]).place(pod, "n", gpus)


@pytest.mark.parametrize("ties", ["fixed", "random"])
def test_run_places_what_fits_and_drops_the_rest(ties):
    """Two GPUs, pods of one each: 50 %, 100 %, and the third is dropped at 150 % of what there is."""
    run = Run([NODE], [ONE, ONE._replace(name="two")], 42, ties)
    figures = run.play()
    assert figures == {
        "alloc_pct": {"90": None, "95": None, "100": 100.0, "130": None},
        "frag_ratio": {"50": 0.0, "80": None, "90": None},
    }
    assert (run.decided, run.seconds > 0) == (3, True)


def test_models_and_shares_are_kept_to():
    """A pod for T4 never goes on a P100, where the books would raise; at most one pod of four is dropped."""
    nodes = [NODE, NodeLine("p", 8000, 8192, 2, "P100")]
    pods = [ONE._replace(name=f"t{n}", models=("T4",)) for n in range(2)] + [
        ONE._replace(name=f"x{n}") for n in range(2)
    ]
    assert Run(nodes, pods, 42, "fixed").play()["alloc_pct"]["100"] >= 75


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,cpu_milli\na,1\n", "lacks the columns memory_mib, num_gpu, gpu_milli"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,x,1,1000\n", "line 2: memory_mib is 'x'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,2,500\n", "line 2: gpu_milli 500 with num_gpu 2"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\n", "no pod asks for a GPU"),
    ],
)
def test_files_that_cannot_be_used_are_told_with_line_and_column(tmp_path, text, problem):
    """And what is allowed."""
    file = tmp_path / "pods.csv"
    file.write_text(text)
    with pytest.raises(WorkloadError, match=problem):
        read_pods(file)


def test_output_has_the_documented_keys(tmp_path, capsys):
    """One entry per seed under `openb`, and a table with the same numbers."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "mine.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn,8000,8192,2,T4\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\nb,1000,1024,1,1000\n")
    options = ["--nodes", str(nodes), "--pods", str(pods), "--seeds", "42-43", "--ties", "random"]
    main([*options, "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [(run["workload"], run["ties"], run["seed"]) for run in found["openb"]] == [
        ("mine", "random", 42),
        ("mine", "random", 43),
    ]
    assert [list(run["alloc_pct"]) for run in found["openb"]] == [["90", "95", "100", "130"]] * 2
    assert [list(run["frag_ratio"]) for run in found["openb"]] == [["50", "80", "90"]] * 2
    main(options)
    assert "ai-scheduler            -        -   100.00" in capsys.readouterr().out


def test_missing_file_ends_with_code_2(capsys):
    """And a line that names it."""
    with pytest.raises(SystemExit) as stop:
        main(["--pods", "nowhere.csv"])
    assert stop.value.code == 2
    assert "nowhere.csv" in capsys.readouterr().err
