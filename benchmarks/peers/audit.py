"""Audit: counts the requests of one user by what the API server itself wrote down, so that everybody is counted alike.

For the harness.  The policy logs that user's requests and nobody else's, so that counting costs every scheduler the same
few microseconds a request.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
LOOK_SECONDS = 0.1

#: Counts by verb and resource (with its subresource), as in "create pods/binding".
Requests = Counter[str]


class _Object(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    verb: str
    object_ref: _Object | None = None


def policy(user: str) -> dict[str, object]:
    """Return the audit policy that logs each finished request of one user."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Metadata", "users": [user]}, {"level": "None"}],
    }


class Audit:
    """Reads the log as it grows; counts what came since the last look, the Lease and watches left out."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._rest = b""

    def take(self) -> Requests:
        """Return the requests since the last call."""
        if not self._log.exists():
            return Counter()
        with self._log.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return _counted(lines)

    async def settle(self, quiet_seconds: float, longest_seconds: float) -> Requests:
        """Wait until no write has come for a while, or the longest time is over; return all requests since the last call."""
        found: Requests = Counter()
        began = changed = time.monotonic()
        while (now := time.monotonic()) - changed < quiet_seconds and now - began < longest_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            more = self.take()
            if writes(more):
                changed = time.monotonic()
            found += more
        return found


def writes(requests: Requests) -> int:
    """Return how many of the requests write."""
    return sum(number for what, number in requests.items() if what.partition(" ")[0] in WRITES)


def _counted(lines: list[bytes]) -> Requests:
    found: Requests = Counter()
    decode = msgspec.json.Decoder(_Entry).decode
    for line in lines:
        entry = decode(line)
        ref = entry.object_ref or _Object()
        if entry.verb == "watch" or ref.resource == "leases":
            continue
        found[f"{entry.verb} {ref.resource}{'/' if ref.subresource else ''}{ref.subresource}"] += 1
    return found
