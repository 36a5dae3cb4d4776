"""GPUIsolation keeps pods that ask for no accelerator off the nodes that have some, by score.

At Score, in the profile `ai-scheduler`: such pods fill cores and memory that GPU pods will need.  It refuses nothing; a
taint does that.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Node, Pod
    from scheduler.state.snapshot import Ints, Nodes

NAME = "GPUIsolation"
ACCELERATORS = (
    "*/gpu*", "nvidia.com/*", "amd.com/*", "gpu.intel.com/*", "habana.ai/*", "google.com/tpu", "aws.amazon.com/neuron*",
    "huawei.com/Ascend*",
)  # fmt: skip


class GPUIsolationArgs(ConfigurationModel):
    """Arguments of GPUIsolation."""

    resources: list[str] = Field(default=list(ACCELERATORS))
    """Resource names that stand for accelerators; `*` stands for any text."""


class GPUIsolation(Plugin):
    """Leave GPU nodes to GPU pods."""

    NAME: ClassVar[str] = NAME
    Args = GPUIsolationArgs
    READS_NODES_ONLY: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: GPUIsolationArgs | None, handle: Handle) -> None:
        """Take the names of accelerators."""
        super().__init__(args or GPUIsolationArgs(), handle)
        self._patterns: tuple[str, ...] = tuple(self.args.resources)

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return 0 for a node with accelerators if the pod asks for none, else 100."""
        if self._asks(pod):
            return np.full(len(nodes), 100, dtype=np.int64)
        return nodes.column((NAME, self._patterns), self._score_without, np.int64).copy()

    def same_score(self, pod: Pod, nodes: Nodes) -> int | None:
        """Return 100 for a pod that asks for accelerators."""
        return 100 if self._asks(pod) else None

    def _asks(self, pod: Pod) -> bool:
        """Tell whether a pod asks for accelerators."""
        return any(count > 0 and is_accelerator(name, self._patterns) for name, count in pod.requests.items())

    def _score_without(self, node: Node) -> int:
        """Score a node for a pod that asks for no accelerator."""
        offers = any(count > 0 and is_accelerator(name, self._patterns) for name, count in node.allocatable.items())
        return 0 if offers else 100


@lru_cache(maxsize=4096)
def is_accelerator(resource: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a resource is one of these."""
    return any(fnmatchcase(resource, pattern) for pattern in patterns)
