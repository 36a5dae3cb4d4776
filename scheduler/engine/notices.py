"""Notices: victims are told of their eviction some time before it, so that they can save their work.

For the engine (`preempting`).  The state is on the pods, in two annotations, so that a new process goes on where the last one ended:

| annotation (prefix `scheduling.ai-scheduler.io/`) | meaning |
|---|---|
| `eviction-notice` | when the pod is evicted, as an RFC 3339 time |
| `eviction-notice-for` | the scheduler's name, and the workload that room is made for |

A pod that was given notice counts as going.  It stays after all if its notice is withdrawn: the workload found other room, needs it no
more, or is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scheduler.framework.effects import AnnotatePod
from scheduler.model.checkpoints import NOTICE, NOTICE_FOR
from scheduler.model.times import parse_time

from .reporter import pod_key, pod_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from scheduler.framework.effects import Effect
    from scheduler.model import Pod
    from scheduler.state.cluster import ClusterState

    from .moves import Moves
    from .reporter import Reporter

#: How long a notice of a former process stands, beyond its time, before it is withdrawn as nobody needs it, in seconds.
ORPHAN_SECONDS = 120.0


@dataclass(slots=True)
class Notice:
    """What a pod was told."""

    #: The workload that room is made for.
    key: str
    #: When the pod is evicted, in seconds since the epoch.
    due: float
    #: What is said when it is.
    message: str
    moves_to: str = ""
    #: Whoever makes room was told that the time has come.
    is_told: bool = False


class Notices:
    """Notices that run, by the uid of the pod."""

    def __init__(
        self, cluster: ClusterState, reporter: Reporter, emit: Callable[[Effect], None], moves: Moves,
        seconds_of: Callable[[Pod], float], names: Container[str],
    ) -> None:  # fmt: skip
        """Take where effects go, how long a notice a pod gets in seconds, and the names of our schedulers."""
        self._cluster = cluster
        self._reporter = reporter
        self._emit = emit
        self._moves = moves
        self._names = names
        self.seconds_of = seconds_of
        self._notices: dict[str, Notice] = {}
        self._by_key: dict[str, dict[str, None]] = {}

    def of(self, uid: str) -> Notice | None:
        """Return the notice of a pod."""
        return self._notices.get(uid)

    def given_for(self, key: str) -> list[str]:
        """Return the uids of the pods that were given notice for a workload."""
        return list(self._by_key.get(key, ()))

    def give(self, pod: Pod, notice: Notice, who: object, controller: str) -> None:
        """Tell a pod that it will be evicted, and why."""
        self._put(pod.uid, notice)
        self._cluster.expect_leave(pod.uid)
        if notice.moves_to:
            self._moves.begin(pod, notice.moves_to, notice.due)
        self._annotate(pod, notice, controller)
        note = f"will be evicted at {text_of(notice.due)} to make room for {who}: save your work before that"
        self._reporter.event(pod_ref(pod), "Warning", "EvictionNotice", "Preempting", note, controller)

    def take_over(self, uid: str, key: str, controller: str) -> None:
        """Let a notice go on for another workload, which counts on the room."""
        notice = self._notices[uid]
        self.drop(uid)
        taken = Notice(key, notice.due, notice.message, notice.moves_to)
        self._put(uid, taken)
        if (pod := self._cluster.pods.get(uid)) is not None:
            self._annotate(pod, taken, controller)

    def withdraw(self, uid: str, controller: str = "ai-scheduler") -> None:
        """Tell a pod that it stays after all."""
        notice = self._notices.get(uid)
        self.drop(uid)
        pod = self._cluster.pods.get(uid)
        if notice is None or pod is None or pod.is_terminal or pod.is_terminating:
            return
        self._cluster.expect_stay(uid)
        if notice.moves_to:
            self._moves.end(uid)
        self._emit(AnnotatePod(pod_key(pod), {NOTICE: None, NOTICE_FOR: None}))
        note = "is not evicted after all: its room is not needed any more"
        self._reporter.event(pod_ref(pod), "Normal", "EvictionWithdrawn", "Preempting", note, controller)

    def drop(self, uid: str) -> None:
        """Forget a notice: the pod is being evicted, or gone."""
        notice = self._notices.pop(uid, None)
        if notice is not None:
            given = self._by_key[notice.key]
            del given[uid]
            if not given:
                del self._by_key[notice.key]

    def found(self, pod: Pod) -> None:
        """Take up a notice that a former process gave."""
        text, whom = pod.annotations.get(NOTICE), pod.annotations.get(NOTICE_FOR, "")
        name, _, key = whom.partition(" ")
        if text is None or name not in self._names or not pod.node_name or pod.is_terminal or pod.is_terminating:
            return
        try:
            due = parse_time(text)
        except ValueError:
            due = None
        if due is not None:
            self._put(pod.uid, Notice(key, due, f"Preempted by {shown(key)} on node {pod.node_name}"))
            self._cluster.expect_leave(pod.uid)

    def is_due(self, key: str, now: float) -> bool:
        """Tell whether the time of a notice for a workload has come."""
        return any(self._notices[uid].due <= now for uid in self._by_key.get(key, ()))

    def come_due(self, now: float) -> list[str]:
        """Return the workloads for which the time of a notice has come, each once for each notice."""
        keys: dict[str, None] = {}
        for notice in self._notices.values():
            if notice.due <= now and not notice.is_told:
                notice.is_told = True
                keys[notice.key] = None
        return list(keys)

    def withdraw_orphans(self, now: float, keys: Container[str]) -> None:
        """Withdraw what no workload of `keys` makes use of, long after its time."""
        late = [uid for uid, notice in self._notices.items() if notice.due + ORPHAN_SECONDS <= now]
        for uid in late:
            if self._notices[uid].key not in keys:
                self.withdraw(uid)

    def next_deadline(self, keys: Container[str]) -> float | None:
        """Return when the next notice comes due, or is withdrawn as it is for none of the workloads of `keys`."""
        times = [
            notice.due + ORPHAN_SECONDS if notice.is_told else notice.due
            for notice in self._notices.values()
            if not notice.is_told or notice.key not in keys
        ]
        return min(times, default=None)

    def _put(self, uid: str, notice: Notice) -> None:
        self._notices[uid] = notice
        self._by_key.setdefault(notice.key, {})[uid] = None

    def _annotate(self, pod: Pod, notice: Notice, controller: str) -> None:
        told: dict[str, str | None] = {NOTICE: text_of(notice.due), NOTICE_FOR: f"{controller} {notice.key}"}
        self._emit(AnnotatePod(pod_key(pod), told))


def longest(pods: Iterable[Pod], seconds_of: Callable[[Pod], float]) -> float:
    """Return the longest notice that one of the pods gets, in seconds."""
    return max((seconds_of(pod) for pod in pods), default=0.0)


def text_of(moment: float) -> str:
    """Return a time as the API writes it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(key: str) -> str:
    """Return the namespace and name of a workload by its key."""
    kind, _, rest = key.partition(":")
    return rest.partition(":")[2] if kind == "gang" else rest.partition(":")[0]
