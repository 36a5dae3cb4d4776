"""Compiles the loops of scheduler/state/_loops.c when the package is built; without a C compiler the package is pure Python.

Hatchling runs this for wheels and editable installs.  AI_SCHEDULER_PURE=1 leaves the compiler alone.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCE = "scheduler/state/_loops.c"
TARGET = "scheduler/state/_loops.abi3.so"
#: The stable ABI: what one Python compiles, the later ones load.
ABI = "cp311-abi3"
#: Operations stay as they are written, so that scores are those of numpy to the last bit, whatever CC says; nobody reads the
#: flags of floats.  Whole numbers wrap around, as numpy's do.
FLAGS = ("-O3", "-fPIC", "-fno-fast-math", "-ffp-contract=off", "-fno-trapping-math", "-fwrapv")


class CompiledLoops(BuildHookInterface):  # type: ignore[type-arg]
    """The custom hook that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform; say why if that is not possible."""
        del version
        root = Path(self.root)
        (root / TARGET).unlink(missing_ok=True)
        problem = compile_into(root)
        if problem:
            self.app.display_warning(f"The loops over nodes are not compiled, numpy does their work: {problem}")
            return
        build_data["artifacts"].append(TARGET)
        build_data["pure_python"] = False
        build_data["tag"] = f"{ABI}-{_platform()}"


def compile_into(root: Path) -> str:
    """Compile the loops below a folder; return why not, empty if they are there."""
    if os.environ.get("AI_SCHEDULER_PURE"):
        return "AI_SCHEDULER_PURE is set."
    if sys.implementation.name != "cpython":
        return f"they are for CPython, this is {sys.implementation.name}."
    try:
        return _compile(root, shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")))
    except ValueError as error:
        return f"CC is no command: {error}."
    except OSError as error:
        return f"{error}."


def _compile(root: Path, compiler: list[str]) -> str:
    if not compiler or not shutil.which(compiler[0]):
        compiler = ["cc"]
    header = Path(sysconfig.get_path("include"))
    if not shutil.which(compiler[0]) or not (header / "Python.h").is_file():
        return f"there is no {compiler[0]}, or no Python.h in {header}."
    digest = hashlib.sha256((root / SOURCE).read_bytes()).hexdigest()
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    command = [*compiler, *FLAGS, f'-DSOURCE_DIGEST="{digest}"', *shared, f"-I{header}", str(root / SOURCE)]
    command += ["-o", str(root / TARGET)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the compiler that is set
    return "" if done.returncode == 0 else f"{shlex.join(command)} failed:\n{done.stderr}"


def _platform() -> str:
    """Return this platform as wheels name it; without the promise of manylinux to run on older ones."""
    platforms = (tag.platform for tag in sys_tags())
    return next(name for name in platforms if not name.startswith(("manylinux", "musllinux")))
