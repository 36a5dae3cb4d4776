"""Topology: our own description of the network as pydantic models, from which `crds/` is generated.

For the generator and for whoever writes a Topology from Python.  The scheduler itself reads topologies of every project through
`topology_api`.
"""

from typing import Final

from pydantic import Field, JsonValue

from .podgroup import Condition, _Part

MOST_LEVELS: Final = 16
HOST_LABEL: Final = "kubernetes.io/hostname"
#: A qualified name, as the API server has it for label keys.
_LABEL_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$"
)


def _unique(field: str) -> dict[str, JsonValue]:
    """Return the rule that no two levels have the same value of a field."""
    return {
        "rule": f"self.all(x, self.exists_one(y, y.{field} == x.{field}))",
        "message": f"each {field} may stand once",
    }


class TopologyLevel(_Part):
    """One level: the nodes whose label has the same value are one domain of it."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    """What workloads call the level, as one word such as `rack`."""
    node_label: str = Field(min_length=1, max_length=316, pattern=_LABEL_KEY)
    """The node label whose value names the domain that a node is in. A node without it, or with an empty value, is a domain
    of its own."""


class TopologySpec(_Part):
    """What the network looks like."""

    levels: list[TopologyLevel] = Field(
        min_length=1,
        max_length=MOST_LEVELS,
        json_schema_extra={
            "x-kubernetes-list-type": "atomic",
            "x-kubernetes-validations": [
                _unique("name"),
                _unique("nodeLabel"),
                {
                    "rule": (
                        f"!self.exists(x, x.nodeLabel == '{HOST_LABEL}') || "
                        f"self[size(self) - 1].nodeLabel == '{HOST_LABEL}'"
                    ),
                    "message": f"{HOST_LABEL} may be the last level only: nothing is below a node",
                },
            ],
        },
    )
    """The levels from the widest to the tightest. Each domain lies in one domain of the level before it: domains of the same
    name in two racks are two domains. The nodes themselves are the level below the last, and need not be named."""


class TopologyCondition(Condition):
    """One aspect of the topology's state."""

    type: str = Field(min_length=1, max_length=316)
    """The aspect; `Usable` is False while no node has the label of one of the levels; the message counts the domains of each."""


class TopologyStatus(_Part):
    """What the scheduler has to say; written by it alone."""

    conditions: list[TopologyCondition] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """The state by aspect."""


class Topology(_Part):
    """The levels of the network between nodes, as node labels tell them.

    Workloads name it, or only its levels; one that is the only one counts for all workloads that name neither.
    """

    spec: TopologySpec
    """What the network looks like."""
    status: TopologyStatus | None = None
    """What the scheduler has to say; written by it alone."""
