"""The retold best-effort policy against NVIDIA's own vectors and a literal walk over all splits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.topology import (
    BestEffortPolicy,
    PcieClass,
    gpus_of_mask,
    known_machine,
    mask_of_gpus,
    pair_score,
    pair_scores,
    table_of,
)


def scores_of(topology):
    """Return the pair scores of a topology of the vectors; a null PCIe cell is one that its authors left out."""
    count = topology["gpus"]
    scores = np.zeros((count, count), dtype=np.int64)
    for one, other in combinations(range(count), 2):
        cell = topology["pcie"][one][other]
        pcie_class = PcieClass.UNKNOWN if cell is None else PcieClass[cell]
        scores[one, other] = scores[other, one] = pair_score(pcie_class, topology["nvlinks"][one][other])
    return scores


def test_pair_scores_are_nvidias(vectors):
    """10 for SYS to 60 for PSB, and 100 for each link."""
    told = vectors["pair_score"]
    assert {c.name: pair_score(c, 0) for c in PcieClass if c} == {k: v for k, v in told.items() if k != "per_nvlink"}
    assert pair_score(PcieClass.UNKNOWN, 3) == 3 * told["per_nvlink"]


@pytest.mark.parametrize("node", ["4xRTX8000", "DGX1Pascal", "DGX1Volta"])
def test_set_scores_have_the_published_optimum(vectors, node):
    """The highest sum of pair scores is the published one for each size, and the listed sets have it."""
    topology = vectors["topologies"][node]
    scores = scores_of(topology)
    for size, optimum in topology["optimum_by_size"].items():
        by_set = {s: np.triu(scores[np.ix_(s, s)]).sum() for s in combinations(range(len(scores)), int(size))}
        assert max(by_set.values()) == optimum["max_score"]
        assert {by_set[tuple(s)] for s in optimum["sets_max_score"]} == {optimum["max_score"]}


def test_sequences_of_pods_get_nvidias_gpus(vectors):
    """Each step of each best-effort sequence picks the GPUs that go-gpuallocator picks."""
    sequences = [s for s in vectors["sequential_alloc"] if s["policy"] == "best_effort"]
    assert len(sequences) == 6
    for sequence in sequences:
        topology = vectors["topologies"][sequence["node"]]
        policy, free = BestEffortPolicy(scores_of(topology)), (1 << topology["gpus"]) - 1
        for step in sequence["steps"]:
            mask = policy.pick(free, step["size"]) or 0
            assert list(gpus_of_mask(mask)) == step["expect"], sequence["name"]
            free &= ~mask


def test_single_picks_are_nvidias(vectors):
    """Each best-effort case with given free and required GPUs picks what go-gpuallocator picks."""
    cases = [c for c in vectors["policy_alloc"] if c["policy"] == "best_effort"]
    assert len(cases) == 6
    for case in cases:
        policy = BestEffortPolicy(scores_of(vectors["topologies"][case["node"]]))
        mask = policy.pick(mask_of_gpus(case["available"]), case["size"], mask_of_gpus(case["required"]))
        assert list(gpus_of_mask(mask or 0)) == case["expect"], case["name"]


@pytest.mark.parametrize(
    ("product", "node"), [("Tesla-P100-SXM2-16GB", "DGX1Pascal"), ("Tesla-V100-SXM2-16GB", "DGX1Volta")]
)
def test_known_machine_has_the_scores_of_nvidias_topology(vectors, product, node):
    """What a label leads to is scored as NVIDIA's test topology is."""
    assert (pair_scores(known_machine(product, 8)) == scores_of(vectors["topologies"][node])).all()


def test_links_to_switches_count_nothing():
    """go-gpuallocator matches links by the peer's PCI address, so behind NVSwitches only PCIe scores: 20 in a socket, 10 across."""
    scores = pair_scores(known_machine("NVIDIA-H100-80GB-HBM3", 8))
    assert scores[0].tolist() == [0, 20, 20, 20, 10, 10, 10, 10]


def splits(gpus, k):
    """Walk all splits into sets of k, the last padded with None, as go-gpuallocator does."""
    padding = -len(gpus) % k

    def walk(rest, done):
        if len(rest) == k:
            yield [*done, rest]
            return
        for picked in combinations(range(1, len(rest)), k - 1):
            chosen = [rest[0], *(rest[i] for i in picked)]
            if chosen.count(None) in (0, padding):
                yield from walk([g for i, g in enumerate(rest) if i and i not in picked], [*done, chosen])

    yield from walk([*gpus, *[None] * padding], [])


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.data())
def test_pick_is_the_first_best_set_of_the_first_best_split(count, data):
    """The dynamic programme finds what walking all splits in order finds, ties included."""
    values = data.draw(
        st.lists(st.sampled_from([10, 20, 50, 110, 210]), min_size=count * count, max_size=count * count)
    )
    upper = np.triu(np.array(values).reshape(count, count), 1)
    scores = upper + upper.T
    k = data.draw(st.integers(2, count))

    def score(chosen):
        real = [gpu for gpu in chosen if gpu is not None]
        return sum(scores[a, b] for a, b in combinations(real, 2))

    best_split = max(splits(list(range(count)), k), key=lambda split: sum(map(score, split)))
    expected = max((s for s in best_split if None not in s), key=score)
    assert BestEffortPolicy(scores).pick((1 << count) - 1, k) == mask_of_gpus(expected)


def test_of_equal_splits_the_one_whose_smaller_set_is_walked_first_counts():
    """{0,1} + {2,3,4} and {0,3,4} + {1,2} have four links each; (0,1) is walked before (0,3,4), so 2, 3 and 4 are picked."""
    scores = np.zeros((5, 5), dtype=np.int64)
    for one, other in [(0, 1), (0, 3), (0, 4), (1, 2), (2, 3), (2, 4), (3, 4)]:
        scores[one, other] = scores[other, one] = 100
    assert BestEffortPolicy(scores).pick(0b11111, 3) == mask_of_gpus([2, 3, 4])


def test_sixteen_gpus_are_picked_from_one_socket():
    """Beyond the size where all splits are compared, a set is grown: a DGX-2 gives the first socket."""
    assert table_of(known_machine("Tesla-V100-SXM3-32GB", 16)).best_effort(0xFFFF, 8).gpus == tuple(range(8))
