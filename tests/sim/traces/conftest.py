"""The mark of tests that take long; tests/packaging registers it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "slow: takes a minute or a network; `.ci/run` runs it, `make unit` does not")
