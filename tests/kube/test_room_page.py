"""The page /largest-gang: what it shows, and what it says to a query that makes no sense."""

from __future__ import annotations

import json

import pytest

from scheduler.kube.room_page import PATH, room_page
from tests.builders import a_node
from tests.engine.world import World

NODES = [a_node(f"n{n}").gpus(8).cpu(64) for n in range(2)]


def test_it_shows_the_usual_shapes_without_a_query():
    """Sixteen GPUs on two nodes: 16, 8, 4 and 2 pods."""
    status, text, kind = room_page(World(*NODES).run().engine, {})
    assert (status, kind) == (200, "text/plain")
    lines = [line.split() for line in text.splitlines() if line.startswith("  cluster")]
    assert [line[1] for line in lines] == ["16", "8", "4", "2"]


def test_query_says_what_a_pod_requests():
    """Eight GPUs and 40 cores: one pod on each node."""
    _, text, kind = room_page(World(*NODES).run().engine, {"nvidia.com/gpu": "1", "cpu": "40", "output": "json"})
    assert kind == "application/json"
    [shape] = json.loads(text)["shapes"]
    assert shape["requests"] == {"nvidia.com/gpu": "1", "cpu": "40"}
    assert [(level["level"], level["pods"]) for level in shape["levels"]] == [("cluster", 2), ("host", 1)]
    assert shape["levels"][1]["largest"] == [{"domain": "n0", "pods": 1}, {"domain": "n1", "pods": 1}]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"output": "xml"}, "output: 'xml' is unknown; allowed: table, json"),
        ({"nvidia.com/gpu": "many"}, "nvidia.com/gpu: "),
        ({"cpu": "0"}, "cpu: '0'; allowed are quantities above 0"),
        ({f"example.com/r{n}": "1" for n in range(17)}, "17 resources; allowed are at most 16"),
    ],
)
def test_nonsense_is_answered_with_400_and_what_is_allowed(query, problem):
    """And never with a stack."""
    status, text, _ = room_page(World(*NODES).run().engine, query)
    assert status == 400
    assert text.startswith(problem)


def test_a_replica_that_stands_by_says_so():
    """It has no engine, so it does not know."""
    assert room_page(None, {})[0] == 503
    assert PATH == "/largest-gang"
