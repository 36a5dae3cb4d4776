"""PodWriter and GangWriter: one request for each effect, and what its answers mean.

For the binder, which decides when and in which order.  Status patches that would say what is already there are left out.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from scheduler.engine.inputs import BindingFailed, BindingSucceeded, EvictionFailed, Input
from scheduler.model.dialects import GROUPS
from scheduler.model.dialects.own import NAME as OWN_DIALECT
from scheduler.model.gang import SATISFIED
from scheduler.model.promise import PROMISED_START, time_text

from .client import (
    CONFLICT,
    NOT_FOUND,
    STRATEGIC_PATCH,
    ApiError,
    Client,
    RequestError,
    Sleep,
    UnreachableError,
    backoff_seconds,
)
from .promised import promised_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.framework.effects import (
        AnnotatePod,
        BindPod,
        EvictPod,
        NominatePod,
        PlacementSummary,
        PodRef,
        SetGangStatus,
        SetPodScheduled,
        SetPromisedStart,
    )
    from scheduler.model.api import Condition

#: How often a binding is tried while the server refuses it for now; about two minutes with the waits between.
BIND_ATTEMPTS = 12
LONGEST_BIND_BACKOFF_SECONDS = 15.0
#: How many pods' and gangs' last statuses are remembered.
REMEMBERED = 20_000
#: How often a group's status that others overwrite is written again.
REPAIRS = 5


class SeenPod(Protocol):
    """What is known of a pod's status."""

    conditions: tuple[Condition, ...]
    nominated_node_name: str


class Lookup(Protocol):
    """Finds what the engine knows of a pod."""

    def __call__(self, uid: str) -> Any:
        """Return the pod, or None."""


def now_text() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Memory:
    """What was written last, by uid; bounded."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, tuple[Any, ...]] = OrderedDict()

    def get(self, key: str) -> tuple[Any, ...] | None:
        return self._values.get(key)

    def put(self, key: str, value: tuple[Any, ...]) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > REMEMBERED:
            self._values.popitem(last=False)

    def forget(self, key: str) -> None:
        self._values.pop(key, None)


class PodWriter:
    """Writes about pods."""

    def __init__(
        self,
        client: Client,
        sleep: Sleep,
        may_write: Callable[[], bool],
        pod_of: Lookup,
        now: Callable[[], str] = now_text,
    ) -> None:
        """Keep the client; `may_write` is asked again before each repetition; `pod_of` tells what is known of a pod."""
        self._client = client
        self._sleep = sleep
        self._may_write = may_write
        self._pod_of = pod_of
        self._now = now
        self._conditions = _Memory()
        self._nominations = _Memory()

    async def bind(self, effect: BindPod) -> Input:  # noqa: PLR0911 - one return per outcome
        """Bind a pod, with its uid as precondition, and return the outcome; it is certain, unless writing was forbidden.

        A request without an answer may have been carried out, so the pod is read again before anything is concluded.
        """
        message = ""
        for attempt in range(BIND_ATTEMPTS):
            if not self._may_write():
                return BindingFailed(effect.pod.uid, "this replica is not the leader any more")
            try:
                await self._client.create(f"{_path(effect.pod)}/binding", _binding(effect), attempts=1)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return BindingFailed(effect.pod.uid, error.message, is_gone=True)
                if error.status == CONFLICT:
                    return await self._after_conflict(effect, error.message)
                if not error.is_temporary:
                    return BindingFailed(effect.pod.uid, error.message)
                message = str(error)
                await self._sleep(
                    max(backoff_seconds(attempt, longest=LONGEST_BIND_BACKOFF_SECONDS), error.retry_after or 0)
                )
            except UnreachableError as error:
                if not error.is_unsent and (outcome := await self._after_silence(effect)):
                    return outcome
                message = str(error)
                await self._sleep(backoff_seconds(attempt, longest=LONGEST_BIND_BACKOFF_SECONDS))
            else:
                return BindingSucceeded(effect.pod.uid)
        return BindingFailed(effect.pod.uid, message)

    async def evict(self, effect: EvictPod) -> Input | None:
        """Announce the eviction in the pod's status, then delete the pod; None if it is on its way out."""
        await self._announce(effect)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": effect.pod.uid},
            "gracePeriodSeconds": effect.grace_period_seconds,
        }
        try:
            await self._client.delete(_path(effect.pod), options)
        except ApiError as error:
            # A conflict means that the precondition failed: a namesake has taken the name.
            return EvictionFailed(effect.pod.uid, error.message, is_gone=error.status in (NOT_FOUND, CONFLICT))
        except UnreachableError as error:
            return EvictionFailed(effect.pod.uid, str(error))
        return None

    async def annotate(self, effect: AnnotatePod) -> None:
        """Write annotations by way of the status, whose patches may carry them: no right to change pods is needed."""
        body = {"metadata": {"uid": effect.pod.uid, "annotations": effect.annotations}}
        await self._client.change(f"{_path(effect.pod)}/status", body, STRATEGIC_PATCH)

    async def nominate(self, effect: NominatePod) -> None:
        """Write or clear the nominated node, unless it is what was written last or what is there."""
        written = self._nominations.get(effect.pod.uid)
        pod: SeenPod | None = self._pod_of(effect.pod.uid)
        current = written[0] if written else pod.nominated_node_name if pod else ""
        if current == effect.node_name:
            return
        await self._patch_status(effect.pod, {"nominatedNodeName": effect.node_name or None})
        self._nominations.put(effect.pod.uid, (effect.node_name,))

    async def set_scheduled(self, effect: SetPodScheduled) -> bool:
        """Write PodScheduled=False with reason and message; tell whether there was something to write."""
        new = (effect.reason, effect.message)
        known = self._conditions.get(effect.pod.uid)
        seen = _condition(self._pod_of(effect.pod.uid), "PodScheduled")
        if known is None and seen is not None and seen.status == "False":
            known = (seen.reason, seen.message)
        if known == new:
            return False
        condition = {"type": "PodScheduled", "status": "False", "reason": effect.reason, "message": effect.message}
        if known is None:  # strategic merge by type keeps the time of the transition otherwise
            condition["lastTransitionTime"] = self._now()
        await self._patch_status(effect.pod, {"conditions": [condition]})
        self._conditions.put(effect.pod.uid, new)
        return True

    async def set_promised_start(self, effect: SetPromisedStart) -> None:
        """Write the condition PromisedStart."""
        condition = promised_condition(effect, _condition(self._pod_of(effect.pod.uid), PROMISED_START), self._now())
        await self._patch_status(effect.pod, {"conditions": [condition]})

    def forget(self, uid: str) -> None:
        """Forget what was written about a pod that is bound or gone."""
        self._conditions.forget(uid)
        self._nominations.forget(uid)

    async def _announce(self, effect: EvictPod) -> None:
        """Give a victim its DisruptionTarget condition; a failure never prevents the deletion."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": effect.reason,
            "message": effect.message,
            "lastTransitionTime": self._now(),
        }
        try:
            await self._patch_status(effect.pod, {"conditions": [condition]}, attempts=2)
        except RequestError:
            return

    async def _after_conflict(self, effect: BindPod, message: str) -> Input:
        """Find out what a conflict meant."""
        while True:
            try:
                pod = await self._read(effect.pod)
            except ApiError as error:
                return BindingFailed(effect.pod.uid, f"{message}; reading the pod: {error}")
            except UnreachableError:
                await self._sleep(backoff_seconds(5))
                continue
            return _outcome(effect, pod) or BindingFailed(effect.pod.uid, message)

    async def _after_silence(self, effect: BindPod) -> Input | None:
        """Read the pod until an answer comes: the outcome, or None if the binding has not happened."""
        attempt = 0
        while self._may_write():
            try:
                return _outcome(effect, await self._read(effect.pod))
            except UnreachableError:
                await self._sleep(backoff_seconds(attempt, longest=LONGEST_BIND_BACKOFF_SECONDS))
                attempt += 1
            except ApiError as error:
                return BindingFailed(effect.pod.uid, f"the outcome is unknown: {error}")
        return BindingFailed(effect.pod.uid, "the outcome is unknown: this replica is not the leader any more")

    async def _read(self, pod: PodRef) -> dict[str, Any] | None:
        """Return the pod as it is now, or None if it is gone or another one has its name."""
        try:
            found: dict[str, Any] = await self._client.get(_path(pod))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return found if found["metadata"].get("uid") == pod.uid else None

    async def _patch_status(self, pod: PodRef, status: dict[str, Any], attempts: int = 5) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._client.change(f"{_path(pod)}/status", body, STRATEGIC_PATCH, attempts=attempts)


class GangWriter:
    """Writes the status of PodGroups of our own group."""

    def __init__(self, client: Client, now: Callable[[], str] = now_text) -> None:
        """Keep the client."""
        self._client = client
        self._now = now
        self._written = _Memory()
        #: By uid what the object says since our last write, in which version, the effect, and how often it was repaired.
        self._said = _Memory()
        #: By uid what an object said that was never written.
        self._sights = _Memory()

    async def set_status(self, effect: SetGangStatus) -> bool:
        """Write the status unless it says that already; tell whether there was something to write.

        The first time it is compared with the object as the watch has shown it, or else as it is read, so that a restart
        writes nothing and transition times survive.
        """
        if effect.dialect != OWN_DIALECT:
            return False
        path = f"/apis/{GROUPS[OWN_DIALECT]}/v1alpha1/namespaces/{effect.namespace}/podgroups/{effect.name}"
        known = self._written.get(effect.uid)
        if known is not None and known[0] == effect:
            return False
        found: dict[str, Any] = {}
        if known is None:
            (found,) = self._sights.get(effect.uid) or (await self._client.get(path),)
            self._sights.forget(effect.uid)
            known = None, found.get("status") or {}
        status = _gang_status(effect, _since(known[1], self._now()))
        if effect.placement is not None and effect.placement.is_estimate and _is_same_place(known[1], status):
            status["placement"] = known[1]["placement"]
        if known[1] != status:
            left_out = {name for name in ("placement", "promisedStart") if name in known[1] and name not in status}
            body = status | dict.fromkeys(left_out)
            found = await self._client.patch(f"{path}/status", {"metadata": {"uid": effect.uid}, "status": body})
        self._written.put(effect.uid, (effect, status))
        if found:
            before = self._said.get(effect.uid)
            repairs = before[3] if before is not None and before[2] == effect else 0
            self._said.put(effect.uid, (_essence(found), _version(found), effect, repairs))
        return bool(known[1] != status)

    def seen(self, group: Mapping[str, Any]) -> SetGangStatus | None:
        """Take a group as it came in; return the effect to carry out again if somebody overwrote what we wrote last.

        Older sights of it mean nothing.  Two that write against each other stop after a few turns, until there is news.
        """
        uid = group["metadata"]["uid"]
        said = self._said.get(uid)
        if said is None and self._written.get(uid) is None:
            meta = {"resourceVersion": group["metadata"].get("resourceVersion")}
            self._sights.put(uid, ({"metadata": meta, "status": group.get("status") or {}},))
        if said is None or _version(group) <= said[1] or _essence(group) == said[0]:
            return None
        self._written.forget(uid)
        essence, _, effect, repairs = said
        self._said.put(uid, (essence, _version(group), effect, repairs + 1))
        return effect if repairs < REPAIRS else None


def _essence(group: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what must not be overwritten by others: the phase and the counts."""
    status = group.get("status") or {}
    return status.get("phase"), status.get("counts")


def _version(obj: Mapping[str, Any]) -> int:
    """Return the version of an object as a number; they grow, and KEP-5504 promises that they may be compared."""
    text = str(obj["metadata"].get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _since(status: Mapping[str, Any], now: str) -> Callable[[str, str], str]:
    """Return what tells since when a condition has its status, from the status as it was: for what is new, `now`."""
    times = {
        (condition.get("type"), condition.get("status")): condition.get("lastTransitionTime")
        for condition in status.get("conditions") or ()
    }
    return lambda kind, value: times.get((kind, value)) or now


def _gang_status(effect: SetGangStatus, since: Callable[[str, str], str]) -> dict[str, Any]:
    """Return the status of a PodGroup of ours."""
    said = [("Scheduled", effect.scheduled, effect.reason or effect.phase, effect.message)]
    if effect.satisfied:
        said.append((SATISFIED, effect.satisfied, effect.satisfied_reason, effect.satisfied_message))
    conditions = [
        {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "observedGeneration": effect.observed_generation,
            "lastTransitionTime": since(kind, value),
        }
        for kind, value, reason, message in said
    ]
    placement = {"placement": _placement(effect.placement)} if effect.placement is not None else {}
    promised = {"promisedStart": time_text(effect.promised_start)} if effect.promised_start is not None else {}
    return {"phase": effect.phase, "counts": dict(effect.counts), **placement, **promised, "conditions": conditions}


def _is_same_place(known: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Tell whether a status that was written when the gang was placed speaks of the same domains as another."""
    former, now = known.get("placement") or {}, status["placement"]
    return all(former.get(name) == now[name] for name in ("domains", "leafDomains"))


def _placement(summary: PlacementSummary) -> dict[str, Any]:
    """Return where the members are; fractions are texts, as the API takes no floats.  Only all of the best is 1.00."""
    hundredths = min(100, max(0, math.floor(summary.quality * 100 + 1e-9)))
    return {
        "domains": [{"level": level, "name": name} for level, name in summary.domains],
        "leafDomains": summary.leaf_domains,
        "leafDomainsMinimum": summary.leaf_minimum,
        "quality": f"{hundredths // 100}.{hundredths % 100:02}",
        "bottleneckLevel": summary.bottleneck,
    }


def _outcome(effect: BindPod, pod: dict[str, Any] | None) -> Input | None:
    """Return what has become of a binding, or None if the pod is still there without a node."""
    if pod is None:
        return BindingFailed(effect.pod.uid, "the pod is gone", is_gone=True)
    node = pod["spec"].get("nodeName", "")
    if node == effect.node_name:
        return BindingSucceeded(effect.pod.uid)
    if node:
        return BindingFailed(effect.pod.uid, f"the pod is bound to {node} already", is_taken=True)
    return None


def _binding(effect: BindPod) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": effect.pod.name, "namespace": effect.pod.namespace, "uid": effect.pod.uid}
    if effect.annotations:
        meta["annotations"] = effect.annotations
    target = {"apiVersion": "v1", "kind": "Node", "name": effect.node_name}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def _condition(pod: SeenPod | None, kind: str) -> Condition | None:
    return next((c for c in pod.conditions if c.type == kind), None) if pod is not None else None


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
