"""The status of our own PodGroups as it is written: both conditions with their times, and where the members are."""

from __future__ import annotations

from typing import Any

from scheduler.framework.effects import PlacementSummary, SetGangStatus
from scheduler.kube.writer import GangWriter

GROUP = "/apis/scheduling.ai-scheduler.io/v1alpha1/namespaces/default/podgroups/g"


class Server:
    """Keeps one object as an API server keeps it: merge patches, and null takes away."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.patches = 0
        self.reads = 0

    async def get(self, path: str) -> dict[str, Any]:
        assert path == GROUP
        self.reads += 1
        return {"metadata": {"uid": "u"}, "status": self.status}

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == f"{GROUP}/status"
        self.patches += 1
        merged = self.status | body["status"]
        self.status = {name: value for name, value in merged.items() if value is not None}
        return {"metadata": {"uid": "u", "resourceVersion": str(self.patches)}, "status": self.status}


class Clock:
    """Tells another time whenever it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        return f"t{self.asked}"


def a_writer(server: Server, clock: Clock) -> GangWriter:
    """Return a writer that has written nothing."""
    return GangWriter(server, clock)  # type: ignore[arg-type]


def status(
    scheduled: str, satisfied: str = "", placement: PlacementSummary | None = None, **fields: Any
) -> SetGangStatus:
    """Return a status."""
    return SetGangStatus(
        "default", "g", "u", "Running", 1, (("running", 2),), scheduled, "R", "m", satisfied, "S" if satisfied else "", "n",
        placement, **fields,
    )  # fmt: skip


def times(server: Server) -> dict[str, str]:
    """Return since when each condition has its status."""
    return {condition["type"]: condition["lastTransitionTime"] for condition in server.status["conditions"]}


async def test_satisfied_is_written_beside_scheduled_each_with_its_own_time() -> None:
    """A condition keeps its time while its status stays, whatever happens to the other."""
    server, clock = Server(), Clock()
    writer = a_writer(server, clock)
    await writer.set_status(status("True"))
    assert list(times(server)) == ["Scheduled"]
    since = times(server)["Scheduled"]
    await writer.set_status(status("True", "True"))
    assert times(server)["Scheduled"] == since
    first = times(server)["Satisfied"]
    await writer.set_status(status("True", "False"))
    assert times(server)["Scheduled"] == since
    assert times(server)["Satisfied"] not in (since, first)


async def test_new_process_keeps_the_times_and_writes_nothing_again() -> None:
    """It reads the object first."""
    server = Server()
    await a_writer(server, Clock()).set_status(status("True", "False"))
    before = dict(server.status)
    clock = Clock()
    clock.asked = 50
    assert not await a_writer(server, clock).set_status(status("True", "False"))
    assert (server.status, server.patches) == (before, 1)


async def test_placement_is_written_and_taken_away() -> None:
    """Fractions are texts, cut and not rounded: 1.00 is said of the best alone."""
    server = Server()
    writer = a_writer(server, Clock())
    placement = PlacementSummary((("zone", "z1"), ("rack", "r1")), 2, 1, 0.999, "zone")
    await writer.set_status(status("True", placement=placement))
    assert server.status["placement"] == {
        "domains": [{"level": "zone", "name": "z1"}, {"level": "rack", "name": "r1"}],
        "leafDomains": 2,
        "leafDomainsMinimum": 1,
        "quality": "0.99",
        "bottleneckLevel": "zone",
    }
    await writer.set_status(status("True", placement=PlacementSummary(quality=1.0)))
    assert server.status["placement"]["quality"] == "1.00"
    await writer.set_status(status("True"))
    assert "placement" not in server.status


async def test_estimate_after_a_restart_leaves_what_was_written_of_the_same_domains() -> None:
    """Who placed the gang knew better how near together it could be; of other domains the old word says nothing."""
    server, clock = Server(), Clock()
    domains = (("zone", "z1"),)
    placed = PlacementSummary(domains, 2, 1, 0.5, "zone")
    await a_writer(server, clock).set_status(status("True", placement=placed))
    estimate = PlacementSummary(domains, 2, 2, 1.0, "zone", is_estimate=True)
    writer = a_writer(server, clock)
    assert not await writer.set_status(status("True", placement=estimate))
    assert server.status["placement"]["quality"] == "0.50"
    elsewhere = PlacementSummary((("zone", "z2"),), 2, 2, 1.0, "zone", is_estimate=True)
    assert await writer.set_status(status("True", placement=elsewhere))
    assert (server.status["placement"]["quality"], server.status["placement"]["leafDomainsMinimum"]) == ("1.00", 2)


async def test_status_of_another_dialect_is_not_ours_to_write() -> None:
    """Its path would be another object's."""
    server = Server()
    assert not await a_writer(server, Clock()).set_status(status("True", dialect="native"))
    assert server.patches == 0


async def test_a_group_that_the_watch_has_shown_is_not_read_before_its_first_status() -> None:
    """One request a gang; transition times of what it said before survive, and what it says already is not written."""
    server = Server()
    writer = a_writer(server, Clock())
    await writer.set_status(status("False"))
    before = dict(server.status)
    server.patches = server.reads = 0
    sight = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": before}

    other = a_writer(server, Clock())
    assert other.seen(sight) is None
    assert not await other.set_status(status("False"))
    assert (server.reads, server.patches) == (0, 0)

    third = a_writer(server, Clock())
    third.seen(sight)
    assert await third.set_status(status("False", "True"))
    assert (server.reads, server.patches) == (0, 1)
    assert times(server)["Scheduled"] == before["conditions"][0]["lastTransitionTime"]
