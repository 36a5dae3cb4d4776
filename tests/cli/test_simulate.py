"""`ai-scheduler simulate`: what it prints where, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from scheduler.sim.dump import dump_command
from tests.sim.worlds import a_gang, a_job, a_pod, nodes

SVG = "{http://www.w3.org/2000/svg}"


def call(*arguments: str, stdin: str | None = None) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, ["simulate", *arguments], input=stdin)


def written(path: Path, *manifests: Any) -> str:
    """Write manifests to a file and return its name."""
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


@pytest.fixture
def fitting(tmp_path: Path) -> str:
    """Return a file whose workloads fit."""
    return written(tmp_path / "fits.yaml", *nodes(2), *a_gang("g", 2, 8, run=10), a_pod("p", 1, run=20))


@pytest.fixture
def too_large(tmp_path: Path) -> str:
    """Return a file with a gang that never fits."""
    return written(tmp_path / "large.yaml", *nodes(1), *a_gang("g", 2, 8, run=10))


def test_what_fits_exits_with_0(fitting: str) -> None:
    """All workloads were placed."""
    result = call(fitting)
    assert result.exit_code == 0, result.output
    assert "default/g" in result.stdout
    assert "Nothing waits." in result.stdout
    assert result.stderr == ""


def test_what_does_not_fit_exits_with_1(too_large: str) -> None:
    """A workload waits for ever; with --exit-zero that is no reason to fail."""
    result = call(too_large)
    assert result.exit_code == 1
    assert "Still waiting" in result.stdout
    assert call(too_large, "--exit-zero").exit_code == 0


def test_bad_input_exits_with_2_and_tells_everything_on_stderr(tmp_path: Path) -> None:
    """Nothing is simulated, nothing is printed on stdout, and every problem is told, of every file."""
    written(tmp_path / "a.yaml", a_pod("p", cpu="many"))
    (tmp_path / "b.yaml").write_text("a: [\n")
    result = call(str(tmp_path), "-o", "json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "a.yaml:1: Pod p: spec.containers[0].resources.requests[cpu]: 'many'" in result.stderr
    assert "b.yaml:2: this is no YAML" in result.stderr
    assert "2 problems; nothing was simulated." in result.stderr


def test_json_is_alone_on_stdout(fitting: str, tmp_path: Path) -> None:
    """Scripts get JSON and nothing else, also with a page."""
    result = call(fitting, "-o", "json", "--report", str(tmp_path / "page.html"))
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {entry["name"]: entry["phase"] for entry in found["workloads"]} == {"g": "Succeeded", "p": "Succeeded"}
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_picture_is_drawn_where_the_report_is_an_svg(fitting: str, tmp_path: Path) -> None:
    """It stands alone: well-formed, with nodes, workloads and a style, and nothing is loaded."""
    assert call(fitting, "--report", str(tmp_path / "picture.svg")).exit_code == 0
    text = (tmp_path / "picture.svg").read_text()
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert {"default/g", "default/p", "node-0", "node-1"} <= {found.strip() for found in root.itertext()}
    assert root.find(f"{SVG}style") is not None
    assert "url(" not in text
    assert "href" not in text


def test_standard_input_is_read(fitting: str) -> None:
    """A dump can be piped in."""
    result = call("-", "-o", "json", stdin=Path(fitting).read_text())
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["workloads"]) == 2


def test_what_happens_is_told_line_by_line(fitting: str) -> None:
    """Elsewhere than on a terminal, each thing that happens is a line; --quiet leaves them out."""
    assert "0s  default/g started after 0s on node-[0-1]" in call(fitting).stdout
    assert "started after" not in call(fitting, "--quiet").stdout


@pytest.mark.parametrize(("source", "finished"), [("annotation", None), ("90", 92), ("90s", 92), ("job", 62)])
def test_durations_come_from_where_the_option_says(tmp_path: Path, source: str, finished: float | None) -> None:
    """A Job without an annotation runs on, for so many seconds, or as long as it ran in truth."""
    job = a_job("j")
    if source == "job":
        ended = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-01-01T00:01:00Z"}
        job["status"] = {"startTime": "2026-01-01T00:00:00Z"} | ended
    path = written(tmp_path / "j.yaml", *nodes(1), job)
    (found,) = json.loads(call(path, "-o", "json", "--duration-from", source).stdout)["workloads"]
    assert found["finished"] == finished


@pytest.mark.parametrize("value", ["soon", "-5", "nan", "inf"])
def test_a_duration_that_is_none_is_refused(fitting: str, value: str) -> None:
    """The message says what is allowed."""
    result = call(fitting, "--duration-from", value)
    assert result.exit_code == 2
    assert "allowed: annotation, job, or seconds" in result.stderr


def test_pods_of_others_are_scheduled_on_request(tmp_path: Path) -> None:
    """--schedule-all takes the pending pods of other schedulers, too."""
    path = written(tmp_path / "p.yaml", *nodes(1), a_pod("p", schedulerName="default-scheduler"))
    assert json.loads(call(path, "-o", "json").stdout)["workloads"] == []
    assert len(json.loads(call(path, "-o", "json", "--schedule-all").stdout)["workloads"]) == 1


def test_a_simulation_can_be_cut(tmp_path: Path) -> None:
    """--until ends it."""
    path = written(tmp_path / "p.yaml", *nodes(1), a_pod("p", run=500))
    assert json.loads(call(path, "-o", "json", "--until", "50").stdout)["end_seconds"] == 50


def test_a_profile_may_be_chosen(fitting: str) -> None:
    """kube-default decides with upstream's plugins; a file and a name exclude each other."""
    assert call(fitting, "--profile", "kube-default").exit_code == 0
    assert call(fitting, "--profile", "other").exit_code == 2
    assert call(fitting, "--profile", "kube-default", "--config", fitting).exit_code == 2


def test_a_configuration_names_the_schedulers(tmp_path: Path) -> None:
    """Pods are ours if they name a profile of the configuration."""
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{schedulerName: special}]")
    path = written(tmp_path / "p.yaml", *nodes(1), a_pod("p", schedulerName="special"), a_pod("q"))
    found = json.loads(call(path, "-o", "json", "--config", str(config)).stdout)
    assert [entry["name"] for entry in found["workloads"]] == ["p"]
    config.write_text("profile: []")
    assert call(path, "--config", str(config)).exit_code == 2


@pytest.mark.parametrize(
    ("place", "expected"),
    [("file/page.html", "does not exist"), ("new/page.html", "does not exist"), ("folder", "directory")],
)
def test_a_page_that_cannot_be_written_is_told_first(fitting: str, tmp_path: Path, place: str, expected: str) -> None:
    """Nobody waits for a simulation whose page has no place, and no folder is made in silence."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    result = call(fitting, "--report", str(tmp_path / place))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert not (tmp_path / "new").exists()


def test_bad_input_leaves_no_empty_page(tmp_path: Path) -> None:
    """The page is written when there is something to show."""
    path = written(tmp_path / "a.yaml", a_pod("p", cpu="many"))
    assert call(path, "--report", str(tmp_path / "page.html")).exit_code == 2
    assert not (tmp_path / "page.html").exists()


def test_the_help_names_the_dump_that_notes_ask_for() -> None:
    """One command, in both places."""
    assert dump_command() in call("--help").output


def test_a_dump_without_groups_tells_how_to_get_them(tmp_path: Path) -> None:
    """The pods wait, and the report says what the dump lacks."""
    result = call(written(tmp_path / "dump.yaml", *nodes(1), a_pod("p", gang="toobig")))
    assert result.exit_code == 1
    assert "pods name PodGroup default/toobig, but the input holds no PodGroup" in result.stdout
    assert dump_command() in result.stdout


def test_a_configuration_among_manifests_is_told_as_such() -> None:
    """A folder with one is refused with what the file is, and what takes it."""
    result = call("examples/plugins/config.yaml")
    assert result.exit_code == 2
    assert "this is no Kubernetes object: apiVersion and kind are missing; a configuration" in result.stderr


def test_the_command_gives_the_same_bytes_twice(fitting: str) -> None:
    """Two processes, with different hash seeds, print the same JSON."""
    command = [sys.executable, "-m", "scheduler.cli.main", "simulate", fitting, "-o", "json"]
    runs = [
        subprocess.run(command, capture_output=True, check=True, env={"PYTHONHASHSEED": seed, "PATH": ""}, timeout=60)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == b""


@pytest.mark.parametrize("example", ["examples/gang.yaml", "examples/single-pod.yaml"])
def test_the_examples_run_on_the_demo_cluster(example: str) -> None:
    """What we tell users to apply is valid and fits."""
    result = call(example, "examples/demo/nodes.yaml", "-o", "json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["workloads"]
    assert found["wait_seconds"] == 0


def test_the_demo_cluster_is_small_enough_for_a_real_api_server() -> None:
    """Nodes and priority classes of the demo are applied to a real API server by the end-to-end tests."""
    found = list(yaml.safe_load_all(Path("examples/demo/nodes.yaml").read_text()))
    assert len(found) == 24
    assert {node["metadata"]["labels"].get("nvidia.com/gpu.product") for node in found} == {
        "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-32GB", None,
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--start-delay", "--until", "--duration-from"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e308", "soon"])
def test_what_is_no_time_is_bad_input(fitting: str, option: str, value: str) -> None:
    """Exit 2 with what is allowed, whatever the option."""
    result = call(fitting, option, value)
    assert result.exit_code == 2
    assert "allowed: " in result.output
