"""Sends a chunk of cases through both implementations at once, file by file, and pairs their answers."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .compare import triples
from .generate import case, to_line
from .world import Object

CHUNK_SECONDS = 3600


class AnswerFailedError(RuntimeError):
    """An implementation ended with an error of its own; the message holds the end of what it said."""


@dataclass(frozen=True)
class Files:
    """The files of one chunk, all beginning with the same name."""

    cases: Path
    ours: Path
    theirs: Path

    def triples(self) -> Iterator[tuple[Object, Object, Object]]:
        """Yields each case with both results."""
        return triples(self.cases, self.ours, self.theirs)

    def forget(self) -> None:
        """Removes the files."""
        for path in {self.cases, self.ours, self.theirs}:
            path.unlink(missing_ok=True)


def take(themes: Sequence[str], used: dict[str, int], seed: int, count: int) -> list[Object]:
    """Makes the next cases, theme by theme in turn; `used` counts what each theme has given so far."""
    made = []
    for position in range(count):
        theme = themes[position % len(themes)]
        made.append(case(theme, seed, used[theme]))
        used[theme] += 1
    return made


def explain_command(cases: Path) -> list[str]:
    """Returns the command that lets this scheduler answer a file of cases: the script installed beside this Python."""
    return [str(Path(sys.executable).with_name("ai-scheduler")), "explain", "--cases", str(cases)]


def answer(name: Path, made: Sequence[Object], oracle: Path, *, is_alone: bool = False) -> Files:
    """Writes a chunk and lets both implementations answer it at the same time; alone, the oracle's answer is both."""
    files = _written(name, made)
    if is_alone:
        files = Files(files.cases, files.theirs, files.theirs)
        return _answered(files, [str(oracle)], None)
    return _answered(files, [str(oracle)], explain_command(files.cases))


def allocate(name: Path, made: Sequence[Object], oracle: Path) -> Files:
    """Does the same with cases of the allocator of devices alone."""
    return _answered(_written(name, made), [str(oracle), "-allocate"], [sys.executable, "-m", "scheduler.devices.case"])


def _written(name: Path, made: Sequence[Object]) -> Files:
    files = Files(*(name.with_name(f"{name.name}.{part}.jsonl") for part in ("cases", "ours", "theirs")))
    with files.cases.open("w") as out:
        out.writelines(to_line(one) for one in made)
    return files


def _answered(files: Files, theirs: list[str], ours: list[str] | None) -> Files:
    """Runs the oracle, and beside it the other program if there is one; both find the cases at their standard input."""
    running = [_start(theirs, files.theirs, files.cases)]
    if ours is not None:
        running.append(_start(ours, files.ours, files.cases))
    try:
        for process, output in zip(running, (files.theirs, files.ours), strict=False):
            if process.wait(CHUNK_SECONDS) != 0:
                said = _errors_beside(output).read_text()[-2000:]
                raise AnswerFailedError(f"{process.args} ended with {process.returncode}:\n{said}")
            _errors_beside(output).unlink()
    finally:
        for process in running:
            process.kill()
            process.wait()
    return files


def _errors_beside(output: Path) -> Path:
    return output.with_suffix(".errors")


def _start(command: list[str], output: Path, source: Path) -> subprocess.Popen[bytes]:
    """Starts a program; what it says besides its answers goes to a file, as a pipe that nobody reads would stop it."""
    with output.open("wb") as out, _errors_beside(output).open("wb") as errors, source.open("rb") as lines:
        return subprocess.Popen(command, stdin=lines, stdout=out, stderr=errors)
