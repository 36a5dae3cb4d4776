"""How the compiled loops are built, or not, and which of them are taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import hatch_build
from scheduler.state import loops

ROOT = Path(__file__).parents[2]
HEADER = Path(sysconfig.get_path("include"))
needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and (HEADER / "Python.h").is_file()) and os.environ.get("CI") != "true",
    reason="there is no C compiler; with CI=true that is a failure",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with as much of the package as the loops need."""
    state = tmp_path / "scheduler/state"
    state.mkdir(parents=True)
    (tmp_path / "scheduler/__init__.py").touch()
    for name in ("__init__.py", "loops.py", "_loops.c"):
        shutil.copy(ROOT / "scheduler/state" / name, state / name)
    return tmp_path


def taken(tree: Path) -> str:
    """Return what the package in a folder takes for its loops, as a new process says."""
    program = "from scheduler.state import loops; print(loops.compiled and loops.compiled.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_nothing_is_compiled_where_that_is_not_wanted(monkeypatch, tmp_path):
    """Who wants a package of Python alone says so."""
    monkeypatch.setenv("AI_SCHEDULER_PURE", "1")
    assert hatch_build.compile_into(tmp_path) == "AI_SCHEDULER_PURE is set."


def test_a_machine_without_a_compiler_is_told_what_is_missing(monkeypatch, tree):
    """The package is built all the same."""
    monkeypatch.setenv("PATH", str(tree))
    for compiler in ("", " ", "absent -O2"):
        monkeypatch.setenv("CC", compiler)
        assert "there is no cc" in hatch_build.compile_into(tree)


@pytest.mark.skipif(not (HEADER / "Python.h").is_file(), reason="there are no headers of Python")
def test_what_the_compiler_says_is_told(monkeypatch, tree):
    """A broken compiler is named with its words, and one that is none at all does not end the build."""
    monkeypatch.setenv("CC", "false")
    assert hatch_build.compile_into(tree).startswith("false ")
    monkeypatch.setenv("CC", "'cc")
    assert hatch_build.compile_into(tree) == "CC is no command: No closing quotation."
    nonsense = tree / "nonsense"
    nonsense.write_bytes(b"\x7fELF")
    nonsense.chmod(0o755)
    monkeypatch.setenv("CC", str(nonsense))
    assert "Exec format error" in hatch_build.compile_into(tree)


def test_another_python_is_told_that_the_loops_are_not_for_it(monkeypatch, tree):
    """PyPy does not load what is compiled for the stable ABI."""
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert hatch_build.compile_into(tree) == "they are for CPython, this is pypy."


@needs_compiler
def test_what_was_built_is_taken(tree):
    """Compiled from the source that is there."""
    assert hatch_build.compile_into(tree) == ""
    assert taken(tree) == str(tree / hatch_build.TARGET)


@needs_compiler
def test_what_was_built_of_another_source_is_not_taken(tree):
    """A working copy that moved on computes with numpy until it is built again; an installed package has no source beside it."""
    assert hatch_build.compile_into(tree) == ""
    source = tree / hatch_build.SOURCE
    source.write_text(source.read_text() + "\n/* changed */\n")
    assert taken(tree) == "None"
    source.unlink()
    assert taken(tree) == str(tree / hatch_build.TARGET)


def test_what_was_built_before_sources_were_noted_is_not_taken():
    """It may lack functions."""
    assert not loops.is_current(ModuleType("_loops"), ROOT / hatch_build.SOURCE)


@pytest.mark.parametrize(
    "content", [b"", b"no library", b"\x7fELF\x01\x01\x01" + bytes(60)], ids=["empty", "broken", "foreign"]
)
def test_numpy_does_the_work_where_the_compiled_loops_do_not_load(tree, content):
    """An empty file, a broken one, or one for another machine is as good as none."""
    (tree / hatch_build.TARGET).write_bytes(content)
    assert taken(tree) == "None"


@needs_compiler
def test_floats_are_those_of_the_standard_whatever_the_compiler_is_told(monkeypatch, tree):
    """Our flags win over those in CC, and the source takes no other arithmetic."""
    monkeypatch.setenv("CC", "cc -Ofast -ffast-math")
    assert hatch_build.compile_into(tree) == ""
    monkeypatch.setattr(hatch_build, "FLAGS", ("-fPIC",))
    assert "scores would differ" in hatch_build.compile_into(tree)
