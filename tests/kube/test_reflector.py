"""The reflector stays in step with the server whatever happens to its watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from scheduler.kube.lines import LineSplitter
from scheduler.kube.reflector import Reflector, Resource, Timing
from scheduler.model.api import ApiPod, ApiPodGroup
from tests.builders import a_pod
from tests.kube.scripted import COSCHEDULING, PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from scheduler.kube.client import Client
    from scheduler.kube.wire import ObjectKey
    from tests.kube.conftest import Naps

Running = Callable[..., Awaitable["Log"]]
RESOURCE = Resource("pods", PODS, ApiPod, field_selector="status.phase!=Failed")


class Log:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        """Start empty."""
        self.lines: list[str] = []
        self.names: set[str] = set()

    def changed(self, obj: ApiPod) -> None:
        """Write it down, or find it senseless."""
        if obj.metadata.name.startswith("senseless"):
            raise ValueError("makes no sense")
        self.lines.append(f"+{obj.metadata.name}")
        self.names.add(obj.metadata.name)

    def removed(self, key: ObjectKey, last: ApiPod | None) -> None:
        """Write it down."""
        del last
        self.lines.append(f"-{key.name}/{key.uid}")
        self.names.discard(key.name)

    def refused(self, key: ObjectKey, problem: str) -> None:
        """Write it down."""
        del problem
        self.lines.append(f"!{key.namespace}/{key.name}")


@asynccontextmanager
async def running(
    client: Client, timing: Timing, resource: Resource = RESOURCE
) -> AsyncIterator[tuple[Reflector, Log]]:
    """A reflector at work."""
    log = Log()
    reflector = Reflector(client, resource, log, timing)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, log
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_lists_in_pages_then_watches(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """More objects than fit on a page are all there before `synced`."""
    for i in range(1203):
        server.put(PODS, a_pod(f"p{i}").manifest())
    async with running(client, timing) as (reflector, log):
        await reflector.synced.wait()
        assert len(log.names) == len(reflector) == 1203
        assert len(server.seen("LIST", PODS)) == 3
        server.put(PODS, a_pod("late").manifest())
        await server.until(lambda: "late" in log.names)


async def test_changes_and_deletions_arrive_in_order(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Added, modified, deleted."""
    async with running(client, timing) as (_, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("p").manifest())
        server.put(PODS, a_pod("p").label("x", "y").manifest())
        server.remove(PODS, "p")
        await server.until(lambda: len(log.lines) == 3)
        assert log.lines == ["+p", "+p", "-p/uid-p"]


async def test_leaving_the_selector_is_a_removal(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """A pod that fails leaves a view without failed pods."""
    server.put(PODS, a_pod("p").manifest())
    async with running(client, timing) as (_, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("p").phase("Failed").manifest())
        await server.until(lambda: log.lines == ["+p", "-p/uid-p"])


@pytest.mark.parametrize("cut", [True, False])
async def test_a_lost_stream_resumes_at_the_last_version(
    server: ScriptedServer, client: Client, timing: Timing, cut: bool
) -> None:
    """What happened meanwhile arrives once, and nothing is listed again."""
    server.put(PODS, a_pod("a").manifest())
    async with running(client, timing) as (reflector, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("b").manifest())
        await server.until(lambda: "b" in log.names)
        server.put(PODS, a_pod("missed").manifest(), silently=True)
        server.end(PODS, cut=cut)
        await server.until(lambda: "missed" in log.names)
        assert log.lines == ["+a", "+b", "+missed"]
        assert reflector.lists == 1


@pytest.mark.parametrize("how", ["status", "event"])
async def test_gone_lists_again_and_compares(server: ScriptedServer, client: Client, timing: Timing, how: str) -> None:
    """After 410 what vanished is removed, what is unchanged is not repeated, a namesake replaces its predecessor."""
    for name in ("stays", "goes", "reborn"):
        server.put(PODS, a_pod(name).manifest())
    async with running(client, timing) as (reflector, log):
        await server.until(lambda: server.watchers(PODS))
        log.lines.clear()
        server.remove(PODS, "goes", silently=True)
        server.remove(PODS, "reborn", silently=True)
        server.put(PODS, a_pod("reborn").uid("second").manifest(), silently=True)
        server.compact()
        if how == "event":
            server.error(PODS, 410)
        else:
            server.end(PODS)
        await server.until(lambda: reflector.lists == 2 and server.watchers(PODS))
        assert log.lines == ["-reborn/uid-reborn", "+reborn", "-goes/uid-goes"]


async def test_an_expired_page_token_starts_the_list_again(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """410 for a page is no end of the world."""
    server.put(PODS, a_pod("p").manifest())
    server.script("LIST", PODS, Answer(410, "Expired"))
    async with running(client, timing) as (reflector, log):
        await reflector.synced.wait()
        assert log.names == {"p"}


async def test_a_page_that_fails_starts_the_list_again(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Nothing is taken for gone meanwhile, and everything comes, once."""
    for i in range(1203):
        server.put(PODS, a_pod(f"p{i}").manifest())
    async with running(client, timing) as (reflector, log):
        await reflector.synced.wait()
        server.script("LIST", PODS, Answer(after_doing_it=True, cut=True), Answer(500))
        await server.until(lambda: server.watchers(PODS))
        server.error(PODS, 410)
        await server.until(lambda: reflector.lists == 2)
        assert sorted(log.lines) == sorted(f"+p{i}" for i in range(1203))


async def test_a_line_of_no_known_type_is_taken_as_a_change(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """What a later version may call it; lines without an object are passed over."""
    async with running(client, timing) as (_, log):
        await server.until(lambda: server.watchers(PODS))
        pod = a_pod("p").manifest()
        server.send(PODS, b'{"type":"ADDED"}\n' + json.dumps({"type": "RENAMED", "object": pod}).encode() + b"\n")
        await server.until(lambda: log.lines == ["+p"])


async def test_bookmarks_move_the_version(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """After a bookmark the watch resumes there, so that a compaction before it does no harm."""
    async with running(client, timing) as (reflector, _):
        await server.until(lambda: server.watchers(PODS))
        server.put("/api/v1/nodes", {"metadata": {"name": "n"}})
        server.bookmark(PODS)
        server.compact()
        await server.until(lambda: reflector._version == str(server.version))
        server.end(PODS)
        await server.until(lambda: len(server.seen("WATCH", PODS)) == 2)
        assert server.seen("WATCH", PODS)[1].query["resourceVersion"] == str(server.version)
        assert reflector.lists == 1


async def test_a_silent_stream_is_cut(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Without any line the watch is opened again, and what was missed arrives."""
    async with running(client, timing) as (reflector, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("missed").manifest(), silently=True)
        await server.until(lambda: "missed" in log.names)
        assert reflector.lists == 1


async def test_a_watch_that_never_answers_is_given_up(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Headers must come within the time of silence too."""
    server.script("WATCH", PODS, Answer(silent=True))
    async with running(client, timing) as (_, log):
        await server.until(lambda: len(server.seen("WATCH", PODS)) == 2)
        server.put(PODS, a_pod("p").manifest())
        await server.until(lambda: "p" in log.names)


async def test_too_many_requests_are_waited_out(
    server: ScriptedServer, client: Client, timing: Timing, naps: Naps
) -> None:
    """Retry-After counts for lists and watches."""
    server.script("LIST", PODS, Answer(429, headers={"Retry-After": "9"}))
    async with running(client, timing) as (reflector, _):
        await reflector.synced.wait()
        assert naps.seconds[0] == 9.0


async def test_an_odd_error_event_lists_again(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """An ERROR that is not 410 does not end the reflector."""
    async with running(client, timing) as (reflector, _):
        await server.until(lambda: server.watchers(PODS))
        server.error(PODS, 500)
        await server.until(lambda: reflector.lists == 2)


@pytest.mark.parametrize("answer", [Answer(400, "BadRequest"), Answer(504, message="Too large resource version: 9")])
async def test_a_version_that_is_refused_is_given_up(
    server: ScriptedServer, client: Client, timing: Timing, answer: Answer
) -> None:
    """As after a restore of etcd from a backup."""
    server.script("WATCH", PODS, answer)
    async with running(client, timing) as (reflector, _):
        await server.until(lambda: reflector.lists == 2 and server.watchers(PODS))


async def test_a_starting_server_does_not_empty_a_view(server: ScriptedServer, client: Client, naps: Naps) -> None:
    """It answers 403 or 404 for a while; what was there is believed to be there for a minute."""
    server.put(PODS, a_pod("p").manifest())
    resource = Resource("pods", PODS, ApiPod, is_optional=True)
    async with running(client, Timing(sleep=naps, absent_after=60.0), resource) as (reflector, log):
        await server.until(lambda: server.watchers(PODS))
        server.script("WATCH", PODS, Answer(403), Answer(404), Answer(403))
        server.end(PODS)
        await server.until(lambda: len(server.seen("WATCH", PODS)) == 5)
        assert log.lines == ["+p"]
        assert not reflector.is_absent


async def test_one_bad_object_costs_only_itself(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """In a list and in a watch, undecodable or senseless: it is reported and the others go on."""
    bad = a_pod("bad").manifest() | {"spec": "no object"}
    server.put(PODS, bad)
    server.put(PODS, a_pod("good").manifest())
    async with running(client, timing) as (reflector, log):
        await reflector.synced.wait()
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("worse").manifest() | {"status": 7})
        server.put(PODS, a_pod("senseless").manifest())
        server.send(PODS, b"not even json\n")
        server.put(PODS, a_pod("fine").manifest())
        await server.until(lambda: "fine" in log.names)
        assert sorted(log.lines) == ["!default/bad", "!default/senseless", "!default/worse", "+fine", "+good"]
        assert reflector.lists == 1


async def test_an_object_that_turns_bad_keeps_its_last_version(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """A relist does not report as removed what is there and cannot be read."""
    server.put(PODS, a_pod("p").manifest())
    async with running(client, timing) as (reflector, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("p").manifest() | {"status": 7})
        server.error(PODS, 410)
        await server.until(lambda: reflector.lists == 2)
        assert log.names == {"p"}


async def test_a_missing_kind_is_picked_up_when_it_appears(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """404 counts as empty, and is asked again; when the kind vanishes its objects are removed."""
    resource = Resource("groups", COSCHEDULING, ApiPodGroup, is_optional=True)
    async with running(client, timing, resource) as (reflector, log):
        await reflector.synced.wait()
        assert reflector.is_absent
        server.kinds[COSCHEDULING] = "PodGroup"
        server.put(COSCHEDULING, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}})
        await server.until(lambda: "g" in log.names and not reflector.is_absent)
        del server.kinds[COSCHEDULING]
        server.end(COSCHEDULING)
        await server.until(lambda: not log.names)


async def test_a_forbidden_optional_kind_does_not_hold_up_the_rest(
    server: ScriptedServer, client: Client, timing: Timing
) -> None:
    """403 for what is optional counts as absent; what is required stays unsynced and says why."""
    server.script("LIST", PODS, *[Answer(403, "Forbidden")] * 10_000)
    optional = Resource("pods", PODS, ApiPod, is_optional=True)
    async with running(client, timing, optional) as (reflector, _):
        await reflector.synced.wait()
    async with running(client, timing) as (reflector, _):
        await server.until(lambda: "403" in reflector.problem)
        assert not reflector.synced.is_set()


async def test_a_ten_megabyte_object_passes(server: ScriptedServer, client: Client) -> None:
    """A line may be of any size."""
    async with running(client, Timing(silence=5.0)) as (_, log):
        await server.until(lambda: server.watchers(PODS))
        server.put(PODS, a_pod("big").annotation("x", "y" * 10_000_000).manifest())
        await server.until(lambda: "big" in log.names)


async def test_repeated_news_is_told_once(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """An ADDED with a known version is no news."""
    pod = server.put(PODS, a_pod("p").manifest())
    async with running(client, timing) as (_, log):
        await server.until(lambda: server.watchers(PODS))
        server.send(PODS, json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
        server.put(PODS, a_pod("next").manifest())
        await server.until(lambda: "next" in log.names)
        assert log.lines == ["+p", "+next"]


async def test_a_server_that_is_away_for_a_while(
    naps: Naps, client: Client, server: ScriptedServer, timing: Timing
) -> None:
    """Failures back off, longer each time, and end when the server is back."""
    server.script("LIST", PODS, *[Answer(cut=True)] * 6)
    async with running(client, timing) as (reflector, _):
        await reflector.synced.wait()
        assert len(naps.seconds) >= 3  # aiohttp repeats a GET by itself where a kept connection was cut
        assert naps.seconds == sorted(naps.seconds)
        assert reflector.problem == ""


def test_lines_are_cut_wherever_the_chunks_end() -> None:
    """Every way to cut the bytes gives the same lines."""
    text = b'{"a":1}\n\n{"b":2}\n{"c"'
    for size in range(1, len(text) + 1):
        splitter = LineSplitter()
        lines = [line for i in range(0, len(text), size) for line in splitter.feed(text[i : i + size])]
        assert lines == [b'{"a":1}', b'{"b":2}']
        assert splitter.has_rest
