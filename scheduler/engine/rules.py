"""Rules: what a gang demands of the fabric, apart from room: together in one domain, apart from siblings, spread evenly.

For the exact search, which keeps to them step by step, and for the gathering, which holds against them what it found in other ways.
A rule's state is a value: a search that goes back takes the former one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scheduler.topology.dividing import even
from scheduler.topology.fabric import ROOT

from .parts import segments_of
from .regions import required_level

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints

    from .parts import Part

    States = tuple[Hashable, ...]

_UNSET = -1


class Rule(Protocol):
    """One demand on pods that are its own, and perhaps on others."""

    #: The domain of each row, shape (rows,).
    numbers: Ints

    def start(self) -> Hashable:
        """Return the state before any pod is placed."""

    def put(self, state: Hashable, number: int, *, is_own: bool) -> Hashable | None:
        """Return the state once a pod stands in a domain; None if it may not."""

    def open(self, states: States, me: int, *, is_own: bool) -> Bools | None:
        """Return the rows where one more pod may stand, shape (rows,); None for all."""

    def settle(self, states: States, me: int, ahead: Ahead) -> Hashable | None:
        """Return the state with what cannot matter any more left out; None if the rule cannot be kept any more."""


class Ahead:
    """What is still to come in a search: which pods, and which domains."""

    def __init__(self, own: int, others: int, placed: int, last: Mapping[int, int], at: int) -> None:
        """Take how many pods of a rule and how many others are left, how many of its own stand, and each domain's last row."""
        self.own = own
        self.others = others
        self.placed = placed
        self._last = last
        self._at = at

    def has(self, number: int) -> bool:
        """Tell whether rows of a domain are still to come."""
        return self._last.get(number, _UNSET) >= self._at


class Together:
    """Own pods stand in one domain; if some of them are on nodes already, in a domain of theirs."""

    def __init__(self, numbers: Ints, homes: Iterable[int]) -> None:
        """Take the domains, and those of members that are there."""
        self.numbers = numbers
        self._homes = frozenset(homes)

    def start(self) -> Hashable:
        """No domain is chosen."""
        return _UNSET

    def put(self, state: Hashable, number: int, *, is_own: bool) -> Hashable | None:
        """The first pod chooses the domain."""
        del is_own
        if state == _UNSET:
            return number if not self._homes or number in self._homes else None
        return state if state == number else None

    def open(self, states: States, me: int, *, is_own: bool) -> Bools | None:
        """Those of the domain, or of the members' domains."""
        del is_own
        state = states[me]
        assert isinstance(state, int)
        chosen = self._homes if state == _UNSET else {state}
        return np.isin(self.numbers, list(chosen)) if chosen else None

    def settle(self, states: States, me: int, ahead: Ahead) -> Hashable | None:
        """The domain matters until the last own pod is placed, and must still be to come."""
        if not ahead.own:
            return _UNSET
        state = states[me]
        if state == _UNSET:
            return _UNSET if not self._homes or any(map(ahead.has, self._homes)) else None
        assert isinstance(state, int)
        return state if ahead.has(state) else None


class Apart:
    """No domain has own pods and others: an exclusive part and its siblings."""

    def __init__(self, numbers: Ints, own: Iterable[int], others: Iterable[int]) -> None:
        """Take the domains, and those of members that are there."""
        self.numbers = numbers
        self._start = frozenset(own), frozenset(others)

    def start(self) -> Hashable:
        """Members that are there count."""
        return self._start

    def put(self, state: Hashable, number: int, *, is_own: bool) -> Hashable | None:
        """No pod goes where those of the other side are."""
        assert isinstance(state, tuple)
        own, others = state
        if number in (others if is_own else own):
            return None
        return (own | {number}, others) if is_own else (own, others | {number})

    def open(self, states: States, me: int, *, is_own: bool) -> Bools | None:
        """Those of domains without the other side."""
        state = states[me]
        assert isinstance(state, tuple)
        return ~np.isin(self.numbers, list(state[1 if is_own else 0]))

    def settle(self, states: States, me: int, ahead: Ahead) -> Hashable | None:
        """Domains that are past, or that nobody of the other side can come to, do not matter."""
        state = states[me]
        assert isinstance(state, tuple)
        own, others = state
        return (
            frozenset(filter(ahead.has, own)) if ahead.others else frozenset(),
            frozenset(filter(ahead.has, others)) if ahead.own else frozenset(),
        )


class Closed:
    """Own pods keep off some rows: those that other gangs have for themselves."""

    def __init__(self, closed: Bools) -> None:
        """Take the rows."""
        self.numbers: Ints = closed.astype(np.int64)

    def start(self) -> Hashable:
        """There is nothing to remember."""
        return _UNSET

    def put(self, state: Hashable, number: int, *, is_own: bool) -> Hashable | None:
        """Whether a row is closed is its number."""
        del is_own
        return None if number else state

    def open(self, states: States, me: int, *, is_own: bool) -> Bools | None:
        """Those that are not closed."""
        del states, me, is_own
        found: Bools = self.numbers == 0
        return found

    def settle(self, states: States, me: int, ahead: Ahead) -> Hashable | None:
        """There is nothing to leave out."""
        del ahead
        return states[me]


class Spread:
    """Own pods are divided evenly among the domains where one of them could have stood at first, or members are."""

    def __init__(self, numbers: Ints, members: Ints, open_: Bools, within: Sequence[tuple[int, Ints]]) -> None:
        """Take the domains, those of members, the rows that were open, and the rules that keep the pods in wider domains."""
        self.numbers = numbers
        self._there = Counter(members.tolist())
        self._open = open_
        self._within = within
        self._bounds: dict[Hashable, dict[int, tuple[int, int]]] = {}

    def start(self) -> Hashable:
        """Nothing is placed."""
        return ()

    def put(self, state: Hashable, number: int, *, is_own: bool) -> Hashable | None:
        """Count; whether the shares are even is seen when a domain is past."""
        del is_own
        assert isinstance(state, tuple)
        counts = dict(state)
        counts[number] = counts.get(number, 0) + 1
        return tuple(sorted(counts.items()))

    def open(self, states: States, me: int, *, is_own: bool) -> Bools | None:
        """Those of the domains that have the fewest."""
        del is_own
        state = states[me]
        assert isinstance(state, tuple)
        regions = tuple(states[rule] for rule, _ in self._within)
        if _UNSET in regions:
            return None
        counts = dict(state)
        bounds = self.bounds(regions, sum(counts.values()) + 1)
        lowest = [number for number, (_, high) in bounds.items() if counts.get(number, 0) < high]
        return np.isin(self.numbers, lowest)

    def settle(self, states: States, me: int, ahead: Ahead) -> Hashable | None:
        """No domain may have more than its share, and none that is past less; at the end, none at all."""
        state = states[me]
        assert isinstance(state, tuple)
        if state == _EVEN:
            return state
        regions = tuple(states[rule] for rule, _ in self._within)
        if _UNSET in regions or not (state or ahead.own):
            return state
        bounds, counts = self.bounds(regions, ahead.own + ahead.placed), dict(state)
        if any(count > bounds.get(number, (0, 0))[1] for number, count in counts.items()):
            return None
        past = [number for number in bounds if not ahead.own or not ahead.has(number)]
        if any(counts.get(number, 0) < bounds[number][0] for number in past):
            return None
        return state if ahead.own else _EVEN

    def bounds(self, regions: States, count: int) -> dict[int, tuple[int, int]]:
        """Return the least and the most of `count` pods that each domain takes; domains that are not named take none."""
        key = regions, count
        if key not in self._bounds:
            open_ = self._open
            for (_, numbers), region in zip(self._within, regions, strict=True):
                open_ = open_ & (numbers == region)
            domains = sorted({*np.unique(self.numbers[open_]).tolist(), *self._there})
            there = np.array([self._there[number] for number in domains], dtype=np.int64)
            shares = even(there, np.full(len(domains), count, dtype=np.int64), count)
            level = int((there + shares).min()) if shares is not None and domains else 0
            self._bounds[key] = {
                number: (max(0, level - self._there[number]), max(0, level + 1 - self._there[number]))
                for number in domains
            }
        return self._bounds[key]


_EVEN = ("even",)


class Rules:
    """All rules of a gang, and which pods each of them concerns."""

    def __init__(self) -> None:
        """Begin without any."""
        self.all: list[Rule] = []
        self._of: dict[str, list[tuple[int, bool]]] = {}

    def add(self, rule: Rule, own: Iterable[Pod], others: Iterable[Pod] = ()) -> int:
        """Add a rule on some pods; return its number."""
        number = len(self.all)
        self.all.append(rule)
        for pods, is_own in ((own, True), (others, False)):
            for pod in pods:
                self._of.setdefault(pod.uid, []).append((number, is_own))
        return number

    def of(self, pod: Pod) -> tuple[tuple[int, bool], ...]:
        """Return the rules on a pod, each with whether it is one of its own."""
        return tuple(self._of.get(pod.uid, ()))

    def start(self) -> States:
        """Return the states before any pod is placed."""
        return tuple(rule.start() for rule in self.all)

    def put(self, states: States, of: Iterable[tuple[int, bool]], row: int) -> States | None:
        """Return the states once a pod with some rules stands on a row; None if it may not. O(rules of the pod)."""
        changed = list(states)
        for number, is_own in of:
            rule = self.all[number]
            state = rule.put(changed[number], int(rule.numbers[row]), is_own=is_own)
            if state is None:
                return None
            changed[number] = state
        return tuple(changed)

    def after(self, placed: Iterable[tuple[Pod, int]]) -> States | None:
        """Return the states once these pods stand on their rows; None if they may not. O(pods × rules)."""
        states: States | None = self.start()
        for pod, row in placed:
            states = self.put(states, self.of(pod), row) if states is not None else None
        return states

    def open(self, states: States, pod: Pod, mask: Bools | None) -> Bools | None:
        """Return the rows of a mask where a pod may stand, shape (rows,). O(rows × rules of the pod)."""
        for number, is_own in self.of(pod):
            found = self.all[number].open(states, number, is_own=is_own)
            if found is not None:
                mask = found if mask is None else mask & found
        return mask

    def holds(self, placed: Iterable[tuple[Pod, int]]) -> bool:
        """Tell whether all rules are kept once these pods stand on their rows. O(pods × rules)."""
        pods = list(placed)
        states = self.after(pods)
        if states is None:
            return False
        own = Counter(number for pod, _ in pods for number, is_own in self.of(pod) if is_own)
        return all(
            rule.settle(states, number, Ahead(0, 0, own[number], {}, 0)) is not None
            for number, rule in enumerate(self.all)
        )


def rules_of(root: Part, taken: Mapping[tuple[str, str], Bools], open_to: Callable[[Part], Bools]) -> Rules:
    """Return what a gang demands; `taken` is what other gangs have for themselves, `open_to` on which rows a part could be."""
    rules = Rules()
    _add(rules, root, None, [], taken, open_to)
    return rules


def _add(
    rules: Rules, part: Part, above: Part | None, within: Sequence[tuple[int, Ints]],
    taken: Mapping[tuple[str, str], Bools], open_to: Callable[[Part], Bools],
) -> None:  # fmt: skip
    fabric, constraint, pods = part.fabric, part.constraint, list(part.all_pods())
    if fabric is not None and pods:
        if (level := required_level(fabric, constraint)) != ROOT and not _is_alone(part, pods):
            numbers = fabric.of_rows[level]
            number = rules.add(Together(numbers, numbers[part.home].tolist()), pods)
            within = [*within, (number, numbers)]
        if constraint.exclusive:
            _add_exclusive(rules, part, above, taken)
        if constraint.segment_size and (level_ := fabric.level_of(constraint.segment_required)) is not None:
            numbers = fabric.of_rows[level_]
            for segment in segments_of(part):
                if not _is_alone(segment, segment.pods):
                    rules.add(Together(numbers, numbers[segment.home].tolist()), segment.pods)
        if constraint.spread and (level_ := fabric.level_of(constraint.spread)) is not None:
            numbers = fabric.of_rows[level_]
            rules.add(Spread(numbers, numbers[part.home], open_to(part), within), pods)
    for below in part.parts:
        _add(rules, below, part, within, taken, open_to)


def _is_alone(part: Part, pods: Sequence[Pod]) -> bool:
    """Tell whether a part is one pod, which is in one domain wherever it goes."""
    return len(pods) == 1 and not part.placed


def _add_exclusive(rules: Rules, part: Part, above: Part | None, taken: Mapping[tuple[str, str], Bools]) -> None:
    fabric, constraint = part.fabric, part.constraint
    closed = taken.get((constraint.topology, constraint.exclusive))
    if closed is not None and closed.any():
        rules.add(Closed(closed), part.all_pods())
    level = fabric.level_of(constraint.exclusive) if fabric is not None else None
    if above is None or fabric is None or level is None:
        return
    numbers, mine = fabric.of_rows[level], {pod.uid for pod in part.all_pods()}
    members = {member.uid for member, _ in part.placed}
    others = [row for member, row in above.placed if member.uid not in members]
    rules.add(
        Apart(numbers, numbers[part.home].tolist(), numbers[np.array(others, dtype=np.int64)].tolist()),
        part.all_pods(), (pod for pod in above.all_pods() if pod.uid not in mine),
    )  # fmt: skip
