"""Runs vectors of go-gpuallocator: link topologies, and which GPUs its policies pick from what is free.

A file is JSON: `topologies` by name (`gpus`, matrices `nvlinks` and `pcie` with null where nothing is told, and perhaps
`optimum_by_size`), `sequential_alloc` (a policy, a topology, and steps that take GPUs one after the other) and `policy_alloc` (a policy,
a topology, what is available and what is required). A policy is `best_effort`, `static_dgx` or `simple`. Each entry of the two lists is
one vector; the optima are facts about the matrices, so a wrong one makes the file unusable.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from .besteffort import BestEffortPolicy, pair_score
from .graph import LOCALITY_BITS, MAX_GPUS, TopologyError, gpus_of_mask, mask_of_gpus
from .pcie import PcieClass
from .setsearch import MAX_TABLED_GPUS, TabledSearch
from .staticdgx import pick_static, static_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    #: From the free GPUs in the order in which they are told, a size and required GPUs to those that are picked.
    Pick = Callable[[Sequence[int], int, Sequence[int]], list[int]]

POLICIES = ("best_effort", "static_dgx", "simple")
_CLASSES = {c.name: c for c in PcieClass if c is not PcieClass.UNKNOWN}


class Optimum(msgspec.Struct, frozen=True):
    """What the best sets of one size have."""

    max_links: int | None = None
    max_score: int | None = None


class LinkTopology(msgspec.Struct, frozen=True):
    """A machine as its matrices."""

    gpus: int
    nvlinks: list[list[int]]
    pcie: list[list[str | None]]
    optimum_by_size: dict[str, Optimum] = {}


class Step(msgspec.Struct, frozen=True):
    """How many GPUs are asked for, and which are given."""

    size: int
    expect: list[int]


class Sequential(msgspec.Struct, frozen=True):
    """Steps on one machine that is empty at first."""

    policy: str
    node: str
    steps: list[Step]
    name: str = ""


class Single(msgspec.Struct, frozen=True):
    """One question."""

    policy: str
    node: str
    available: list[int]
    size: int
    expect: list[int]
    required: list[int] = []
    name: str = ""


class VectorFile(msgspec.Struct, frozen=True):
    """A whole file."""

    topologies: dict[str, LinkTopology]
    sequential_alloc: list[Sequential] = []
    policy_alloc: list[Single] = []


class Outcome(NamedTuple):
    """What came of one vector; `failure` is empty if the GPUs were the expected ones."""

    name: str
    failure: str


def read_vectors(text: bytes) -> VectorFile:
    """Decode a file; raises TopologyError that names the field and what is allowed."""
    try:
        vectors = msgspec.json.decode(text, type=VectorFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TopologyError(f"{error}; allowed are topologies, sequential_alloc and policy_alloc") from error
    for name, topology in vectors.topologies.items():
        _check_topology(f"topologies.{name}", topology)
    for number, sequence in enumerate(vectors.sequential_alloc):
        _check_vector(f"sequential_alloc[{number}]", sequence, vectors)
    for number, single in enumerate(vectors.policy_alloc):
        _check_vector(f"policy_alloc[{number}]", single, vectors)
    return vectors


def run_vectors(vectors: VectorFile) -> Iterator[Outcome]:
    """Yield what comes of each vector, in the order of the file."""
    policies = {name: _Policies(topology) for name, topology in vectors.topologies.items()}
    for number, sequence in enumerate(vectors.sequential_alloc):
        pick, left, failure = (
            policies[sequence.node].named(sequence.policy),
            list(range(policies[sequence.node].count)),
            "",
        )
        for at, step in enumerate(sequence.steps):
            picked = pick(left, step.size, [])
            failure = failure or _difference(f"step {at}: ", picked, step.expect)
            left = [gpu for gpu in left if gpu not in picked]
        yield Outcome(sequence.name or f"sequential_alloc[{number}]", failure)
    for number, single in enumerate(vectors.policy_alloc):
        picked = policies[single.node].named(single.policy)(single.available, single.size, single.required)
        yield Outcome(single.name or f"policy_alloc[{number}]", _difference("", picked, single.expect))


def _difference(where: str, picked: list[int], expected: list[int]) -> str:
    return "" if sorted(picked) == sorted(expected) else f"{where}expected {expected}, picked {picked}"


class _Policies:
    """The policies for one machine."""

    def __init__(self, topology: LinkTopology) -> None:
        links, scores = _matrices(topology)
        self.count = topology.gpus
        self._sets = static_sets(links)
        self._best_effort = BestEffortPolicy(scores)

    def named(self, policy: str) -> Pick:
        picks: dict[str, Pick] = {
            "best_effort": self._pick_best_effort, "static_dgx": self._pick_static, "simple": self._pick_simple,
        }  # fmt: skip
        return picks[policy]

    def _pick_best_effort(self, free: Sequence[int], size: int, required: Sequence[int]) -> list[int]:
        if size <= 0:
            return []
        return list(gpus_of_mask(self._best_effort.pick(mask_of_gpus(free), size, mask_of_gpus(required)) or 0))

    def _pick_static(self, free: Sequence[int], size: int, required: Sequence[int]) -> list[int]:
        return list(gpus_of_mask(pick_static(self._sets or {}, mask_of_gpus(free), size, required)))

    @staticmethod
    def _pick_simple(free: Sequence[int], size: int, required: Sequence[int]) -> list[int]:
        """Take the required ones and then the first that are free."""
        order = [*required, *(gpu for gpu in free if gpu not in required)]
        is_possible = 0 < size <= len(free) and len(required) <= size and set(required) <= set(free)
        return order[:size] if is_possible else []


def _matrices(topology: LinkTopology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return direct links and pair scores, as symmetric matrices of (gpus, gpus)."""
    links = np.array(topology.nvlinks, dtype=np.int64).reshape(topology.gpus, topology.gpus)
    scores = np.zeros_like(links)
    for one, other in combinations(range(topology.gpus), 2):
        cell = topology.pcie[one][other]
        pcie_class = PcieClass.UNKNOWN if cell is None else _CLASSES[cell]
        scores[one, other] = scores[other, one] = pair_score(pcie_class, int(links[one, other]))
    return links, scores


def _check_topology(path: str, topology: LinkTopology) -> None:
    count = topology.gpus
    if not 1 <= count <= MAX_GPUS:
        raise TopologyError(f"{path}.gpus: {count} is not allowed; allowed are 1 to {MAX_GPUS}")
    for field, matrix in (("nvlinks", topology.nvlinks), ("pcie", topology.pcie)):
        rows: Sequence[Sequence[object]] = matrix
        if len(rows) != count or any(len(row) != count for row in rows):
            raise TopologyError(f"{path}.{field}: allowed are {count} rows of {count} cells")
        for one, other in combinations(range(count), 2):
            if rows[one][other] != rows[other][one]:
                raise TopologyError(
                    f"{path}.{field}[{one}][{other}]: differs from [{other}][{one}]; allowed is the same"
                )
    for one, other in combinations(range(count), 2):
        links, cell = topology.nvlinks[one][other], topology.pcie[one][other]
        if not 0 <= links <= MAX_GPUS:
            raise TopologyError(f"{path}.nvlinks[{one}][{other}]: {links} is not allowed; allowed are 0 to {MAX_GPUS}")
        if cell is not None and cell not in _CLASSES:
            raise TopologyError(f"{path}.pcie[{one}][{other}]: {cell[:20]!r}; allowed are null, {', '.join(_CLASSES)}")
    if count <= MAX_TABLED_GPUS:
        _check_optima(path, topology)


def _check_optima(path: str, topology: LinkTopology) -> None:
    """Compare the stated optima with the best of all sets."""
    searches = dict(zip(("max_links", "max_score"), _matrices(topology), strict=True))
    for text, optimum in topology.optimum_by_size.items():
        size = int(text) if text.isascii() and text.isdigit() else 0
        if not 1 <= size <= topology.gpus:
            raise TopologyError(f"{path}.optimum_by_size: {text[:20]!r}; allowed are 1 to {topology.gpus}")
        for field, matrix in searches.items():
            stated = getattr(optimum, field)
            found = TabledSearch(matrix << LOCALITY_BITS).heaviest((1 << topology.gpus) - 1, size) >> LOCALITY_BITS
            if stated is not None and stated != found:
                raise TopologyError(f"{path}.optimum_by_size.{text}.{field}: {stated}, but the matrices allow {found}")


def _check_vector(path: str, vector: Sequential | Single, vectors: VectorFile) -> None:
    if vector.policy not in POLICIES:
        raise TopologyError(f"{path}.policy: {vector.policy[:40]!r} is unknown; allowed: {', '.join(POLICIES)}")
    topology = vectors.topologies.get(vector.node)
    if topology is None:
        raise TopologyError(f"{path}.node: {vector.node[:40]!r} is unknown; allowed: {', '.join(vectors.topologies)}")
    if vector.policy == "static_dgx" and static_sets(_matrices(topology)[0]) is None:
        raise TopologyError(
            f"{path}.policy: static_dgx knows no sets for {vector.node}; allowed for DGX-1 and DGX-2 only"
        )
    if isinstance(vector, Single):
        for field, gpus in (("available", vector.available), ("required", vector.required)):
            if any(not 0 <= gpu < topology.gpus for gpu in gpus) or len(set(gpus)) != len(gpus):
                raise TopologyError(f"{path}.{field}: {gpus}; allowed are different GPUs from 0 to {topology.gpus - 1}")
