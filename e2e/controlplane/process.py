"""One program of the control plane as a child process: its log goes to a file, and it never outlives its parent.

Used by `ControlPlane` and by the tests for the scheduler's own process.
"""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below the range from which the kernel picks ports for outgoing connections. A server that is stopped and started on
one port needs that: otherwise some client's connection takes the port meanwhile, or a client connects to itself."""

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ProcessFailedError(RuntimeError):
    """A program ended by itself, or did not become ready; the message ends with the tail of its log."""


class Process:
    """A running program with a log file.

    On Linux the kernel kills it when the *thread* that started it ends, so start it from a thread that stays. It leads
    its own process group: a Ctrl-C in the terminal does not reach it, and `kill` takes its children along.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Starts the program in `folder`; its output is appended to `log`, so that a restart keeps what was said before."""
        self.name = name
        self.log = log
        parent = os.getpid()
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - calls nothing that takes a lock
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self._child.poll()

    def check(self) -> None:
        """Raises `ProcessFailedError` if the program has ended."""
        if self.exit_code is not None:
            raise ProcessFailedError(f"{self.name} ended with exit code {self.exit_code}\n{self.log_tail()}")

    def log_tail(self, lines: int = 30) -> str:
        """Returns the last lines of the log, headed by the program's name."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- the last lines of {self.name} ---", *text.splitlines()[-lines:]])

    def terminate(self, grace_seconds: float = 10) -> int:
        """Asks the program to end (SIGTERM), kills its group if it does not in time, and returns the exit code."""
        if self.exit_code is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace_seconds)
        return self.kill()

    def kill(self) -> int:
        """Kills the program's group (SIGKILL), waits until the program is gone, and returns the exit code.

        Once the program itself was reaped its id may belong to somebody else, so a group is only ever signalled before.
        """
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return self._child.wait()


def die_with_parent(parent: int) -> None:
    """Makes the kernel kill the calling process when its parent's thread ends; runs between fork and exec."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if (
            os.getppid() != parent
        ):  # The parent ended before the request was made: nobody would send the signal any more.
            os._exit(1)


def free_ports(count: int) -> list[int]:
    """Returns different ports of 127.0.0.1 that nobody listens on just now.

    All are held while the search goes on; a stranger may still take one before it is used.
    """
    found: list[socket.socket] = []
    try:
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            candidate = socket.socket()
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                candidate.close()
                continue
            found.append(candidate)
            if len(found) == count:
                return [each.getsockname()[1] for each in found]
    finally:
        for each in found:
            each.close()
    raise ProcessFailedError(f"fewer than {count} free ports between {PORTS.start} and {PORTS.stop}")
