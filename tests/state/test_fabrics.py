"""Fabrics: which topology a constraint gets, what is refused, and what is not built twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.hypernode import HyperNode, Member
from scheduler.model.topology import Level, Topology
from scheduler.model.topology_constraint import TopologyConstraint
from scheduler.state.cluster import ClusterState
from scheduler.state.fabrics import Fabrics, UnknownLevelError
from tests.builders import a_node, a_pod
from tests.fabrics import TIER, ZONE, nodes_of_model, nodes_of_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.topology.fabric import Fabric
    from tests.builders import NodeBuilder

SHELF = "example.com/shelf"


def a_cluster(nodes: Iterable[NodeBuilder], *things: Topology | HyperNode) -> tuple[ClusterState, Fabrics]:
    """Return a cluster with objects, and the fabrics over it."""
    cluster = ClusterState()
    for node in nodes:
        cluster.set_node(node.build())
    for thing in things:
        cluster.objects.put(thing)
    return cluster, Fabrics(cluster.objects)


def a_topology(name: str, *levels: tuple[str, str], dialect: str = "ai-scheduler") -> Topology:
    """Return a topology."""
    return Topology(name=name, dialect=dialect, levels=tuple(Level(name, label) for name, label in levels))


def names(fabric: Fabric) -> list[str]:
    """Return the names of the levels, the widest first."""
    return [level.name for level in fabric.levels]


def shelves() -> list[NodeBuilder]:
    """Return six nodes in three shelves of two zones, in a wild order of names."""
    return [a_node(f"n{9 - k}").label(ZONE, f"z{k // 4}").label(SHELF, f"s{k // 2}") for k in range(6)]


def test_without_a_constraint_the_built_in_levels_count() -> None:
    """Whatever Kueue and KAI have."""
    cluster, fabrics = a_cluster(nodes_of_model("nvl72"), a_topology("k", ("x", SHELF), dialect="kueue"))
    fabric = fabrics.of(cluster.snapshot(), None)
    assert names(fabric) == ["region", "zone", "tier-2", "tier-1", "tier-0", "accelerator", "host"]
    assert fabrics.of(cluster.snapshot(), TopologyConstraint()) is fabric


@pytest.mark.parametrize(("count", "expected"), [(1, ["shelf", "host"]), (2, ["zone", "host"])])
def test_without_a_constraint_the_only_topology_of_ours_counts(count: int, expected: list[str]) -> None:
    """Two of them decide nothing."""
    cluster, fabrics = a_cluster(shelves(), *(a_topology(f"t{k}", ("shelf", SHELF)) for k in range(count)))
    assert names(fabrics.of(cluster.snapshot())) == expected


def test_rows_are_those_of_the_snapshot() -> None:
    """Each row's domain is named as its node's label says."""
    cluster, fabrics = a_cluster(shelves())
    snapshot = cluster.snapshot()
    fabric = fabrics.of(snapshot, TopologyConstraint(required=SHELF))
    for row, record in enumerate(snapshot.all_rows):
        assert fabric.names[0][fabric.of_rows[0][row]] == record.node.labels[SHELF]
        assert fabric.names[1][fabric.of_rows[1][row]] == record.node.name


def test_a_name_is_looked_up_among_ours_then_kueues_then_kais() -> None:
    """One name may stand for three objects."""
    dialects = ["kai", "kueue", "ai-scheduler"]
    topologies = [a_topology("t", (dialect, SHELF), dialect=dialect) for dialect in dialects]
    for known, expected in (topologies[:1], "kai"), (topologies[:2], "kueue"), (topologies, "ai-scheduler"):
        cluster, fabrics = a_cluster(shelves(), *known)
        assert names(fabrics.of(cluster.snapshot(), TopologyConstraint(topology="t")))[0] == expected


def test_without_a_name_the_first_topology_with_all_levels_counts() -> None:
    """Built-in levels first; names of objects before aliases of built-in ones."""
    cluster, fabrics = a_cluster(
        [*nodes_of_tree(1, 1, 2, 2), *shelves()],
        a_topology("b", ("shelf", SHELF), ("zone", ZONE)), a_topology("a", ("shelf", SHELF), ("rack", f"{TIER}0")),
    )  # fmt: skip
    snapshot = cluster.snapshot()
    for constraint, expected in (
        (TopologyConstraint(required="zone"), ["zone", "tier-1", "tier-0", "host"]),
        (TopologyConstraint(required="leaf"), ["zone", "tier-1", "tier-0", "host"]),
        (TopologyConstraint(required="rack"), ["shelf", "rack", "host"]),
        (TopologyConstraint(required="shelf", preferred=("rack",)), ["shelf", "rack", "host"]),
        (TopologyConstraint(required="shelf", spread="zone"), ["shelf", "zone", "host"]),
        (TopologyConstraint(required="kubernetes.io/hostname"), ["zone", "tier-1", "tier-0", "host"]),
    ):
        assert names(fabrics.of(snapshot, constraint)) == expected


def test_any_label_of_nodes_can_be_a_level() -> None:
    """As Kubernetes' own PodGroups have it; of several, the one with fewer values is the wider."""
    cluster, fabrics = a_cluster(shelves())
    assert names(fabrics.of(cluster.snapshot(), TopologyConstraint(required=SHELF))) == [SHELF, "host"]
    both = TopologyConstraint(required=SHELF, spread="example.com/row")
    cluster, fabrics = a_cluster([node.label("example.com/row", "r") for node in shelves()])
    assert names(fabrics.of(cluster.snapshot(), both)) == ["example.com/row", SHELF, "host"]


def test_crossing_levels_are_found_whole() -> None:
    """A gang that asks for a leaf gets whole leaves, one that asks for a clique gets whole cliques."""
    clique = "{:08d}-0000-4000-8000-000000000000.1"
    nodes = [
        a_node(f"n{k}").label(f"{TIER}0", f"l{k % 2}").label("nvidia.com/gpu.clique", clique.format(k // 4))
        for k in range(8)
    ]
    cluster, fabrics = a_cluster(nodes)
    leaf, cliques = (fabrics.of(cluster.snapshot(), TopologyConstraint(required=name)) for name in ("leaf", "clique"))
    assert (names(leaf), leaf.count(0)) == (["tier-0", "host"], 2)
    assert (names(cliques), cliques.count(0)) == (["clique", "host"], 2)


def test_a_last_level_of_hosts_is_the_nodes_themselves() -> None:
    """Kueue's topologies often end with the hostname; it is found by what the object calls it."""
    kai = a_topology("t", ("shelf", SHELF), ("machine", "kubernetes.io/hostname"), dialect="kai")
    cluster, fabrics = a_cluster(shelves(), kai)
    fabric = fabrics.of(cluster.snapshot(), TopologyConstraint(topology="t", required="machine"))
    assert (names(fabric), fabric.level_of("machine"), fabric.level_of("host")) == (["shelf", "host"], 1, 1)


def test_hypernodes_are_a_topology_by_name() -> None:
    """And their tiers are counted from the node."""
    near = HyperNode(name="s0", tier=1, tier_name="rack", members=(Member(name="n9"), Member(name="n8")))
    wide = HyperNode(name="s1", tier=2, members=(Member(is_hypernode=True, name="s0"), Member(name="lost")))
    cluster, fabrics = a_cluster(shelves(), near, wide)
    fabric = fabrics.of(cluster.snapshot(), TopologyConstraint(topology="hypernodes", required="rack"))
    assert names(fabric) == ["tier-2", "tier-1", "host"]
    assert fabric.path(1, int(fabric.of_rows[1][cluster.snapshot().row_of["n9"]])) == ("s1", "s0")
    assert fabrics.hypernode_problems(cluster.snapshot()) == {"s1": "spec.members[1]: there is no node lost"}


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (TopologyConstraint(topology="none"), "topology: there is no topology none; allowed: t"),
        (
            TopologyConstraint(topology="t", required="shelf", preferred=("box",)),
            "topology preferred: there is no level box; allowed: shelf, host",
        ),
        (
            TopologyConstraint(spread="box"),
            "topology spread: there is no level box; allowed: zone, host, shelf, the key of any label that a node has",
        ),
        (TopologyConstraint(topology="hypernodes"), "topology: there is no topology hypernodes; allowed: t"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(constraint: TopologyConstraint, text: str) -> None:
    """Nothing is guessed: the field, what it says, and what it may say."""
    cluster, fabrics = a_cluster(shelves(), a_topology("t", ("shelf", SHELF), dialect="kueue"))
    with pytest.raises(UnknownLevelError) as caught:
        fabrics.of(cluster.snapshot(), constraint)
    assert str(caught.value) == text


def test_levels_of_two_topologies_are_refused_together() -> None:
    """Each is there, but nobody says which of them is the wider; the topology that has most of them says what it has."""
    shelf = a_topology("t", ("shelf", SHELF), dialect="kueue")
    cluster, fabrics = a_cluster(shelves(), shelf)
    with pytest.raises(UnknownLevelError, match="topology required: there is no level shelf; allowed: zone, host"):
        fabrics.of(cluster.snapshot(), TopologyConstraint(required="shelf", preferred=("zone",)))


def test_a_tree_is_kept_while_labels_stay() -> None:
    """Pods come and go, and kubelets report what they offer; none of it touches the tree."""
    cluster, fabrics = a_cluster(shelves())
    wanted = TopologyConstraint(required=SHELF)
    fabric = fabrics.of(cluster.snapshot(), wanted)
    cluster.set_pod(a_pod("p").on("n9").build())
    assert fabrics.of(cluster.snapshot(), wanted) is fabric
    cluster.set_node(shelves()[0].cpu(8).build())
    assert fabrics.of(cluster.snapshot(), wanted) is fabric
    cluster.set_node(shelves()[0].label("other", "x").build())
    assert fabrics.of(cluster.snapshot(), wanted) is fabric
    cluster.objects.put(a_topology("z", ("zone", ZONE)))
    assert fabrics.of(cluster.snapshot(), wanted) is fabric


def test_a_tree_is_made_anew_when_a_value_a_node_or_an_object_changes() -> None:
    """Whatever would make it another."""
    cluster, fabrics = a_cluster(shelves(), a_topology("t", ("shelf", SHELF)))
    assert fabrics.of(cluster.snapshot()).count(0) == 3
    cluster.set_node(shelves()[0].label(SHELF, "new").build())
    assert fabrics.of(cluster.snapshot()).count(0) == 4
    cluster.remove_node("n9")
    assert len(fabrics.of(cluster.snapshot()).order) == 5
    cluster.objects.put(a_topology("t", ("area", ZONE)))
    assert names(fabrics.of(cluster.snapshot())) == ["area", "host"]
    cluster.objects.drop(Topology, ("ai-scheduler", "t"))
    assert names(fabrics.of(cluster.snapshot())) == ["zone", "host"]


ROW = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "x", "y"]), st.sampled_from(["", "u", "v"]))


@given(st.lists(st.lists(ROW, max_size=5), max_size=4))
def test_kept_trees_are_what_new_ones_would_be(steps: list[list[tuple[str, str, str]]]) -> None:
    """After whatever changes of nodes, the fabrics that saw all of them say what fresh ones say."""
    cluster, fabrics = a_cluster([], a_topology("t", ("shelf", SHELF)))
    for step in steps:
        for name, zone, shelf in step:
            if zone or shelf:
                cluster.set_node(a_node(name).label(ZONE, zone).label(SHELF, shelf).build())
            else:
                cluster.remove_node(name)
        for constraint in (TopologyConstraint(topology="t"), TopologyConstraint(required=SHELF)):
            kept, fresh = (f.of(cluster.snapshot(), constraint) for f in (fabrics, Fabrics(cluster.objects)))
            assert kept.names == fresh.names
            assert [rows.tolist() for rows in kept.of_rows] == [rows.tolist() for rows in fresh.of_rows]
