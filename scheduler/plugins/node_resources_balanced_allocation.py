"""NodeResourcesBalancedAllocation prefers nodes whose resources a pod brings closer to equal shares in use.

At Score, for pods that request any of the resources.  A node that becomes more balanced scores above 75, one that
becomes less balanced below; the range is 50 to 100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from scheduler.config import ConfigurationModel
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import Status

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints, Nodes

Floats: TypeAlias = npt.NDArray[np.float64]

NAME = "NodeResourcesBalancedAllocation"
PAIR = 2
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


def balance(used: list[Floats], offered: list[Floats]) -> Ints:
    """Return (1 - standard deviation of the used shares)·100 per node, over the resources that it offers.

    The order of the float operations is kube-scheduler's: two resources are compared without a root.
    """
    if len(used) == PAIR and all(o.all() for o in offered):
        first, second = (np.minimum(u / o, 1.0) for u, o in zip(used, offered, strict=True))
        return _to_score(np.abs(first - second) / 2)
    has = [o > 0 for o in offered]
    shares = [np.where(o > 0, np.minimum(u / np.maximum(o, 1), 1.0), 0.0) for u, o in zip(used, offered, strict=True)]
    kinds = np.add.reduce(has, dtype=np.int64)
    divisor = np.maximum(kinds, 1)
    mean = np.add.reduce(shares) / divisor
    squares = [np.where(h, (share - mean) * (share - mean), 0.0) for h, share in zip(has, shares, strict=True)]
    lowest = np.minimum.reduce([np.where(h, share, 2.0) for h, share in zip(has, shares, strict=True)])
    pair = (np.maximum.reduce(shares) - lowest) / 2
    return _to_score(np.where(kinds == PAIR, pair, np.sqrt(np.add.reduce(squares) / divisor)))


def _to_score(deviation: Floats) -> Ints:
    return ((1 - deviation) * 100).astype(np.int64)


def _floats(columns: list[Ints]) -> list[Floats]:
    return [column.astype(np.float64) for column in columns]


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

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Leave pods alone that request none of the resources: they would all gather on one node."""
        return None if any(pod.requests.get(name, 0) for name in self._names) else Status.skip()

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return 75 and half of what the balance gains or loses by the pod."""
        names = [name for name in self._names if name in ALWAYS_SCORED or pod.requests.get(name, 0)]
        if not names:
            return np.zeros(len(nodes), dtype=np.int64)
        offered = _floats([nodes.allocatable(name) for name in names])
        before = [nodes.requested(name) for name in names]
        after = [used + pod.requests.get(name, 0) for used, name in zip(before, names, strict=True)]
        return 50 + (50 + balance(_floats(after), offered) - balance(_floats(before), offered)) // 2
