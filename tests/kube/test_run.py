"""The whole process against the scripted server, with the real engine: it schedules, stands by, and ends in order."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.kube.auth import Connection
from scheduler.kube.run import Process
from tests.builders import a_node, a_pod
from tests.kube.scripted import EVENTS, GROUPS, LEASES, NODES, PATIENCE_SECONDS, PODS, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ADDRESS = "127.0.0.1:0"


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Kopf's own log is of no interest here."""
    logging.getLogger("kopf").setLevel(logging.CRITICAL)


class Replica:
    """A process and its end."""

    def __init__(self, server: ScriptedServer, **settings: Any) -> None:
        """Start it."""
        addresses = {"healthz_bind_address": ADDRESS, "metrics_bind_address": ADDRESS}
        configuration = SchedulerConfiguration(**addresses, **settings)
        self.process = Process(configuration, lambda: Connection(server.url))
        self.task = asyncio.create_task(self.process.run())

    async def stop(self) -> int:
        """Stop it in an orderly way, and return the exit code."""
        self.process.stop.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.task

    async def page(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        host, port = self.process.health.bound[ADDRESS]
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as response:
            return response.status, await response.text()


@asynccontextmanager
async def replica(server: ScriptedServer, **settings: Any) -> AsyncIterator[Replica]:
    """A running replica that is stopped at the end, if it has not ended."""
    made = Replica(server, **settings)
    try:
        yield made
    finally:
        if not made.task.done():
            made.task.cancel()
            await asyncio.gather(made.task, return_exceptions=True)


def node_of(server: ScriptedServer, name: str) -> str:
    """Return the node of a pod, if it has one."""
    pod = server.get(PODS, name)
    return pod["spec"].get("nodeName", "") if pod else ""


def a_big_node(name: str) -> dict[str, Any]:
    """Return a node with eight GPUs."""
    return a_node(name).cpu("8").memory("64Gi").gpus(8).manifest()


@pytest.mark.parametrize("intake", ["kopf", "reflector"])
async def test_schedules_pods_and_gangs_and_ends_with_zero(server: ScriptedServer, intake: str) -> None:
    """From watch to binding, with event and status; the Lease is given back."""
    server.kinds[GROUPS] = "PodGroup"
    for name in ("n1", "n2"):
        server.put(NODES, a_big_node(name))
    server.put(PODS, a_pod("single").cpu("1").manifest())
    server.put(
        GROUPS,
        {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g", "generation": 1}, "spec": {"minMember": 2}},
    )
    server.put(PODS, a_pod("g0").gpus(8).gang("g", 2).manifest())
    async with replica(server, intake=intake) as made:
        await server.until(lambda: node_of(server, "single"))
        assert node_of(server, "g0") == ""
        server.put(PODS, a_pod("g1").gpus(8).gang("g", 2).manifest())
        await server.until(lambda: {node_of(server, "g0"), node_of(server, "g1")} == {"n1", "n2"})
        await server.until(lambda: (server.get(GROUPS, "g") or {}).get("status", {}).get("phase") == "Scheduled")
        await server.until(lambda: {e["reason"] for e in server.objects[EVENTS].values()} >= {"Scheduled"})
        assert await made.page("/readyz") == (200, "ok")
        assert "scheduler_schedule_attempts_total" in (await made.page("/metrics"))[1]
        assert await made.stop() == 0
    lease = server.get(LEASES, "ai-scheduler", "ai-scheduler")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


async def test_gangs_of_other_dialects_and_of_configured_kinds_are_held_until_they_are_whole(
    server: ScriptedServer,
) -> None:
    """What their objects say is read from the pending pod to the binding."""
    kai, batches = "/apis/scheduling.run.ai/v2alpha2/podgroups", "/apis/example.com/v1/batches"
    server.kinds |= {kai: "PodGroup", batches: "Batch"}
    kind = {
        "api_group": "example.com", "kind": "Batch", "versions": ["v1"], "resource": "batches", "name_label": "batch",
        "roles": [{"path": "spec", "counts": [{"fields": ["size"]}]}],
    }  # fmt: skip
    server.put(NODES, a_big_node("n"))
    meta = {"name": "g", "namespace": "default"}
    server.put(kai, {"metadata": meta, "spec": {"minMember": 2}})
    server.put(batches, {"metadata": meta, "spec": {"size": 2}})

    def member(name: str, **said: dict[str, str]) -> dict[str, Any]:
        pod = a_pod(name).cpu("1").manifest()
        pod["metadata"] |= said
        return pod

    said: dict[str, dict[str, dict[str, str]]] = {
        "kai": {"annotations": {"pod-group-name": "g"}}, "batch": {"labels": {"batch": "g"}}
    }  # fmt: skip
    for name, how in said.items():
        server.put(PODS, member(f"{name}-0", **how))
    server.put(PODS, a_pod("single").cpu("1").manifest())
    async with replica(server, group_kinds=[kind]):
        await server.until(lambda: node_of(server, "single"))
        assert [node_of(server, f"{name}-0") for name in said] == ["", ""]
        for name, how in said.items():
            server.put(PODS, member(f"{name}-1", **how))
        await server.until(lambda: all(node_of(server, f"{name}-{i}") for name in said for i in range(2)))


async def test_a_standby_is_ready_and_writes_nothing_until_it_leads(server: ScriptedServer) -> None:
    """Then it takes over with its warm views."""
    server.put(NODES, a_big_node("n"))
    async with replica(server) as first:
        await server.until(first.process.may_write)
        async with replica(server) as second:
            await server.until(second.process._synced.is_set)
            assert await second.page("/readyz") == (200, "ok")
            assert not second.process.may_write()
            assert await first.stop() == 0
            server.put(PODS, a_pod("p").cpu("1").manifest())
            await server.until(lambda: node_of(server, "p") == "n")
            assert second.process.may_write()


async def test_a_lost_lease_makes_a_standby_that_may_lead_again(server: ScriptedServer) -> None:
    """It stops writing at once, keeps its picture, and goes on when the other one gives the Lease back."""
    server.put(NODES, a_big_node("n"))
    async with replica(server) as made:
        await server.until(made.process.may_write)
        lease = server.get(LEASES, "ai-scheduler", "ai-scheduler")
        assert lease is not None
        server.put(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "thief"}})
        await server.until(lambda: not made.process.may_write() and made.process.engine is None)
        server.put(PODS, a_pod("p").cpu("1").manifest())
        lease = server.get(LEASES, "ai-scheduler", "ai-scheduler")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == "thief"
        assert node_of(server, "p") == ""
        server.put(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": ""}})
        await server.until(lambda: node_of(server, "p") == "n")
        assert await made.stop() == 0


async def test_an_exception_of_the_engine_ends_the_process_with_one(server: ScriptedServer) -> None:
    """The next start rebuilds everything."""
    async with replica(server, leader_election={"leader_elect": False}) as made:
        await server.until(lambda: made.process.engine is not None)

        def broken(*_: object) -> bool:
            raise RuntimeError("bug")

        made.process.engine.step = broken  # type: ignore[method-assign, union-attr]
        server.put(PODS, a_pod("p").manifest())
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await made.task == 1


async def test_bindings_in_flight_are_finished_before_the_end(server: ScriptedServer) -> None:
    """A slow API server gets its time."""
    server.put(NODES, a_big_node("n"))
    server.script("POST", "/api/v1/namespaces/default/pods/p/binding", *[Answer(503)] * 3)
    async with replica(server) as made:
        server.put(PODS, a_pod("p").cpu("1").manifest())
        await server.until(lambda: server.seen("POST", "/api/v1/namespaces/default/pods/p/binding"))
        assert await made.stop() == 0
    assert node_of(server, "p") == "n"


async def test_a_pod_that_makes_no_sense_is_told_so(server: ScriptedServer) -> None:
    """An event and a condition at that pod; the others go on."""
    server.put(NODES, a_big_node("n"))
    server.put(PODS, a_pod("bad").cpu("many").manifest())
    server.put(PODS, a_pod("good").cpu("1").manifest())
    async with replica(server):
        await server.until(lambda: node_of(server, "good") == "n")
        await server.until(lambda: (server.get(PODS, "bad") or {}).get("status", {}).get("conditions"))
        pod = server.get(PODS, "bad")
        assert pod is not None
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "SchedulerError",
        )
        assert "many" in condition["message"]


async def test_an_address_that_is_taken_ends_it_with_one(server: ScriptedServer) -> None:
    """Before anything else has begun."""
    async with replica(server) as first:
        await server.until(lambda: first.process.health.bound)
        port = first.process.health.bound[ADDRESS][1]
        taken = f"127.0.0.1:{port}"
        second = Process(
            SchedulerConfiguration(healthz_bind_address=taken, metrics_bind_address=taken),
            lambda: Connection(server.url),
        )
        assert await second.run() == 1


async def test_what_is_forbidden_and_optional_switches_its_part_off(server: ScriptedServer) -> None:
    """Budgets may not be read: scheduling works."""
    server.put(NODES, a_big_node("n"))
    server.script("LIST", "/apis/policy/v1/poddisruptionbudgets", *[Answer(403, "Forbidden")] * 1000)
    server.put(PODS, a_pod("p").cpu("1").manifest())
    async with replica(server):
        await server.until(lambda: node_of(server, "p") == "n")


async def test_a_foreign_binding_is_taken_note_of(server: ScriptedServer) -> None:
    """Somebody else fills the node while ours is decided; ours waits instead of over-committing it."""
    server.put(NODES, a_node("n").cpu("2").manifest())
    async with replica(server) as made:
        await server.until(lambda: made.process.engine is not None)
        server.put(PODS, a_pod("foreign").scheduler("other").cpu("2").on("n").manifest())
        await server.until(lambda: made.process.engine and "uid-foreign" in made.process.engine.state.pods)
        server.put(PODS, a_pod("ours").cpu("1").manifest())
        await server.until(lambda: (server.get(PODS, "ours") or {}).get("status", {}).get("conditions"))
        server.remove(PODS, "foreign")
        await server.until(lambda: node_of(server, "ours") == "n")
