"""Queue: a share of the cluster that workloads wait in, as objects of every project tell of it.

For the tree of queues, which is made of them, and for the edges, which read the objects.  Queues of different projects live
beside each other: the key is the project's name and the queue's.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from .gang import PREFIX
from .label_tests import Selector

#: The label by which a pod, or a PodGroup, names its queue.
QUEUE_LABEL: Final = f"{PREFIX}/queue"
#: Where workloads are that name no queue and are selected by none.
DEFAULT_QUEUE: Final = "default"
OWN: Final = "ai-scheduler"
ORDERINGS: Final = ("Priority", "Fair", "FIFO")


class QueueKey(NamedTuple):
    """What names a queue: whose object it is, and its name."""

    dialect: str
    name: str

    def __str__(self) -> str:
        """Return the name, with the project's before it if it is not ours."""
        return self.name if self.dialect == OWN else f"{self.dialect}/{self.name}"


class Quota(msgspec.Struct, frozen=True, gc=False):
    """What a queue may use of one resource, in the resource's unit (millicores, bytes, pieces)."""

    #: None is all that it ever asks for.
    guaranteed: int | None = 0
    #: None is no limit.
    limit: int | None = None
    weight: Fraction = Fraction(1)
    #: How much of the guarantee siblings may use while it does not; None is all.
    lending: int | None = None


class Queue(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What scheduling needs to know of a queue."""

    name: str
    dialect: str = OWN
    uid: str = ""
    generation: int = 0
    #: The queue above it, of the same dialect; empty for none.
    parent: str = ""
    #: By resource; one that is not named has no guarantee and no limit.
    quotas: dict[str, Quota] = {}
    #: The weight for resources that are not named.
    weight: Fraction = Fraction(1)
    priority: int = 0
    is_reclaimable: bool = True
    #: How long a workload runs before another one of this queue, or of another queue, may evict it.
    preempt_min_seconds: float = 0.0
    reclaim_min_seconds: float = 0.0
    #: How long before its eviction a workload is told, at most and where it does not say; None if the queue does not.
    notice_seconds: float | None = None
    ordering: str = "Priority"
    #: Who may use it, and belongs to it; None lets everybody name it, and nobody belong to it.
    namespaces: Selector | None = None
    #: Namespaces that belong to it by their names; empty if only labels tell.
    namespace_names: tuple[str, ...] = ()
    #: The scheduler whose status stands in the object, where there are several; empty for the first that writes.
    scheduler_name: str = ""
    #: It takes nobody: its project has closed it.
    is_closed: bool = False
    #: What is wrong with the object; while there is something, its last state without problems counts.
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Dialect and name, as objects that are only read are kept."""
        return QueueKey(self.dialect, self.name)


class QueueUse(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A name in a namespace by which pods get to a queue: Kueue's LocalQueue."""

    namespace: str
    name: str
    queue: QueueKey

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name
