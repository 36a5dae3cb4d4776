"""The condition of our Topology objects as it is written: only if it differs, and with the time of its last turn."""

from __future__ import annotations

from typing import Any

from scheduler.framework.effects import SetTopologyStatus
from scheduler.kube.topology_writer import TopologyWriter

PATH = "/apis/scheduling.ai-scheduler.io/v1alpha1/topologies/fabric"


class Server:
    """Keeps one object as an API server keeps it."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.bodies: list[dict[str, Any]] = []

    async def get(self, path: str) -> dict[str, Any]:
        assert path == PATH
        return {"metadata": {"uid": "u"}, "status": self.status} if self.status else {"metadata": {"uid": "u"}}

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == f"{PATH}/status"
        self.bodies.append(body)
        self.status |= body["status"]
        return {}


def effect(status: str = "True", message: str = "rack: 2 domains", generation: int = 1) -> SetTopologyStatus:
    """Return what is to be written."""
    return SetTopologyStatus("fabric", "u", generation, status, "LabelsFound", message)


async def test_the_condition_is_written_with_its_generation_and_keeps_its_time_while_its_status_stays() -> None:
    """The uid is a precondition: a namesake that came meanwhile gets nothing."""
    server = Server()
    times = iter(["t1", "t2"])
    writer = TopologyWriter(server, lambda: next(times))  # type: ignore[arg-type]
    assert await writer.set_status(effect("False"))
    assert server.bodies[0]["metadata"] == {"uid": "u"}
    assert server.status["conditions"] == [
        {
            "type": "Usable", "status": "False", "reason": "LabelsFound", "message": "rack: 2 domains",
            "observedGeneration": 1, "lastTransitionTime": "t1",
        }
    ]  # fmt: skip
    assert await writer.set_status(effect("False", "rack: 3 domains", 2))
    assert server.status["conditions"][0]["lastTransitionTime"] == "t1"
    assert await writer.set_status(effect())
    assert server.status["conditions"][0]["lastTransitionTime"] == "t2"


async def test_a_new_process_writes_nothing_that_is_there() -> None:
    """It reads the object first."""
    server = Server()
    assert await TopologyWriter(server, lambda: "t1").set_status(effect())  # type: ignore[arg-type]
    assert not await TopologyWriter(server, lambda: "t2").set_status(effect())  # type: ignore[arg-type]
    assert len(server.bodies) == 1
