"""PodViews: makes one truth of several views of the pods that run ahead of or behind each other.

For the feeds and the operator.  The views are: *pending* (without a node: ours, from Kopf, and members of gangs that name
other schedulers), *assigned* (everybody's with a node that have not ended), *finished* (members of gangs that have ended).
A pod only ever moves forward through them, so whatever an earlier view says of a pod that a later one has shown is stale and dropped.

| view says | and | the engine learns |
|---|---|---|
| pending: changed | neither assigned, finished nor gone | PodChanged |
| pending: left | it was in the view | PendingPodLeft |
| assigned: changed | not finished | PodChanged |
| assigned: left | finished shows it | nothing |
| assigned: left | a member of a gang that nobody deletes | PodRemoved, unless finished shows it within a second |
| assigned: left | otherwise | PodRemoved |
| finished: changed | | PodChanged |
| finished: left | | PodRemoved |

Why a view of its own: when a pod ends, the watch with `status.phase!=...` sends DELETED, but with the object as it was
*before* (the API server's cacher sends the previous object for what leaves a selector), so its end cannot be read there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from scheduler.engine.inputs import PendingPodLeft, PodChanged, PodRemoved
from scheduler.model import Pod, gang_key_of

if TYPE_CHECKING:
    from .inbox import Put

#: How long a member that left the assigned view may take to show up as finished.
SKEW_SECONDS = 1.0
#: How many pods that have gone are remembered, against late news of them.
REMEMBERED = 20_000


class Later(Protocol):
    """Calls something after a while, as `loop.call_later` does."""

    def __call__(self, delay: float, callback: object, *args: object) -> asyncio.TimerHandle:
        """Return the handle by which the call can be cancelled."""


class PodViews:
    """Which pod is in which view, and what that means."""

    def __init__(self, put: Put, call_later: Later | None = None) -> None:
        """Keep the inbox; timers run in the current event loop unless others are given."""
        self._put = put
        self._call_later = call_later or asyncio.get_running_loop().call_later
        #: Uid to (namespace, name) of the pods in the pending view.
        self.pending: dict[str, tuple[str, str]] = {}
        #: Uid of each pod in the assigned view; True for members of gangs that nobody deletes.
        self.assigned: dict[str, bool] = {}
        self.finished: set[str] = set()
        #: Uid of each pod that left a view; True once the engine was told that it is gone.
        self._gone: OrderedDict[str, bool] = OrderedDict()
        self._leaving: dict[str, asyncio.TimerHandle] = {}

    def pending_changed(self, pod: Pod) -> None:
        """Take a pending pod of ours, or one of another scheduler that says it is in a gang."""
        if pod.uid in self.assigned or pod.uid in self.finished or pod.uid in self._gone or pod.uid in self._leaving:
            return
        self.pending[pod.uid] = (pod.namespace, pod.name)
        self._put(PodChanged(pod))

    def pending_left(self, uid: str) -> None:
        """Take that a pod is not pending any more: bound, ended or deleted; it never becomes pending again."""
        if self.pending.pop(uid, None) is not None:
            self._put(PendingPodLeft(uid))
        self._remember(uid)

    def assigned_changed(self, pod: Pod) -> None:
        """Take an assigned pod of anybody."""
        if pod.uid in self.finished:
            return
        self._stays(pod.uid)
        self.assigned[pod.uid] = gang_key_of(pod) is not None and not pod.is_terminating
        self._put(PodChanged(pod))

    def assigned_left(self, uid: str) -> None:
        """Take that an assigned pod has ended or gone; the view cannot tell which."""
        may_have_ended = self.assigned.pop(uid, False)
        if uid in self.finished:
            return
        if may_have_ended:
            self._leaving[uid] = self._call_later(SKEW_SECONDS, self._removed, uid)
        else:
            self._removed(uid)

    def finished_changed(self, pod: Pod) -> None:
        """Take a member of a gang that has ended."""
        self._stays(pod.uid)
        self.finished.add(pod.uid)
        self._put(PodChanged(pod))

    def finished_left(self, uid: str) -> None:
        """Take that an ended member is gone; ended pods of no gang were never taken."""
        if uid not in self.finished:
            return
        self.finished.discard(uid)
        if uid not in self.assigned:
            self._removed(uid)

    def bound(self, uid: str) -> None:
        """Take that our binding succeeded: what the pending view still says is stale."""
        self._remember(uid)

    def found(self, pod: Pod) -> None:
        """Take a pod that was read by itself because no view showed it."""
        if pod.uid not in self.assigned and pod.uid not in self.finished:
            self._put(PodChanged(pod))

    def is_seen(self, uid: str) -> bool:
        """Tell whether a later view than the pending one has the pod."""
        return uid in self.assigned or uid in self.finished

    def is_over(self, uid: str) -> bool:
        """Tell whether the engine was told that the pod is gone."""
        return self._gone.get(uid, False)

    def removed(self, uid: str) -> None:
        """Take that a pod is surely gone."""
        self.pending.pop(uid, None)
        self.assigned.pop(uid, None)
        self.finished.discard(uid)
        self._removed(uid)

    def _removed(self, uid: str) -> None:
        self._stays(uid)
        self._remember(uid, is_over=True)
        self._put(PodRemoved(uid))

    def _stays(self, uid: str) -> None:
        """Cancel the removal that was put off."""
        if handle := self._leaving.pop(uid, None):
            handle.cancel()

    def _remember(self, uid: str, *, is_over: bool = False) -> None:
        self._gone[uid] = is_over or self._gone.get(uid, False)
        self._gone.move_to_end(uid)
        while len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
