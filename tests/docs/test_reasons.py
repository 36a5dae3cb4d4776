"""The page of reasons is read from the source: what the reader understands, and that it misses nothing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from scheduler.cli.pages.reasons import PARTS, collect
from scheduler.cli.pages.source import Said, reasons_in
from scheduler.framework.status import ClusterEvent, Kind

from .test_documents import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "from scheduler.framework.status import ClusterEvent, Kind, Reason\nNAME = 'Mine'\n"
ANY = ClusterEvent.ANY
CONSTANTS = """
TEXT = "a constant"
BOTH = ClusterEvent.TIME | ClusterEvent.NODE_ADDED
FIRST = Reason("First", "a sentence")
SECOND = Reason("Second", TEXT, cures=BOTH, kind=Kind.NEVER)
"""
CHOICES = """
def refusal(pod, n, m, ever):
    text = f"{pod.name} has {n + m} of {len(pod.many)}"
    text += f", {n} more" if n else ""
    kind = Kind.NEVER if ever else Kind.NOT_NOW
    return Reason("Code", text, ClusterEvent.TIME if ever else ClusterEvent.NONE, kind)
"""
LOOP = """
def refusal(reasons):
    cures = ClusterEvent.TIME
    for reason in reasons:
        cures |= reason.cures
    return Reason("Code", "all of them", cures)
"""
PASSED_ON = """
def no(text):
    return Reason("Code", text)

def refusal():
    no("a sentence")
    no(made(2))
    no(told(2))

def made(n) -> str:
    return f"{n} times"

def told(n) -> str:
    '''Return what is told.'''
    return str(n)
"""
NAMED = """
CODE, OTHER = "Named", "Unused"

def refusal(reason):
    return Reason(CODE, "a sentence")
"""
COPY = """
def louder(reason):
    return Reason(reason.code, reason.text.upper())
"""


def read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Said]:
    """Read a module with this text."""
    (tmp_path / "said_by_me.py").write_text(HEAD + text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "said_by_me", raising=False)
    return list(reasons_in(tmp_path / "said_by_me.py", "said_by_me"))


def said(
    sentence: str, code: str = "Code", kind: Kind = Kind.NOT_NOW, cures: ClusterEvent = ANY, *, adds: bool = False
) -> Said:
    """Return a reason of the plugin Mine."""
    return Said(code, sentence, kind, cures, adds, "Mine")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            CONSTANTS,
            [
                said("a sentence", "First"),
                said("a constant", "Second", Kind.NEVER, ClusterEvent.TIME | ClusterEvent.NODE_ADDED),
            ],
        ),
        (
            CHOICES,
            [
                said("<pod name> has <number> of <number>[, <n> more]", kind=Kind.NEVER, cures=ClusterEvent.TIME),
                said("<pod name> has <number> of <number>[, <n> more]", kind=Kind.NOT_NOW, cures=ClusterEvent.NONE),
            ],
        ),
        (LOOP, [said("all of them", cures=ClusterEvent.TIME, adds=True)]),
        (PASSED_ON, [said("a sentence"), said("<n> times"), said("<what is told>")]),
        (NAMED, [said("a sentence", "Named")]),
        (COPY, []),
    ],
    ids=["constants", "choices", "loop", "passed on", "named code", "copy"],
)
def test_what_is_said_is_understood(
    text: str, expected: list[Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way in which the code makes a reason today is followed to what users see."""
    assert read(text, tmp_path, monkeypatch) == expected


def test_every_code_is_found() -> None:
    """A plain search of the source finds no code that the reader misses."""
    text = "".join(path.read_text() for part in PARTS for path in (ROOT / "scheduler" / part).rglob("*.py"))
    named = {"QueueLimit", "QueueGuarantee", "QueueReserved", "UnknownQueue", "QueueNotAllowed", "GangBelowMinimum"}
    assert {found.code for found in collect()} == set(re.findall(r'\bReason\(\s*"(\w+)"', text)) | named
