"""Feeds of pending pods: what `intake: reflector` has in Kopf's place.

For the process.  Each scheduler name has a reflector of its own, because field selectors know no "or"; so no pod of
another scheduler is ever sent.  What a reflector does about a lost watch is in `reflector`; nothing has to be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model import pod_from_api
from scheduler.model.api import ApiPod

from .pending import PODS, OnRefused, pending_selector
from .reflector import Reflector, Resource, Timing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scheduler.model.dialects import Dialect

    from .client import Client
    from .views import PodViews
    from .wire import ObjectKey


class PendingFeed:
    """Hands the pending pods of one scheduler name over, and tells of those that make no sense."""

    def __init__(self, views: PodViews, dialects: Sequence[Dialect], on_refused: OnRefused) -> None:
        """Keep the views; `on_refused` is told of pods that make no sense, each time they come."""
        self._views = views
        self._dialects = dialects
        self._on_refused = on_refused

    def changed(self, api: ApiPod) -> None:
        """Hand a pod over; ValueError if it makes no sense."""
        self._views.pending_changed(pod_from_api(api, self._dialects))

    def removed(self, key: ObjectKey, last: ApiPod | None) -> None:
        """Take that a pod is not pending any more."""
        del last
        self._views.pending_left(key.uid)

    def refused(self, key: ObjectKey, problem: str) -> None:
        """Tell of a pod that cannot be read or makes no sense."""
        self._on_refused(key.namespace, key.name, key.uid, problem)


def pending_feeds(
    client: Client,
    views: PodViews,
    dialects: Sequence[Dialect],
    scheduler_names: Collection[str],
    on_refused: OnRefused,
    timing: Timing | None = None,
) -> list[Reflector[Any]]:
    """Return a reflector of pending pods for each scheduler name, not yet running."""
    feed = PendingFeed(views, dialects, on_refused)
    return [
        Reflector(client, Resource(f"pending pods ({name})", PODS, ApiPod, pending_selector([name])), feed, timing)
        for name in scheduler_names
    ]
