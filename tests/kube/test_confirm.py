"""Confirmations: no binding of ours stays unexplained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.engine.inputs import Input, PodChanged, PodRemoved
from scheduler.framework.effects import BindPod, PodRef
from scheduler.kube.confirm import Confirmations
from scheduler.kube.views import PodViews
from tests.builders import a_pod
from tests.kube.scripted import PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from scheduler.kube.client import Client

BIND = BindPod(PodRef("default", "p", "uid-p"), "n")


class World:
    """Confirmations with a clock that the test moves."""

    def __init__(self, client: Client) -> None:
        """Expect one binding."""
        self.now = 0.0
        self.said: list[Input] = []
        self.views = PodViews(self.said.append)
        self.confirmations = Confirmations(client, self.views, clock=lambda: self.now)
        self.confirmations.expect(BIND)

    async def look(self, after: float = 16.0) -> None:
        """Let time pass, and look."""
        self.now += after
        await self.confirmations.look()


async def test_a_binding_that_shows_up_is_forgotten(server: ScriptedServer, client: Client) -> None:
    """The usual case costs no request."""
    world = World(client)
    world.views.assigned_changed(a_pod("p").on("n").build())
    await world.look()
    assert len(world.confirmations) == 0
    assert server.requests == []


async def test_a_binding_whose_pod_came_and_went_is_forgotten(server: ScriptedServer, client: Client) -> None:
    """Deleted before anybody looked: the view has told everything, so no request is made and nothing is told twice."""
    world = World(client)
    world.views.assigned_changed(a_pod("p").on("n").build())
    world.views.assigned_left("uid-p")
    told = list(world.said)
    assert told[-1] == PodRemoved("uid-p")
    await world.look()
    assert len(world.confirmations) == 0
    assert server.requests == []
    assert world.said == told


async def test_a_pod_that_was_deleted_unseen_is_removed(client: Client) -> None:
    """Neither ADDED nor DELETED came; the pod is read and is not there."""
    world = World(client)
    await world.look(after=5.0)
    assert world.said == []
    await world.look()
    assert world.said == [PodRemoved("uid-p")]
    assert len(world.confirmations) == 0


async def test_a_namesake_means_gone(server: ScriptedServer, client: Client) -> None:
    """The name is taken by another pod."""
    server.put(PODS, a_pod("p").uid("other").manifest())
    world = World(client)
    await world.look()
    assert world.said == [PodRemoved("uid-p")]


async def test_a_pod_that_ended_unseen_is_removed(server: ScriptedServer, client: Client) -> None:
    """It left the assigned view before that showed it; no other view has it."""
    server.put(PODS, a_pod("p").on("n").phase("Succeeded").manifest())
    world = World(client)
    await world.look()
    assert world.said == [PodRemoved("uid-p")]


async def test_a_view_that_lags_is_helped_and_still_watched(server: ScriptedServer, client: Client) -> None:
    """The pod is there: the engine hears of it, and the view must still show it."""
    server.put(PODS, a_pod("p").on("n").manifest())
    world = World(client)
    await world.look()
    assert [type(item) for item in world.said] == [PodChanged]
    assert len(world.confirmations) == 1


async def test_an_unreachable_server_is_asked_again(server: ScriptedServer, client: Client) -> None:
    """No conclusion without an answer."""
    server.script("GET", "/api/v1/namespaces/default/pods/p", *[Answer(500)] * 5)
    world = World(client)
    await world.look()
    assert world.said == []
    await world.look()
    assert world.said == [PodRemoved("uid-p")]
