"""PodIndex: how many pods of which kind stand on each node, kept up to date pod by pod.

For plugins that count pods by labels (spreading, affinity) and for those that ask which pods have something against a new
one.  Pods are grouped by namespace and by those labels that some selector has named so far, so that a new selector looks at
groups and never at pods; a column of counts per selector is then kept up to date.  Nodes have slots that stay while rows move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.model.label_tests import Selector, selects
from scheduler.model.pod_claims import named_claims

from .tally import Counts, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.model.pod_terms import PodTerm

    from .rows import Row

#: How many columns of counts are kept, and how many groups before empty ones are looked for.
MOST_COUNTS = 1024
MOST_GROUPS = 4096
_SMALLEST_CAPACITY = 64


class Question(msgspec.Struct, frozen=True, gc=False):
    """Which pods are counted: those that satisfy all parts, each of some namespaces (None: all) and a selector."""

    parts: tuple[tuple[tuple[str, ...] | None, Selector | None], ...]
    #: Pods that are terminating do not count (but a what-if that takes one away subtracts it, as in kube-scheduler).
    leaves_terminating_out: bool = False
    #: Only pods that a what-if places or takes away count.
    counts_trials_only: bool = False

    def means(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a pod is counted."""
        return all(
            (namespaces is None or namespace in namespaces) and selects(selector, labels)
            for namespaces, selector in self.parts
        )

    def keys(self) -> list[str]:
        """Return the label keys that it reads."""
        return [test.key for _, selector in self.parts for test in selector or ()]


@dataclass(slots=True, eq=False)
class Count:
    """The answer to a question: a column over slots, and a number that is new after every change."""

    question: Question
    column: Counts
    version: int = 0


@dataclass(slots=True, eq=False)
class Carried:
    """An affinity term, how many pods of each node carry it, and a number that is new after every change."""

    #: affinity, anti_affinity, preferred or preferred_anti.
    kind: str
    weight: int
    term: PodTerm
    tally: Tally
    version: int = 0


class _Group:
    """Pods of one namespace that are alike to every selector so far."""

    __slots__ = ("alive", "all", "counts", "labels", "namespace")

    def __init__(self, namespace: str, labels: dict[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.all = Tally()
        self.alive = Tally()
        self.counts: list[Count] = []


class PodIndex:
    """The index of one snapshot; it is filled when it is first asked."""

    def __init__(self) -> None:
        """Start empty; `fill` and the changes that the snapshot reports do the rest."""
        self.is_filled = False
        #: The slot of each row, shape (rows,).
        self.slots: Counts = np.zeros(0, dtype=np.int64)
        self.capacity = 0
        #: Slots are row numbers.
        self._is_in_order = True
        self._slot_of: dict[str, int] = {}
        self._free: list[int] = []
        #: Label keys that selectors have named, in the order in which they came.
        self._keys: dict[str, None] = {}
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], _Group] = {}
        self._is_grouping = False
        self._by_namespace: dict[str, dict[_Group, None]] = {}
        self._by_label: dict[tuple[str, str], dict[_Group, None]] = {}
        self._counts: dict[Question, Count] = {}
        #: Counts by a label that a pod must have to be counted; the rest under None.
        self._counts_by_label: dict[tuple[str, str] | None, list[Count]] = {}
        self._carried: dict[tuple[str, int, PodTerm], Carried] = {}
        #: Carried terms by a label that a pod must have to be meant; the rest under None.
        self._carried_by_label: dict[tuple[str, str] | None, dict[Carried, None]] = {}
        #: (namespace, claim) to the uids of the placed pods that name it.
        self._users: dict[tuple[str, str], dict[str, int]] = {}
        #: By slot: the pods that are counted there, what-ifs aside.
        self._counted: dict[int, dict[str, Pod]] = {}
        #: What-ifs under way: (uid, +1 or -1) to the pod and its slot.
        self._trials: dict[tuple[str, int], tuple[Pod, int]] = {}
        self._versions = 0
        #: Grows whenever a pod that carries terms is counted in or out.
        self.carried_version = 0
        self._most_groups = MOST_GROUPS
        self._most_carried = MOST_GROUPS

    def count(self, question: Question) -> Count:
        """Return the counts for a question, kept up to date from now on. O(groups that may be meant) the first time."""
        found = self._counts.get(question)
        if found is not None:
            return found
        self.name_keys(question.keys())
        if len(self._counts) >= MOST_COUNTS:
            self._forget_counts()
        self._versions += 1
        found = Count(question, np.zeros(self.capacity, dtype=np.int64), self._versions)
        self._counts[question] = found
        for place in _places(question):
            self._counts_by_label.setdefault(place, []).append(found)
        for group in self._candidates(question):
            if question.means(group.namespace, group.labels):
                group.counts.append(found)
                if not question.counts_trials_only:
                    (group.alive if question.leaves_terminating_out else group.all).add_to(found.column)
        if question.counts_trials_only:
            for (_, sign), (pod, slot) in self._trials.items():
                if question.means(pod.namespace, pod.labels):
                    found.column[slot] += sign
        return found

    def carried(
        self, kinds: Sequence[str], namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[Carried]:
        """Return the terms of placed pods that mean a pod with this namespace and these labels."""
        return [
            carried
            for place in (None, *labels.items())
            for carried in self._carried_by_label.get(place, ())
            if carried.kind in kinds
            and not carried.tally.is_zero()
            and carried.term.matches(namespace, labels, namespace_labels)
        ]

    def all_carried(self, kind: str) -> Iterator[Carried]:
        """Yield every term of a kind that some placed pod carries."""
        return (c for c in self._carried.values() if c.kind == kind and not c.tally.is_zero())

    def claim_users(self, namespace: str, claim: str) -> list[str]:
        """Return the uids of the placed pods that name a claim."""
        return list(self._users.get((namespace, claim), ()))

    def projection(self, labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        """Return the labels as far as some selector has named them: pods with equal ones are alike. O(labels)."""
        keys = self._keys
        return frozenset([label for label in labels.items() if label[0] in keys])

    def by_rows(self, column: Counts) -> Counts:
        """Return a column over slots as one over rows."""
        return column[: len(self.slots)].copy() if self._is_in_order else column[self.slots]

    def name_keys(self, keys: Iterable[str]) -> None:
        """Tell pods apart by these labels too. O(pods) if one is new."""
        new = [key for key in dict.fromkeys(keys) if key not in self._keys]
        if new:
            self._keys.update(dict.fromkeys(new))
            self._regroup()

    def fill(self, rows: Sequence[Row]) -> None:
        """Count everything from scratch."""
        self.is_filled = True
        self._place_rows(rows)
        carriers = [pod.terms for row in rows for pod in row.pods.values() if pod.terms is not None]
        self.name_keys(key for terms in carriers for key in terms.label_keys())
        for row in rows:
            slot = self._slot_of[row.node.name]
            for pod in row.pods.values():
                self._add(pod, slot, 1)

    def rows_replaced(self, old: Sequence[Row], new: Sequence[Row]) -> None:
        """Follow a new list of rows."""
        before, after = {row.node.name: row for row in old}, {row.node.name: row for row in new}
        for name, row in before.items():
            if name not in after:
                slot = self._slot_of.pop(name)
                for pod in row.pods.values():
                    self._add(pod, slot, -1)
                self._free.append(slot)
        self._place_rows(new)
        for name, row in after.items():
            former = before.get(name)
            if former is not row:
                self.row_replaced(name, former, row)

    def row_replaced(self, name: str, old: Row | None, new: Row) -> None:
        """Follow what changed on one node."""
        slot = self._slot_of[name]
        before = old.pods if old is not None else {}
        for uid, pod in before.items():
            if new.pods.get(uid) is not pod:
                self._add(pod, slot, -1)
        for uid, pod in new.pods.items():
            if before.get(uid) is not pod:
                self._add(pod, slot, 1)

    def begin_trial(self, pod: Pod, name: str, sign: int) -> None:
        """Follow a what-if: a pod is placed (+1) or taken away (-1)."""
        self._add(pod, self._slot_of[name], sign, trial=(pod.uid, sign))

    def end_trial(self, pod: Pod, name: str, sign: int) -> None:
        """Undo a what-if; one that began before the index was filled was counted like any pod."""
        key = (pod.uid, sign)
        self._add(pod, self._slot_of[name], -sign, trial=key if key in self._trials else None)

    def keep_trial(self, pod: Pod) -> None:
        """Count a pod that is not terminating and was placed in a what-if for good."""
        group, (_, slot) = self._group_of(pod), self._trials.pop((pod.uid, 1), (pod, None))
        if slot is not None:  # else the index was filled meanwhile
            self._counted.setdefault(slot, {})[pod.uid] = pod
            for known in group.counts:
                if known.question.counts_trials_only:
                    known.column[slot] -= 1
                    self._versions += 1
                    known.version = self._versions

    def _add(self, pod: Pod, slot: int, count: int, *, trial: tuple[str, int] | None = None) -> None:
        """Count a pod in or out; a what-if, which begins or ends here, counts a terminating pod as if it were none."""
        carried = self._carried_by(pod) if pod.terms is not None else ()
        group = self._group_of(pod)  # this and the line above may group anew: what is counted is noted after them
        if trial is None:
            counted = self._counted.setdefault(slot, {})
            if count > 0:
                counted[pod.uid] = pod
            else:
                counted.pop(pod.uid, None)
        elif trial in self._trials:
            del self._trials[trial]
        else:
            self._trials[trial] = pod, slot
        is_trial = trial is not None
        is_alive = is_trial or not pod.is_terminating
        group.all.add(slot, count, self.capacity)
        if is_alive:
            group.alive.add(slot, count, self.capacity)
        for known in group.counts:
            question = known.question
            if (is_alive or not question.leaves_terminating_out) and (is_trial or not question.counts_trials_only):
                known.column[slot] += count
                self._versions += 1
                known.version = self._versions
        if pod.volumes:
            self._use_claims(pod, count)
        for term in carried:
            term.tally.add(slot, count, self.capacity)
            self._versions += 1
            self.carried_version = term.version = self._versions

    def _use_claims(self, pod: Pod, count: int) -> None:
        for claim in set(named_claims(pod)):
            users = self._users.setdefault((pod.namespace, claim), {})
            users[pod.uid] = users.get(pod.uid, 0) + count
            if not users[pod.uid]:
                del users[pod.uid]
            if not users:
                del self._users[pod.namespace, claim]

    def _carried_by(self, pod: Pod) -> list[Carried]:
        """Return the terms of a pod; one term twice if it names it twice."""
        terms = pod.terms
        if terms is None:
            return []
        if len(self._carried) >= self._most_carried:
            self._forget_uncarried()
            self._most_carried = max(MOST_GROUPS, 2 * len(self._carried))
        self.name_keys(terms.label_keys())
        return [
            *[self._carried_term("affinity", 1, term) for term in terms.affinity],
            *[self._carried_term("anti_affinity", 1, term) for term in terms.anti_affinity],
            *[self._carried_term("preferred", weight, term) for weight, term in terms.preferred],
            *[self._carried_term("preferred_anti", weight, term) for weight, term in terms.preferred_anti],
        ]

    def _carried_term(self, kind: str, weight: int, term: PodTerm) -> Carried:
        key = (kind, weight, term)
        found = self._carried.get(key)
        if found is None:
            found = self._carried[key] = Carried(kind, weight, term, Tally())
            self._carried_by_label.setdefault(_place(term), {})[found] = None
        return found

    def _forget_uncarried(self) -> None:
        """Forget the terms that no pod carries any more."""
        for key, carried in list(self._carried.items()):
            if carried.tally.is_zero():
                del self._carried[key]
                place = _place(carried.term)
                del self._carried_by_label[place][carried]
                if not self._carried_by_label[place]:
                    del self._carried_by_label[place]

    def _group_of(self, pod: Pod) -> _Group:
        key = (pod.namespace, self.projection(pod.labels))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= self._most_groups and not self._is_grouping:
                self._regroup()
            group = self._groups[key] = _Group(pod.namespace, dict(key[1]))
            self._by_namespace.setdefault(pod.namespace, {})[group] = None
            for label in group.labels.items():
                self._by_label.setdefault(label, {})[group] = None
            asked = dict.fromkeys(
                c for place in (None, *group.labels.items()) for c in self._counts_by_label.get(place, ())
            )
            group.counts = [c for c in asked if c.question.means(group.namespace, group.labels)]
        return group

    def _candidates(self, question: Question) -> Iterable[_Group]:
        """Return the groups that may be meant: by a label that they must have, else by their namespaces."""
        for _, selector in question.parts:
            if selector is None:
                return ()
            for test in selector:
                if test.operator == "In":
                    return dict.fromkeys(g for v in test.values for g in self._by_label.get((test.key, v), ()))
        namespaces = question.parts[0][0] if question.parts else ()
        if namespaces is None:
            return list(self._groups.values())
        return [group for namespace in namespaces for group in self._by_namespace.get(namespace, ())]

    def _regroup(self) -> None:
        """Tell all pods apart anew, by more labels, without the groups that are empty; counts stay as they are."""
        self._groups, self._by_namespace, self._by_label = {}, {}, {}
        self._is_grouping = True
        for slot, pods in self._counted.items():
            for pod in pods.values():
                group = self._group_of(pod)
                group.all.add(slot, 1, self.capacity)
                if not pod.is_terminating:
                    group.alive.add(slot, 1, self.capacity)
        for (_, sign), (pod, slot) in self._trials.items():
            group = self._group_of(pod)
            group.all.add(slot, sign, self.capacity)
            group.alive.add(slot, sign, self.capacity)
        self._is_grouping = False
        self._most_groups = max(MOST_GROUPS, 2 * len(self._groups))

    def _place_rows(self, rows: Sequence[Row]) -> None:
        """Give every row a slot."""
        for row in rows:
            name = row.node.name
            if name not in self._slot_of:
                self._slot_of[name] = self._free.pop() if self._free else len(self._slot_of)
        needed = len(self._slot_of) + len(self._free)
        if needed > self.capacity:
            self.capacity = max(_SMALLEST_CAPACITY, needed + needed // 4)  # little slack: every column is as long
            for count in self._counts.values():
                grown = np.zeros(self.capacity, dtype=np.int64)
                grown[: len(count.column)] = count.column
                count.column = grown
        self.slots = np.array([self._slot_of[row.node.name] for row in rows], dtype=np.int64)
        self._is_in_order = bool((self.slots == np.arange(len(rows))).all())

    def _forget_counts(self) -> None:
        self._counts.clear()
        self._counts_by_label.clear()
        for group in self._groups.values():
            group.counts = []


def _place(term: PodTerm) -> tuple[str, str] | None:
    """Return a label that pods must have to be meant by a term; None if there is no single one."""
    for test in term.selector or ():
        if test.operator == "In" and len(test.values) == 1:
            return test.key, test.values[0]
    return None


def _places(question: Question) -> list[tuple[str, str] | None]:
    """Return labels of which pods must have one to be counted; None alone if there are no such labels."""
    for _, selector in question.parts:
        for test in selector or ():
            if test.operator == "In":
                return [(test.key, value) for value in test.values]
    return [None]
