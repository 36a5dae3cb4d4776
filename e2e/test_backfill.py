"""Backfill on a real API server: a gang is promised a start, short work runs ahead of it, and the promise is kept."""

import time
from datetime import UTC, datetime
from typing import Any

from e2e.deployment import Replica
from e2e.objects import GROUP, World
from e2e.waiting import wait_until

EXPECTED = f"{GROUP}/expected-run-seconds"
PROMISED = f"{GROUP}/PromisedStart"
#: How much later than its promise the gang may start: kubelets, watches and bindings take their time.
SLACK_SECONDS = 5.0


def run_for(seconds: int, stated: int | None = None) -> dict[str, str]:
    """Annotations of a pod that runs for so long, and says so."""
    return {"pod-complete.stage.kwok.x-k8s.io/delay": f"{seconds}s", EXPECTED: str(stated or seconds)}


def moment(text: str) -> float:
    """Return a time of the API in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def condition(world: World, name: str, kind: str) -> dict[str, Any]:
    """Return a condition of a pod, or an empty mapping."""
    found = world.get(name).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def started_at(world: World, name: str) -> float:
    """Return when a pod got its node."""
    return moment(condition(world, name, "PodScheduled")["lastTransitionTime"])


def test_a_promise_is_kept_though_short_work_runs_ahead(world: World, scheduler: Replica) -> None:
    """Two nodes are busy; the gang needs both.  What ends before its start takes the node that is free first, the rest waits."""
    world.nodes(2)
    world.pod("busy-0", gpus=8, annotations=run_for(10))
    world.pod("busy-1", gpus=8, annotations=run_for(25))
    world.wait_placed("busy-0", "busy-1")
    world.group("big", 2)
    for number in range(2):
        world.pod(f"big-{number}", gpus=8, gang="big", annotations=run_for(600))
    status = wait_until(
        lambda: (s := world.group_status("big")).get("promisedStart") and s,
        what=lambda: f"a promised start; the status is {world.group_status('big')}",
    )
    promised = moment(status["promisedStart"])
    assert 0 < promised - time.time() <= 26
    world.pod("long", gpus=4, annotations=run_for(600))
    world.pod("unknown", gpus=4)
    world.pod("short", gpus=4, annotations=run_for(3))
    world.wait_placed("short", "big-0", "big-1", timeout_seconds=60)
    assert not {"long", "unknown"} & world.placed().keys()
    late = max(started_at(world, f"big-{number}") for number in range(2)) - promised
    assert late <= SLACK_SECONDS
    refusal = wait_until(lambda: world.condition("long"), what="the refusal of the long one")
    assert "reserved for" in refusal["message"]
    wait_until(lambda: "promisedStart" not in world.group_status("big"), what="a status without a promise")
    counts = [line for line in scheduler.metrics().splitlines() if "promise_error_seconds_count" in line]
    assert sum(float(line.rpartition(" ")[2]) for line in counts) >= 1


def test_a_single_pod_is_promised_a_start_in_a_condition(world: World) -> None:
    """It stands beside PodScheduled, which says why it waits."""
    world.nodes(1)
    world.pod("busy", gpus=8, annotations=run_for(8))
    world.wait_placed("busy")
    world.pod("next", gpus=8, annotations={EXPECTED: "soon"})
    found = wait_until(lambda: condition(world, "next", PROMISED), what=lambda: f"a promise; {world.get('next')}")
    assert (found["status"], found["reason"]) == ("True", "Reserved")
    assert found["message"].startswith("room is reserved from 20")
    assert world.condition("next")["reason"] == "Unschedulable"
    [event] = wait_until(lambda: world.events("InvalidRunTime"), what="the event about the annotation")
    assert "allowed: whole seconds from 1" in event["note"]
    world.wait_placed("next", timeout_seconds=40)
    assert datetime.now(UTC).timestamp() > moment(found["message"].split()[4]) - SLACK_SECONDS
