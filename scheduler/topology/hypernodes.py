"""Levels from Volcano's HyperNodes: a level for each tier, and for each node the HyperNode of that tier that contains it.

For `state.fabrics`.  Tiers count from the node: 1 is the nearest.  What makes no sense (cycles, tiers that do not ascend, members
that nobody knows, nodes in two HyperNodes of one tier) is told as a problem of the HyperNode, and the rest goes on.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduler.model.hypernode import HYPERNODE_GROUP
from scheduler.model.label_tests import selects
from scheduler.model.topology import Level

from .fabric import natural
from .levels import Network

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.model.hypernode import HyperNode, Member
    from scheduler.model.label_tests import Selector

    from .levels import Values

#: What a constraint calls the network of HyperNodes.
HYPERNODES = "hypernodes"


def hypernode_network(
    hypernodes: Iterable[HyperNode], hosts: Sequence[str], labels: Sequence[Mapping[str, str]]
) -> tuple[Network, dict[str, str]]:
    """Return the levels `tier-N`, the highest first, and what is wrong, as sentences by the HyperNode's name.

    A node whose HyperNode is in none of the next tier is, there, in a domain of that HyperNode's name: what is near stays
    together in what is wide.  O(nodes × members) for patterns and label selectors, O(members) for names.
    """
    found = sorted(hypernodes, key=lambda hypernode: (hypernode.tier, natural(hypernode.name)))
    known = {hypernode.name: hypernode for hypernode in found if hypernode.tier >= 0}
    problems: dict[str, list[str]] = {name.name: list(name.problems) for name in found}
    members = _Members(known, hosts, labels, problems)
    rows_of: dict[str, set[int]] = {}
    by_tier: dict[int, Values] = {}
    for name, hypernode in known.items():  # the lowest tiers first, so members are there before whoever contains them
        children, rows_of[name] = members.of(hypernode)
        rows_of[name] |= {row for child in children for row in rows_of[child]}
        column = by_tier.setdefault(hypernode.tier, [None] * len(hosts))
        taken = sorted(row for row in rows_of[name] if column[row] is not None)
        if taken:
            more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
            text = f"{hosts[taken[0]]}{more} is in {column[taken[0]]} of tier {hypernode.tier} already, which counts"
            problems[name].append(f"spec.members: node {text}")
        for row in rows_of[name].difference(taken):
            column[row] = name
    tiers = sorted(by_tier)
    for tighter, wider in pairwise(tiers):
        pairs = zip(by_tier[wider], by_tier[tighter], strict=True)
        by_tier[wider] = [inner if value is None else value for value, inner in pairs]
    network = Network(
        tuple(Level(f"tier-{tier}", f"{HYPERNODE_GROUP}/tier-{tier}", _words(tier, known)) for tier in reversed(tiers)),
        tuple(by_tier[tier] for tier in reversed(tiers)),
    )
    return network, {name: "; ".join(texts) for name, texts in problems.items() if texts}


def _words(tier: int, known: Mapping[str, HyperNode]) -> tuple[str, ...]:
    """Return what the HyperNodes of a tier call it."""
    return tuple(sorted({h.tier_name for h in known.values() if h.tier == tier and h.tier_name}))


class _Members:
    """Finds the members of HyperNodes."""

    def __init__(
        self,
        known: Mapping[str, HyperNode],
        hosts: Sequence[str],
        labels: Sequence[Mapping[str, str]],
        problems: dict[str, list[str]],
    ) -> None:
        self._known = known
        self._hosts = hosts
        self._labels = labels
        self._problems = problems
        self._row_of = {host: row for row, host in enumerate(hosts)}
        self._rows_with: dict[str, dict[str, list[int]]] = {}

    def of(self, hypernode: HyperNode) -> tuple[list[str], set[int]]:
        """Return the HyperNodes of lower tiers and the rows that are members; note what is wrong."""
        children: list[str] = []
        rows: set[int] = set()
        for index, member in enumerate(hypernode.members):
            path = f"spec.members[{index}]"
            if member.is_hypernode:
                for name in self._names(hypernode, member, self._known, path):
                    wrong = self._misfit(hypernode, name)
                    if wrong:
                        self._problems[hypernode.name].append(f"{path}: {wrong}")
                    else:
                        children.append(name)
            elif member.selector is not None:
                rows.update(self._selected(member.selector))
            else:
                rows.update(self._row_of[name] for name in self._names(hypernode, member, self._row_of, path))
        return children, rows

    def _names(self, hypernode: HyperNode, member: Member, known: Mapping[str, object], path: str) -> Iterator[str]:
        """Yield the names among the known ones that a member stands for."""
        if member.name:
            if member.name in known:
                yield member.name
            else:
                kind = "HyperNode" if member.is_hypernode else "node"
                self._problems[hypernode.name].append(f"{path}: there is no {kind} {member.name}")
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a class such as [[:alpha:]], which means something else here
                pattern = re.compile(member.pattern)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            self._problems[hypernode.name].append(
                f"{path}.selector.regexMatch: {member.pattern!r} cannot be read: {error}"
            )
            return
        yield from (
            name for name in known if pattern.search(name) and not (member.is_hypernode and name == hypernode.name)
        )

    def _misfit(self, hypernode: HyperNode, name: str) -> str:
        """Return why a HyperNode cannot be a member; empty if it can."""
        tier = self._known[name].tier
        if tier < hypernode.tier:
            return ""
        if self._reaches(name, hypernode.name):
            return f"HyperNode {name} contains {hypernode.name} itself, which is a cycle"
        return f"HyperNode {name} has tier {tier}; allowed are members of tiers below {hypernode.tier}"

    def _reaches(self, start: str, end: str) -> bool:
        """Tell whether a HyperNode contains another through members that are named."""
        waiting, seen = [start], set[str]()
        while waiting:
            name = waiting.pop()
            if name == end:
                return True
            if name in self._known and name not in seen:
                seen.add(name)
                waiting += [member.name for member in self._known[name].members if member.is_hypernode and member.name]
        return False

    def _selected(self, selector: Selector) -> Iterable[int]:
        """Return the rows whose labels a selector takes; one that wants a value of a label looks at rows with it only."""
        wanted = next((test for test in selector if test.operator == "In"), None)
        if wanted is None:
            return (row for row, mine in enumerate(self._labels) if selects(selector, mine))
        rows = self._index(wanted.key)
        return (row for value in wanted.values for row in rows.get(value, ()) if selects(selector, self._labels[row]))

    def _index(self, key: str) -> dict[str, list[int]]:
        """Return the rows by value of a label."""
        if key not in self._rows_with:
            rows: dict[str, list[int]] = defaultdict(list)
            for row, mine in enumerate(self._labels):
                if key in mine:
                    rows[mine[key]].append(row)
            self._rows_with[key] = rows
        return self._rows_with[key]
