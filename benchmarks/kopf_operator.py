"""The process that `benchmarks.kopf_cost` measures: a Kopf operator with one handler for pending pods, or a bare reflector.

It reads its connection from the first line of standard input. Then it reports on standard output, one JSON object a line:
first when all existing pods have been handled, then for each batch of events that a further line told it to expect.
"""

import asyncio
import gc
import json
import logging
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import msgspec
import uvloop

SELECTOR = "spec.schedulerName=ai-scheduler,spec.nodeName="
TICK_SECONDS = 0.01
SHORT_IDLE_SECONDS = 0.2
COLLECTOR_THRESHOLDS = (100_000, 50, 100)


@dataclass(frozen=True)
class Variant:
    """What differs from Kopf's defaults; what the handler does with a pod; or whether there is no Kopf at all."""

    posting: bool = True
    scanning: bool = True
    idle_seconds: float = 5.0
    chunk_size: int | None = None
    essence: bool = True
    tuned_collector: bool = False
    uvloop: bool = False
    reads: str = "nothing"
    reflector: bool = False


ALL = Variant(
    posting=False,
    scanning=False,
    idle_seconds=SHORT_IDLE_SECONDS,
    chunk_size=500,
    essence=False,
    tuned_collector=True,
    uvloop=True,
)
VARIANTS = {
    "Kopf's defaults": Variant(),
    "posting off": Variant(posting=False),
    "scanning off": Variant(scanning=False),
    "idle timeout 0.2 s": Variant(idle_seconds=SHORT_IDLE_SECONDS),
    "list in chunks of 500": Variant(chunk_size=500),
    "no essence": Variant(essence=False),
    "collector tuned": Variant(tuned_collector=True),
    "uvloop": Variant(uvloop=True),
    "all but uvloop": replace(ALL, uvloop=False),
    "all of these": ALL,
    "all, reads 10 fields of body": replace(ALL, reads="body"),
    "all, reads 10 fields of event": replace(ALL, reads="event"),
    "all, converts event to structs": replace(ALL, reads="structs"),
    "no Kopf: aiohttp + msgspec": Variant(reflector=True, tuned_collector=True, uvloop=True),
}


class NoEssence(kopf.DiffBaseStorage):
    """Spares the deep copy that Kopf makes of every object at every event: only on.create/update/delete need it."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Returns nothing to compare."""
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Remembers nothing."""
        del body
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Stores nothing."""


class Camel(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A view of an API object: only the fields named in a subclass are decoded."""


class Metadata(Camel, frozen=True):
    """Who the object is."""

    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Resources(Camel, frozen=True):
    """What a container asks for."""

    requests: dict[str, str] = {}


class Container(Camel, frozen=True):
    """A container."""

    name: str
    resources: Resources = Resources()


class Spec(Camel, frozen=True):
    """The part of a pod's spec that a small scheduler reads."""

    containers: tuple[Container, ...]
    scheduler_name: str = ""
    priority: int = 0
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class Pod(Camel, frozen=True):
    """A pod."""

    metadata: Metadata
    spec: Spec


class WatchEvent(Camel, frozen=True):
    """A line of a watch."""

    type: str
    object: Pod


class PodPage(Camel, frozen=True):
    """A page of a list."""

    metadata: dict[str, Any]
    items: tuple[Pod, ...]


class Meter:
    """Counts events by kind and says what they cost: CPU, memory, and how long the event loop was blocked at most."""

    def __init__(self, idle_seconds: float) -> None:
        """Starts at process start: the CPU used so far counts as well."""
        self._idle_seconds = idle_seconds
        self._counts: dict[str, int] = {}
        self._reached: asyncio.Event = asyncio.Event()
        self._awaited = ("LISTED", 0)
        self._stall_seconds = 0.0
        self._first = self._last = 0.0

    def saw(self, kind: str | None) -> None:
        """Counts an event; None is Kopf's kind for objects of the first list."""
        key = kind or "LISTED"
        self._counts[key] = count = self._counts.get(key, 0) + 1
        if key == self._awaited[0]:
            self._last = time.monotonic()
            self._first = self._first or self._last
            if count == self._awaited[1]:
                self._reached.set()

    async def until(self, kind: str, count: int, cpu_before: float, started: float) -> dict[str, float]:
        """Waits until `count` events of a kind came and the workers have ended; returns the costs since `started`."""
        self._awaited = (kind, count)
        self._first = self._stall_seconds = 0.0
        if self._counts.get(kind, 0) < count:
            self._reached.clear()
            await self._reached.wait()
        taken, tasks, resident = self._last - started, len(asyncio.all_tasks()), memory_megabytes("VmRSS")
        await asyncio.sleep(self._idle_seconds + 0.5)  # The end of idle workers is part of what an event costs.
        return {
            "seconds": taken,
            "burst_seconds": self._last - self._first,
            "cpu_seconds": time.process_time() - cpu_before,
            "stall_milliseconds": self._stall_seconds * 1000,
            "resident_megabytes": resident,
            "peak_megabytes": memory_megabytes("VmHWM"),
            "tasks": tasks,
        }

    async def watch_loop(self) -> None:
        """Measures for how long the event loop does not come round."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self._stall_seconds = max(self._stall_seconds, now - before - TICK_SECONDS)
            before = now


def memory_megabytes(field: str) -> float:
    """Returns a figure of this process from /proc: VmRSS now, or VmHWM at most (getrusage would count the parent's too)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def reader(reads: str) -> Callable[[kopf.RawEvent, kopf.Body], object]:
    """Returns what a handler does with a pod: it gets Kopf's raw event and Kopf's view of the object."""

    def nothing(_event: kopf.RawEvent, _body: kopf.Body) -> object:
        return None

    def from_body(_event: kopf.RawEvent, body: kopf.Body) -> object:
        meta, spec = body.metadata, body.spec
        first = (meta.name, meta.namespace, meta.uid, meta["resourceVersion"], meta.labels, meta.annotations)
        return *first, spec["containers"], spec["priority"], spec["nodeSelector"], spec["tolerations"]

    def from_event(event: kopf.RawEvent, _body: kopf.Body) -> object:
        pod: Any = event["object"]
        meta, spec = pod["metadata"], pod["spec"]
        first = (meta["name"], meta["namespace"], meta["uid"], meta["resourceVersion"], meta["labels"])
        rest = spec["containers"], spec["priority"], spec["nodeSelector"], spec["tolerations"]
        return *first, meta["annotations"], *rest

    def to_structs(event: kopf.RawEvent, _body: kopf.Body) -> object:
        return msgspec.convert(event["object"], Pod)

    return {"nothing": nothing, "body": from_body, "event": from_event, "structs": to_structs}[reads]


async def run_kopf(variant: Variant, connection: dict[str, str], meter: Meter) -> None:
    """Runs the operator until it is cancelled."""
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.watching.field_selectors["v1", "pods"] = SELECTOR
    settings.watching.chunk_size = variant.chunk_size
    settings.posting.enabled = variant.posting
    settings.scanning.disabled = not variant.scanning
    settings.queueing.idle_timeout = variant.idle_seconds
    if not variant.essence:
        settings.persistence.diffbase_storage = NoEssence()
    read = reader(variant.reads)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=connection["server"], token=connection["token"], ca_data=connection["certificate_authority"]
        )

    @kopf.on.event("v1", "pods", registry=registry)
    async def handle(event: kopf.RawEvent, body: kopf.Body, **_: Any) -> None:
        read(event, body)
        meter.saw(event["type"])

    await kopf.operator(registry=registry, settings=settings, clusterwide=True, standalone=True)


async def run_reflector(connection: dict[str, str], meter: Meter) -> None:
    """Lists and watches the same pods without Kopf: what the work itself costs. It keeps the pods, and recovers from nothing."""
    tls = ssl.create_default_context(cadata=connection["certificate_authority"])
    headers = {"Authorization": f"Bearer {connection['token']}"}
    pages, lines = msgspec.json.Decoder(PodPage), msgspec.json.Decoder(WatchEvent)
    pods: dict[str, Pod] = {}
    async with aiohttp.ClientSession(connection["server"], headers=headers, read_bufsize=2**20) as session:
        params = {"fieldSelector": SELECTOR, "limit": "500"}
        while True:
            async with session.get("/api/v1/pods", params=params, ssl=tls) as answer:
                page = pages.decode(await answer.read())
            for pod in page.items:
                pods[pod.metadata.uid] = pod
                meter.saw(None)
            params["continue"] = page.metadata.get("continue", "")
            if not params["continue"]:
                break
        params = {"fieldSelector": SELECTOR, "watch": "true", "resourceVersion": page.metadata["resourceVersion"]}
        timeout = aiohttp.ClientTimeout(total=None)
        async with session.get("/api/v1/pods", params=params, ssl=tls, timeout=timeout) as answer:
            async for line in answer.content:
                event = lines.decode(line)
                pods[event.object.metadata.uid] = event.object
                meter.saw(event.type)


async def main(variant: Variant, started: float) -> None:
    """Handles what exists, then each batch that is announced on standard input, and ends with it."""
    loop = asyncio.get_running_loop()
    connection = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    meter = Meter(0 if variant.reflector else variant.idle_seconds)
    run = run_reflector(connection, meter) if variant.reflector else run_kopf(variant, connection, meter)
    tasks = [asyncio.create_task(meter.watch_loop()), asyncio.create_task(run)]
    imported = time.process_time()
    report = await meter.until("LISTED", connection["pods"], imported, started)
    report["idle_megabytes"] = memory_megabytes("VmRSS")
    print(json.dumps(report), flush=True)
    if variant.tuned_collector:
        gc.collect()
        gc.freeze()
    while announced := await loop.run_in_executor(None, sys.stdin.readline):
        kind, count = announced.split()
        measuring = asyncio.create_task(meter.until(kind, int(count), time.process_time(), time.monotonic()))
        await asyncio.sleep(0)
        print(json.dumps({"expecting": kind}), flush=True)
        print(json.dumps(await measuring), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    logging.getLogger("kopf").setLevel(logging.WARNING)
    chosen = VARIANTS[sys.argv[1]]
    if chosen.tuned_collector:
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
    runner = uvloop.run if chosen.uvloop else asyncio.run
    runner(main(chosen, time.monotonic()))
