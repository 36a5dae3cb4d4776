"""The format of the Philly job list: one job a line, with the moment of its submission and its run time in seconds.

For `ai-scheduler simulate --trace philly`.  Read are timestamp, duration, num_gpus and cluster (the virtual cluster, a part
of the machines that one group had for itself); gpu_time is the product of two of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scheduler.sim.annotations import MOST_SECONDS
from scheduler.sim.manifests import Problem

from .table import Row, Table, read_table
from .trace import ClusterShape, Trace, TraceError, TraceJob, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Column names.
COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")

_FORMAT = "%Y-%m-%d %H:%M:%S"


def read_philly(path: str, shape: ClusterShape, virtual_cluster: str = "") -> Trace:
    """Return the trace in a file, of one virtual cluster or of all; raises TraceError if a job does not fit the cluster."""
    return philly_of(read_table(path, COLUMNS), shape, virtual_cluster)


def philly_of(table: Table, shape: ClusterShape, virtual_cluster: str = "") -> Trace:
    """Return the trace of a table that was read; a job is named by its line."""
    rows = _rows_of(table, virtual_cluster)
    moments = [_moment(table, row) for row in rows]
    start = min((moment for moment in moments if moment is not None), default=0.0)
    jobs = []
    for row, moment in zip(rows, moments, strict=True):
        submit_seconds = 0.0 if moment is None else moment - start
        if submit_seconds > MOST_SECONDS:
            table.complain(
                row, "timestamp", f"is {submit_seconds:.0f} s after the first one; allowed: {MOST_SECONDS} s"
            )
        jobs.append(
            TraceJob(
                name=f"job-{row.line}",
                gpus=table.whole(row, "num_gpus", 1, shape.gpus, f" ({shape})"),
                submit_seconds=submit_seconds,
                run_seconds=table.seconds(row, "duration"),
            )
        )
    table.finish()
    return Trace(in_order(jobs), start)


def _rows_of(table: Table, virtual_cluster: str) -> Sequence[Row]:
    """Return the rows of a virtual cluster; raises TraceError if there is none of it."""
    names = sorted({row.cells["cluster"] for row in table.rows})
    if virtual_cluster and virtual_cluster not in names:
        text = f"no job is of {virtual_cluster!r}; allowed: {', '.join(names)}"
        raise TraceError([*table.problems, Problem(table.source, text, None, "column cluster")])
    return [row for row in table.rows if virtual_cluster in ("", row.cells["cluster"])]


def _moment(table: Table, row: Row) -> float | None:
    """Return the submission in seconds since the epoch, or None, and a problem, if it is no time."""
    text = row.cells["timestamp"].strip()
    try:
        return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        table.complain(row, "timestamp", f"{text!r} is no time; allowed: such as 2017-10-09 07:01:55")
        return None
