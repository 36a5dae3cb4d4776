"""Discovery: which optional APIs the API server serves just now, by one request every half minute for all of them.

For reflectors of optional resources, which wait here for their API instead of trying its path again and again.  A server
that may not be asked is taken to serve everything: then the paths themselves tell.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import structlog

from .client import ApiError, Client, RequestError, Sleep, backoff_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

log = structlog.stdlib.get_logger("discovery")

LOOK_SECONDS = 30.0
LONGEST_BACKOFF_SECONDS = 30.0
#: The list with resources (every server since 1.30 has it), or else that of groups and versions alone.
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class _Resource(msgspec.Struct):
    resource: str = ""


class _Version(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct):
    """A group in either form: the name is in `metadata` in the one with resources."""

    name: str = ""
    metadata: _Meta = _Meta()
    versions: list[_Version] = []


class _Answer(msgspec.Struct):
    """Either form: `items` with resources, or `groups`."""

    items: list[_Group] | None = None
    groups: list[_Group] | None = None


@dataclass(frozen=True, slots=True)
class Api:
    """An optional API: a resource of a group, in one of some versions, the preferred one first."""

    group: str
    versions: tuple[str, ...]
    resource: str

    def path(self, version: str) -> str:
        """Return where it is listed."""
        return f"/apis/{self.group}/{version}/{self.resource}"


class Discovery:
    """Knows what is served; `run` keeps it up to date."""

    def __init__(self, client: Client, sleep: Sleep = asyncio.sleep) -> None:
        """Prepare; nothing is known yet."""
        self._client = client
        self._sleep = sleep
        #: (group, version) to the resources in it, None where they are not told; None before the first answer.
        self._served: dict[tuple[str, str], frozenset[str] | None] | None = None
        self._may_ask = True
        self._wanted: list[Api] = []
        self._turned = asyncio.Event()

    def want(self, api: Api) -> Served:
        """Return where a reflector asks for one API."""
        self._wanted.append(api)
        return Served(self, api)

    async def run(self) -> None:
        """Look until cancelled; no failure of the API server ends it."""
        failures = 0
        while True:
            is_first = not self.is_known
            failures = 0 if await self.look() else failures + 1
            if is_first and self.is_known:
                self._say_absent()
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()
            await self._sleep(backoff_seconds(failures - 1, 0.5, LONGEST_BACKOFF_SECONDS) if failures else LOOK_SECONDS)

    async def look(self) -> bool:
        """Ask once; tell whether an answer came."""
        try:
            body = await self._client.get_bytes("/apis", accept=AGGREGATED, attempts=1)
            answer = msgspec.json.decode(body, type=_Answer)
        except ApiError as error:
            if error.is_temporary:
                return False
            if self._may_ask:
                log.warning("discovery_refused", problem=str(error))
            self._may_ask = False
            return True
        except (RequestError, msgspec.MsgspecError):
            return False
        if answer.items is None and answer.groups is None:  # somebody else's JSON
            return False
        self._served = dict(_served(answer))
        self._may_ask = True
        return True

    @property
    def is_known(self) -> bool:
        """Whether the first answer has come."""
        return self._served is not None or not self._may_ask

    def version_of(self, api: Api) -> str | None:
        """Return the first version of an API that is served, or None."""
        if not self._may_ask:
            return api.versions[0]
        for version in api.versions:
            resources = (self._served or {}).get((api.group, version), frozenset[str]())
            if resources is None or api.resource in resources:
                return version
        return None

    async def turn(self) -> None:
        """Wait until it was asked again, whatever the answer."""
        await self._turned.wait()

    def _say_absent(self) -> None:
        absent = [f"{api.resource}.{api.group}" for api in self._wanted if self.version_of(api) is None]
        if absent:
            log.info("resources_absent", resources=absent)


@dataclass(slots=True)
class Served:
    """One API, as discovery tells of it."""

    discovery: Discovery
    api: Api
    #: The version that is read, or was read last.
    version: str = ""

    @property
    def is_known(self) -> bool:
        """Whether discovery has answered at all."""
        return self.discovery.is_known

    @property
    def api_version(self) -> str:
        """What objects of this API have as `apiVersion`; items of lists of built-in kinds lack it."""
        return f"{self.api.group}/{self.version or self.api.versions[0]}"

    def path(self) -> str | None:
        """Return where the API is listed now, or None while it is not served."""
        version = self.discovery.version_of(self.api)
        if version is None:
            return None
        self.version = version
        return self.api.path(version)

    async def turn(self) -> None:
        """Wait until discovery has looked again."""
        await self.discovery.turn()


def _served(answer: _Answer) -> Iterator[tuple[tuple[str, str], frozenset[str] | None]]:
    """Yield what an answer says of each group and version."""
    for group in answer.items or ():
        for version in group.versions:
            yield (group.metadata.name, version.version), frozenset(_names(version.resources or ()))
    for group in answer.groups or ():
        for version in group.versions:
            yield (group.name, version.version), None


def _names(resources: Iterable[_Resource]) -> Iterator[str]:
    return (resource.resource for resource in resources)
