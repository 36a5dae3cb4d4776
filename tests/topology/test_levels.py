"""Built-in recognition: which labels make which levels, in which order, and what happens where domains do not nest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.topology.fabric import Fabric
from scheduler.topology.levels import Network, networks_of
from tests.fabrics import ACCELERATOR, TIER, ZONE, nodes_of_model, nodes_of_tree

REGION = "topology.kubernetes.io/region"
CLIQUE = "nvidia.com/gpu.clique"
AWS, GKE, OCI = "topology.k8s.aws/network-node-layer-", "cloud.google.com/gce-topology-", "oci.oraclecloud.com/host."
OLD = "network.topology.nvidia.com/"
Labels = dict[str, str]


def names(network: Network) -> list[str]:
    """Return the names of the levels, the widest first."""
    return [level.name for level in network.levels]


def fabric(network: Network) -> Fabric:
    """Return the tree of a network over nodes n0, n1 and so on."""
    size = len(network.columns[0]) if network.columns else 0
    return Fabric(network.levels, network.columns, [f"n{k}" for k in range(size)])


def domains(network: Network, level: str) -> list[list[int]]:
    """Return the rows of each domain of a level, sorted."""
    made = fabric(network)
    depth = made.level_of(level)
    assert depth is not None
    return sorted(sorted(made.rows(depth, number).tolist()) for number in range(made.count(depth)))


def clique(cluster: int, number: int = 1) -> str:
    """Return a value of GFD's label."""
    return f"{cluster:08d}-0000-4000-8000-000000000000.{number}"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({REGION: "r", ZONE: "z"}, ["region", "zone"]),
        ({f"{TIER}0": "a", f"{TIER}2": "c", f"{TIER}1": "b", f"{TIER}10": "k"}, ["tier-10", "tier-2", "tier-1", "tier-0"]),
        ({f"{OLD}leaf": "a", f"{OLD}spine": "b", f"{OLD}core": "c"}, ["core", "spine", "leaf"]),
        ({f"{OLD}block": "a", f"{OLD}spine": "b", f"{OLD}datacenter": "c"}, ["core", "spine", "leaf"]),
        ({f"{AWS}1": "a", f"{AWS}2": "b", f"{AWS}3": "c"}, ["layer-1", "layer-2", "layer-3"]),
        ({f"{GKE}block": "a", f"{GKE}subblock": "b", f"{GKE}host": "c"}, ["block", "subblock", "physical-host"]),
        ({f"{OCI}network_block_id": "a", f"{OCI}rack_id": "b"}, ["network-block", "rack"]),
        ({CLIQUE: clique(1)}, ["clique"]),
        ({ACCELERATOR: "a", "accelerator.topograph.run/sub-domain": "s"}, ["accelerator", "sub-accelerator"]),
        ({f"{TIER}x": "a", f"{TIER}01": "b"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_labels_of_each_project_make_levels_from_the_widest(labels: Labels, expected: list[str]) -> None:
    """Topograph counts tiers from the node, AWS layers towards it."""
    assert names(networks_of([labels, labels])[0]) == expected


def test_common_words_name_levels_too() -> None:
    """The nearest switch is a leaf, with Topograph as with AWS."""
    for labels in ({f"{TIER}0": "a", f"{TIER}1": "b"}, {f"{AWS}1": "b", f"{AWS}2": "a", f"{AWS}3": "x"}):
        made = fabric(networks_of([labels])[0])
        assert made.level_of("leaf") == made.level_of("rack") == len(made.levels) - 2
        assert made.level_of("spine") == 0


def test_an_alias_of_two_levels_names_neither() -> None:
    """Nobody knows which rack is meant, so it is not guessed."""
    labels = {f"{TIER}0": "a", f"{OLD}leaf": "a", f"{OLD}spine": "b"}
    made = fabric(networks_of([labels, labels])[0])
    assert made.level_of("rack") is None
    assert made.level_of("leaf") == [level.name for level in made.levels].index("leaf")


def test_an_empty_value_is_no_value() -> None:
    """Two nodes with an empty label share no domain (kubernetes/kubernetes PR 140308)."""
    network = networks_of([{ZONE: ""}, {ZONE: ""}, {ZONE: "z"}])[0]
    assert network.columns == ([None, None, "z"],)
    assert names(networks_of([{ZONE: ""}])[0]) == []


def test_model_medium_has_three_tiers() -> None:
    """Its core switch spans both zones, so the zones lie below it: no switch is cut."""
    network = networks_of([node.build().labels for node in nodes_of_model("medium")])[0]
    assert names(network) == ["region", "tier-2", "zone", "tier-1", "tier-0", "accelerator"]
    assert domains(network, "tier-2") == [list(range(8))]
    assert domains(network, "tier-1") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert domains(network, "accelerator") == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_zone_that_crosses_switches_is_a_network_of_its_own() -> None:
    """Neither is cut: spines are whole in one network, zones in another."""
    labels = [{ZONE: zone, f"{OLD}spine": spine} for zone, spine in ("xa", "xb", "ya", "yb")]
    found = networks_of(labels)
    assert [names(network) for network in found] == [["spine"], ["zone"]]
    assert domains(found[1], "zone") == [[0, 1], [2, 3]]


def test_model_nvl72_has_domains_of_18_nodes() -> None:
    """As the model's picture says."""
    network = networks_of([node.build().labels for node in nodes_of_model("nvl72")])[0]
    assert [len(rows) for rows in domains(network, "nvlink")] == [18] * 4
    assert [len(rows) for rows in domains(network, "spine")] == [36] * 2


def test_the_tree_of_blocks_and_racks_is_regular() -> None:
    """2 zones of 8 blocks of 16 racks of 2 nodes."""
    network = networks_of([node.build().labels for node in nodes_of_tree()])[0]
    counts = [fabric(network).count(depth) for depth in range(4)]
    assert (names(network), counts) == (["zone", "tier-1", "tier-0"], [2, 16, 256, 512])


def test_a_clique_stands_below_the_tightest_level_that_holds_it() -> None:
    """Each rack of two leaves is one clique: the clique is below the spine, and leaves below the clique."""
    labels = [
        {f"{TIER}1": f"s{k // 8}", f"{TIER}0": f"l{k // 2}", CLIQUE: clique(k // 4)} for k in range(16)
    ]  # fmt: skip
    found = networks_of(labels)
    assert [names(network) for network in found] == [["tier-1", "clique", "tier-0"]]
    assert domains(found[0], "clique") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    assert len(domains(found[0], "leaf")) == 8


def test_where_cliques_and_leaves_cross_each_is_whole_in_a_network() -> None:
    """Rail-wise leaves: with the clique the leaves are left out, and there is a network of leaves without the clique."""
    labels = [{f"{TIER}1": "s", f"{TIER}0": f"l{k % 2}", CLIQUE: clique(k // 4)} for k in range(8)]
    found = networks_of(labels)
    assert [names(n) for n in found] == [["tier-1", "clique"], ["tier-1", "tier-0"], ["tier-1", "tier-0", "clique"]]
    assert domains(found[0], "clique") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert domains(found[1], "leaf") == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert domains(found[2], "clique") == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_nodes_without_cliques_keep_their_leaves() -> None:
    """A leaf of H100 nodes beside NVL72 racks that span leaves."""
    racks = [{f"{TIER}0": f"l{k % 2}", CLIQUE: clique(k // 4)} for k in range(8)]
    found = networks_of([*racks, {f"{TIER}0": "h"}, {f"{TIER}0": "h"}])
    assert [names(network) for network in found][:2] == [["clique"], ["tier-0"]]
    assert [8, 9] in domains(found[1], "leaf")


def test_a_node_of_a_clique_that_lost_its_leaf_is_where_its_clique_is() -> None:
    """Labels vanish while a fabric manager restarts; a missing leaf tears no clique apart."""
    labels = [{f"{TIER}0": f"l{k // 2}", CLIQUE: clique(k // 2)} for k in range(4)]
    del labels[1][f"{TIER}0"]
    network = networks_of(labels)[0]
    assert names(network) == ["tier-0", "clique"]
    assert domains(network, "leaf") == domains(network, "clique") == [[0, 1], [2, 3]]


def test_cliques_of_nodes_that_have_no_leaf_at_all_stay_whole() -> None:
    """H100 nodes have leaves, GB200 nodes cliques only."""
    labels = [{f"{TIER}0": "l0"}, {f"{TIER}0": "l0"}, {CLIQUE: clique(1)}, {CLIQUE: clique(1)}]
    network = networks_of(labels)[0]
    assert domains(network, "clique") == [[0], [1], [2, 3]]
    assert domains(network, "leaf") == [[0, 1], [2, 3]]


def test_a_clique_of_no_fabric_is_none() -> None:
    """GFD's all-zero cluster stands for a machine that is joined to no other."""
    alone = "00000000-0000-0000-0000-000000000000.0"
    assert names(networks_of([{CLIQUE: alone}, {CLIQUE: "nonsense"}])[0]) == []


def test_sub_domains_of_two_domains_may_have_one_name() -> None:
    """A sub-domain counts within its domain."""
    sub = "accelerator.topograph.run/sub-domain"
    network = networks_of([{ACCELERATOR: f"d{k // 2}", sub: "0"} for k in range(4)])[0]
    assert names(network) == ["accelerator", "sub-accelerator"]
    assert domains(network, "sub-accelerator") == [[0, 1], [2, 3]]


def test_two_families_on_the_same_nodes_make_one_tree() -> None:
    """Topograph on AWS says the same as AWS's own labels; no level cuts another."""
    labels = [
        {f"{AWS}1": f"a{k // 4}", f"{AWS}2": f"b{k // 2}", f"{TIER}1": f"x{k // 4}", f"{TIER}0": f"y{k // 2}"}
        for k in range(8)
    ]  # fmt: skip
    (network,) = networks_of(labels)
    assert names(network) == ["tier-1", "layer-1", "tier-0", "layer-2"]
    assert domains(network, "layer-2") == domains(network, "tier-0") == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_families_of_different_nodes_make_a_network_each() -> None:
    """A cluster that spans two clouds: no level of the one tears the other's domains apart."""
    labels = [{f"{AWS}1": "a"}] * 3 + [{f"{GKE}block": "g"}] * 2
    found = networks_of(labels)
    assert [names(network) for network in found] == [["layer-1"], ["block"]]
    assert domains(found[1], "block") == [[0], [1], [2], [3, 4]]


VALUE = st.sampled_from(["", "a", "b", "c"])
KEYS = [ZONE, f"{TIER}1", f"{TIER}0", f"{AWS}1", ACCELERATOR, CLIQUE]


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=6), max_size=10))
def test_domains_join_only_what_is_the_same_and_cliques_are_whole(nodes: list[Labels]) -> None:
    """Whatever the labels: nodes of two values share no domain, and the first network holds each clique in one domain."""
    labels = [{k: clique(ord(v)) if k == CLIQUE and v else v for k, v in node.items()} for node in nodes]
    for network in networks_of(labels):
        if not network.levels:
            continue
        made = fabric(network)
        for depth, level in enumerate(network.levels):
            numbers = made.of_rows[depth]
            values = [mine.get(level.label) for mine in labels]
            for one in range(len(labels)):
                for other in np.flatnonzero(numbers == numbers[one]).tolist():
                    assert not (values[one] and values[other] and values[one] != values[other])
    first = networks_of(labels)[0]
    told = [mine[CLIQUE] for mine in labels if mine.get(CLIQUE)]
    assert len(domains(first, "clique") if told else labels) == len(set(told)) + len(labels) - len(told)
