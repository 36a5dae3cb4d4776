"""Pending pods come in alike through Kopf and through a reflector (`intake`), whatever happens to their watch."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from scheduler.engine.inputs import GangChanged, GangRemoved, PendingPodLeft, PodChanged
from scheduler.kube.pending import pending_selector
from tests.builders import a_pod
from tests.kube.conftest import login_to
from tests.kube.scripted import GROUPS, PODS, ScriptedServer
from tests.kube.test_operator import GROUP, World, operating, tasks_of_kopf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from scheduler.kube.client import Client
    from scheduler.kube.reflector import Timing

    Running = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Kopf's own log is of no interest here."""
    logging.getLogger("kopf").setLevel(logging.CRITICAL)


@pytest.fixture(params=["kopf", "reflector"])
def running(request: pytest.FixtureRequest, server: ScriptedServer, client: Client, timing: Timing) -> Running:
    """What starts an operator with one of the two ways."""

    @asynccontextmanager
    async def start(*names: str) -> AsyncIterator[World]:
        async with operating(server, client, *names, timing=timing if request.param == "reflector" else None) as world:
            yield world

    return start


async def test_pending_pods_come_in_and_leave(server: ScriptedServer, running: Running) -> None:
    """Those that were there, new ones, and their binding; others' pods are not even sent."""
    server.put(PODS, a_pod("old").manifest())
    server.put(PODS, a_pod("foreign").scheduler("other").manifest())
    server.put(PODS, a_pod("bound").on("n").manifest())
    async with running() as world:
        assert world.pods() == ["old"]
        server.put(PODS, a_pod("new").manifest())
        await server.until(lambda: world.pods() == ["old", "new"])
        server.put(PODS, a_pod("new").on("n").manifest())
        await server.until(lambda: PendingPodLeft("uid-new") in world.said)
        server.remove(PODS, "old")
        await server.until(lambda: PendingPodLeft("uid-old") in world.said)
    watch = server.seen("WATCH", PODS)[0]
    assert watch.query["fieldSelector"] == pending_selector(["ai-scheduler"])


async def test_the_same_pod_comes_in(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """Both ways make equal inputs of a pod with everything."""
    pod = a_pod("p").cpu("1500m").gpus(2).gang("job", 4).label("a", "b").priority(7).manifest()
    server.put(PODS, pod)
    said = []
    for chosen in (None, timing):
        async with operating(server, client, timing=chosen) as world:
            said.append([item for item in world.said if isinstance(item, PodChanged)])
    assert said[0] == said[1]
    assert [item.pod.priority for item in said[0]] == [7]


async def test_several_names_are_told_apart(server: ScriptedServer, running: Running) -> None:
    """Field selectors know no "or"."""
    for name in ("a", "b", "c"):
        server.put(PODS, a_pod(name).scheduler(f"scheduler-{name}").manifest())
    async with running("scheduler-a", "scheduler-b") as world:
        assert sorted(world.pods()) == ["a", "b"]
        server.put(PODS, a_pod("late").scheduler("scheduler-b").manifest())
        await server.until(lambda: "late" in world.pods())


async def test_our_groups_come_in_and_leave(server: ScriptedServer, running: Running) -> None:
    """Added, deleted."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(GROUPS, GROUP)
    async with running() as world:
        await server.until(lambda: any(isinstance(item, GangChanged) for item in world.said))
        server.remove(GROUPS, "g")
        await server.until(lambda: any(isinstance(item, GangRemoved) for item in world.said))


async def test_a_crd_that_comes_later_is_picked_up(server: ScriptedServer, running: Running) -> None:
    """Its absence keeps nobody from starting, also if Kopf has nothing else to watch."""
    server.put(PODS, a_pod("p").manifest())
    async with running() as world:
        assert world.pods() == ["p"]
        server.kinds[GROUPS] = "PodGroup"
        server.put(GROUPS, GROUP)
        await server.until(lambda: any(isinstance(item, GangChanged) for item in world.said))


@pytest.mark.parametrize("cut", [True, False])
async def test_a_lost_stream_loses_nothing(server: ScriptedServer, running: Running, cut: bool) -> None:
    """What happened between two streams arrives."""
    server.put(PODS, a_pod("leaves").manifest())
    async with running() as world:
        server.put(PODS, a_pod("missed").manifest(), silently=True)
        server.remove(PODS, "leaves", silently=True)
        server.end(PODS, cut=cut)
        await server.until(lambda: "missed" in world.pods())
        await server.until(lambda: PendingPodLeft("uid-leaves") in world.said)


async def test_a_pod_deleted_in_a_lost_watch_leaves(server: ScriptedServer, running: Running) -> None:
    """After 410 what is there is compared: ghosts leave, the unseen come, the others stay."""
    server.put(PODS, a_pod("stays").manifest())
    server.put(PODS, a_pod("ghost").manifest())
    async with running() as world:
        server.remove(PODS, "ghost", silently=True)
        server.put(PODS, a_pod("unseen").manifest(), silently=True)
        server.compact()
        server.error(PODS, 410)
        await server.until(lambda: PendingPodLeft("uid-ghost") in world.said)
        await server.until(lambda: "unseen" in world.pods())
        assert PendingPodLeft("uid-stays") not in world.said


async def test_a_namesake_replaces_the_pod_that_left_in_a_lost_watch(server: ScriptedServer, running: Running) -> None:
    """Another uid is another pod: the former leaves."""
    server.put(PODS, a_pod("p").manifest())
    async with running() as world:
        server.remove(PODS, "p", silently=True)
        successor = a_pod("p").manifest()
        successor["metadata"]["uid"] = "uid-successor"
        server.put(PODS, successor, silently=True)
        server.compact()
        server.error(PODS, 410)
        await server.until(lambda: PendingPodLeft("uid-p") in world.said)
        await server.until(lambda: "uid-successor" in world.views.pending)


async def test_a_rotated_token_is_no_end(server: ScriptedServer, running: Running) -> None:
    """The connection is asked for again after 401."""
    server.tokens = {"Bearer t"}
    async with running() as world:
        login = world.operator._login
        login._load = lambda: login_to(server, "new").connection  # what the file says now
        client = world.operator._client
        client.login._load = login._load
        server.tokens = {"Bearer new"}
        server.end(PODS)
        server.put(PODS, a_pod("p").manifest(), silently=True)
        await server.until(lambda: "p" in world.pods())


async def test_a_senseless_pod_is_refused_and_the_others_go_on(server: ScriptedServer, running: Running) -> None:
    """A quantity that is none, or a field of the wrong type: told by name and uid, in the same words."""
    server.put(PODS, a_pod("bad").cpu("many").manifest())
    wrong = a_pod("wrong").manifest()
    wrong["spec"]["priority"] = "high"
    server.put(PODS, wrong)
    server.put(PODS, a_pod("good").manifest())
    async with running() as world:
        assert world.pods() == ["good"]
        assert sorted(what[:3] for what in world.refused) == [
            ("default", "bad", "uid-bad"),
            ("default", "wrong", "uid-wrong"),
        ]
        problems = {what[1]: what[3] for what in world.refused}
        assert "many" in problems["bad"]
        assert problems["wrong"] == "Expected `int | null`, got `str` - at `$.spec.priority`"


async def test_nothing_is_written(server: ScriptedServer, running: Running) -> None:
    """No finalizer, annotation, event or peering object."""
    server.kinds[GROUPS] = "PodGroup"
    server.put(PODS, a_pod("p").manifest())
    server.put(GROUPS, GROUP)
    async with running() as world:
        await server.until(lambda: any(isinstance(item, GangChanged) for item in world.said))
    assert {r.method for r in server.requests} <= {"GET", "LIST", "WATCH"}


async def test_a_silent_watch_is_renewed(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """A reflector takes a connection without a line for dead; the pod that came meanwhile is found by the next one."""
    async with operating(server, client, timing=timing) as world:
        server.put(PODS, a_pod("missed").manifest(), silently=True)
        await server.until(lambda: "missed" in world.pods())
        assert len(server.seen("WATCH", PODS)) > 1


async def test_kopf_still_runs_beside_reflectors(server: ScriptedServer, client: Client, timing: Timing) -> None:
    """It watches PodGroups, no pods, and leaves no task behind."""
    server.kinds[GROUPS] = "PodGroup"
    async with operating(server, client, timing=timing) as world:
        await server.until(lambda: server.watchers(GROUPS))
        assert world.spawned == 1
        assert len(server.seen("LIST", PODS)) == 1
        assert tasks_of_kopf()
    assert tasks_of_kopf() == []
