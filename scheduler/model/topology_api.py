"""Topology objects as they come over the wire, of our own kind, Kueue's and KAI's, and their readers.

For the edges, which watch or load them.  All three say the same: node labels, from the widest level to the tightest; ours and
KAI's may name the levels.  What makes no sense becomes a problem of the topology, and what is left of it is used.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from .api import ObjectMeta
from .gang import PREFIX
from .topology import Level, Topology
from .volume_api import ApiStruct

HOST_LABEL: Final = "kubernetes.io/hostname"


class TopologyKind(NamedTuple):
    """A kind of Topology object: whose it is, and where it is served."""

    dialect: str
    group: str
    #: The newest first.
    versions: tuple[str, ...]


#: In the order in which a name is looked up.
TOPOLOGY_KINDS: Final = (
    TopologyKind("ai-scheduler", PREFIX, ("v1alpha1",)),
    TopologyKind("kueue", "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1")),
    TopologyKind("kai", "kai.scheduler", ("v1alpha1",)),
)


class ApiLevel(ApiStruct, frozen=True):
    """A level; ours call its name `name`, KAI's `alias`, and Kueue's have none."""

    node_label: str = ""
    name: str = ""
    alias: str | None = None


class TopologySpec(ApiStruct, frozen=True):
    """The levels, from the widest to the tightest."""

    levels: list[ApiLevel] | None = None


class ApiTopology(ApiStruct, frozen=True):
    """A Topology of any project."""

    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()


def topology_from_api(api: ApiTopology, dialect: str = "ai-scheduler") -> Topology:
    """Return the view of an object; levels that cannot be used are left out and named in its problems."""
    problems: list[str] = []
    levels = _usable(api.spec.levels or [], problems)
    names = _names(levels, problems)
    return Topology(
        name=api.metadata.name,
        dialect=dialect,
        uid=api.metadata.uid,
        generation=api.metadata.generation,
        levels=tuple(Level(name, level.node_label) for name, level in zip(names, levels, strict=True)),
        problems=tuple(problems),
    )


def _usable(levels: list[ApiLevel], problems: list[str]) -> list[ApiLevel]:
    """Return the levels with a label that no wider level has, down to the nodes themselves."""
    usable: list[ApiLevel] = []
    known: set[str] = set()
    for index, level in enumerate(levels):
        path = f"spec.levels[{index}].nodeLabel"
        if not level.node_label:
            problems.append(f"{path}: it is empty; allowed is the key of a node label")
        elif level.node_label in known:
            problems.append(f"{path}: {level.node_label} stands twice; allowed is each label once")
        elif HOST_LABEL in known:
            problems.append(f"{path}: {level.node_label} stands below {HOST_LABEL}; allowed is nothing below a node")
        else:
            known.add(level.node_label)
            usable.append(level)
    if not levels:
        problems.append("spec.levels: it is empty; allowed are levels of node labels, the widest first")
    return usable


def _names(levels: list[ApiLevel], problems: list[str]) -> list[str]:
    """Return what each level is called: as the object says, or the last part of its label, or the label if that is taken."""
    given = Counter(name for level in levels if (name := level.name or level.alias))
    last = Counter(level.node_label.rpartition("/")[2] for level in levels)
    names: list[str] = []
    for level in levels:
        name, tail = level.name or level.alias or "", level.node_label.rpartition("/")[2]
        if name and name in names:
            problems.append(
                f"spec.levels: two are named {name}; the wider one is called so, the other {level.node_label}"
            )
            name = ""
        elif not name and last[tail] == 1 and not given[tail]:
            name = tail
        names.append(name or level.node_label)
    return names
