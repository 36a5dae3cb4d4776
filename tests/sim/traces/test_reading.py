"""Reading traces: the two formats, and what is said of files that cannot be used."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from scheduler.sim.traces.muri import COLUMNS, muri_of, read_muri
from scheduler.sim.traces.philly import COLUMNS as PHILLY_COLUMNS
from scheduler.sim.traces.philly import philly_of, read_philly
from scheduler.sim.traces.table import table_of
from scheduler.sim.traces.trace import ClusterShape, TraceError, TraceJob

from .tables import DATA, MURI, PHILLY, a_table

if TYPE_CHECKING:
    from pathlib import Path

    from scheduler.sim.traces.trace import Trace

SHAPE = ClusterShape()


def muri(data: bytes) -> Trace:
    """Read a muri file."""
    return muri_of(table_of(data, "t.csv", COLUMNS), SHAPE)


def philly(data: bytes, virtual_cluster: str = "") -> Trace:
    """Read a philly file."""
    return philly_of(table_of(data, "t.csv", PHILLY_COLUMNS), SHAPE, virtual_cluster)


def said(data: bytes, source: str = "t.csv") -> list[str]:
    """Return what is wrong with a muri file."""
    with pytest.raises(TraceError) as caught:
        muri_of(table_of(data, source, COLUMNS), SHAPE)
    return str(caught.value).splitlines()


def test_muri_times_are_milliseconds() -> None:
    """Submission, duration and the time of an iteration come out in seconds."""
    (job,) = muri(a_table(MURI, "7,16,1500,100,bert,64,20000,200")).jobs
    assert job == TraceJob("job-7", 16, 1.5, 20.0, "bert", 100, 0.2)


def test_philly_times_count_from_the_first_submission_of_the_cluster() -> None:
    """Lines need no order; jobs are named by their line; those of other virtual clusters stay out."""
    data = a_table(
        PHILLY,
        "2017-10-09 07:01:30,66.5,1,66.5,a",
        "2017-10-09 07:00:00,5,8,40,b",
        "2017-10-09 07:01:00,7,4,28,a",
    )
    trace = philly(data, "a")
    assert trace.start == 1_507_532_460  # date -u -d '2017-10-09 07:01:00' +%s
    assert trace.jobs == (TraceJob("job-4", 4, 0, 7), TraceJob("job-2", 1, 30, 66.5))
    assert [job.submit_seconds for job in philly(data).jobs] == [0, 60, 90]


def test_published_muri_trace_is_read() -> None:
    """As SOURCES tells of it: 992 jobs in 95 days, of these sizes; 4,862 GPU-days."""
    jobs = read_muri(str(DATA / "muri_trace3.csv"), SHAPE).jobs
    sizes = [job.gpus for job in jobs]
    assert {size: sizes.count(size) for size in set(sizes)} == {1: 134, 2: 22, 4: 34, 8: 691, 16: 3, 32: 108}
    assert round(jobs[-1].submit_seconds / 86_400) == 95
    assert round(sum(job.gpus * job.run_seconds for job in jobs) / 86_400) == 4862


def test_published_philly_trace_is_read_packed() -> None:
    """The file is gzip; its first lines are not in the order of submission."""
    jobs = read_philly(str(DATA / "philly_first200.csv.gz"), SHAPE).jobs
    assert len(jobs) == 200
    assert jobs[0].submit_seconds == 0
    assert list(jobs) == sorted(jobs, key=lambda job: job.submit_seconds)


def test_plain_and_packed_are_the_same(tmp_path: Path) -> None:
    """A gzip file is known by its content, whatever its name."""
    data = a_table(MURI, "7,16,1500,100,bert,64,20000,200")
    for name, content in (("a.csv", data), ("b.csv", gzip.compress(data)), ("c.csv.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        assert read_muri(str(tmp_path / name), SHAPE) == muri(data)


@pytest.mark.parametrize(
    ("column", "cell", "allowed"),
    [
        ("num_gpu", "x", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("num_gpu", "", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("num_gpu", "0", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("num_gpu", "65", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("num_gpu", "1.5", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("num_gpu", "٣", "whole numbers from 1 to 64 (8 nodes × 8 GPUs)"),
        ("submit_time", "-1", "numbers from 0 to 1e+12"),
        ("duration", "nan", "numbers from 0 to 1e+12"),
        ("duration", "inf", "numbers from 0 to 1e+12"),
        ("duration", "1e13", "numbers from 0 to 1e+12"),
        ("iteration_time", "soon", "numbers from 0 to 1e+12"),
        ("iterations", "-5", "whole numbers from 0"),
        ("job_id", "a b", "whole numbers from 0"),
        ("job_id", "9" * 5000, "whole numbers from 0"),
    ],
)
def test_cells_that_are_no_such_number(column: str, cell: str, allowed: str) -> None:
    """File, line, column, the cell, and what is allowed."""
    good = ["7", "16", "1500", "100", "bert", "64", "20000", "200"]
    good[MURI.split(",").index(column)] = cell
    assert said(a_table(MURI, "1,1,0,1,bert,1,1,1", ",".join(good))) == [
        f"t.csv:3: column {column}: {cell!r} is not allowed; allowed: {allowed}"
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "t.csv: the file is empty; allowed: CSV in UTF-8 with a header, plain or gzip: job_id, num_gpu, "),
        (b" \n\n", "t.csv: the file is empty"),
        (a_table(MURI), "t.csv:1: there is a header, but no job; allowed: one line for each job"),
        (b"\x7fELF\xff\x00", "t.csv: this is no UTF-8 text (byte 4); allowed: CSV"),
        (b'"a\n', "t.csv:1: this is no CSV: "),
        (b"apiVersion: v1\nkind: Pod\n", "t.csv:1: the header lacks job_id, num_gpu, "),
        (a_table(MURI + ",num_gpu", "1"), "t.csv:1: column num_gpu: is there twice; allowed: each column once"),
        (a_table(MURI, "1,2,3"), "t.csv:2: column iterations: the line has 3 cells; allowed: 8, as the header has"),
        (a_table(MURI, "1,1,0,1,bert,1,1,1,9"), "t.csv:2: column iteration_time: the line has 9 cells; allowed: 8"),
        (a_table(MURI, *["1,1,0,1,bert,1,1,1"] * 2), "t.csv:3: column job_id: 1 stands in line 2 too; allowed: each"),
    ],
)
def test_files_that_are_no_trace(data: bytes, text: str) -> None:
    """One line, which says what a trace is."""
    (line,) = said(data)
    assert line.startswith(text)


def test_gzip_files_that_are_none() -> None:
    """By their name only, or cut off."""
    data = a_table(MURI, "7,16,1500,100,bert,64,20000,200")
    assert said(data, "t.csv.gz")[0].startswith("t.csv.gz: this is no gzip file, though its name ends so; allowed: CSV")
    assert said(gzip.compress(data)[:-9], "t.csv.gz")[0].startswith("t.csv.gz: this gzip file is damaged: ")


def test_the_header_that_lacks_columns_is_shown() -> None:
    """The wrong format can be seen."""
    (line,) = said(a_table(PHILLY, "2017-10-09 07:01:30,66.5,1,66.5,a"))
    assert line.endswith("and others; it has timestamp, duration, num_gpus, gpu_time, cluster")


def test_several_problems_are_told_together_but_not_thousands() -> None:
    """After twenty it is the wrong file."""
    lines = said(a_table(MURI, *(f"{number},65,-1,1,bert,1,1,1" for number in range(5000))))
    assert len(lines) == 21
    assert lines[:2] == [
        "t.csv:2: column num_gpu: '65' is not allowed; allowed: whole numbers from 1 to 64 (8 nodes × 8 GPUs)",
        "t.csv:2: column submit_time: '-1' is not allowed; allowed: numbers from 0 to 1e+12",
    ]
    assert lines[-1] == "t.csv: the first 20 problems are told, no others"


def test_philly_moments_and_clusters_that_are_none() -> None:
    """A time has a form; a virtual cluster has jobs."""
    with pytest.raises(TraceError, match=r"t.csv:2: column timestamp: 'today' is no time; allowed: such as 2017-"):
        philly(a_table(PHILLY, "today,1,1,1,a"))
    with pytest.raises(TraceError, match=r"t.csv: column cluster: no job is of 'z'; allowed: a, b"):
        philly(a_table(PHILLY, "2017-10-09 07:01:30,1,1,1,b", "2017-10-09 07:01:30,1,1,1,a"), "z")
    with pytest.raises(TraceError, match=r"t.csv:3: column timestamp: is \d+ s after the first one; allowed: 10"):
        philly(a_table(PHILLY, "1900-10-09 07:01:30,1,1,1,b", "2017-10-09 07:01:30,1,1,1,a"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """And a folder is no file."""
    with pytest.raises(TraceError, match=r"none.csv: cannot be read: No such file"):
        read_muri(str(tmp_path / "none.csv"), SHAPE)
    with pytest.raises(TraceError, match=r"cannot be read: Is a directory"):
        read_muri(str(tmp_path), SHAPE)


@pytest.mark.parametrize(
    ("gpus", "pods"),
    [(1, (1,)), (7, (7,)), (8, (8,)), (9, (8, 1)), (16, (8, 8)), (20, (8, 8, 4)), (64, (8,) * 8)],
)
def test_jobs_are_split_into_whole_nodes_and_a_rest(gpus: int, pods: tuple[int, ...]) -> None:
    """Up to a node one pod; beyond, the last one is smaller."""
    assert SHAPE.pods_of(gpus) == pods
