"""How the programs of the control plane are found, and what is said where they cannot be had. Nothing is built here."""

from pathlib import Path

import pytest

from e2e.controlplane import build


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Go, prebuilt programs or a cache; returns a folder on it."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("AI_SCHEDULER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def with_programs(folder: Path, *names: str) -> Path:
    """Puts programs into a folder that print a version, whatever they are asked."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\necho Kubernetes {build.KUBERNETES_VERSION}\n")
        (folder / name).chmod(0o755)
    return folder


def test_without_go_and_assets_the_missing_things_are_named(
    empty_machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is its own, and the message says what to install or to set."""
    assert not list(empty_machine.iterdir())
    assert build.main() == build.UNAVAILABLE_EXIT_CODE
    message = capsys.readouterr().err
    assert "kube-apiserver" in message
    assert "Go 1.26" in message
    assert "KUBEBUILDER_ASSETS" in message


def test_kube_scheduler_may_be_missing(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assets that hold all that the tests need are enough: only some benchmarks need kube-scheduler."""
    monkeypatch.setenv(
        "KUBEBUILDER_ASSETS", str(with_programs(empty_machine / "assets", *build.CONTROL_PLANE_PROGRAMS))
    )
    assert build.main() == 0


def test_complete_assets_are_used_as_they_are(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that holds everything is returned itself."""
    assets = with_programs(empty_machine / "assets", *build.CONTROL_PLANE_PROGRAMS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert build.build() == assets


def test_assets_without_an_api_server_are_refused(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in the variable is said, not silently replaced by a build."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(with_programs(empty_machine / "assets", "etcd")))
    with pytest.raises(build.ControlPlaneUnavailableError, match="holds no kube-apiserver"):
        build.build()


def test_programs_in_the_cache_are_not_built_again(empty_machine: Path) -> None:
    """An interrupted build goes on with what is missing: what is there is kept."""
    with_programs(build.cache_folder(), *build.CONTROL_PLANE_PROGRAMS)
    assert build.build() == build.cache_folder()
    assert build.cache_folder().is_relative_to(empty_machine)


def test_cache_depends_on_the_module_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another version of a dependency is another folder, so stale programs are never run."""
    before = build.cache_folder().name
    for module in ("kubernetes", "kwok"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "go.mod").write_text("module changed\n")
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.cache_folder().name != before
    assert build.cache_folder().name.startswith(build.KUBERNETES_VERSION)
