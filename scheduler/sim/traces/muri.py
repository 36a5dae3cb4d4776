"""The format of the Muri simulations (SIGCOMM 2022): one job a line, times in milliseconds after the start.

For `ai-scheduler simulate --trace muri`.  Read are job_id, num_gpu, submit_time, iterations, model_name, duration and
iteration_time; other columns are left alone.  `duration` is what the replay runs; the authors' own simulator takes
iterations × iteration_time × ITERATION_FACTOR instead, which is what its published results are made of.
"""

from __future__ import annotations

from .table import Table, read_table
from .trace import ClusterShape, Trace, TraceJob, in_order

#: Column names, in the order of the published files.
COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time")
#: How much longer an iteration takes in the authors' simulator than the trace says.
ITERATION_FACTOR = 1.015

_PER_SECOND = 1000.0


def read_muri(path: str, shape: ClusterShape) -> Trace:
    """Return the trace in a file whose jobs fit into the cluster; raises TraceError."""
    return muri_of(read_table(path, COLUMNS), shape)


def muri_of(table: Table, shape: ClusterShape) -> Trace:
    """Return the trace of a table that was read."""
    jobs, lines = [], dict[int, int]()
    for row in table.rows:
        number = table.whole(row, "job_id")
        if (former := lines.setdefault(number, row.line)) != row.line:
            table.complain(row, "job_id", f"{number} stands in line {former} too; allowed: each number once")
        jobs.append(
            TraceJob(
                name=f"job-{number}",
                gpus=table.whole(row, "num_gpu", 1, shape.gpus, f" ({shape})"),
                submit_seconds=table.seconds(row, "submit_time", per_second=_PER_SECOND),
                run_seconds=table.seconds(row, "duration", per_second=_PER_SECOND),
                model=row.cells["model_name"].strip(),
                iterations=table.whole(row, "iterations"),
                iteration_seconds=table.seconds(row, "iteration_time", per_second=_PER_SECOND),
            )
        )
    table.finish()
    return Trace(in_order(jobs))
