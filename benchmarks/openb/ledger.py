"""Ledger: what is left of every GPU, and the published measure of fragments, kept beside the scheduler and apart from it.

For `benchmarks.openb`.  It trusts nothing: what is placed where there is no room is an error of the scheduler.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from .workload import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .workload import NodeLine, PodLine

#: Shapes are typical, most frequent first, until they are so much of the list.
TYPICAL = 0.95


class OverCommitError(Exception):
    """The scheduler placed a pod where there was no room for it."""


class Ledger:
    """All nodes."""

    def __init__(self, nodes: Sequence[NodeLine], pods: Sequence[PodLine]) -> None:
        """Start with empty nodes; the typical shapes are those of the list of pods."""
        self._nodes = {node.name: node for node in nodes}
        self._row = {node.name: row for row, node in enumerate(nodes)}
        self._cpu = [node.cpu_milli for node in nodes]
        self._memory = [node.memory_mib for node in nodes]
        self._left = [[WHOLE] * node.gpus for node in nodes]
        counts = Counter((p.cpu_milli, p.gpu_milli, p.gpus, p.models) for p in pods)
        shapes, kept = [], 0
        for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            shapes.append((shape, count))
            kept += count
            if kept >= TYPICAL * len(pods):
                break
        self._shapes = [(*shape, count / kept) for shape, count in shapes]
        self.capacity_milli = sum(node.gpus for node in nodes) * WHOLE
        self.used_milli = 0
        self._fragments = np.array([self._fragment(row, node) for row, node in enumerate(nodes)])

    def place(self, pod: PodLine, node_name: str, gpus: Sequence[int]) -> None:
        """Enter a pod on a node and its GPUs; OverCommitError if there is no room, or the GPUs are not what it asks for."""
        node, row = self._nodes[node_name], self._row[node_name]
        left = self._left[row]
        self._cpu[row] -= pod.cpu_milli
        self._memory[row] -= pod.memory_mib
        is_short = self._cpu[row] < 0 or self._memory[row] < 0
        if is_short or len(set(gpus)) != pod.gpus or any(g >= len(left) or left[g] < pod.gpu_milli for g in gpus):
            raise OverCommitError(f"{pod} on {node} with GPUs {list(gpus)}: left are {left}")
        if pod.models and pod.gpus and node.model not in pod.models:
            raise OverCommitError(f"{pod} on {node}: the wrong model")
        for gpu in gpus:
            left[gpu] -= pod.gpu_milli
        self.used_milli += pod.asked_milli
        self._fragments[row] = self._fragment(row, node)

    def allocated(self) -> float:
        """Return the share of all GPUs that is in use, in percent."""
        return 100 * self.used_milli / self.capacity_milli

    def fragmented(self) -> float:
        """Return the share of what is idle that is expected to be of no use, in percent."""
        idle = self.capacity_milli - self.used_milli
        return 100 * float(self._fragments.sum()) / idle if idle else 0.0

    def _fragment(self, row: int, node: NodeLine) -> float:
        """Return the expected fragment of one node: for each typical shape what it cannot use of the idle GPUs."""
        left, cpu = self._left[row], self._cpu[row]
        idle, total = sum(left), 0.0
        for cpu_milli, gpu_milli, gpus, models, share in self._shapes:
            fitting = [milli for milli in left if milli >= gpu_milli]
            if not gpus or cpu < cpu_milli or len(fitting) < gpus or (models and node.model not in models):
                total += share * idle
            else:
                total += share * (idle - sum(fitting))
        return total
