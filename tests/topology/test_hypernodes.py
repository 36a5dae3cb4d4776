"""HyperNodes: members by name, pattern and label; tiers; and what is wrong told without stopping the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.hypernode import ApiHyperNode, HyperNode, hypernode_from_api
from scheduler.topology.fabric import Fabric
from scheduler.topology.hypernodes import hypernode_network

if TYPE_CHECKING:
    from scheduler.topology.levels import Network

HOSTS = [f"node-{k}" for k in range(8)]


def nodes_named(*names: str) -> list[dict[str, Any]]:
    """Return members that are nodes."""
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


def hypernodes_named(*names: str) -> list[dict[str, Any]]:
    """Return members that are HyperNodes."""
    return [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in names]


def a_hypernode(name: str, tier: int | str, members: list[dict[str, Any]], tier_name: str = "") -> HyperNode:
    """Return the view of a HyperNode."""
    spec = {"tier": tier, "members": members} | ({"tierName": tier_name} if tier_name else {})
    return hypernode_from_api(msgspec.convert({"metadata": {"name": name}, "spec": spec}, ApiHyperNode))


def network_of(*hypernodes: HyperNode, labels: list[dict[str, str]] | None = None) -> tuple[Network, dict[str, str]]:
    """Return the network over node-0 to node-7."""
    return hypernode_network(hypernodes, HOSTS, labels or [{} for _ in HOSTS])


def volcano_example() -> list[HyperNode]:
    """Return the tree of Volcano's design: s6 holds s4 and s5, which hold two HyperNodes of two nodes each."""
    leaves = [a_hypernode(f"s{k}", 1, nodes_named(f"node-{2 * k}", f"node-{2 * k + 1}"), "rack") for k in range(4)]
    middle = [a_hypernode("s4", 2, hypernodes_named("s0", "s1")), a_hypernode("s5", 2, hypernodes_named("s2", "s3"))]
    return [a_hypernode("s6", 3, hypernodes_named("s4", "s5")), *middle, *leaves]


def test_tiers_are_levels_and_the_highest_is_the_widest() -> None:
    """Tier 1 is the nearest to the nodes."""
    network, problems = network_of(*volcano_example())
    assert [level.name for level in network.levels] == ["tier-3", "tier-2", "tier-1"]
    assert network.columns[2] == ["s0", "s0", "s1", "s1", "s2", "s2", "s3", "s3"]
    assert network.columns[1] == ["s4"] * 4 + ["s5"] * 4
    assert network.columns[0] == ["s6"] * 8
    assert problems == {}


def test_a_tier_is_found_by_its_own_name() -> None:
    """`highestTierName: rack`."""
    network, _ = network_of(*volcano_example())
    made = Fabric(network.levels, network.columns, HOSTS)
    assert made.level_of("rack") == made.level_of("tier-1") == 2


def test_members_by_pattern_and_by_label() -> None:
    """A pattern is found anywhere in the name, as Go's MatchString does; a label selector takes nodes."""
    labels = [{"rack": str(k // 4)} for k in range(8)]
    by_label = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}}]
    by_pattern = [{"type": "Node", "selector": {"regexMatch": {"pattern": "[0-3]$"}}}]
    network, problems = network_of(a_hypernode("a", 1, by_pattern), a_hypernode("b", 1, by_label), labels=labels)
    assert network.columns == (["a"] * 4 + ["b"] * 4,)
    assert problems == {}


def test_hypernodes_by_pattern() -> None:
    """A pattern among HyperNodes does not take the HyperNode itself."""
    every = [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^s"}}}]
    network, problems = network_of(a_hypernode("s-all", 2, every), a_hypernode("s1", 1, nodes_named("node-0")))
    assert network.columns[0][:2] == ["s-all", None]
    assert problems == {}


def test_selectors_with_expressions() -> None:
    """NotIn and DoesNotExist take nodes without the label too."""
    labels = [{"rack": "1"} if k < 6 else {} for k in range(8)]
    absent = {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}
    network, _ = network_of(a_hypernode("a", 1, [{"type": "Node", "selector": {"labelMatch": absent}}]), labels=labels)
    assert network.columns[0] == [None] * 6 + ["a"] * 2


def test_a_hypernode_without_a_parent_stays_whole_in_wider_tiers() -> None:
    """Node-2 and node-3 are in no HyperNode of tier 2; they stay together there, by the name of their own."""
    network, _ = network_of(
        a_hypernode("top", 2, hypernodes_named("s0")),
        a_hypernode("s0", 1, nodes_named("node-0", "node-1")),
        a_hypernode("s1", 1, nodes_named("node-2", "node-3")),
    )
    assert network.columns[0] == ["top", "top", "s1", "s1", None, None, None, None]


def test_a_cycle_is_told_and_broken() -> None:
    """Both are named; the nodes below are there."""
    network, problems = network_of(
        a_hypernode("a", 2, [*hypernodes_named("b"), *nodes_named("node-0")]),
        a_hypernode("b", 1, [*hypernodes_named("a"), *nodes_named("node-1")]),
    )
    assert problems == {"b": "spec.members[0]: HyperNode a contains b itself, which is a cycle"}
    assert network.columns[0][:2] == ["a", "a"]


@pytest.mark.parametrize(
    ("hypernode", "problem"),
    [
        (a_hypernode("x", 1, hypernodes_named("x")), "HyperNode x contains x itself, which is a cycle"),
        (a_hypernode("x", 1, hypernodes_named("s0")), "HyperNode s0 has tier 1; allowed are members of tiers below 1"),
        (a_hypernode("x", 1, hypernodes_named("gone")), "there is no HyperNode gone"),
        (a_hypernode("x", 1, nodes_named("gone")), "there is no node gone"),
        (a_hypernode("x", 1, [{"type": "Node", "selector": {"regexMatch": {"pattern": "["}}}]), "cannot be read"),
        (a_hypernode("x", 1, [{"type": "Node", "selector": {"regexMatch": {"pattern": "[[:alpha:]]"}}}]), "cannot be"),
        (a_hypernode("x", 1, [{"type": "Node"}]), "it selects nothing; allowed: exactMatch, regexMatch, labelMatch"),
        (a_hypernode("x", 1, [{"type": "Pod"}]), "'Pod' is unknown; allowed: Node, HyperNode"),
        (a_hypernode("x", "near", nodes_named("node-1")), "spec.tier: 'near' is no tier"),
        (
            a_hypernode("x", 1, [{"type": "HyperNode", "selector": {"labelMatch": {}}}]),
            "it selects nothing; allowed: exactMatch, regexMatch",
        ),
        (
            a_hypernode("x", 1, [{"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a"}]}}}]),
            'labelMatch: "" is not a valid label selector operator',
        ),
    ],
)
def test_what_makes_no_sense_is_told_and_the_rest_goes_on(hypernode: HyperNode, problem: str) -> None:
    """The other HyperNode is a domain all the same."""
    network, problems = network_of(a_hypernode("s0", 1, nodes_named("node-0")), hypernode)
    assert list(problems) == ["x"]
    assert problem in problems["x"]
    assert network.columns[0][:2] == ["s0", None]


def test_a_node_in_two_hypernodes_of_a_tier_is_in_the_first() -> None:
    """By name, numbers as numbers; the second is told."""
    network, problems = network_of(
        a_hypernode("s10", 1, nodes_named("node-0", "node-1", "node-2")), a_hypernode("s2", 1, nodes_named("node-0", "node-1"))
    )  # fmt: skip
    assert network.columns[0][:3] == ["s2", "s2", "s10"]
    assert problems == {"s10": "spec.members: node node-0 and 1 more is in s2 of tier 1 already, which counts"}


def test_a_tier_may_be_a_text() -> None:
    """As in the first versions of Volcano."""
    network, problems = network_of(a_hypernode("a", "1", nodes_named("node-0")))
    assert ([level.name for level in network.levels], problems) == (["tier-1"], {})


NAME = st.sampled_from(["a", "b", "c", "d", *HOSTS[:3]])
MEMBERS = st.lists(st.one_of(NAME.map(nodes_named), NAME.map(hypernodes_named)).map(lambda found: found[0]), max_size=4)


@given(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 3), MEMBERS)))
def test_any_members_make_a_tree(found: dict[str, tuple[int, list[dict[str, Any]]]]) -> None:
    """Nodes that share a value at one tier share one at every wider tier, whatever contains what."""
    hypernodes = [a_hypernode(name, tier, members) for name, (tier, members) in found.items()]
    network, _ = network_of(*hypernodes)
    for row in range(len(HOSTS)):
        values = [column[row] for column in reversed(network.columns)]
        first = next((k for k, value in enumerate(values) if value is not None), len(values))
        assert None not in values[first:]
