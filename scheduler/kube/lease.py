"""LeaderElection: one replica at a time holds a Lease of coordination.k8s.io; the others stand by.

For the process.  The algorithm is client-go's: a holder is trusted for the lease duration *after we saw it renew last*,
by our own monotonic clock, so clocks of machines need not agree; updates carry the resourceVersion, so of two that try
one fails.

| state | goes to | when |
|---|---|---|
| standing by | leading | the Lease is free, released (empty holder), or was not renewed for its duration |
| leading | lost | no renewal succeeded for the renew deadline, or somebody else holds it |
| leading | released | `release`, on a graceful stop: the standby takes over at its next try |
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from .client import CONFLICT, NOT_FOUND, ApiError, Client, RequestError, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.stdlib.get_logger("lease")


class LeaseLostError(Exception):
    """Somebody else may lead now; this process must not write any more."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Which Lease, and how long what may take, in seconds."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaderElection:
    """Takes, keeps and releases a Lease."""

    def __init__(
        self,
        client: Client,
        terms: LeaseTerms,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Keep the terms; `acquire` begins."""
        self._client = client
        self._terms = terms
        self._clock = clock
        self._sleep = sleep
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{terms.namespace}/leases"
        self._seen: dict[str, Any] = {}
        self._seen_at = float("-inf")
        self._renewed_at = float("-inf")
        #: Who holds the Lease, as far as known.
        self.holder = ""

    def is_held(self) -> bool:
        """Tell whether we lead for sure: the last renewal *began* less than the renew deadline ago."""
        return self._clock() - self._renewed_at < self._terms.renew_deadline

    async def acquire(self) -> None:
        """Return when we hold the Lease; failures of the API server only make it later."""
        while not await self._try():
            await self._sleep(self._terms.retry_period)
        log.info("lease_acquired", lease=f"{self._terms.namespace}/{self._terms.name}", identity=self._terms.identity)

    async def hold(self) -> None:
        """Renew until cancelled; raises LeaseLostError when the Lease is lost."""
        while True:
            await self._sleep(self._terms.retry_period)
            left = self._renewed_at + self._terms.renew_deadline - self._clock()
            try:
                async with asyncio.timeout(max(0.0, left)):
                    has_renewed = await self._try()
            except TimeoutError:
                has_renewed = False
            if self._seen_holder() not in ("", self._terms.identity):
                self._renewed_at = float("-inf")
                raise LeaseLostError(f"{self._seen_holder()} holds the lease")
            if not has_renewed and not self.is_held():
                raise LeaseLostError(f"not renewed for {self._terms.renew_deadline:g} s")

    async def release(self) -> None:
        """Give the Lease back, so that a standby need not wait for its end; best effort."""
        if not self.is_held():
            return
        self._renewed_at = float("-inf")
        spec = {
            **self._seen.get("spec", {}),
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": _micro_time(),
        }
        try:
            await self._client.put(f"{self._path}/{self._terms.name}", {**self._seen, "spec": spec}, attempts=1)
        except RequestError as error:
            log.warning("lease_not_released", problem=str(error))

    async def _try(self) -> bool:
        """Try to take or renew the Lease, once."""
        began = self._clock()
        try:
            lease = await self._read_or_create()
            if self._is_others(lease):
                return False
            lease = await self._client.put(f"{self._path}/{self._terms.name}", self._renewed(lease), attempts=1)
        except RequestError as error:
            if not (isinstance(error, ApiError) and error.status == CONFLICT):
                log.warning("lease_unreachable", problem=str(error))
            return False
        self._observe(lease)
        self._renewed_at = began
        return True

    async def _read_or_create(self) -> dict[str, Any]:
        try:
            lease: dict[str, Any] = await self._client.get(f"{self._path}/{self._terms.name}", attempts=1)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            lease = await self._client.post(self._path, self._renewed({}), attempts=1)
        self._observe(lease)
        return lease

    def _observe(self, lease: dict[str, Any]) -> None:
        """Note a record and, if it is another one than before, when we saw it."""
        if lease.get("spec") != self._seen.get("spec"):
            self._seen_at = self._clock()
        self._seen = lease
        if self._seen_holder() != self.holder:
            self.holder = self._seen_holder()
            log.info("lease_holder", holder=self.holder or "nobody")

    def _is_others(self, lease: dict[str, Any]) -> bool:
        """Tell whether somebody else holds the Lease and is to be trusted still."""
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity") or spec["holderIdentity"] == self._terms.identity:
            return False
        duration = spec.get("leaseDurationSeconds") or self._terms.duration
        return self._clock() < self._seen_at + duration

    def _renewed(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Return the Lease as we would like it; its resourceVersion is the precondition."""
        old = lease.get("spec") or {}
        is_ours = old.get("holderIdentity") == self._terms.identity
        now = _micro_time()
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": lease.get("metadata") or {"namespace": self._terms.namespace, "name": self._terms.name},
            "spec": {
                **old,
                "holderIdentity": self._terms.identity,
                "leaseDurationSeconds": max(1, round(self._terms.duration)),
                "acquireTime": old.get("acquireTime", now) if is_ours else now,
                "renewTime": now,
                "leaseTransitions": transitions if is_ours or not lease else transitions + 1,
            },
        }

    def _seen_holder(self) -> str:
        return str((self._seen.get("spec") or {}).get("holderIdentity") or "")


def new_identity() -> str:
    """Return what names this process among replicas: pod or host name and a random part."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
