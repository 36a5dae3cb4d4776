"""What a process has used, from /proc: CPU seconds of all its threads, and resident memory."""

from __future__ import annotations

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds, in user space and in the kernel, that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / TICKS_PER_SECOND


def resident_mib(pid: int) -> float:
    """Return the largest resident memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024
