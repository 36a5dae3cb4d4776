"""The mark of tests that install packages."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known, since unknown ones are errors."""
    config.addinivalue_line("markers", "slow: takes a minute or a network; `.ci/run` runs it, `make unit` does not")
