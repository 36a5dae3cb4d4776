"""The Lease: one leader at a time, by local clocks, given back on a graceful end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scheduler.kube.lease import LeaderElection, LeaseLostError, LeaseTerms
from tests.kube.scripted import LEASES, Answer, ScriptedServer

if TYPE_CHECKING:
    from scheduler.kube.client import Client

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        """Start somewhere."""
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        await asyncio.sleep(0)


def candidate(client: Client, name: str, clock: Clock) -> LeaderElection:
    """Return a candidate for the Lease with the usual terms."""
    return LeaderElection(client, LeaseTerms("ns", "l", name), clock=clock, sleep=clock.sleep)


def spec(server: ScriptedServer) -> dict[str, object]:
    """Return the Lease as it is."""
    lease = server.get(LEASES, "l", "ns")
    assert lease is not None
    found: dict[str, object] = lease["spec"]
    return found


async def test_the_first_takes_it(server: ScriptedServer, client: Client) -> None:
    """The Lease is made if there is none."""
    clock = Clock()
    one = candidate(client, "one", clock)
    assert not one.is_held()
    await one.acquire()
    assert one.is_held()
    assert spec(server)["holderIdentity"] == "one"
    assert spec(server)["leaseTransitions"] == 0


async def test_a_standby_waits_for_the_whole_duration(server: ScriptedServer, client: Client) -> None:
    """It counts from when it saw the last renewal, whatever time the record says."""
    clock = Clock()
    await candidate(client, "one", clock).acquire()
    lease = server.get(LEASES, "l", "ns")
    assert lease is not None
    lease["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"  # a clock that is wrong
    began = clock.now
    two = candidate(client, "two", clock)
    await two.acquire()
    assert 15.0 <= clock.now - began <= 17.0
    assert spec(server)["holderIdentity"] == "two"
    assert spec(server)["leaseTransitions"] == 1


async def test_a_renewal_keeps_the_standby_waiting(client: Client) -> None:
    """Each change that it sees starts its count anew."""
    clock = Clock()
    one, two = candidate(client, "one", clock), candidate(client, "two", clock)
    await one.acquire()
    for _ in range(10):
        assert not await two._try()
        clock.now += 9
        assert await one._try()
    assert one.is_held()


async def test_a_released_lease_is_taken_at_once(client: Client) -> None:
    """The holder is empty, and the old leader knows that it leads no more."""
    clock = Clock()
    one, two = candidate(client, "one", clock), candidate(client, "two", clock)
    await one.acquire()
    await one.release()
    assert not one.is_held()
    began = clock.now
    await two.acquire()
    assert clock.now == began


async def test_of_two_that_try_one_fails(server: ScriptedServer, client: Client) -> None:
    """The resourceVersion decides; a conflict is no leadership."""
    clock = Clock()
    one = candidate(client, "one", clock)
    server.script("PUT", PATH, Answer(409, "Conflict"))
    assert not await one._try()
    assert not one.is_held()


async def test_an_unreachable_server_costs_the_lease_after_the_deadline(server: ScriptedServer, client: Client) -> None:
    """Ten seconds without a renewal end it, before anybody else may take it."""
    clock = Clock()
    one = candidate(client, "one", clock)
    await one.acquire()
    server.script("GET", PATH, *[Answer(503)] * 100)
    began = clock.now
    with pytest.raises(LeaseLostError, match="not renewed"):
        await one.hold()
    assert 10.0 <= clock.now - began < 15.0
    assert not one.is_held()


async def test_one_failed_renewal_is_forgiven(server: ScriptedServer, client: Client) -> None:
    """The next try renews it."""
    clock = Clock()
    one = candidate(client, "one", clock)
    await one.acquire()
    server.script("GET", PATH, Answer(503), Answer(cut=True))
    task = asyncio.create_task(one.hold())
    await server.until(lambda: len(server.seen("PUT", PATH)) >= 3)
    task.cancel()
    assert one.is_held()


async def test_another_holder_ends_it_at_once(server: ScriptedServer, client: Client) -> None:
    """Somebody took the Lease by force."""
    clock = Clock()
    one = candidate(client, "one", clock)
    await one.acquire()
    lease = server.get(LEASES, "l", "ns")
    assert lease is not None
    server.put(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "thief"}})
    with pytest.raises(LeaseLostError, match="thief"):
        await one.hold()
    assert not one.is_held()


async def test_a_stalled_process_knows_that_it_may_not_write(client: Client) -> None:
    """Even before any task could notice."""
    clock = Clock()
    one = candidate(client, "one", clock)
    await one.acquire()
    clock.now += 10.0
    assert not one.is_held()


async def test_a_lost_lease_is_not_released(server: ScriptedServer, client: Client) -> None:
    """It may be somebody else's."""
    clock = Clock()
    one = candidate(client, "one", clock)
    await one.acquire()
    clock.now += 20
    await one.release()
    assert spec(server)["holderIdentity"] == "one"


@pytest.mark.parametrize("page", ["<html>log in</html>", '{"error": "log in"}'])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_page_of_somebody_else_is_no_lease(
    server: ScriptedServer, client: Client, method: str, page: str
) -> None:
    """Neither a read nor a renewal that a proxy answers makes a leader or ends the process."""
    server.script(method, PATH, Answer(page=page))
    one = candidate(client, "one", Clock())
    assert not await one._try()
    assert not one.is_held()
    assert await one._try()
