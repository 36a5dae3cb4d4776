"""The other commands: help, version, config; and what they cost."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from scheduler.kube.health import HealthServer


def call(*arguments: str) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, arguments)


def test_help_lists_all_commands() -> None:
    """All commands have a line."""
    result = call("--help")
    assert result.exit_code == 0
    for name in ("config", "run", "simulate", "topology", "version"):
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
    try:
        expected = version("ai-scheduler")
    except PackageNotFoundError:
        expected = "not installed"
    for asked in ("version", "--version"):
        result = call(asked)
        assert (result.exit_code, result.output.strip()) == (0, expected)


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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kubeconfig", "gone"], "there is no file gone; name one with --kubeconfig"),
        ([], "there is no kubeconfig ~/.kube/config (the default); name one with --kubeconfig"),
    ],
)
def test_run_tells_that_it_has_no_api_server(tmp_path: Path, arguments: list[str], expected: str) -> None:
    """Without a usable kubeconfig there is nothing to schedule: exit code 2, the file looked for, and what to do."""
    result = subprocess.run(
        [sys.executable, "-m", "scheduler.cli.main", "run", *arguments],
        capture_output=True, text=True, check=False, timeout=120, env={"PATH": "", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert (
        f"the API server cannot be reached: {'' if arguments else 'this is no pod of a cluster, and '}{expected}"
        in result.stderr
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("content", ["", "a: [", "apiVersion: v1"])
def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    """Whatever is wrong inside, the file is named."""
    path = tmp_path / "config"
    path.write_text(content)
    result = call("run", "--kubeconfig", str(path))
    assert result.exit_code == 2
    assert f"the kubeconfig {path} cannot be used: " in result.stderr


def test_a_server_that_does_not_answer_is_told_in_sentences(tmp_path: Path) -> None:
    """The watches and the Lease say it; nothing of the inside of libraries is shown, also at the end."""
    kubeconfig, config = tmp_path / "kubeconfig", tmp_path / "config.yaml"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}], contexts: [{name: c, context: "
        "{cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]}"
    )
    config.write_text("{healthzBindAddress: '', metricsBindAddress: ''}")
    command = ["run", "--kubeconfig", str(kubeconfig), "--config", str(config), "--log-format", "json"]
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler.cli.main", *command], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines, tries = [], 0
        while tries < 2 and (line := process.stderr.readline()):
            lines.append(line)
            tries += "lease_unreachable" in line
        process.terminate()
        lines += process.stderr.readlines()
        assert process.wait(30) == 0, lines
    text = "".join(lines)
    for inside in ("kopf", "ConnectionKey", "never retrieved", "Traceback"):
        assert inside not in text


async def test_a_taken_port_is_told_with_the_keys_of_the_configuration() -> None:
    """The message names what to change."""
    first = HealthServer("127.0.0.1:0", "", lambda: (b"", "text/plain"))
    await first.start()
    host, port = first.bound["127.0.0.1:0"]
    address = f"{host}:{port}"
    try:
        for addresses, keys in (
            ((address, address), "healthzBindAddress and metricsBindAddress"),
            (("", address), "metricsBindAddress"),
        ):
            second = HealthServer(*addresses, lambda: (b"", "text/plain"))
            with pytest.raises(OSError, match=f"^{keys} {address}: Address already in use; give another"):
                await second.start()
            await second.stop()
    finally:
        await first.stop()
