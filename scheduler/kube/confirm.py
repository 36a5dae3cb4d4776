"""Confirmations: every binding of ours must show up in the assigned view, or be looked after.

For the process.  A pod that is bound and deleted while a watch was lost appears in no view; without this it would hold
its node in the engine's books for ever.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
import structlog

from scheduler.model import gang_key_of, pod_from_api
from scheduler.model.api import ApiPod
from scheduler.model.dialects import DIALECTS

from .client import NOT_FOUND, ApiError, Client, RequestError, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.effects import BindPod, PodRef
    from scheduler.model.dialects import Dialect

    from .views import PodViews

log = structlog.stdlib.get_logger("confirmations")

#: How long the assigned view may take to show a binding before the pod is read by itself.
PATIENCE_SECONDS = 15.0
LOOK_EVERY_SECONDS = 5.0


class Confirmations:
    """Remembers bindings until they are seen."""

    def __init__(
        self,
        client: Client,
        views: PodViews,
        dialects: Sequence[Dialect] = DIALECTS,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Keep the client and the views; `run` looks at what is due."""
        self._client = client
        self._views = views
        self._dialects = dialects
        self._clock = clock
        self._sleep = sleep
        self._due: dict[PodRef, float] = {}

    def __len__(self) -> int:
        """Return how many bindings are not confirmed yet."""
        return len(self._due)

    def expect(self, effect: BindPod) -> None:
        """Take a binding that succeeded."""
        self._views.bound(effect.pod.uid)
        self._due[effect.pod] = self._clock() + PATIENCE_SECONDS

    async def run(self) -> None:
        """Look after bindings until cancelled."""
        while True:
            await self._sleep(LOOK_EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Forget what was seen or is known to be gone, and read what is overdue."""
        now = self._clock()
        for pod, due in list(self._due.items()):
            if self._views.is_seen(pod.uid) or self._views.is_over(pod.uid):
                del self._due[pod]
            elif due <= now:
                await self._read(pod)

    async def _read(self, ref: PodRef) -> None:
        """Read one pod and report what it is; try again later if that fails."""
        self._due[ref] = self._clock() + PATIENCE_SECONDS
        try:
            found = await self._client.get(f"/api/v1/namespaces/{ref.namespace}/pods/{ref.name}")
            pod = pod_from_api(msgspec.convert(found, ApiPod), self._dialects)
        except ApiError as error:
            if error.status == NOT_FOUND:
                self._is_gone(ref)
            return
        except (RequestError, ValueError):
            return
        if pod.uid != ref.uid or (pod.is_terminal and gang_key_of(pod) is None):
            self._is_gone(ref)
        elif pod.is_terminal or pod.node_name:
            self._views.found(pod)

    def _is_gone(self, ref: PodRef) -> None:
        """Report that a pod is gone, unless a view has told so already."""
        del self._due[ref]
        if not (self._views.is_seen(ref.uid) or self._views.is_over(ref.uid)):
            log.info("binding_never_seen", pod=ref.key, uid=ref.uid)
            self._views.removed(ref.uid)
