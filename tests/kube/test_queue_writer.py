"""The status of our Queue objects as it is written: only if it differs, and with the time of its last turn."""

from __future__ import annotations

from typing import Any

from scheduler.framework.effects import QueuePlace, QueueResource, SetQueueStatus
from scheduler.kube.client import ApiError
from scheduler.kube.queue_writer import QueueWriter, place_of

PATH = "/apis/scheduling.ai-scheduler.io/v1alpha1/queues/team"


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


def effect(count: int = 1, usable: str = "True", **fields: Any) -> SetQueueStatus:
    """Return what is to be written."""
    gpus = QueueResource("nvidia.com/gpu", "4", "2", "6", "4")
    place = QueuePlace(1, "gang", "ns", "job", "QueueLimit")
    return SetQueueStatus("team", "u", 3, (gpus,), "0.250", count, (place,), usable, "Usable", "", **fields)


async def test_a_status_is_written_once_and_its_time_survives_a_restart() -> None:
    """The uid is a precondition: a namesake that came meanwhile gets nothing."""
    server = Server()
    assert await QueueWriter(server, lambda: "t1").set_status(effect())  # type: ignore[arg-type]
    assert server.bodies == [
        {
            "metadata": {"uid": "u"},
            "status": {
                "observedGeneration": 3,
                "scheduler": "ai-scheduler",
                "resources": [
                    {"name": "nvidia.com/gpu", "guaranteed": "4", "allocated": "2", "requested": "6", "fairShare": "4"}
                ],
                "share": "0.250",
                "pendingWorkloads": 1,
                "pending": [
                    {"position": 1, "kind": "gang", "namespace": "ns", "name": "job", "reason": "QueueLimit"}
                ],
                "conditions": [
                    {
                        "type": "Usable", "status": "True", "reason": "Usable", "message": "",
                        "observedGeneration": 3, "lastTransitionTime": "t1",
                    }
                ],
            },
        }
    ]  # fmt: skip
    assert not await QueueWriter(server, lambda: "t2").set_status(effect())  # type: ignore[arg-type]
    assert await QueueWriter(server, lambda: "t3").set_status(effect(count=2))  # type: ignore[arg-type]
    assert server.status["conditions"][0]["lastTransitionTime"] == "t1"
    assert await QueueWriter(server, lambda: "t4").set_status(effect(usable="False"))  # type: ignore[arg-type]
    assert server.status["conditions"][0]["lastTransitionTime"] == "t4"


async def test_two_schedulers_do_not_overwrite_each_other() -> None:
    """The first one that writes keeps the status; the one that the queue names takes it."""
    server = Server()
    writer = QueueWriter(server, lambda: "t")  # type: ignore[arg-type]
    assert await writer.set_status(effect(scheduler="one"))
    assert not await writer.set_status(effect(count=7, scheduler="two"))
    assert server.status["pendingWorkloads"] == 1
    assert await writer.set_status(effect(count=2, scheduler="one"))
    assert await writer.set_status(effect(count=7, scheduler="two", is_named=True))
    assert (server.status["scheduler"], server.status["pendingWorkloads"]) == ("two", 7)


class Contested(Server):
    """Lets another scheduler write between the reading and the writing."""

    async def get(self, path: str) -> dict[str, Any]:
        found = await super().get(path)
        found["metadata"]["resourceVersion"] = "5"
        return found

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == f"{PATH}/status"
        assert body["metadata"]["resourceVersion"] == "5"
        self.status = {"scheduler": "two"}
        raise ApiError(409, "Conflict", "the object has been modified")


async def test_of_two_who_write_first_one_wins() -> None:
    """The claim is bound to the version that was read: whoever is refused looks again, and leaves it."""
    server = Contested()
    assert not await QueueWriter(server, lambda: "t").set_status(effect(scheduler="one"))  # type: ignore[arg-type]
    assert server.status == {"scheduler": "two"}


def test_a_place_tells_the_start_that_was_promised() -> None:
    """In the words of the API, to the second."""
    place = QueuePlace(2, "pod", "ns", "p", promised_start=1_767_225_600.0)
    assert place_of(place) == {
        "position": 2, "kind": "pod", "namespace": "ns", "name": "p", "promisedStart": "2026-01-01T00:00:00Z",
    }  # fmt: skip
