"""Queues on a real API server: the definition refuses what makes no sense, two queues borrow and reclaim, limits are told."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.client import ApiError
from e2e.deployment import Replica
from e2e.objects import World
from e2e.waiting import wait_until

API = "/apis/scheduling.ai-scheduler.io/v1alpha1/queues"
LABEL = "scheduling.ai-scheduler.io/queue"
GPU = "nvidia.com/gpu"


def allocated(status: dict[str, Any]) -> str:
    """Return how many GPUs a status says are allocated."""
    return next((one["allocated"] for one in status.get("resources", ()) if one["name"] == GPU), "")


class Queues:
    """Queues of one test, gone when it is over: they are for the whole cluster."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._names: list[str] = []

    def make(self, name: str, guaranteed: Any = None, limit: Any = None, **spec: Any) -> str:
        amounts = {key: value for key, value in (("guaranteed", guaranteed), ("limit", limit)) if value is not None}
        body = {
            "apiVersion": "scheduling.ai-scheduler.io/v1alpha1", "kind": "Queue", "metadata": {"name": name},
            "spec": {"resources": [{"name": GPU, **amounts}], **spec},
        }  # fmt: skip
        self._world.plane.request("POST", API, body)
        self._names.append(name)
        return name

    def status(self, name: str) -> dict[str, Any]:
        return self._world.plane.request("GET", f"{API}/{name}").get("status") or {}

    def close(self) -> None:
        for name in self._names:
            self._world.plane.request("DELETE", f"{API}/{name}")


@pytest.fixture
def queues(world: World) -> Iterator[Queues]:
    """Queues that nobody else sees."""
    own = Queues(world)
    yield own
    own.close()


def test_two_queues_borrow_and_reclaim(world: World, queues: Queues) -> None:
    """One uses both nodes while the other one sleeps, and gives back the one that is not its own."""
    world.nodes(2)
    queues.make("team-a", 8)
    queues.make("team-b", 8)
    for number in range(2):
        world.pod(f"a-{number}", gpus=8, labels={LABEL: "team-a"})
    world.wait_placed("a-0", "a-1")
    names = world.gang("b", 1, gpus=8, labels={LABEL: "team-b"})
    world.wait_placed(*names)
    wait_until(lambda: len(world.placed()) == 2, what=lambda: f"one of team-a to go; placed are {world.placed()}")
    [event] = wait_until(lambda: world.events("Preempted"), what="the event")
    assert event["regarding"]["name"].startswith("a-")
    found = wait_until(
        lambda: (s := queues.status("team-a")) and allocated(s) == "8" and s,
        what=lambda: f"the status; it is {queues.status('team-a')}",
    )
    assert found["conditions"][0]["status"] == "True"


def test_a_limit_is_told_with_its_numbers_and_every_position_is_served(
    world: World, queues: Queues, scheduler: Replica
) -> None:
    """At the pod, at the queue, and over HTTP."""
    world.nodes(2)
    queues.make("small", 0, "8")
    world.pod("first", gpus=8, labels={LABEL: "small"})
    world.wait_placed("first")
    world.pod("second", gpus=8, labels={LABEL: "small"})
    condition = world.wait_condition("second", "Unschedulable")
    assert f"queue small: limit 8 {GPU}, 8 used, asks 8" in condition["message"]
    status = wait_until(
        lambda: (s := queues.status("small")).get("pendingWorkloads") == 1 and s, what="the status of the queue"
    )
    assert status["pending"] == [
        {"position": 1, "kind": "pod", "namespace": world.namespace, "name": "second", "reason": "QueueLimit"}
    ]
    _, text = scheduler._get("/queues")
    assert json.loads(text)["queues"]["small"] == status["pending"]
    world.delete_pod("first")
    world.wait_placed("second")


def test_a_queue_that_is_not_there_is_a_condition_until_it_is(world: World, queues: Queues) -> None:
    """Nothing is lost in between."""
    world.nodes(1)
    queues.make("other", 1)
    world.pod("p", gpus=1, labels={LABEL: "late"})
    condition = world.wait_condition("p", "SchedulingGated")
    assert "there is no queue late; allowed are default, other" in condition["message"]
    queues.make("late", 1)
    world.wait_placed("p")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"guaranteed": -1}, "should be greater than or equal to 0"),
        ({"guaranteed": "many"}, "should match"),
        ({"guaranteed": "9", "limit": 8}, "guaranteed may not be above limit"),
        ({"parent": "wrong"}, "a queue cannot be its own parent"),
        ({"ordering": "Random"}, "Unsupported value"),
        ({"reclaimMinRuntime": "soon"}, "should match"),
    ],
)
def test_the_definition_refuses_what_makes_no_sense(
    world: World, queues: Queues, spec: dict[str, Any], words: str
) -> None:
    """At once, with the field."""
    del world
    with pytest.raises(ApiError, match=words):
        queues.make("wrong", **spec)


def test_a_circle_is_a_condition_at_the_queue(queues: Queues) -> None:
    """The schema cannot see it; the scheduler says what to change."""
    queues.make("circle-a", 1, parent="circle-b")
    queues.make("circle-b", 1, parent="circle-a")
    found = wait_until(
        lambda: [c for c in queues.status("circle-a").get("conditions", ()) if c["status"] == "False"],
        what=lambda: f"the condition; the status is {queues.status('circle-a')}",
    )
    assert "is a circle; allowed is a queue that is not below this one" in found[0]["message"]
