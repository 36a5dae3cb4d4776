"""The plugins of the tutorial and of the README do in the engine what the pages say that they do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from scheduler import Plugin, config
from scheduler.cli.main import main
from tests.builders import a_node, a_pod
from tests.engine.world import World

from .test_documents import ROOT, TEXTS, TUTORIAL, blocks

if TYPE_CHECKING:
    from pathlib import Path

    from scheduler.config import SchedulerConfiguration

EXAMPLES = ROOT / "examples/plugins"
MAINTENANCE = "example.com/maintenance"
ERRORS = "example.com/gpu-errors"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example plugins can be imported, as the page says by PYTHONPATH."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


def shown(plugin: str) -> SchedulerConfiguration:
    """Return the configuration of the tutorial that enables a plugin."""
    (text,) = [block for block in blocks(TUTORIAL, "yaml") if f"name: {plugin}" in block]
    return config.parse(text)


def nodes(count: int) -> list[object]:
    """Return nodes with room for one pod of three cores each."""
    return [a_node(f"n{i}").cpu(4).memory("8Gi").gpus(8).pods(10) for i in range(count)]


def member(index: int, *, size: int = 3) -> object:
    """Return a pod of a classic gang."""
    return a_pod(f"p{index}").cpu(3).label("classic-gang/name", "job").label("classic-gang/size", str(size))


# AvoidNode


def test_node_in_maintenance_gets_no_pods() -> None:
    """The pod goes elsewhere, and waits rather than go there; when the maintenance is over, it goes."""
    busy, free = nodes(2)
    world = World(busy.label(MAINTENANCE, "now"), free, configuration=shown("avoid_node:AvoidNode"))
    world.add(a_pod("first").cpu(3), a_pod("second").cpu(3)).run()
    assert world.placed == {"first": "n1"}
    assert "1 node(s) are in maintenance" in world.conditions("second")[0][1]
    world.add(nodes(1)).run()
    assert world.placed == {"first": "n1", "second": "n0"}


def test_node_whose_maintenance_comes_soon_gets_pods_last() -> None:
    """It is feasible, and the last choice."""
    soon, free = nodes(2)
    world = World(soon.label(MAINTENANCE, "soon"), free, configuration=shown("avoid_node:AvoidNode"))
    assert world.add(a_pod("first").cpu(3)).run().node_of("first") == "n1"
    assert world.add(a_pod("second").cpu(3)).run().node_of("second") == "n0"


def test_simulation_of_the_tutorial_ends_as_the_page_says() -> None:
    """The three pods of cluster.yaml: one on node-c, one on node-b, one waits with the sentence on the page."""
    file = str(EXAMPLES / "config.yaml")
    assert CliRunner().invoke(main, ["config", "check", file]).exit_code == 0
    result = CliRunner().invoke(main, ["simulate", str(EXAMPLES / "cluster.yaml"), "--config", file])
    assert result.exit_code == 1, result.output
    assert re.search(r"default/first .*node-c", result.output)
    assert re.search(r"default/second .*node-b", result.output)
    (sentence,) = re.findall(r"`(1 node\(s\) are in maintenance[^`]*)`", TUTORIAL)
    assert sentence in result.output


def test_unit_test_of_the_tutorial_passes() -> None:
    """Pytest collects and runs it as the page says."""
    call = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "examples/plugins"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout


# GPUHealth


def test_node_with_too_many_errors_gets_no_gpu_pods() -> None:
    """The argument of the page's configuration counts; other pods go there; nonsense counts as none."""
    bad, odd = nodes(2)
    world = World(bad.label(ERRORS, "6"), odd.label(ERRORS, "many"), configuration=shown("gpu_health:GPUHealth"))
    world.add(
        a_pod("gpu").gpus(8), a_pod("another").gpus(8), a_pod("plain").cpu(1).select("kubernetes.io/hostname", "n0")
    ).run()
    assert sorted(world.placed.values()) == ["n0", "n1"]
    assert world.node_of("plain") == "n0"


def test_fewest_errors_win() -> None:
    """Among healthy nodes the one that counted less is taken, against the order of names."""
    one, two = nodes(2)
    world = World(one.label(ERRORS, "5"), two.label(ERRORS, "1"), configuration=shown("gpu_health:GPUHealth"))
    assert world.add(a_pod("gpu").gpus(1)).run().node_of("gpu") == "n1"


def test_repaired_node_wakes_who_was_refused() -> None:
    """The label goes below the limit: the pod is tried again and placed."""
    (bad,) = nodes(1)
    world = World(bad.label(ERRORS, "9"), a_pod("gpu").gpus(1), configuration=shown("gpu_health:GPUHealth")).run()
    assert world.placed == {}
    assert world.add(nodes(1)).run().node_of("gpu") == "n0"


# ClassicGang


def test_classic_gang_is_bound_when_enough_wait() -> None:
    """Members that came early hold their places, and go together with the last one."""
    world = World(nodes(3), member(0), member(1), configuration=shown("classic_gang:ClassicGang")).run()
    assert world.placed == {}
    assert len(world.engine.state.assumed) == 2
    world.add(member(2)).run()
    assert set(world.placed.values()) == {"n0", "n1", "n2"}


def test_classic_gang_gives_its_places_back_in_time() -> None:
    """Without the last member every wait ends, and somebody else gets the room."""
    world = World(nodes(2), member(0), member(1), configuration=shown("classic_gang:ClassicGang")).run()
    world.add(a_pod("other").cpu(3).priority(10)).wait(1200)
    assert set(world.placed) == {"other"}


def test_pods_of_no_classic_gang_do_not_wait() -> None:
    """The plugin leaves others alone."""
    world = World(nodes(1), a_pod("plain").cpu(1), configuration=shown("classic_gang:ClassicGang")).run()
    assert world.node_of("plain") == "n0"


# README


def test_plugin_of_the_readme_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied into a file and enabled as the README says, it refuses what it says."""
    (code,) = [block for block in blocks(TEXTS["README.md"], "python") if "(Plugin)" in block]
    (enabled,) = [block for block in blocks(TEXTS["README.md"], "yaml") if "profiles:" in block]
    module, name = re.findall(r"name: (\w+):(\w+)", enabled)[0]
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert name in code
    assert issubclass(getattr(__import__(module), name), Plugin)
    friday, free = nodes(2)
    world = World(friday.label("maintenance", "friday"), free, configuration=config.parse(enabled))
    world.add(*(a_pod(f"p{i}").cpu(3).label("no-fridays") for i in range(2))).run()
    assert list(world.placed.values()) == ["n1"]
    assert world.add(a_pod("any").cpu(3)).run().node_of("any") == "n0"
