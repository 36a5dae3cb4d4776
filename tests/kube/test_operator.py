"""The operator, with the real Kopf: pending pods and PodGroups come in, and its two known faults are mended."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from scheduler.engine.inputs import GangChanged, GangRemoved, Input, PodChanged
from scheduler.kube.operator import Operator
from scheduler.kube.pending import pending_selector
from scheduler.kube.pending_feed import pending_feeds
from scheduler.kube.reconcile import Reconciler, View
from scheduler.kube.views import PodViews
from scheduler.model.dialects import DIALECTS
from tests.builders import a_pod
from tests.kube.conftest import Naps, login_to
from tests.kube.scripted import GROUPS, PATIENCE_SECONDS, PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.kube.client import Client
    from scheduler.kube.reflector import Timing

GROUP = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}, "spec": {"minMember": 2}}


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Kopf's own log is of no interest here."""
    logging.getLogger("kopf").setLevel(logging.CRITICAL)


class World:
    """An operator, reflectors of pending pods where it has none, and what they say."""

    def __init__(
        self, server: ScriptedServer, client: Client, names: tuple[str, ...], timing: Timing | None = None
    ) -> None:
        """Wire it; with a timing, pending pods come through reflectors."""
        self.said: list[Input] = []
        self.refused: list[tuple[str, ...]] = []
        self.views = PodViews(self.said.append)
        self.spawned = 0
        self.operator = Operator(
            login_to(server), client, self.said.append, self.views, names, has_pods=timing is None,
            on_refused=self._refused, on_spawned=self._spawned, sleep=self._sleep,
        )  # fmt: skip
        self.feeds = pending_feeds(client, self.views, DIALECTS, names, self._refused, timing) if timing else []

    async def run(self) -> None:
        """Run all of it until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in (self.operator, *self.feeds):
                group.create_task(part.run())

    async def synced(self) -> None:
        """Wait until everything that was there at the start has come."""
        await asyncio.gather(self.operator.synced.wait(), *(feed.synced.wait() for feed in self.feeds))

    def _refused(self, *what: str) -> None:
        self.refused.append(what)

    def _spawned(self) -> None:
        self.spawned += 1

    async def _sleep(self, seconds: float) -> None:
        """Back off in no time, but let the reconciler's minute never pass by itself."""
        await (asyncio.sleep(0.01) if seconds < 40 else asyncio.Event().wait())

    def pods(self) -> list[str]:
        """Return the names of the pods that came in."""
        return [item.pod.name for item in self.said if isinstance(item, PodChanged)]


@asynccontextmanager
async def operating(
    server: ScriptedServer, client: Client, *names: str, is_synced: bool = True, timing: Timing | None = None
) -> AsyncIterator[World]:
    """A running operator; with a timing, reflectors of pending pods beside it."""
    world = World(server, client, names or ("ai-scheduler",), timing)
    task = asyncio.create_task(world.run())
    try:
        if is_synced:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await world.synced()
            await server.until(lambda: server.watchers(PODS))
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_kopf_writes_nothing(server: ScriptedServer, client: Client) -> None:
    """No finalizer, annotation, event or peering object."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(PODS, a_pod("p").manifest())
    server.put(GROUPS, GROUP)
    async with operating(server, client) as world:
        await server.until(lambda: any(isinstance(item, GangChanged) for item in world.said))
    assert {r.method for r in server.requests} <= {"GET", "LIST", "WATCH"}


def test_the_selector_never_hides_a_pod_of_ours() -> None:
    """With several names the default scheduler's pods are left out, unless one of the names is its."""
    assert pending_selector(["x"]).startswith("spec.schedulerName=x,spec.nodeName=,")
    assert pending_selector(["x", "y"]).startswith("spec.schedulerName!=default-scheduler,spec.nodeName=,")
    assert pending_selector(["x", "default-scheduler"]).startswith("spec.nodeName=,")


async def test_a_group_deleted_in_a_lost_watch_leaves(server: ScriptedServer, client: Client) -> None:
    """The same for groups."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(GROUPS, GROUP)
    server.put(GROUPS, GROUP | {"metadata": {"name": "h", "namespace": "default", "uid": "uid-h"}})
    async with operating(server, client) as world:
        await server.until(lambda: server.watchers(GROUPS))
        server.remove(GROUPS, "g", silently=True)
        server.compact()
        server.error(GROUPS, 410)
        await server.until(lambda: [i.key.name for i in world.said if isinstance(i, GangRemoved)] == ["g"])


async def test_kopf_is_started_again_when_it_gives_up(server: ScriptedServer, client: Client) -> None:
    """An ERROR event that is not 410 is fatal to it; our other tasks live on."""
    async with operating(server, client) as world:
        bystander = asyncio.create_task(asyncio.Event().wait())
        server.error(PODS, 500)
        await server.until(lambda: world.spawned == 2)
        server.put(PODS, a_pod("p").manifest())
        await server.until(lambda: "p" in world.pods())
        assert not bystander.done()
        bystander.cancel()


async def test_cancelling_leaves_no_task_behind(server: ScriptedServer, client: Client) -> None:
    """Kopf's tasks end with the operator."""
    async with operating(server, client):
        assert tasks_of_kopf()
    assert tasks_of_kopf() == []


def tasks_of_kopf() -> list[str]:
    """Return the names of Kopf's tasks; what the event loop itself runs, such as the end of a generator, has no code."""
    codes = [(task.get_name(), getattr(task.get_coro(), "cr_code", None)) for task in asyncio.all_tasks()]
    return [name for name, code in codes if code is not None and "/kopf/" in code.co_filename]


class Held:
    """A view for the reconciler alone."""

    def __init__(self, *uids: str) -> None:
        """Hold these."""
        self.uids = set(uids)
        self.left: list[str] = []
        self.unseen: list[str] = []

    def view(self) -> View:
        """Return it as the reconciler takes it."""

        def unseen(obj: dict[str, Any]) -> None:
            self.unseen.append(obj["metadata"]["name"])

        return View("pods", PODS, {"fieldSelector": "spec.nodeName="}, lambda: self.uids, self.left.append, unseen)


async def test_comparing_finds_both_kinds_of_difference(server: ScriptedServer, client: Client, naps: Naps) -> None:
    """Ghosts leave at once; what is unseen may only be late, so it is fetched the second time."""
    server.put(PODS, a_pod("both").manifest())
    server.put(PODS, a_pod("unseen").manifest())
    held = Held("uid-both", "uid-ghost")
    view = held.view()
    reconciler = Reconciler(client, [view], naps)
    assert await reconciler.compare(view) == 1
    assert (held.left, held.unseen) == (["uid-ghost"], [])
    held.uids.discard("uid-ghost")
    assert await reconciler.compare(view) == 1
    assert held.unseen == ["unseen"]


async def test_no_conclusion_from_a_failed_list(server: ScriptedServer, client: Client, naps: Naps) -> None:
    """A server that is away makes no ghosts."""
    server.script("LIST", PODS, *[Answer(500)] * 5)
    held = Held("uid-p")
    assert await Reconciler(client, [held.view()], naps).compare(held.view()) == 0
    assert held.left == []


async def test_what_appears_during_the_list_is_no_ghost(client: Client, naps: Naps) -> None:
    """Only what was held before the list began can be missing from it."""
    held = Held()
    view = held.view()
    reconciler = Reconciler(client, [view], naps)
    present = reconciler._present

    async def late(of: View) -> dict[str, Any]:
        found = await present(of)
        held.uids.add("uid-new")
        return found

    reconciler._present = late  # type: ignore[method-assign]
    assert await reconciler.compare(view) == 0


@pytest.mark.parametrize("page", ["<html>log in</html>", '{"error": "log in"}', '{"groups": [{}]}', "[]"])
async def test_a_page_of_somebody_else_ends_nothing(server: ScriptedServer, client: Client, page: str) -> None:
    """Kopf is started when the API server itself answers."""
    server.put(PODS, a_pod("p").manifest())
    server.script("GET", "/apis", *[Answer(page=page)] * 3)
    server.script("LIST", PODS, *[Answer(page=page)] * 3)
    async with operating(server, client) as world:
        await server.until(lambda: "p" in world.pods())


@pytest.mark.parametrize("page", ["<html>log in</html>", '{"error": "log in"}', '{"items": []}'])
async def test_a_page_of_somebody_else_makes_no_ghosts(
    server: ScriptedServer, client: Client, naps: Naps, page: str
) -> None:
    """JSON without a version is no empty list."""
    server.script("LIST", PODS, *[Answer(page=page)] * 5)
    held = Held("uid-p")
    assert await Reconciler(client, [held.view()], naps).compare(held.view()) == 0
    assert held.left == []


async def test_the_start_does_not_wait_for_what_left_meanwhile(server: ScriptedServer, client: Client) -> None:
    """A pod that is gone between our list and Kopf's appears in no event."""
    server.put(PODS, a_pod("stays").manifest())
    server.put(PODS, a_pod("deleted").manifest())
    server.put(PODS, a_pod("bound").manifest())
    server.script("GET", "/apis", *[Answer(503)])  # which sets Kopf's start apart from the first list
    world = World(server, client, ("ai-scheduler",))
    view = world.operator._view
    sync = asyncio.create_task(view.first_sync())
    await server.until(lambda: len(server.seen("LIST", PODS)) == 1 and view._awaited)
    server.remove(PODS, "deleted")
    server.put(PODS, a_pod("bound").on("n").manifest())
    await server.until(lambda: view._awaited == {"uid-stays"})
    assert not sync.done()
    view.pod_event({"type": None, "object": server.get(PODS, "stays")})
    async with asyncio.timeout(PATIENCE_SECONDS):
        await sync
    assert world.operator.synced.is_set()


async def test_what_fails_unheard_inside_kopf_is_not_shouted(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Other tasks' failures still are."""
    from kopf._cogs.aiokits import aiotasks  # noqa: PLC0415 - a coroutine of Kopf's own

    async def fails() -> None:
        raise ValueError("ours")

    async with operating(server, client):
        loop = asyncio.get_running_loop()
        for coroutine in (aiotasks.wait({1}), fails()):  # type: ignore[arg-type]
            task = loop.create_task(coroutine)
            await asyncio.wait([task])
            loop.call_exception_handler({"message": "never retrieved", "future": task, "exception": task.exception()})
    assert [record.exc_info[0] for record in caplog.records if record.name == "asyncio" and record.exc_info] == [
        ValueError
    ]
