"""Fabrics: the tree of domains that a constraint speaks of, made of Topology objects, HyperNodes or node labels alone.

For the engine, which places gangs in it.  Which one: the topology that the constraint names; else the first that has all the levels
it names, by their own names before aliases: built-in ones, then Topology objects of ours, of Kueue and of KAI; else the labels
of nodes that it names.  Trees are kept until what nodes or objects say of domains changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.model.hypernode import HyperNode
from scheduler.model.topology import Level, Topology, depths_by_name
from scheduler.model.topology_api import TOPOLOGY_KINDS
from scheduler.topology.fabric import HOST, Fabric
from scheduler.topology.hypernodes import HYPERNODES, hypernode_network
from scheduler.topology.levels import Network, networks_of, values_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model.topology_constraint import TopologyConstraint
    from scheduler.topology.levels import Values

    from .objects import Objects
    from .snapshot import Snapshot

_DIALECTS = {kind.dialect: rank for rank, kind in enumerate(TOPOLOGY_KINDS)}
_OWN, _BUILT_IN = "ai-scheduler", "built-in"
#: Answers and trees that are kept; beyond, all are forgotten and made anew.
_MOST_ANSWERS, _MOST_FABRICS = 4096, 64


class UnknownLevelError(Exception):
    """A constraint names a topology or a level that is not there; the text says which, and what may be named."""

    def __init__(self, field: str, value: str, allowed: Sequence[str]) -> None:
        """Keep the field of the constraint, what it says, and what it may say."""
        self.field = field
        self.value = value
        self.allowed = tuple(allowed)
        kind = "topology" if field == "topology" else "level"
        text = f"topology {field}" if field != "topology" else field
        super().__init__(f"{text}: there is no {kind} {value}; allowed: {', '.join(allowed) or 'none'}")


class _Candidate(NamedTuple):
    """A topology that may be chosen."""

    #: Whose it is, and its name.
    key: tuple[str, str]
    levels: tuple[Level, ...]
    host: Level
    #: Depth by name and label, without and with aliases.
    exact: Mapping[str, int]
    loose: Mapping[str, int]
    #: None for those whose values are read when they are chosen: their labels tell them.
    network: Network | None = None

    @property
    def names(self) -> list[str]:
        """The names of the levels, the widest first."""
        return [level.name for level in (*self.levels, self.host)]


class Fabrics:
    """The trees over the rows of a snapshot."""

    def __init__(self, objects: Objects) -> None:
        """Read Topologies and HyperNodes from here."""
        self._objects = objects
        self._snapshot: Snapshot | None = None
        self._generation = -1
        self._object_generations = (-1, -1)
        self._hosts: list[str] = []
        self._labels: list[dict[str, str]] = []
        self._forget()
        self._fabrics: dict[tuple[tuple[str, str], tuple[Level, ...]], tuple[Network, Fabric]] = {}

    def of(self, snapshot: Snapshot, constraint: TopologyConstraint | None = None) -> Fabric:
        """Return the tree for a constraint, whose rows are those of the snapshot; UnknownLevelError if there is none.

        Without a topology or a level to go by: the only Topology of ours if there is exactly one, else the built-in levels.
        O(1) while nothing changes; O(nodes) when a Node object did; O(nodes × levels × log nodes) to build.
        """
        self._look(snapshot)
        fabric = self._answers.get(constraint)
        if fabric is None:
            fabric = self._fabric(self._choose(constraint))
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[constraint] = fabric
        return fabric

    def hypernode_problems(self, snapshot: Snapshot) -> Mapping[str, str]:
        """Return what is wrong with HyperNodes, by name."""
        self._look(snapshot)
        return self._hypernodes()[1]

    def _look(self, snapshot: Snapshot) -> None:
        """Forget what rests on nodes or objects that have changed."""
        generations = self._objects.generation(Topology), self._objects.generation(HyperNode)
        is_same_snapshot = snapshot is self._snapshot and snapshot.node_generation == self._generation
        if is_same_snapshot and generations == self._object_generations:
            return
        if not is_same_snapshot:
            self._snapshot, self._generation = snapshot, snapshot.node_generation
            hosts = [row.node.name for row in snapshot.all_rows]
            labels = [row.node.labels for row in snapshot.all_rows]
            if hosts != self._hosts:
                self._fabrics.clear()
            if hosts != self._hosts or labels != self._labels:
                self._hosts, self._labels = hosts, labels
                self._forget()
        if generations != self._object_generations:
            self._object_generations = generations
            self._forget()

    def _forget(self) -> None:
        """Drop what is derived from labels and objects; trees stay, as their values may turn out to be the same."""
        self._answers: dict[TopologyConstraint | None, Fabric] = {}
        self._columns: dict[str, Values] = {}
        self._found: list[_Candidate] | None = None
        self._tiers: tuple[Network, dict[str, str]] | None = None
        self._keys: frozenset[str] | None = None

    def _choose(self, constraint: TopologyConstraint | None) -> _Candidate:
        """Return the topology for a constraint."""
        if constraint is not None and constraint.topology:
            return self._named(constraint)
        candidates = self._candidates()
        if constraint is None or not constraint.levels:
            own = [found for found in candidates if found.key[0] == _OWN]
            return own[0] if len(own) == 1 else candidates[0]
        wanted = {level for _, level in constraint.levels}
        for candidate in candidates:
            if wanted <= candidate.exact.keys():
                return candidate
        for candidate in candidates:
            if wanted <= candidate.loose.keys():
                return candidate
        return self._of_labels(constraint, wanted)

    def _named(self, constraint: TopologyConstraint) -> _Candidate:
        """Return the topology that a constraint names, if it has the levels."""
        name = constraint.topology
        if name == HYPERNODES and self._objects.all(HyperNode):
            network = self._hypernodes()[0]
            found = [_candidate((HYPERNODES, ""), network.levels, network)]
        else:
            found = [c for c in self._candidates() if c.key[1] == name and c.key[0] != _BUILT_IN]
        if not found:
            names = dict.fromkeys(c.key[1] for c in self._candidates() if c.key[0] != _BUILT_IN)
            hypernodes = [HYPERNODES] if self._objects.all(HyperNode) else []
            raise UnknownLevelError("topology", name, [*names, *hypernodes])
        for field, level in constraint.levels:
            if level not in found[0].loose:
                raise UnknownLevelError(field, level, found[0].names)
        return found[0]

    def _of_labels(self, constraint: TopologyConstraint, wanted: set[str]) -> _Candidate:
        """Return a topology of node labels that a constraint names as levels, those with fewer values wider."""
        if self._keys is None:
            self._keys = frozenset(set[str]().union(*self._labels))
        candidates = self._candidates()
        known = {name for candidate in candidates for name in candidate.loose} | self._keys
        for field, level in constraint.levels:
            if level not in known:
                names = dict.fromkeys(name for candidate in candidates for name in candidate.names)
                raise UnknownLevelError(field, level, [*names, "the key of any label that a node has"])
        hosts = {HOST.label, HOST.name, *HOST.aliases}
        if not wanted <= self._keys | hosts:  # each is somewhere, but not all in one topology
            best = max(candidates, key=lambda candidate: len(wanted & candidate.loose.keys()))
            field, level = next((field, level) for field, level in constraint.levels if level not in best.loose)
            raise UnknownLevelError(field, level, best.names)
        keys = sorted(wanted - hosts, key=lambda key: (len(set(self._column(key))), key))
        return _candidate(("labels", ""), tuple(Level(key, key) for key in keys))

    def _candidates(self) -> list[_Candidate]:
        """Return all topologies but that of HyperNodes, in the order in which they are tried."""
        if self._found is None:
            built_in = enumerate(networks_of(self._labels))
            self._found = [_candidate((_BUILT_IN, str(k)), network.levels, network) for k, network in built_in]
            topologies = self._objects.all(Topology).values()
            for topology in sorted(topologies, key=lambda t: (_DIALECTS.get(t.dialect, len(_DIALECTS)), t.name)):
                self._found.append(_candidate(topology.key, topology.levels))
        return self._found

    def _hypernodes(self) -> tuple[Network, dict[str, str]]:
        if self._tiers is None:
            self._tiers = hypernode_network(self._objects.all(HyperNode).values(), self._hosts, self._labels)
        return self._tiers

    def _column(self, label: str) -> Values:
        if label not in self._columns:
            self._columns[label] = values_at(self._labels, label)
        return self._columns[label]

    def _fabric(self, chosen: _Candidate) -> Fabric:
        """Return the tree of a topology: the former one if all values are as they were."""
        network = chosen.network or Network(chosen.levels, tuple(self._column(level.label) for level in chosen.levels))
        key = chosen.key, (*chosen.levels, chosen.host)
        kept = self._fabrics.get(key)
        if kept is not None and kept[0] == network:
            return kept[1]
        if len(self._fabrics) >= _MOST_FABRICS:
            self._fabrics.clear()
        fabric = Fabric(network.levels, network.columns, self._hosts, chosen.host)
        self._fabrics[key] = network, fabric
        return fabric


def _candidate(key: tuple[str, str], levels: tuple[Level, ...], network: Network | None = None) -> _Candidate:
    """Return a topology; a level of the nodes themselves becomes the last one, by whatever name."""
    host = HOST
    if levels and levels[-1].label == HOST.label:
        name = levels[-1].name
        host = HOST._replace(aliases=tuple(dict.fromkeys([*HOST.aliases, name])))
        levels = levels[:-1]
    every = (*levels, host)
    exact = depths_by_name(every, with_aliases=False) | ({host.aliases[-1]: len(levels)} if host != HOST else {})
    return _Candidate(key, levels, host, exact, depths_by_name(every), network)
