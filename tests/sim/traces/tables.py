"""Traces for tests, written by hand, and the published ones that are kept beside the tests."""

from __future__ import annotations

from pathlib import Path

from scheduler.sim.traces.trace import Trace, TraceJob, in_order

DATA = Path(__file__).parents[2] / "data" / "traces"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,iteration_time"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"


def a_table(header: str, *lines: str) -> bytes:
    """Return a file."""
    return "\n".join([header, *lines, ""]).encode()


def a_trace(*jobs: tuple[int, float, float]) -> Trace:
    """Return a trace of jobs given as GPUs, submission and run time; they are named a, b, c and so on."""
    return Trace(in_order([TraceJob("abcdefgh"[number], *job) for number, job in enumerate(jobs)]))
