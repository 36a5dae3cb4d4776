"""NodeResourcesBalancedAllocation prefers nodes whose resources a pod brings closer to equal shares in use.

At Score, for pods that request any of the resources.  A node that becomes more balanced scores above 75, one that
becomes less balanced below; the range is 50 to 100.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import Status

from .balances import Balances, score_of

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.rows import NodeView
    from scheduler.state.snapshot import Ints, Nodes

NAME = "NodeResourcesBalancedAllocation"
#: Balanced even if the pod asks for none of them.
ALWAYS_SCORED = ("cpu", "memory", "ephemeral-storage")


class BalancedResource(ConfigurationModel):
    """A resource that is balanced."""

    name: str = Field(min_length=1)
    """The resource, such as `cpu` or `nvidia.com/gpu`."""
    weight: int = Field(default=1, ge=1, le=1)
    """Always 1; kept for the shape of kube-scheduler's arguments."""


class NodeResourcesBalancedAllocationArgs(ConfigurationModel):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: list[BalancedResource] = Field(default=[BalancedResource(name="cpu"), BalancedResource(name="memory")])
    """Resources to balance against each other."""


class NodeResourcesBalancedAllocation(Plugin):
    """Use resources evenly."""

    NAME: ClassVar[str] = NAME
    Args = NodeResourcesBalancedAllocationArgs
    READS_ONE_NODE: ClassVar[bool] = True
    READS_SHAPE_ONLY: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        """Take the names of the resources."""
        super().__init__(args or NodeResourcesBalancedAllocationArgs(), handle)
        self._names = tuple(resource.name for resource in self.args.resources)
        self._is_always_all = all(name in ALWAYS_SCORED for name in self._names)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone that request none of the resources: they would all gather on one node."""
        return None if any(pod.requests.get(name, 0) for name in self._names) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return 75 and half of what the balance gains or loses by the pod."""
        names = self._names_for(pod)
        if not names:
            return np.zeros(len(nodes), dtype=np.int64)
        balances = nodes.snapshot.follower((NAME, names), partial(Balances, names))
        return balances.scores([pod.requests.get(name, 0) for name in names], nodes)

    def score(self, state: CycleState, pod: Pod, node: NodeView) -> int:
        """Return the same for one node."""
        names, requests = self._names_for(pod), pod.requests
        used, offered = node.record.requested, node.record.node.allocatable
        return score_of([(requests.get(n, 0), used.get(n, 0), offered.get(n, 0)) for n in names]) if names else 0

    def _names_for(self, pod: Pod) -> tuple[str, ...]:
        """Return the resources that are balanced for a pod."""
        if self._is_always_all:
            return self._names
        return tuple([name for name in self._names if name in ALWAYS_SCORED or pod.requests.get(name, 0)])
