"""Reads the CSV file that a trace is, plain or gzip: columns by name, cells as numbers; else says what is wrong, and where.

For the readers of the formats.  Problems of several cells are told together, up to a limit: a file with thousands of bad
lines is the wrong file.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.sim.annotations import MOST_SECONDS
from scheduler.sim.manifests import STDIN, Problem

from .trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GZIP_MAGIC = b"\x1f\x8b"
_MOST_PROBLEMS = 20
_ALLOWED = "allowed: CSV in UTF-8 with a header, plain or gzip"
#: A whole number has no more digits: beyond them lies a slip of the pen, and a float that has lost some.
_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file: its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass
class Table:
    """A file that is being read: its rows, and what is wrong with it so far."""

    source: str
    #: Rows that have all cells.
    rows: list[Row]
    problems: list[Problem] = field(default_factory=list)

    def complain(self, row: Row, column: str, text: str) -> None:
        """Keep a problem of a cell; too many of them end the reading."""
        self.problems.append(Problem(self.source, text, row.line, f"column {column}"))
        if len(self.problems) >= _MOST_PROBLEMS:
            self.problems.append(Problem(self.source, f"the first {_MOST_PROBLEMS} problems are told, no others"))
            self.finish()

    def whole(self, row: Row, column: str, lowest: int = 0, highest: int | None = None, of_what: str = "") -> int:
        """Return a cell as a whole number; the lowest allowed one, and a problem, if it is none."""
        text = row.cells[column].strip()
        is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        if is_number and lowest <= int(text) and (highest is None or int(text) <= highest):
            return int(text)
        upper = "" if highest is None else f" to {highest}"
        self.complain(row, column, f"{text!r} is not allowed; allowed: whole numbers from {lowest}{upper}{of_what}")
        return lowest

    def seconds(self, row: Row, column: str, *, per_second: float = 1.0) -> float:
        """Return a cell as seconds, of which its unit has so many a second; 0, and a problem, if it is no time."""
        text = row.cells[column].strip()
        try:
            seconds = float(text) / per_second
        except ValueError:
            seconds = math.nan
        if 0 <= seconds <= MOST_SECONDS:  # NaN is neither
            return seconds
        self.complain(row, column, f"{text!r} is not allowed; allowed: numbers from 0 to {MOST_SECONDS * per_second:g}")
        return 0.0

    def finish(self) -> None:
        """Raise what is wrong, if anything."""
        if self.problems:
            raise TraceError(self.problems)


def read_table(path: str, columns: Sequence[str]) -> Table:
    """Return the rows of a file (- is standard input) that has at least these columns; raises TraceError."""
    source = "standard input" if path == STDIN else path
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise TraceError([Problem(source, f"cannot be read: {error.strerror or error}; {_ALLOWED}")]) from error
    return table_of(data, source, columns)


def table_of(data: bytes, source: str, columns: Sequence[str]) -> Table:
    """Return the rows of a file that was read."""
    text = _text_of(_unpacked(data, source), source)
    if not text.strip():
        raise TraceError([Problem(source, f"the file is empty; {_ALLOWED}: {', '.join(columns)}")])
    lines = _lines(text, source)
    _, header = next(lines)
    names = [name.strip() for name in header]
    _check_header(names, columns, source)
    table = Table(source, [])
    for line, cells in lines:
        if len(cells) == len(names):
            table.rows.append(Row(line, dict(zip(names, cells, strict=True))))
        else:
            table.complain(Row(line, {}), names[min(len(cells), len(names) - 1)],
                           f"the line has {len(cells)} cells; allowed: {len(names)}, as the header has")  # fmt: skip
    if not table.rows and not table.problems:
        raise TraceError([Problem(source, "there is a header, but no job; allowed: one line for each job", 1)])
    return table


def _unpacked(data: bytes, source: str) -> bytes:
    """Return what a gzip file holds; anything else as it is, unless its name says that it is one."""
    if not data.startswith(_GZIP_MAGIC):
        if data and source.endswith(".gz"):
            raise TraceError([Problem(source, f"this is no gzip file, though its name ends so; {_ALLOWED}")])
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError([Problem(source, f"this gzip file is damaged: {error}; {_ALLOWED}")]) from error


def _text_of(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError([Problem(source, f"this is no UTF-8 text (byte {error.start}); {_ALLOWED}")]) from error


def _lines(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each line that is not blank, as its number and its cells."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise TraceError([Problem(source, f"this is no CSV: {error}; {_ALLOWED}", reader.line_num)]) from error


def _check_header(names: Sequence[str], columns: Sequence[str], source: str) -> None:
    """Find columns that are missing, or there twice."""
    problems = []
    if missing := [column for column in columns if column not in names]:
        text = (
            f"the header lacks {', '.join(missing)}; allowed: {', '.join(columns)}, and others; it has {_listed(names)}"
        )
        problems.append(Problem(source, text, 1))
    problems += [
        Problem(source, "is there twice; allowed: each column once", 1, f"column {column}")
        for column in columns
        if names.count(column) > 1
    ]
    if problems:
        raise TraceError(problems)


def _listed(names: Sequence[str]) -> str:
    """Return the columns that are there, cut short where they are no columns at all."""
    text = ", ".join(names)
    return text if len(text) <= 200 else f"{text[:200]}..."  # noqa: PLR2004 - two lines of a terminal
