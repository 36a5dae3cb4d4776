"""The locks: complete, by hash, bound to no index, and in step with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WANTED = {
    "requirements.lock": PROJECT["project"]["dependencies"],
    "requirements-dev.lock": [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]],
    "requirements-build.lock": PROJECT["build-system"]["requires"],
}


def locked(lock: str) -> list[tuple[Requirement, str]]:
    """Return the requirements of a lock with the text below each."""
    blocks = re.split(r"^(?=[a-zA-Z0-9])", (ROOT / lock).read_text(), flags=re.MULTILINE)[1:]
    return [(Requirement(block.splitlines()[0].removesuffix("\\").strip()), block) for block in blocks]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_exact_and_has_hashes(lock):
    """`--require-hashes` will take it."""
    for requirement, block in locked(lock):
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], requirement
        assert "--hash=sha256:" in block, requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_index(lock):
    """Whoever installs chooses where from."""
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(index-url|extra-index-url|find-links|trusted-host)", text, flags=re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_satisfies_the_project(lock):
    """`.ci/lock` was run after the last change of pyproject.toml."""
    for text in WANTED[lock]:
        wanted = Requirement(text)
        found = [r for r, _ in locked(lock) if canonicalize_name(r.name) == canonicalize_name(wanted.name)]
        assert found, f"{wanted} is not in {lock}: run `.ci/lock`"
        for requirement in found:
            (specifier,) = requirement.specifier
            assert wanted.specifier.contains(specifier.version), f"{requirement} is not {wanted}: run `.ci/lock`"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_development_runs_what_the_image_runs(version):
    """On each Python both locks choose the same versions."""

    def chosen(lock: str) -> dict[str, str]:
        environment = {"python_version": version, "python_full_version": f"{version}.0"}
        return {
            requirement.name: str(requirement.specifier)
            for requirement, _ in locked(lock)
            if requirement.marker is None or Marker(str(requirement.marker)).evaluate(environment)
        }

    development = chosen("requirements-dev.lock")
    for name, specifier in chosen("requirements.lock").items():
        assert development[name] == specifier
