"""The agent's loop: look at the machine and at its devices now and then, and write what changed to the node's NodeTopology.

For the command.  Nothing that fails ends it: what cannot be read is said in the log and in the condition Ready, once per
reason, and what cannot be written is tried again with growing pauses.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from scheduler.kube.client import NOT_FOUND, ApiError, Client, RequestError, Sleep, backoff_seconds
from scheduler.model.gang import PREFIX
from scheduler.model.node_topology import NODE_TOPOLOGY_RESOURCE

from .errors import SourceError
from .pod_resources import read_devices, report_of
from .sources import NAMES, read_machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = structlog.stdlib.get_logger("node_agent")

VERSION = f"{PREFIX}/v1alpha1"
LONGEST_BACKOFF_SECONDS = 120.0
_ATTEMPTS = 2


@dataclass(frozen=True)
class Looking:
    """Where the agent looks."""

    root: Path
    #: The kubelet's socket; where it is not there, nothing is told of free devices.
    socket: Path
    #: The resource that counts whole GPUs.
    resource: str = "nvidia.com/gpu"
    sources: tuple[str, ...] = NAMES


@dataclass(frozen=True)
class Seen:
    """What was seen at one time: the spec and what the status says of devices, as JSON."""

    spec: dict[str, Any] | None
    #: `free` and `allocations`; None where nobody tells.
    devices: dict[str, Any] | None
    problem: str = ""


def look(looking: Looking) -> Seen:
    """Look at machine and devices; blocks. No failure is raised: it becomes a problem."""
    try:
        spec = read_machine(looking.root, looking.sources)
    except (SourceError, OSError) as error:
        return Seen(None, None, str(error))
    if spec is None or not looking.socket.exists():
        return Seen(spec, None)
    try:
        uuids = {gpu["uuid"]: gpu["index"] for gpu in spec["gpus"] if "uuid" in gpu}
        free, held = report_of(read_devices(str(looking.socket), looking.resource), uuids, len(spec["gpus"]))
    except SourceError as error:
        return Seen(spec, None, str(error))
    return Seen(spec, {"free": {"gpus": free}, "allocations": [{"pod": pod, "gpus": g} for pod, g in held.items()]})


class Agent:
    """Keeps one NodeTopology up to date."""

    def __init__(
        self, client: Client, node_name: str, looking: Looking, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Prepare; nothing is looked at yet."""
        self._client = client
        self._looking = looking
        self._now = now
        self._name = node_name
        self._path = f"/apis/{VERSION}/{NODE_TOPOLOGY_RESOURCE}"
        self._written: Seen | None = None
        self._said = ""
        self._is_there = False

    async def run(self, period_seconds: float, sleep: Sleep = asyncio.sleep) -> None:
        """Look and write until cancelled."""
        failures = 0
        while True:
            try:
                await self.once()
                failures = 0
            except RequestError as error:
                failures += 1
                log.warning("write_failed", node=self._name, problem=str(error), failures=failures)
            pause = (
                backoff_seconds(failures - 1, period_seconds, LONGEST_BACKOFF_SECONDS) if failures else period_seconds
            )
            await sleep(pause)

    async def once(self) -> bool:
        """Look, and write if anything changed; return whether it did. Raises RequestError if it cannot be written."""
        seen = await asyncio.to_thread(look, self._looking)
        self._say(seen)
        if seen == self._written or (seen.spec is None and not await self._exists()):
            return False
        if seen.spec is not None and (self._written is None or self._written.spec != seen.spec):
            await self._write_spec(seen.spec)
        try:
            await self._client.patch(f"{self._path}/{self._name}/status", self._status(seen), attempts=_ATTEMPTS)
        except ApiError as error:
            if error.status == NOT_FOUND:  # somebody deleted it: next time it is made anew
                self._written, self._is_there = None, False
            raise
        self._written = seen
        log.info("written", node=self._name, has_report=seen.devices is not None)
        return True

    def _say(self, seen: Seen) -> None:
        """Log what is wrong, once until it changes."""
        words = seen.problem or ("" if seen.spec else "the node has no GPU of NVIDIA")
        if words and words != self._said:
            log.warning("cannot_read", node=self._name, problem=words)
        self._said = words

    async def _exists(self) -> bool:
        if not self._is_there:
            try:
                await self._client.get(f"{self._path}/{self._name}", attempts=_ATTEMPTS)
                self._is_there = True
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
        return self._is_there

    async def _write_spec(self, spec: dict[str, Any]) -> None:
        """Make the object, or bring its spec in line: fields that are not told any more are taken away."""
        meta = {"name": self._name}
        body = {"apiVersion": VERSION, "kind": "NodeTopology", "metadata": meta, "spec": spec}
        if await self._exists():
            cleared = {"pcieGigabytesPerSecond": None, "nics": None} | spec
            await self._client.patch(f"{self._path}/{self._name}", body | {"spec": cleared}, attempts=_ATTEMPTS)
        else:
            await self._client.post(self._path, body, attempts=_ATTEMPTS)
            self._is_there = True

    def _status(self, seen: Seen) -> dict[str, Any]:
        """Return the status to write; what is not told any more is taken away."""
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        is_ready = not seen.problem and seen.spec is not None
        condition = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "reason": "Read" if is_ready else "CannotRead",
            "message": seen.problem or ("" if is_ready else "the node has no GPU of NVIDIA"),
            "lastTransitionTime": now,
        }
        devices = seen.devices or {"free": None, "allocations": None}
        return {"status": {"observedTime": now if seen.devices else None, "conditions": [condition], **devices}}
