"""The popular shapes of GPU pods, learned from the pods that are known, and what of a node is of no use to them.

For the plugin beside it.  The measure is that of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023): the idle GPUs of a node
are a fragment, for one shape, as far as a pod of that shape cannot use them; the expected fragment is the mean over the popular
shapes, weighted by how many pods have them.  What the published measure sees only when it has happened is added here ahead of
time: idle GPUs that the node's cores will not suffice for, if further pods ask for as many cores per GPU as the popular ones do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.state.node_selectors import required_holds

from .asks import gpus_asked

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.state.demand import Demand
    from scheduler.state.snapshot import Bools, Ints, Nodes

Floats = npt.NDArray[np.float64]
#: Shapes are popular, most frequent first, until they are so much of all GPU pods; and never more than so many.
POPULARITY = 0.95
MOST_SHAPES = 64
#: Learned anew when as many pods came or went as a share of those that there were, but not fewer than so many.
NEWS_SHARE, LEAST_NEWS = 0.25, 8


class Popular:
    """The popular shapes at one time."""

    def __init__(self, demand: Demand, whole: str, shares: str) -> None:
        """Learn from the demand for GPUs, whole ones and shares. O(n log n) in the kinds of pods."""
        found: dict[tuple[int, int, int, int, bytes], tuple[int, Pod]] = {}
        for ask, count in demand.counts.items():
            example = demand.examples[ask]
            gpus = gpus_asked(example.requests, whole, shares)
            if gpus is not None:
                selector = repr(ask.selector).encode() + ask.affinity if ask.selector or ask.affinity else b""
                key = (ask.cpu, gpus.milli, gpus.gpus, int(gpus.of_shares), selector)
                found[key] = (found[key][0] + count if key in found else count, example)
        ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        total, kept = sum(count for count, _ in found.values()), 0
        chosen = []
        for key, (count, example) in ranked[:MOST_SHAPES]:
            chosen.append((key, count, example))
            kept += count
            if kept >= POPULARITY * total:
                break
        self._read_at = demand.changes
        self._patience = max(LEAST_NEWS, int(NEWS_SHARE * demand.total))
        self._examples = [example if key[4] else None for key, _, example in chosen]
        self._cpu: Ints = np.array([key[0] for key, _, _ in chosen], dtype=np.int64)
        self._count: Ints = np.array([key[2] for key, _, _ in chosen], dtype=np.int64)
        self._share: Floats = np.array([count for _, count, _ in chosen], dtype=np.float64) / max(kept, 1)
        milli: Ints = np.array([key[1] for key, _, _ in chosen], dtype=np.int64)
        self._sizes, self._size_of = np.unique(milli, return_inverse=True)
        #: Millicores that the popular pods ask for per thousandth of a GPU, in the mean; 0 if they ask for none.
        gpu_milli = float((self._share * milli * self._count).sum())
        self.cpu_per_milli = float((self._share * self._cpu).sum()) / gpu_milli if gpu_milli else 0.0

    def __len__(self) -> int:
        """Count the shapes."""
        return len(self._cpu)

    def is_stale(self, demand: Demand) -> bool:
        """Tell whether so many pods came or went that it is worth learning anew."""
        return (not len(self) and demand.total > 0) or demand.changes - self._read_at >= self._patience

    def suits(self, nodes: Nodes) -> Bools | None:
        """Return which shapes may stand on which nodes by their selectors, shape (nodes, shapes); None if all may."""
        if not any(self._examples):
            return None
        suited = np.ones((len(nodes), len(self)), dtype=np.bool_)
        for number, example in enumerate(self._examples):
            if example is not None and (holds := required_holds(example, nodes)) is not None:
                suited[:, number] = holds
        return suited

    def fragment(self, cpu: Ints, left: Ints, suited: Bools | None) -> Floats:
        """Return the expected fragment of nodes, in thousandths of GPUs, shape (nodes,).

        `cpu` is the millicores left, shape (nodes,); `left` what is idle of each GPU, in thousandths, shape (nodes, GPUs), 0 for a
        GPU that is not there; `suited` is what `suits` says of these nodes.
        """
        idle = left.sum(axis=1)
        is_small = left[:, None, :] < self._sizes[None, :, None]
        fitting = left.shape[1] - is_small.sum(axis=2)
        scrap = (left[:, None, :] * is_small).sum(axis=2)
        lost = (cpu[:, None] < self._cpu) | (fitting[:, self._size_of] < self._count)
        if suited is not None:
            lost |= ~suited
        fragment: Floats = np.where(lost, idle[:, None], scrap[:, self._size_of]) @ self._share
        if self.cpu_per_milli:
            fragment += np.maximum(idle - cpu / self.cpu_per_milli, 0.0)
        return fragment
