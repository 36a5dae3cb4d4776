"""Gets the oracle program, which runs the real scheduler plugins on cases; `python -m e2e.oracle.build` prints its path.

`AI_SCHEDULER_ORACLE` names a program built elsewhere.  Without it the program is built once with Go from the files beside
this one, into the cache that the control plane's programs share.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from e2e.controlplane.build import (
    GO_MINIMUM,
    UNAVAILABLE_EXIT_CODE,
    ControlPlaneUnavailableError,
    Report,
    cache_folder,
    is_program,
    report_to_stderr,
)

PROGRAM = "oracle"
BUILD_SECONDS = 1800
HERE = Path(__file__).resolve().parent


class OracleUnavailableError(ControlPlaneUnavailableError):
    """The oracle can be neither found nor built on this machine; the message says what is missing."""


def build(report: Report = report_to_stderr) -> Path:
    """Returns the oracle program, building it if its sources have changed since.

    A cold build takes minutes; a repeated call only looks into the cache.  Safe to call from several processes: one
    builds, the others wait.
    """
    prebuilt = os.environ.get("AI_SCHEDULER_ORACLE")
    if prebuilt:
        if not is_program(Path(prebuilt)):
            raise OracleUnavailableError(f"AI_SCHEDULER_ORACLE={prebuilt} is no program")
        return Path(prebuilt)
    program = oracle_folder() / PROGRAM
    if is_program(program):
        return program
    _require_go()
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_program(program):
            _build_program(program, report)
    return program


def oracle_folder() -> Path:
    """Returns where the program is kept; its name changes with every Go file, so an old program is never reused."""
    digest = hashlib.sha256()
    for source in sorted([*HERE.glob("*.go"), HERE / "go.mod", HERE / "go.sum"]):
        digest.update(f"{source.name} {source.stat().st_size}\n".encode())
        digest.update(source.read_bytes())
    return cache_folder().parent.parent / "oracle" / digest.hexdigest()[:12]


def _require_go() -> None:
    wanted = f"Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer"
    advice = f"Install {wanted} to build the oracle once, or set AI_SCHEDULER_ORACLE to the program."
    if shutil.which("go") is None:
        raise OracleUnavailableError(f"There is no Go here. {advice}")
    found = subprocess.run(["go", "env", "GOVERSION"], cwd=HERE, capture_output=True, text=True, check=False)
    version = re.match(r"go(\d+)\.(\d+)", found.stdout)
    if version is None or (int(version[1]), int(version[2])) < GO_MINIMUM:
        described = (found.stdout + found.stderr).strip()
        raise OracleUnavailableError(f"The Go here is not {wanted} ({described}). {advice}")


def _build_program(program: Path, report: Report) -> None:
    """Builds under a temporary name and renames, so that an interrupted build leaves nothing half done."""
    report("building the oracle …")
    started = time.monotonic()
    unfinished = program.parent / f".{PROGRAM}.unfinished"
    command = [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-o",
        unfinished,
        ".",
    ]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    built = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
    )
    if built.returncode != 0:
        raise OracleUnavailableError(f"go build of the oracle failed:\n{built.stderr.strip()[-2000:]}")
    unfinished.replace(program)
    report(f"built the oracle in {time.monotonic() - started:.0f} s")


def main() -> int:
    """Builds the oracle and prints its path on standard output."""
    try:
        print(build())
    except OracleUnavailableError as unavailable:
        report_to_stderr(str(unavailable))
        return UNAVAILABLE_EXIT_CODE
    return 0


if __name__ == "__main__":
    sys.exit(main())
