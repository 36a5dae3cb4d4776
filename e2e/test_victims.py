"""Victims on a real API server: those that never go, budgets, notice before the eviction, and restarts in the middle of it all."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import ControlPlane
from e2e.deployment import Replica, apply_manifests
from e2e.objects import GROUP, World
from e2e.test_operations import QUICK_LEASE, namespaced
from e2e.test_queues import LABEL, Queues
from e2e.waiting import wait_until

NOTICE = f"{GROUP}/eviction-notice"


@pytest.fixture
def queues(world: World) -> Iterator[Queues]:
    """Queues that nobody else sees."""
    own = Queues(world)
    yield own
    own.close()


@pytest.fixture(scope="module")
def own(assets: Path) -> Iterator[World]:
    """A control plane of one's own, in which schedulers come and go."""
    with ControlPlane(controller_manager=True, kwok=True, programs=assets) as running:
        apply_manifests(running)
        yield namespaced(running)


def hold(world: World, name: str, *, finalizer: bool = True) -> None:
    """Gives a pod a finalizer that nobody removes, or takes it away."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{name}"
    body = {"metadata": {"finalizers": ["example.test/hold"] if finalizer else None}}
    world.plane.request("PATCH", path, body, "application/merge-patch+json")


def annotation(world: World, name: str) -> str:
    """Returns when a pod was told that it goes; empty if it was not."""
    return str((world.get(name)["metadata"].get("annotations") or {}).get(NOTICE, ""))


def is_leaving(world: World, name: str) -> bool:
    """Tells whether a pod is gone, or its deletion was asked for."""
    try:
        return bool(world.get(name)["metadata"].get("deletionTimestamp"))
    except ApiError:
        return True


def preempted(world: World) -> Counter[str]:
    """Counts the evictions of each pod by their events."""
    found: Counter[str] = Counter()
    for event in world.events("Preempted"):
        found[event["regarding"]["name"]] += event.get("series", {}).get("count", 1) if event.get("series") else 1
    return found


def test_a_victim_with_a_finalizer_that_never_goes_is_given_up(world: World) -> None:
    """After the gang's patience another plan is made, without it; nobody is evicted for nothing after that."""
    world.nodes(2)
    low, middle, high = world.priority("low", 10), world.priority("middle", 20), world.priority("high", 1000)
    world.pod("stuck", gpus=8, priorityClassName=low)
    world.pod("goes", gpus=8, priorityClassName=middle)
    before = world.wait_placed("stuck", "goes")
    hold(world, "stuck")
    world.group("urgent", 1, scheduleTimeoutSeconds=5)
    [name] = world.members("urgent", range(1), priorityClassName=high)
    wait_until(lambda: is_leaving(world, "stuck"), what="the first eviction")
    found = world.wait_placed(name, timeout_seconds=60)
    assert found[name] == before["goes"]
    hold(world, "stuck", finalizer=False)
    assert preempted(world) == {"stuck": 1, "goes": 1}


def test_a_budget_at_zero_is_kept_by_reclaim_where_another_victim_will_do(world: World, queues: Queues) -> None:
    """Of two pods of the borrower the protected one stays, though it is the younger one and loses less."""
    world.nodes(2)
    queues.make("owner", 8)
    queues.make("borrower", 0)
    world.pod("free", gpus=8, labels={LABEL: "borrower"})
    world.wait_placed("free")
    world.pod("kept", gpus=8, labels={LABEL: "borrower", "app": "kept"})
    world.wait_placed("kept")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    world.make("/apis/policy/v1", "poddisruptionbudgets", {"metadata": {"name": "kept"}, "spec": budget})
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/kept"

    def is_counted() -> bool:
        status: dict[str, Any] = world.plane.request("GET", path).get("status") or {}
        return status.get("currentHealthy") == 1 and status.get("disruptionsAllowed") == 0

    wait_until(is_counted, what="the budget to be counted")
    names = world.gang("claims", 1, labels={LABEL: "owner"})
    found = world.wait_placed(*names)
    assert "kept" in found
    wait_until(lambda: "free" not in world.placed(), what="the other one to go")


def test_a_victim_that_wants_notice_is_told_before_it_goes(world: World) -> None:
    """Annotation and event first; the deletion when the time has come, and not before; the room is the preemptor's."""
    world.nodes(1)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    world.pod("trains", gpus=8, priorityClassName=low, annotations={f"{GROUP}/eviction-notice-seconds": "6"})
    world.wait_placed("trains")
    names = world.gang("urgent", 1, priorityClassName=high)
    told = wait_until(lambda: annotation(world, "trains"), what="the notice")
    assert told.endswith("Z")
    assert not is_leaving(world, "trains")
    [event] = wait_until(lambda: world.events("EvictionNotice"), what="the event")
    assert event["regarding"]["name"] == "trains"
    assert told in event["note"]
    world.wait_placed(*names, timeout_seconds=60)
    assert preempted(world) == {"trains": 1}


def test_a_notice_is_withdrawn_when_other_room_appears(world: World) -> None:
    """The annotation goes, and the pod stays."""
    world.nodes(1)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    world.pod("trains", gpus=8, priorityClassName=low, annotations={f"{GROUP}/eviction-notice-seconds": "300"})
    world.wait_placed("trains")
    names = world.gang("urgent", 1, priorityClassName=high)
    wait_until(lambda: annotation(world, "trains"), what="the notice")
    world.node("more")
    world.wait_placed(*names)
    wait_until(lambda: not annotation(world, "trains"), what="the notice to be withdrawn")
    assert not is_leaving(world, "trains")


def test_restarts_in_the_middle_of_a_preemption_lose_nothing_and_evict_nobody_twice(own: World, tmp_path: Path) -> None:
    """The scheduler is killed while a notice runs, and again while a victim terminates: the new one goes on with the plan."""
    own.nodes(2)
    low, high = own.priority("low", 10), own.priority("high", 1000)
    first = Replica(own.plane, tmp_path, "first", **QUICK_LEASE).wait_leading()
    try:
        for name in ("one", "two"):
            own.pod(name, gpus=8, priorityClassName=low, annotations={f"{GROUP}/eviction-notice-seconds": "30"})
        own.wait_placed("one", "two", timeout_seconds=90)
        hold(own, "one")
        hold(own, "two")
        names = own.gang("urgent", 1, priorityClassName=high)
        victim = wait_until(
            lambda: next((name for name in ("one", "two") if annotation(own, name)), ""), what="the notice"
        )
        told, other = annotation(own, victim), "two" if victim == "one" else "one"
    finally:
        first.kill()
    second = Replica(own.plane, tmp_path, "second", **QUICK_LEASE).wait_leading()
    try:
        assert annotation(own, victim) in (told, "")
        wait_until(lambda: is_leaving(own, victim), timeout_seconds=90, what="the eviction")
    finally:
        second.kill()
    third = Replica(own.plane, tmp_path, "third", **QUICK_LEASE).wait_leading()
    try:
        assert not is_leaving(own, other)
        hold(own, victim, finalizer=False)
        own.wait_placed(*names, timeout_seconds=90)
        assert not is_leaving(own, other)
        assert not annotation(own, other)
        assert preempted(own)[other] == 0
        assert preempted(own)[victim] <= 1
    finally:
        third.stop()
        hold(own, other, finalizer=False)
