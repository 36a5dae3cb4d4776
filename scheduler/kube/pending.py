"""PendingView: what the operator's events of pending pods and of our PodGroups mean, and whether all of them came.

For the operator, which feeds it, and the reconciler, which compares it with the truth.  It knows nothing of Kopf.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from scheduler.engine.inputs import GangChanged, GangRemoved
from scheduler.model import GangKey, gang_from_api, pod_from_api
from scheduler.model.api import ApiPod, ApiPodGroup
from scheduler.model.dialects import DIALECTS, Dialect
from scheduler.model.dialects import GROUPS as API_GROUPS

from .reconcile import SECONDS_PER_OBJECT, Reconciler, View

if TYPE_CHECKING:
    from .client import Client, Sleep
    from .inbox import Put
    from .views import PodViews

log = structlog.stdlib.get_logger("pending")

PODS = "/api/v1/pods"
GROUP, VERSION, PLURAL = API_GROUPS["ai-scheduler"], "v1alpha1", "podgroups"
GROUPS = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
LONGEST_SYNC_SECONDS = 60.0
#: How often to look, while waiting for the first sight of everything, whether it is still there.
LOOK_AGAIN_SECONDS = 1.0

#: Is told of a pending pod that makes no sense: namespace, name, uid and the problem.
OnRefused = Callable[[str, str, str, str], None]
#: Is given a PodGroup of ours, as JSON, each time it comes in.
OnGroup = Callable[[Mapping[str, Any]], None]


def pending_selector(scheduler_names: Collection[str]) -> str:
    """Return the field selector of pending pods.

    Field selectors know no "or": with several names the server filters by what is certain, and the view by name.
    """
    unassigned = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"
    if len(scheduler_names) == 1:
        return f"spec.schedulerName={next(iter(scheduler_names))},{unassigned}"
    is_default_ours = "default-scheduler" in scheduler_names
    return unassigned if is_default_ours else f"spec.schedulerName!=default-scheduler,{unassigned}"


class PendingView:
    """Turns events into inputs, and remembers what was shown."""

    def __init__(
        self,
        client: Client,
        put: Put,
        views: PodViews,
        scheduler_names: Collection[str],
        *,
        dialects: Sequence[Dialect] = DIALECTS,
        on_refused: OnRefused,
        on_group: OnGroup = lambda _: None,
        has_pods: bool = True,
        sleep: Sleep,
    ) -> None:
        """Keep where inputs go; `on_refused` is told of pods that make no sense, `on_group` of each PodGroup as it is.

        Without `has_pods`, pending pods come in by another way, and nothing is compared about them.
        """
        self._put = put
        self._views = views
        self._names = frozenset(scheduler_names)
        self._dialects = dialects
        self._on_refused = on_refused
        self._on_group = on_group
        self._has_pods = has_pods
        self._sleep = sleep
        #: Uids that were shown and not withdrawn, ours or not, usable or not.
        self._shown: set[str] = set()
        self._groups: dict[str, GangKey] = {}
        #: What was there at the start and has not been shown yet.
        self._awaited: set[str] = set()
        self._all_came = asyncio.Event()
        #: Set once everything that was there at the start has been shown.
        self.synced = asyncio.Event()
        self.reconciler = Reconciler(client, self._compared(), sleep)

    def pod_event(self, event: Mapping[str, Any]) -> None:
        """Take an event of a pending pod; type None is the initial list, or a list after a lost watch."""
        obj = event["object"]
        uid = obj["metadata"]["uid"]
        self._came(uid)
        if event["type"] == "DELETED":
            self._pod_left(uid)
            return
        if event["type"] is None and (uid in self._shown or self.synced.is_set()):
            self.reconciler.ask()
        self._shown.add(uid)
        spec = obj["spec"]
        if spec.get("schedulerName") in self._names and not spec.get("nodeName"):
            self._pending(obj)

    def group_event(self, event: Mapping[str, Any]) -> None:
        """Take an event of a PodGroup of ours."""
        obj = event["object"]
        uid = obj["metadata"]["uid"]
        self._came(uid)
        if event["type"] == "DELETED":
            self._group_left(uid)
            return
        if event["type"] is None and (uid in self._groups or self.synced.is_set()):
            self.reconciler.ask()
        self._on_group(obj)
        self._group(obj)

    async def first_sync(self) -> None:
        """Wait until all that was there at the start was shown, which Kopf does not tell by itself.

        Without this, early pods of low priority would be placed before late ones of high priority.
        """
        for view in self._compared():
            self._awaited |= await self.reconciler.names(view) - set(view.uids())
        self._came("")
        try:
            async with asyncio.timeout(LONGEST_SYNC_SECONDS), asyncio.TaskGroup() as group:
                dropping = group.create_task(self._drop_what_left(), name="operator sync looks again")
                await self._all_came.wait()
                dropping.cancel()
        except TimeoutError:
            log.warning("operator_slow", missing=len(self._awaited))
            self.reconciler.ask()
        self.synced.set()

    async def _drop_what_left(self) -> None:
        """Wait no longer for what left between our list and Kopf's: no event will ever tell of it."""
        while True:
            await self._sleep(LOOK_AGAIN_SECONDS + len(self._awaited) * SECONDS_PER_OBJECT)
            present: set[str] = set()
            for view in self._compared():
                present |= await self.reconciler.names(view)
            self._awaited &= present
            self._came("")

    def _pending(self, obj: Mapping[str, Any]) -> None:
        """Hand a pending pod of ours over, if it makes sense."""
        meta = obj["metadata"]
        try:
            self._views.pending_changed(pod_from_api(msgspec.convert(obj, ApiPod), self._dialects))
        except ValueError as error:  # wrong types and impossible quantities
            self._on_refused(meta["namespace"], meta["name"], meta["uid"], str(error))

    def _pod_left(self, uid: str) -> None:
        self._shown.discard(uid)
        self._views.pending_left(uid)

    def _group(self, obj: Mapping[str, Any]) -> None:
        meta = obj["metadata"]
        self._groups[meta["uid"]] = GangKey("ai-scheduler", meta["namespace"], meta["name"])
        try:
            gang = gang_from_api(msgspec.convert(obj, ApiPodGroup), "ai-scheduler")
        except ValueError as error:
            name = {"namespace": meta["namespace"], "name": meta["name"]}
            log.warning("object_unusable", resource=PLURAL, **name, problem=str(error))
            return
        self._put(GangChanged(gang))

    def _group_left(self, uid: str) -> None:
        key = self._groups.pop(uid, None)
        if key is not None and key not in self._groups.values():  # a namesake may have come already
            self._put(GangRemoved(key))

    def _compared(self) -> list[View]:
        """Return what the reconciler compares."""

        def added(obj: Mapping[str, Any]) -> dict[str, Any]:
            return {"type": "ADDED", "object": obj}

        selector = {"fieldSelector": pending_selector(self._names)}
        pods = View(
            "pending pods",
            PODS,
            selector,
            lambda: self._shown,
            self._pod_left,
            lambda obj: self.pod_event(added(obj)),
        )
        groups = View(
            "pod groups",
            GROUPS,
            {},
            lambda: self._groups,
            self._group_left,
            lambda obj: self.group_event(added(obj)),
        )
        return [pods, groups] if self._has_pods else [groups]

    def _came(self, uid: str) -> None:
        self._awaited.discard(uid)
        if not self._awaited:
            self._all_came.set()
