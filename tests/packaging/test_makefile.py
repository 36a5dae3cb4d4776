"""The Makefile explains itself and stays small."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_every_target_is_explained_and_there_are_at_most_twelve():
    """`make help` is the whole list."""
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    explained = re.findall(r"^([a-z0-9]+):.*## \S", MAKEFILE, flags=re.MULTILINE)
    assert sorted(phony.split()) == sorted(explained)
    assert len(explained) <= 12


def test_targets_named_in_contributing_exist():
    """The page for contributors sends nobody astray."""
    named = set(re.findall(r"`?make ([a-z0-9]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    explained = set(re.findall(r"^([a-z0-9]+):.*## \S", MAKEFILE, flags=re.MULTILINE))
    assert named <= explained


def test_license_is_the_one_that_the_project_states():
    """The full text of Apache-2.0 is there."""
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
