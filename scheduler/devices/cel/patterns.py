"""Regular expressions in the syntax of RE2, matched in time linear in the text: all threads of the program step together.

For the functions of texts.  Python's own `re` can take exponential time on a hostile pattern, so it is not used on them.
What RE2 refuses (backreferences, look-around) is refused; Unicode classes by name are not known and say so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .errors import CelError
from .pattern_syntax import Chars, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pattern_syntax import Piece

#: More instructions than any sensible pattern has.
MOST_INSTRUCTIONS = 5_000


class Step(NamedTuple):
    """One instruction.

    | op | meaning |
    |---|---|
    | char | take a character that `chars` has, go to `to` |
    | split | go to `to` and, second, to `other` |
    | assert | go to `to` where `chars` (a mark: ^ $ A z b B) holds |
    | match | done |
    """

    op: str
    to: int = 0
    other: int = 0
    chars: Chars | str = ""


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Compile; CelError says what is wrong."""
        self._steps: list[Step] = []
        self._emit(parse_pattern(text))
        self._steps.append(Step("match"))

    def search(self, text: str, spend: Callable[[int], None], start: int = 0) -> tuple[int, int] | None:
        """Return where the leftmost match begins and ends, None if there is none; work is told to `spend`."""
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        for at in range(start, len(text) + 1):
            if found is None:
                threads = self._followed([*threads, (0, at)], text, at)
            else:
                threads = self._followed(threads, text, at)
            if not threads:
                if found is not None:
                    break
                continue
            spend(1 + len(threads) // 4)
            following: list[tuple[int, int]] = []
            for pc, began in threads:
                step = self._steps[pc]
                if step.op == "match":
                    found = (began, at)
                    break  # threads behind it are worth less
                if at < len(text) and isinstance(step.chars, Chars) and step.chars.has(text[at]):
                    following.append((step.to, began))
            threads = following
        return found

    def search_all(self, text: str, spend: Callable[[int], None], most: int = -1) -> list[tuple[int, int]]:
        """Return the matches that do not overlap, `most` of them unless it is negative."""
        found: list[tuple[int, int]] = []
        start = 0
        while start <= len(text) and (most < 0 or len(found) < most):
            span = self.search(text, spend, start)
            if span is None:
                break
            if span[0] < span[1] or not found or found[-1][1] != span[0]:
                found.append(span)
            start = span[1] if span[1] > span[0] else span[1] + 1
        return found

    def _followed(self, threads: list[tuple[int, int]], text: str, at: int) -> list[tuple[int, int]]:
        """Return the threads at their next character or match, each instruction once, the preferred ones first."""
        seen: set[int] = set()
        found: list[tuple[int, int]] = []
        for first, began in threads:
            stack = [first]
            while stack:
                pc = stack.pop()
                if pc in seen:
                    continue
                seen.add(pc)
                step = self._steps[pc]
                if step.op == "split":
                    stack += (step.other, step.to)
                elif step.op == "assert":
                    if _holds(str(step.chars), text, at):
                        stack.append(step.to)
                else:
                    found.append((pc, began))
        return found

    def _emit(self, piece: Piece) -> None:
        """Add the instructions of a piece; each continues with what comes after it."""
        steps = self._steps
        if len(steps) > MOST_INSTRUCTIONS:
            raise CelError("error parsing regexp: expression is too large")
        match piece.kind:
            case "chars" | "mark":
                op = "char" if piece.kind == "chars" else "assert"
                steps.append(Step(op, len(steps) + 1, chars=piece.chars))
            case "sequence":
                for part in piece.parts:
                    self._emit(part)
            case "choice":
                self._emit_choice(piece)
            case "repeat":
                self._emit_repeat(piece)

    def _emit_choice(self, piece: Piece) -> None:
        ends = list[int]()
        for turn, part in enumerate(piece.parts):
            if turn == len(piece.parts) - 1:
                self._emit(part)
                break
            split = self._reserve()
            self._emit(part)
            ends.append(self._reserve())
            self._steps[split] = Step("split", split + 1, len(self._steps))
        for end in ends:
            self._steps[end] = Step("split", len(self._steps), len(self._steps))

    def _emit_repeat(self, piece: Piece) -> None:
        for _ in range(piece.least):
            self._emit(piece.parts[0])
        if piece.most is None:
            split = self._reserve()
            self._emit(piece.parts[0])
            self._steps.append(Step("split", split, split))
            self._join(split, len(self._steps), is_lazy=piece.is_lazy)
            return
        splits = list[int]()
        for _ in range(piece.most - piece.least):
            splits.append(self._reserve())
            self._emit(piece.parts[0])
        for split in splits:
            self._join(split, len(self._steps), is_lazy=piece.is_lazy)

    def _reserve(self) -> int:
        self._steps.append(Step("match"))
        return len(self._steps) - 1

    def _join(self, split: int, end: int, *, is_lazy: bool) -> None:
        self._steps[split] = Step("split", end, split + 1) if is_lazy else Step("split", split + 1, end)


@lru_cache(maxsize=256)
def pattern_of(text: str) -> Pattern:
    """Return a pattern, compiled once; CelError says what is wrong."""
    return Pattern(text)


def _holds(mark: str, text: str, at: int) -> bool:
    """Tell whether a mark holds at a place in a text."""
    match mark:
        case "A":
            return at == 0
        case "z":
            return at == len(text)
        case "^":
            return at == 0 or text[at - 1] == "\n"
        case "$":
            return at == len(text) or text[at] == "\n"
    is_edge = _is_word(text, at - 1) is not _is_word(text, at)
    return is_edge if mark == "b" else not is_edge


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at] == "_" or (text[at].isascii() and text[at].isalnum()))
