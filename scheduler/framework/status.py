"""Statuses and reasons: how a plugin says yes, no, not now or wait, as values.

For plugins and the engine.  An accident is an exception, never a status made by a plugin; the runtime turns it into
`Code.ERROR`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, IntFlag, auto


class ClusterEvent(IntFlag):
    """What can happen in a cluster that may cure a refusal."""

    NONE = 0
    NODE_ADDED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    #: An assigned pod ended, was deleted or gave back what it held.
    POD_REMOVED = auto()
    #: A pod was assigned, by anybody.
    POD_ASSIGNED = auto()
    #: A pending pod came into being.
    POD_CREATED = auto()
    #: The pod's own gates, labels, tolerations or requests changed.
    POD_UPDATED = auto()
    GANG_CHANGED = auto()
    #: An assigned pod got other labels.
    POD_LABELS = auto()
    #: Claims, volumes, classes, drivers, capacities or attachments changed.
    CLAIM_CHANGED = auto()
    VOLUME_CHANGED = auto()
    STORAGE_CLASS_CHANGED = auto()
    CSI_NODE_CHANGED = auto()
    CSI_DRIVER_CHANGED = auto()
    STORAGE_CAPACITY_CHANGED = auto()
    ATTACHMENT_CHANGED = auto()
    #: A namespace got other labels.
    NAMESPACE_CHANGED = auto()
    #: A node is gone: domains may be fewer.
    NODE_REMOVED = auto()
    NODE_FEATURES = auto()
    #: A Topology or a HyperNode changed.
    TOPOLOGY_CHANGED = auto()
    #: A NodeResourceTopology changed: what is known to be free in a node's NUMA nodes.
    RESOURCE_TOPOLOGY_CHANGED = auto()
    #: A NodeTopology tells something else of its node.
    NODE_TOPOLOGY_CHANGED = auto()
    #: A queue changed, or who may use one.
    QUEUE_CHANGED = auto()
    #: A ResourceClaim changed; slices or taint rules did, or a claim gave devices back; a DeviceClass changed.
    DEVICE_CLAIM_CHANGED = auto()
    DEVICES_CHANGED = auto()
    DEVICE_CLASS_CHANGED = auto()
    #: A workload stopped waiting at Permit.
    PERMIT_RESOLVED = auto()
    #: Time passed (flush).
    TIME = auto()
    NODE_ANY = NODE_ADDED | NODE_ALLOCATABLE | NODE_LABELS | NODE_TAINTS | NODE_FEATURES | NODE_REMOVED
    STORAGE_ANY = (
        CLAIM_CHANGED
        | VOLUME_CHANGED
        | STORAGE_CLASS_CHANGED
        | CSI_NODE_CHANGED
        | CSI_DRIVER_CHANGED
        | STORAGE_CAPACITY_CHANGED
        | ATTACHMENT_CHANGED
    )
    DRA_ANY = DEVICE_CLAIM_CHANGED | DEVICES_CHANGED | DEVICE_CLASS_CHANGED
    POD_ANY = POD_REMOVED | POD_ASSIGNED | POD_CREATED | POD_UPDATED | POD_LABELS
    ANY = (
        NODE_ANY
        | STORAGE_ANY
        | DRA_ANY
        | POD_ANY
        | NAMESPACE_CHANGED
        | GANG_CHANGED
        | PERMIT_RESOLVED
        | TIME
        | TOPOLOGY_CHANGED
        | RESOURCE_TOPOLOGY_CHANGED
        | NODE_TOPOLOGY_CHANGED
        | QUEUE_CHANGED
    )


class Code(IntEnum):
    """Status codes with kube-scheduler's meaning; of two rejections the higher one counts."""

    SUCCESS = 0
    #: Evicting pods may help.
    UNSCHEDULABLE = 1
    #: Evicting pods cannot help.
    UNSCHEDULABLE_AND_UNRESOLVABLE = 2
    #: The plugin or its input is broken.
    ERROR = 3
    #: Permit: hold the pod until it is allowed, rejected or late.
    WAIT = 4
    #: Bind: not mine. PreFilter and PreScore: leave my Filter or Score out of this cycle.
    SKIP = 5
    #: A node was found, but somebody outside must act first.
    PENDING = 6

    @property
    def upstream_name(self) -> str:
        """The code as kube-scheduler spells it."""
        return "".join(word.capitalize() for word in self.name.split("_")).replace("AndUnresolvable", "AndUnresolvable")


class Kind(Enum):
    """How final a refusal is."""

    NEVER = "never"
    NOT_NOW = "not now"
    GAVE_UP = "gave up searching"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused: a code for programs, a sentence for people, numbers, and what could cure it."""

    code: str
    #: Counted per node in messages, so in kube-scheduler's wording where it has one.
    text: str
    cures: ClusterEvent = ClusterEvent.ANY
    kind: Kind = Kind.NOT_NOW
    numbers: tuple[tuple[str, int | float | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What an extension point answers; None stands for success."""

    code: Code
    reasons: tuple[Reason, ...] = ()
    #: Stamped by the runtime.
    plugin: str = ""
    #: Code.WAIT: how long, in seconds.
    wait_seconds: float | None = None

    @classmethod
    def unschedulable(cls, *reasons: Reason) -> Status:
        """Refuse in a way that evictions may cure."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: Reason) -> Status:
        """Refuse in a way that evictions cannot cure."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def error(cls, text: str) -> Status:
        """Report an accident."""
        return cls(Code.ERROR, (Reason("SchedulerError", text),))

    @classmethod
    def wait(cls, seconds: float, text: str = "") -> Status:
        """Hold the pod at Permit for at most this long."""
        return cls(Code.WAIT, (Reason("WaitingAtPermit", text),) if text else (), wait_seconds=seconds)

    @classmethod
    def skip(cls) -> Status:
        """Leave this plugin out."""
        return cls(Code.SKIP)

    def stamped(self, plugin: str) -> Status:
        """Return the status with the plugin's name on it."""
        return self if self.plugin else replace(self, plugin=plugin)

    @property
    def message(self) -> str:
        """All sentences, as one."""
        return ", ".join(reason.text for reason in self.reasons)


@dataclass(slots=True)
class PreFilterResult:
    """What PreFilter may answer beside a status: the only nodes worth looking at (None: all)."""

    node_names: frozenset[str] | None = field(default=None)
