"""The measured machines and vectors that the topology tests read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def dump():
    """Return a function from the name of a dump to its text."""
    return lambda name: (DATA / f"{name}.txt").read_text()


@pytest.fixture(scope="session")
def vectors():
    """Return the vectors of NVIDIA's go-gpuallocator."""
    return json.loads((DATA / "gpuallocator_vectors.json").read_text())
