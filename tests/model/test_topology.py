"""Topology objects of three projects: what their levels are called, and what is told of those that make no sense."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.topology import Level, Topology
from scheduler.model.topology_api import ApiTopology, topology_from_api

ROCE, HOST = "cloud.provider.com/topology-", "kubernetes.io/hostname"


def read(*levels: dict[str, Any], dialect: str = "kueue") -> Topology:
    """Return the view of an object with these levels."""
    manifest = {"metadata": {"name": "t", "uid": "u"}, "spec": {"levels": list(levels)}}
    return topology_from_api(msgspec.convert(manifest, ApiTopology), dialect)


def test_levels_of_kueue_are_called_by_the_last_part_of_their_labels() -> None:
    """The example of Kueue's documentation."""
    found = read({"nodeLabel": f"{ROCE}block"}, {"nodeLabel": f"{ROCE}rack"}, {"nodeLabel": HOST})
    assert [level.name for level in found.levels] == ["topology-block", "topology-rack", "hostname"]
    assert (found.key, found.uid, found.problems) == (("kueue", "t"), "u", ())


def test_labels_with_one_last_part_are_called_by_their_whole_keys() -> None:
    """`rack` would mean two levels."""
    found = read({"nodeLabel": "a.com/rack"}, {"nodeLabel": "b.com/rack"}, {"nodeLabel": "b.com/host"})
    assert [level.name for level in found.levels] == ["a.com/rack", "b.com/rack", "host"]


def test_levels_of_kai_are_called_by_their_alias() -> None:
    """And by their label where there is none; a label's last part gives way to an alias."""
    found = read({"nodeLabel": "a.com/x", "alias": "rack"}, {"nodeLabel": "b.com/rack"}, dialect="kai")
    assert found.levels == (Level("rack", "a.com/x"), Level("b.com/rack", "b.com/rack"))


def test_levels_of_ours_are_called_by_their_names() -> None:
    """Each has one."""
    found = read(
        {"name": "block", "nodeLabel": "a.com/b"}, {"name": "rack", "nodeLabel": "a.com/r"}, dialect="ai-scheduler"
    )
    assert found.levels == (Level("block", "a.com/b"), Level("rack", "a.com/r"))


@pytest.mark.parametrize(
    ("levels", "left", "problem"),
    [
        ([], [], "spec.levels: it is empty"),
        ([{"nodeLabel": ""}, {"nodeLabel": "a"}], ["a"], "spec.levels[0].nodeLabel: it is empty"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "a"}], ["a"], "spec.levels[1].nodeLabel: a stands twice"),
        ([{"nodeLabel": HOST}, {"nodeLabel": "a"}], ["hostname"], f"spec.levels[1].nodeLabel: a stands below {HOST}"),
        (
            [{"nodeLabel": "a", "name": "x"}, {"nodeLabel": "b", "name": "x"}],
            ["x", "b"],
            "spec.levels: two are named x; the wider one is called so, the other b",
        ),
    ],
)
def test_what_makes_no_sense_is_told_and_the_rest_is_used(
    levels: list[dict[str, Any]], left: list[str], problem: str
) -> None:
    """The API server refuses most of this; an old object may have it."""
    found = read(*levels)
    assert [level.name for level in found.levels] == left
    assert len(found.problems) == 1
    assert found.problems[0].startswith(problem)
