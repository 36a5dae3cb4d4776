"""Pods with claims, in small: every workload binds all its pods, with devices that nobody else has."""

from __future__ import annotations

import pytest

from benchmarks.claims import WORKLOADS, Workload, measured


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_all_pods_get_devices_of_their_own(workload: Workload) -> None:
    """As many as there are: 4 nodes with 8 devices."""
    assert measured(4, 32 // workload.devices, workload) > 0


def test_more_pods_than_devices_are_no_figure() -> None:
    """A benchmark that leaves pods behind says so instead of a rate."""
    with pytest.raises(RuntimeError, match="8 of 9 pods were bound"):
        measured(1, 9, WORKLOADS[0])
