"""The start overhead: the published table, and what lies beside it."""

from __future__ import annotations

import csv

import pytest

from scheduler.sim.traces.overhead import start_overhead_seconds

from .tables import DATA


def test_the_table_is_the_published_one() -> None:
    """Every figure of the file."""
    with (DATA / "muri_start_overhead_seconds.csv").open() as file:
        for row in csv.DictReader(file):
            gpus = int(row.pop("num_gpu"))
            assert {model: start_overhead_seconds(model, gpus) for model in row} == {
                model: float(seconds) for model, seconds in row.items()
            }


@pytest.mark.parametrize(("model", "gpus", "seconds"), [("a2c", 5, 46), ("a2c", 64, 46), ("unknown", 1, 10)])
def test_between_and_beyond_the_measured_ones(model: str, gpus: int, seconds: float) -> None:
    """Sizes between two take the higher one, larger ones the highest, other models ten seconds."""
    assert start_overhead_seconds(model, gpus) == seconds
