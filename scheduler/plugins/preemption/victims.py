"""Victims: who may be evicted, how important each is, and what budgets say.

For both preemption plugins; pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler.model.checkpoints import accelerators, saved_at
from scheduler.model.needs import Needs
from scheduler.model.preemptibility import stated_preemptibility
from scheduler.model.selectors import matches_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from scheduler.framework.handle import Handle, Rules
    from scheduler.model import Budget, Gang, GangKey, Pod


#: So many pods that are going anyway are named.
_MOST_NAMES = 3


def importance(pod: Pod, now: float) -> tuple[int, float, str]:
    """Return a key that sorts the most important pod first: priority, then the earlier start, then the uid.

    A pod without a start time counts as just started (kube-scheduler, §2a.27 of its measured behaviour).
    """
    return (-pod.priority, now if pod.started is None else pod.started, pod.uid)


def importance_by_start(pod: Pod, now: float) -> tuple[int, float]:
    """Return kube-scheduler's key: priority, then the earlier start; equal pods keep the order of their node."""
    return importance(pod, now)[:2]


def is_leaving_by_preemption(pod: Pod) -> bool:
    """Tell whether a pod is terminating because a scheduler evicted it; its first DisruptionTarget condition says so."""
    if not pod.is_terminating:
        return False
    condition = next((c for c in pod.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"


def budgets_of(pod: Pod, budgets: Sequence[Budget]) -> list[Budget]:
    """Return the budgets that count a pod's eviction, in their order.

    A budget with an empty selector protects nobody (as kube-scheduler); one that lists the pod as disrupted has counted it.
    """
    if not pod.labels:
        return []
    return [
        budget
        for budget in budgets
        if budget.namespace == pod.namespace
        and _protects(budget)
        and matches_labels(budget.selector, pod.labels)
        and pod.name not in budget.disrupted_pods
    ]


def split_by_budget(pods: Iterable[Pod], budgets: Sequence[Budget]) -> tuple[list[Pod], list[Pod]]:
    """Return (violating, others), each in the given order.

    Budgets are charged in order as pods are walked; a pod breaks at most one, checking stops there, and the later ones
    are not charged.
    """
    left = {id(budget): budget.disruptions_allowed for budget in budgets}
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        broken = False
        for budget in budgets_of(pod, budgets):
            left[id(budget)] -= 1
            if left[id(budget)] < 0:
                broken = True
                break
        (violating if broken else others).append(pod)
    return violating, others


def going_too(pods: Iterable[Pod]) -> str:
    """Return the end of a plan's message that names pods whose room it counts on and that are going anyway."""
    names = sorted(f"{pod.namespace}/{pod.name}" for pod in pods)
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    verb = "is" if len(names) == 1 else "are"
    return f", besides {', '.join(names[:_MOST_NAMES])}{more}, which {verb} going already"


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that go together or not at all: a pod, or all members of a gang that would fall below its minimum."""

    #: Members with their node names, most important first.
    pods: tuple[tuple[Pod, str], ...]
    priority: int
    gang: GangKey | None = None
    #: A pod that is going anyway.
    is_going: bool = False
    #: Those of the pods that their gang can do without.
    surplus: tuple[Pod, ...] = ()
    #: The pods without their nodes.
    members: tuple[Pod, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Take the pods off their nodes, once."""
        object.__setattr__(self, "members", tuple(pod for pod, _ in self.pods))


@dataclass(slots=True)
class _Split:
    """A gang's placed members, those that go last first, and the unit of each."""

    placed: list[tuple[Pod, str]]
    units: dict[str, Unit | None]
    #: Whether some of them, not all, can be done without, so that it matters who goes.
    has_choice: bool
    #: Node name → uid → the units of the members there, if nobody goes elsewhere.
    by_node: dict[str, dict[str, Unit | None]] = field(default_factory=dict)


class Units:
    """Which unit each placed pod belongs to, if evicted for someone of a given priority. Computed per attempt.

    A pod that is going anyway is a unit of its own, whatever its priority: it costs nothing but the wait.  Pods that were
    evicted and did not go in time are not counted on.
    """

    def __init__(
        self,
        handle: Handle,
        priority: int,
        spared: GangKey | None,
        rules: Rules | None = None,
        first: Collection[str] = (),
    ) -> None:
        """Take the preemptor's priority and its own gang, which is spared; with `rules` these decide, not the priority.

        Of members that their gang can do without, those on the nodes `first` go before others.
        """
        self._rules = rules
        self._cluster = handle.cluster
        self._is_stuck = handle.is_stuck
        self._priority = priority
        self._spared = spared
        self._now = handle.now()
        self._first = first
        self._gangs: dict[GangKey, _Split] = {}

    def of(self, pod: Pod, node_name: str) -> Unit | None:
        """Return what evicting a pod entails; None if it may not be evicted for this preemptor."""
        if self._is_stuck(pod.uid):
            return None
        if self._cluster.is_going(pod):
            can_follow = self._rules is None or self._rules.may_follow(pod)
            return Unit(((pod, node_name),), pod.priority, is_going=True) if can_follow else None
        if not self._may_evict(pod):
            return None
        key = self._cluster.gang_of(pod)
        if key is None or key not in self._cluster.gangs:
            return Unit(((pod, node_name),), pod.priority)
        if key == self._spared:
            return None
        if key not in self._gangs:
            self._gangs[key] = self._split(key)
        return self._gangs[key].units.get(pod.uid)

    def on_node(self, pod: Pod, node_name: str) -> Unit | None:
        """Return what evicting a pod entails if room is made on its node alone: its gang gives first what stands there."""
        unit, key = self.of(pod, node_name), self._cluster.gang_of(pod)
        split = self._gangs.get(key) if key is not None else None
        if split is None or not split.has_choice or pod.uid not in split.units:
            return unit
        assert key is not None
        here = split.by_node.get(node_name)
        if here is None:
            alone = self._spare(key, split.placed, [entry for entry in split.placed if entry[1] == node_name])[1]
            here = split.by_node[node_name] = {member.uid: self._alone(member, node) for member, node in alone}
        return here.get(pod.uid, unit)

    def has_choice(self, gone: Iterable[Pod]) -> bool:
        """Tell whether among pods a whole gang goes that can do without some members, so that others might do."""
        uids = {pod.uid for pod in gone}
        return any(
            unit is not None and unit.gang is not None and uid in uids
            for split in self._gangs.values()
            if split.has_choice
            for uid, unit in split.units.items()
        )

    def fewest_nodes(self) -> set[str]:
        """Return, of each gang that was asked about and can spare some members, the fewest nodes with so many who may go."""
        found: set[str] = set()
        for split in self._gangs.values():
            if not split.has_choice:
                continue
            left = sum(unit is not None and unit.gang is None for unit in split.units.values())
            may_go = Counter(node for member, node in split.placed if self._may_evict(member))
            for node, count in may_go.most_common():
                if left <= 0:
                    break
                found.add(node)
                left -= count
        return found

    def _alone(self, member: Pod, node: str) -> Unit | None:
        return Unit(((member, node),), member.priority, surplus=(member,)) if self._may_evict(member) else None

    def _split(self, key: GangKey) -> _Split:
        """Return each member's unit: the least important above the minimum go alone, the rest as a whole, or not if protected."""
        placed = [
            (member, node)
            for member in self._cluster.members(key)
            if not member.is_terminal
            and not self._cluster.is_going(member)
            and (node := self._cluster.node_of(member.uid)) is not None
        ]
        gang = self._cluster.gangs[key]
        placed.sort(key=lambda entry: self._dearness(entry[0], gang))
        core, surplus = self._spare(key, placed, self._last(placed))
        highest = max((member.priority for member, _ in core), default=self._priority)
        can_go = all(self._may_evict(member) for member, _ in core) and not any(
            self._is_stuck(member.uid) for member, _ in placed
        )
        can_go = can_go and not gang.is_minimum_firm
        spared = tuple(member for member, _ in surplus)
        whole = Unit(tuple(placed), highest, key, surplus=spared) if core and can_go else None
        units: dict[str, Unit | None] = {member.uid: whole for member, _ in core}
        units |= {member.uid: self._alone(member, node) for member, node in surplus}
        return _Split(placed, units, has_choice=bool(core) and bool(surplus))

    def _last(self, placed: list[tuple[Pod, str]]) -> list[tuple[Pod, str]]:
        """Return members in the order in which they go at last: those on the nodes `first` before all others."""
        if not self._first:
            return placed
        return sorted(placed, key=lambda entry: entry[1] in self._first and self._may_evict(entry[0]))

    def _dearness(self, pod: Pod, gang: Gang) -> tuple[bool, int, float, tuple[int, float, str]]:
        """Return a key that sorts first who goes last: the protected, the important, those that would lose most work."""
        is_free = stated_preemptibility(pod, gang) is not False
        lost = accelerators(pod) * (self._now - saved_at(pod, gang, self._now))
        return is_free, -pod.priority, -lost, importance(pod, self._now)

    def _may_evict(self, pod: Pod) -> bool:
        """Tell whether a pod, by itself, may go for this preemptor; nobody evicts what is stated not to be preemptible."""
        key = self._cluster.gang_of(pod)
        gang = self._cluster.gangs.get(key) if key is not None else None
        if stated_preemptibility(pod, gang) is False:
            return False
        return self._rules.may_evict(pod) if self._rules is not None else pod.priority < self._priority

    def _spare(
        self, key: GangKey, placed: list[tuple[Pod, str]], asked: list[tuple[Pod, str]]
    ) -> tuple[list[tuple[Pod, str]], list[tuple[Pod, str]]]:
        """Divide those of the placed members that are asked about into who the gang's minima need and who it can do without.

        Who goes last stands first.
        """
        gang, role_of = self._cluster.gangs[key], self._cluster.groups.role_of
        if gang.is_one_unit:
            return asked, []
        counts = Counter(role_of(member) for member in self._cluster.members(key) if member.phase == "Succeeded")
        counts.update(role_of(member) for member, _ in placed)
        surplus: list[tuple[Pod, str]] = []
        missing = Needs(gang, counts).missing()
        for entry in reversed(asked):
            role = role_of(entry[0])
            counts[role] -= 1
            if Needs(gang, counts).missing() > missing:
                counts[role] += 1
            else:
                surplus.append(entry)
        chosen = {member.uid for member, _ in surplus}
        return [entry for entry in asked if entry[0].uid not in chosen], surplus[::-1]


def _protects(budget: Budget) -> bool:
    selector = budget.selector
    return selector is not None and bool(selector.match_labels or selector.match_expressions)
