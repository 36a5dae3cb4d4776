"""Events: news at once, repetitions counted, floods cut, everything bounded."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scheduler.framework.effects import EmitEvent, ObjectRef
from scheduler.kube.events import EventRecorder, shortened
from tests.kube.scripted import EVENTS, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.kube.client import Client

CREATE = "/apis/events.k8s.io/v1/namespaces/default/events"


def event(note: str = "no room", name: str = "p") -> EmitEvent:
    """Return an event about a pod."""
    about = ObjectRef("v1", "Pod", "default", name, f"uid-{name}")
    return EmitEvent(about, "Warning", "FailedScheduling", "Scheduling", note)


class World:
    """A recorder with a clock that the test moves."""

    def __init__(self, client: Client) -> None:
        """Start at time zero."""
        self.now = 0.0
        self.dropped = 0
        self.is_quiet = asyncio.Event()
        self.is_quiet.set()
        self.patience: list[float] = []
        self.recorder = EventRecorder(
            client,
            instance="me",
            clock=lambda: self.now,
            on_dropped=lambda: setattr(self, "dropped", self.dropped + 1),
            lull=self.lull,
        )

    async def lull(self, longest_seconds: float) -> None:
        """Wait for the end of the burst, and note how long that may take."""
        self.patience.append(longest_seconds)
        if longest_seconds > 0:
            await self.is_quiet.wait()


@asynccontextmanager
async def recording(client: Client) -> AsyncIterator[World]:
    """A recorder at work."""
    world = World(client)
    task = asyncio.create_task(world.recorder.run())
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_has_all_fields(server: ScriptedServer, client: Client) -> None:
    """As kubectl and the API's validation want them."""
    async with recording(client) as world:
        world.recorder.record(event())
        await world.recorder.drain(5.0)
    (body,) = [r.body for r in server.seen("POST", CREATE)]
    assert body["regarding"] == {
        "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p",
    }  # fmt: skip
    assert (body["type"], body["reason"], body["action"], body["note"]) == (
        "Warning", "FailedScheduling", "Scheduling", "no room",
    )  # fmt: skip
    assert (body["reportingController"], body["reportingInstance"]) == ("ai-scheduler", "me")
    assert body["eventTime"].endswith("Z")


async def test_the_same_again_is_a_series_written_once_a_minute(server: ScriptedServer, client: Client) -> None:
    """One object, its count raised by a patch."""
    async with recording(client) as world:
        for _ in range(10):
            world.recorder.record(event())
        world.now = 61.0
        world.recorder.record(event())
        await world.recorder.drain(5.0)
    assert len(server.seen("POST", CREATE)) == 1
    (patch,) = [r for r in server.requests if r.method == "PATCH"]
    assert patch.body["series"]["count"] == 11


async def test_after_six_minutes_it_is_a_new_event(server: ScriptedServer, client: Client) -> None:
    """A series ends when nothing more comes."""
    async with recording(client) as world:
        world.recorder.record(event())
        world.now = 361.0
        world.recorder.record(event())
        await world.recorder.drain(5.0)
    assert len(server.objects[EVENTS]) == 2


async def test_another_note_is_news(server: ScriptedServer, client: Client) -> None:
    """Notes cannot be changed, so each becomes an event of its own."""
    async with recording(client) as world:
        world.recorder.record(event("a"))
        world.recorder.record(event("b"))
        await world.recorder.drain(5.0)
    assert sorted(e["note"] for e in server.objects[EVENTS].values()) == ["a", "b"]


async def test_a_flood_about_one_object_is_cut(server: ScriptedServer, client: Client) -> None:
    """25 at once, one more in five minutes; others are not affected."""
    async with recording(client) as world:
        for i in range(40):
            world.recorder.record(event(f"note {i}"))
        world.recorder.record(event(name="q"))
        world.now = 300.0
        world.recorder.record(event("later"))
        await world.recorder.drain(5.0)
    assert len(server.objects[EVENTS]) == 27
    assert world.dropped == 15


async def test_the_queue_is_bounded(client: Client) -> None:
    """A slow server costs events, not memory."""
    world = World(client)
    for i in range(10_500):
        world.recorder.record(event(name=f"p{i}"))
    assert world.dropped == 500
    assert len(world.recorder._queue) == 10_000


async def test_a_refused_event_is_dropped(server: ScriptedServer, client: Client) -> None:
    """Nothing waits for it."""
    server.script("POST", CREATE, Answer(403))
    async with recording(client) as world:
        world.recorder.record(event("a"))
        world.recorder.record(event("b"))
        await world.recorder.drain(5.0)
        await server.until(lambda: len(server.objects[EVENTS]) == 1 and world.dropped == 1)


def test_notes_are_cut_at_a_character() -> None:
    """1024 bytes, valid UTF-8."""
    assert shortened("x" * 1024) == "x" * 1024
    cut = shortened("ä" * 1000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("…")


async def test_events_are_written_after_a_burst_and_say_when_it_happened(
    server: ScriptedServer, client: Client
) -> None:
    """None goes out beside the bindings; one that has waited for ten seconds does."""
    async with recording(client) as world:
        world.is_quiet.clear()
        world.recorder.record(event())
        before = datetime.now(UTC)
        await asyncio.sleep(0)
        world.now = 4.0
        world.recorder.record(event("other"))
        await world.recorder.drain(0.01)
        assert server.seen("POST", CREATE) == []
        assert max(world.patience) == 6.0  # of ten seconds four have passed
        world.is_quiet.set()
        await world.recorder.drain(5.0)
    bodies = [r.body for r in server.seen("POST", CREATE)]
    assert [body["note"] for body in bodies] == ["no room", "other"]
    assert bodies[0]["eventTime"] <= before.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def test_an_event_waits_for_the_end_of_a_burst_ten_seconds_at_most(
    server: ScriptedServer, client: Client
) -> None:
    """Of a burst without end its events are told nevertheless."""
    world = World(client)
    world.is_quiet.clear()
    world.recorder.record(event())
    world.now = 10.0
    task = asyncio.create_task(world.recorder.run())
    await world.recorder.drain(5.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(server.seen("POST", CREATE)) == 1
