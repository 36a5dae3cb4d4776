"""The other commands: help, version, config; and what they cost."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main


def call(*arguments: str) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, arguments)


def test_help_lists_all_commands() -> None:
    """All commands have a line."""
    result = call("--help")
    assert result.exit_code == 0
    for name in ("config", "run", "simulate", "version"):
        assert f"\n  {name}" in result.output


@pytest.mark.parametrize(
    "command", [["simulate"], ["run"], ["config"], ["config", "check"], ["config", "show"], ["version"]]
)
def test_every_command_has_help(command: list[str]) -> None:
    """Help says what a command does and how it ends."""
    for option in ("-h", "--help"):
        result = call(*command, option)
        assert result.exit_code == 0
        assert "Usage:" in result.output


def test_the_annotations_of_a_simulation_are_a_list() -> None:
    """Each has a line of its own."""
    assert "\n    submit-seconds  when an object is created" in call("simulate", "--help").output


@pytest.mark.parametrize("arguments", [["simulate"], ["nothing"], ["config", "check"], ["simulate", "--nothing", "."]])
def test_a_wrong_call_exits_with_2(arguments: list[str]) -> None:
    """The usage goes to stderr."""
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage:" in result.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    """Where the package is installed, its version is printed."""
    result = call("version")
    assert result.exit_code == 0
    try:
        assert result.output.strip() == version("ai-scheduler")
    except PackageNotFoundError:
        assert result.output.strip() == "not installed"


def test_small_commands_import_nothing_heavy() -> None:
    """The version answers without networkx, pydantic, rich, kubernetes or kopf."""
    program = (
        "import sys; from scheduler.cli.main import main; main(['version'], standalone_mode=False); "
        "print(sorted({'networkx', 'kubernetes', 'kopf', 'pydantic', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "[]"


# config


def test_a_good_configuration_is_ok(tmp_path: Path) -> None:
    """One line, exit code 0."""
    path = tmp_path / "config.yaml"
    path.write_text("profiles: [{schedulerName: mine}]")
    result = call("config", "check", str(path))
    assert (result.exit_code, result.output) == (0, f"{path}: OK\n")


def test_keys_without_effect_are_listed(tmp_path: Path) -> None:
    """A file of kube-scheduler is read as it is; what has no effect is told."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, percentageOfNodesToScore: 50}]"
    )
    result = call("config", "check", str(path))
    assert result.exit_code == 0
    assert "not honoured: profiles[0].percentageOfNodesToScore: every feasible node is scored" in result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("profile: []", "profile: unknown key, did you mean profiles?"),
        ("profiles: [", "line "),
        ("profiles: [{}, {schedulerName: b, plugins: {score: {enabled: [{name: Nonsense}]}}}]", "profiles[1]"),
        ("profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {nonsense: 1}}]}]", "pluginConfig[0].args"),
    ],
)
def test_a_bad_configuration_is_told_with_its_path(tmp_path: Path, text: str, expected: str) -> None:
    """Every problem names its path; exit code 2."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    result = call("config", "check", str(path))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert expected in result.stderr


def test_a_missing_configuration_is_told() -> None:
    """A file that is not there is bad input, to every command that reads one."""
    for command in (
        ["config", "check", "gone.yaml"],
        ["config", "show", "--config", "gone.yaml"],
        ["run", "--config", "gone.yaml"],
    ):
        result = call(*command)
        assert result.exit_code == 2
        assert "gone.yaml" in result.stderr


def test_the_effective_configuration_is_a_configuration(tmp_path: Path) -> None:
    """What is shown can be read again, and shows the same."""
    first = call("config", "show")
    assert first.exit_code == 0
    assert yaml.safe_load(first.output)["profiles"]
    path = tmp_path / "config.yaml"
    path.write_text(first.output)
    assert call("config", "show", "--config", str(path)).output == first.output


def test_run_tells_that_it_has_no_api_server(tmp_path: Path) -> None:
    """Without a usable kubeconfig there is nothing to schedule: exit code 2, and a sentence."""
    result = subprocess.run(
        [sys.executable, "-m", "scheduler.cli.main", "run", "--kubeconfig", str(tmp_path / "gone")],
        capture_output=True, text=True, check=False, timeout=120, env={"PATH": "", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert "the API server cannot be reached" in result.stderr
    assert "Traceback" not in result.stderr
