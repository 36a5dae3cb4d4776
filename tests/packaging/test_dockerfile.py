"""The Dockerfile without Docker: its paths exist, its user is nobody, and its install steps work in an empty environment."""

import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.packaging import dockerfile

ROOT = Path(__file__).parents[2]
BUILD, FINAL = dockerfile.read(ROOT / "Dockerfile")


def copied() -> list[tuple[list[str], str]]:
    """Return sources and target of every COPY out of this folder."""
    pairs = []
    for stage in (BUILD, FINAL):
        for copy in stage.all("COPY"):
            if not copy.flags:
                *sources, target = copy.value.split()
                pairs.append((sources, target))
    return pairs


def test_both_stages_start_from_the_same_python():
    """The environment made in one stage must run in the other, which is the slim one; the first one has a compiler."""
    assert f"{BUILD.image}-slim" == FINAL.image
    assert BUILD.image.startswith("python:3.")


def test_every_copied_path_exists():
    """A renamed file breaks here, not in somebody's image build."""
    assert [source for sources, _ in copied() for source in sources if not (ROOT / source).exists()] == []


def test_dockerignore_lets_through_just_what_is_copied():
    """What the Dockerfile copies reaches the builder, and nothing else does."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == {
        source for sources, _ in copied() for source in sources
    }
    assert not [rule for rule in rules[1:] if not rule.startswith("!") and fnmatch("scheduler/config/model.py", rule)]


def test_everything_is_installed_by_hash_but_the_package_itself():
    """No step takes what an index happens to serve that day."""
    installs = [run.value for run in BUILD.all("RUN") if " pip " in run.value]
    assert len(installs) == 4
    for command in installs:
        by_hash = "--require-hashes" in command
        itself = "--no-deps" in command and ("--no-build-isolation" in command or "--no-index" in command)
        assert by_hash or itself, command


def test_image_runs_as_the_user_of_the_deployment():
    """A number that is not root's; the Deployment says the same."""
    (user,) = FINAL.all("USER")
    uid, _, gid = user.value.partition(":")
    deployment = yaml.safe_load((ROOT / "manifests/deployment.yaml").read_text())
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert (int(uid), int(gid)) == (context["runAsUser"], context["runAsGroup"])
    assert int(uid) > 0


def test_entrypoint_is_the_command():
    """`docker run ai-scheduler simulate …` works."""
    (entrypoint,) = FINAL.all("ENTRYPOINT")
    assert json.loads(entrypoint.value) == ["ai-scheduler"]


@pytest.mark.slow
def test_install_steps_give_a_working_command(tmp_path):
    """Runs the build stage in a folder instead of a container, then the entry point out of what the final stage copies."""
    folders = {"/src": tmp_path / "src", "/opt": tmp_path / "opt"}
    programs = tmp_path / "bin"
    for folder in (*folders.values(), programs):
        folder.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = kept | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def run(command: str) -> str:
        for inside, outside in folders.items():
            command = command.replace(inside, str(outside))
        done = subprocess.run(
            ["sh", "-ec", command], cwd=folders["/src"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    for instruction in BUILD.instructions:
        if instruction.name == "RUN":
            run(instruction.value)
        elif instruction.name == "COPY":
            *sources, target = instruction.value.split()
            for source in sources:
                _copy(ROOT / source, folders["/src"] / (target if len(sources) == 1 else ""))
    (copy,) = FINAL.all("COPY")
    source, target = copy.value.split()
    assert copy.flags == (f"--from={BUILD.name}",)
    assert source == target
    assert "simulate" in run(f"{source}/bin/ai-scheduler --help")
    where = run(f"cd {source} && bin/python -c 'import scheduler; print(scheduler.__file__)'")
    assert str(tmp_path / "opt/ai-scheduler/lib") in where
    run(f"cd {source} && bin/python -c 'from scheduler.state import loops; assert loops.compiled'")
    (wheel,) = (folders["/src"] / "dist").glob("ai_scheduler-*.whl")
    assert "-cp311-abi3-" in wheel.name, "later Pythons load it as well"
    assert run(f"{source}/bin/python -m pip check") == "No broken requirements found.\n"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
