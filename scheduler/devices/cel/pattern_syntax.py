"""Parser of regular expressions in the syntax of RE2: from a text to a tree of `Piece`.

For `patterns`, which matches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from .errors import CelError

#: RE2's own limit of a count.
MOST_REPEATS = 1000
DEEPEST = 200
_SPECIAL = frozenset("\\.[]{}()*+?^$|")
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_DIGITS = ((48, 57),)
_WORDS = ((48, 57), (65, 90), (95, 95), (97, 122))
_BLANKS = ((9, 10), (12, 13), (32, 32))
_CLASSES = {"d": _DIGITS, "w": _WORDS, "s": _BLANKS}
_POSIX = {
    "alnum": ((48, 57), (65, 90), (97, 122)), "alpha": ((65, 90), (97, 122)), "ascii": ((0, 127),), "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)), "digit": _DIGITS, "graph": ((33, 126),), "lower": ((97, 122),), "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)), "space": ((9, 13), (32, 32)), "upper": ((65, 90),), "word": _WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}  # fmt: skip
_LAST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Chars:
    """A set of characters: ranges of code points."""

    ranges: tuple[tuple[int, int], ...]
    is_folded: bool = False

    def has(self, char: str) -> bool:
        """Tell whether a character is in it."""
        if self._has(ord(char)):
            return True
        return self.is_folded and any(len(c) == 1 and self._has(ord(c)) for c in (char.lower(), char.upper()))

    def _has(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pattern: chars, mark (in `chars`), sequence, choice, or repeat."""

    kind: str
    chars: Chars | str = ""
    parts: tuple[Piece, ...] = ()
    least: int = 0
    most: int | None = None
    is_lazy: bool = False


@dataclass(frozen=True, slots=True)
class _Flags:
    """What `(?ims U)` switches."""

    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


def parse_pattern(text: str) -> Piece:
    """Return the tree of a pattern; CelError says what is wrong."""
    return _Parser(text).whole()


def _wrong(what: str, part: str) -> CelError:
    return CelError(f"error parsing regexp: {what}: `{part}`")


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = _Flags()

    def whole(self) -> Piece:
        piece = self._choice()
        if self._at < len(self._text):
            raise _wrong("unexpected )", self._text)
        return piece

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _choice(self) -> Piece:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _wrong("expression nests too deeply", self._text)
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Piece("choice", parts=tuple(parts))

    def _sequence(self) -> Piece:
        parts = list[Piece]()
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Piece("sequence", parts=tuple(parts))

    def _repeated(self, piece: Piece) -> Piece:
        """Read the counts after an atom; RE2 refuses one count after another."""
        began, times = self._at, 0
        while (counts := self._counts()) is not None:
            if times:
                raise _wrong("invalid nested repetition operator", self._text[began : self._at])
            times += 1
            is_lazy = self._take("?") is not self._flags.U
            piece = Piece("repeat", parts=(piece,), least=counts[0], most=counts[1], is_lazy=is_lazy)
        return piece

    def _counts(self) -> tuple[int, int | None] | None:
        for mark, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(mark):
                return counts
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not (least.isascii() and least.isdigit()) or (most and not (most.isascii() and most.isdigit())):
            return None  # a brace like any other character
        part, self._at = self._text[self._at : end + 1], end + 1
        low = int(least)
        high = int(most) if most else (None if comma else low)
        if low > MOST_REPEATS or (high is not None and not low <= high <= MOST_REPEATS):
            raise _wrong("invalid repeat count", part)
        return low, high

    def _atom(self) -> Piece:  # noqa: PLR0911 - one for each kind
        char = self._peek()
        self._at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                return Piece("chars", self._folded(self._class()))
            case ".":
                return Piece("chars", Chars(((0, _LAST),) if self._flags.s else ((0, 9), (11, _LAST))))
            case "^":
                return Piece("mark", "^" if self._flags.m else "A")
            case "$":
                return Piece("mark", "$" if self._flags.m else "z")
            case "*" | "+" | "?":
                raise _wrong("missing argument to repetition operator", char)
            case "\\":
                return self._escape()
        return Piece("chars", self._folded(((ord(char), ord(char)),)))

    def _folded(self, ranges: tuple[tuple[int, int], ...]) -> Chars:
        return Chars(ranges, is_folded=self._flags.i)

    def _group(self) -> Piece:
        before = self._flags
        if self._take("?"):
            if self._take("P<") or (self._peek() == "<" and self._peek(1) not in ("=", "!") and self._take("<")):
                end = self._text.find(">", self._at)
                name = self._text[self._at : end]
                if end < 0 or not name.replace("_", "a").isalnum():
                    raise _wrong("invalid named capture", self._text)
                self._at = end + 1
            elif not self._switches():
                return Piece("sequence")  # switches for the rest of the group around
        piece = self._choice()
        if not self._take(")"):
            raise _wrong("missing closing )", self._text)
        self._flags = before
        return piece

    def _switches(self) -> bool:
        """Read switches such as `i-s:`; tell whether a group of their own follows."""
        began, is_on, flags = self._at, True, {name: getattr(self._flags, name) for name in "imsU"}
        while (char := self._peek()) not in (":", ")"):
            self._at += 1
            if char == "-" and is_on:
                is_on = False
            elif char and char in flags:
                flags[char] = is_on
            else:
                raise _wrong("invalid or unsupported Perl syntax", self._text[began - 2 : self._at])
        self._at += 1
        self._flags = _Flags(**flags)
        return char == ":"

    def _escape(self) -> Piece:
        char = self._peek()
        self._at += 1
        if char in ("A", "z", "b", "B") and char:
            return Piece("mark", char)
        if char == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
            self._at = len(self._text) if end < 0 else end + 2
            return Piece("sequence", parts=tuple(Piece("chars", self._folded(((ord(c), ord(c)),))) for c in quoted))
        if char and char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return Piece("chars", Chars(ranges if char.islower() else _inverted(ranges)))
        self._at -= 1
        code = self._escaped_code()
        return Piece("chars", self._folded(((code, code),)))

    def _escaped_code(self) -> int:
        """Return the character that an escape stands for; the backslash has been read."""
        char = self._peek()
        self._at += 1
        if not char:
            raise _wrong("trailing backslash at end of expression", "")
        if char in _CONTROL:
            return ord(_CONTROL[char])
        if char == "x":
            digits = self._peek() + self._peek(1)
            if self._peek() == "{":
                end = self._text.find("}", self._at)
                digits, self._at = self._text[self._at + 1 : end], end + 1
            else:
                self._at += 2
            if digits and all(c in "0123456789abcdefABCDEF" for c in digits) and int(digits, 16) <= _LAST:
                return int(digits, 16)
        elif char == "0" or (char in "1234567" and self._peek() and self._peek() in "01234567"):
            digits = char
            while len(digits) < 3 and self._peek() and self._peek() in "01234567":  # noqa: PLR2004 - octal, at most three
                digits += self._peek()
                self._at += 1
            return int(digits, 8)
        elif not char.isalnum() and char.isascii():
            return ord(char)
        raise _wrong("invalid escape sequence", "\\" + char)

    def _class(self) -> tuple[tuple[int, int], ...]:
        """Read a class in brackets; the first bracket has been read."""
        began, is_not, ranges, is_first = self._at - 1, self._take("^"), list[tuple[int, int]](), True
        while is_first or not self._take("]"):
            if not self._peek():
                raise _wrong("missing closing ]", self._text[began:])
            is_first = False
            if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at)) > 0:
                name, self._at = self._text[self._at + 2 : end], end + 2
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    raise _wrong("invalid character class range", f"[:{name}:]")
                ranges += _inverted(known) if name.startswith("^") else known
                continue
            if self._peek() == "\\" and self._peek(1).lower() in _CLASSES:
                known = _CLASSES[self._peek(1).lower()]
                ranges += known if self._peek(1).islower() else _inverted(known)
                self._at += 2
                continue
            low = high = self._class_code()
            if self._peek() == "-" and self._peek(1) not in ("]", ""):
                self._at += 1
                high = self._class_code()
                if high < low:
                    raise _wrong("invalid character class range", f"{chr(low)}-{chr(high)}")
            ranges.append((low, high))
        return _inverted(tuple(ranges)) if is_not else tuple(ranges)

    def _class_code(self) -> int:
        char = self._peek()
        self._at += 1
        return self._escaped_code() if char == "\\" else ord(char or "\0")


@lru_cache(maxsize=256)
def _inverted(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return all characters that are in none of some ranges."""
    found, at = list[tuple[int, int]](), 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    if at <= _LAST:
        found.append((at, _LAST))
    return tuple(found)
