"""Preemption on a real API server: by a pod, by a gang, and not at all where it would not help."""

from e2e.objects import World
from e2e.waiting import wait_until


def test_urgent_pod_evicts_the_least_important(world: World) -> None:
    """The victim gets its condition and its grace; the preemptor is nominated and takes the room."""
    world.nodes(2)
    low, middle, high = world.priority("low", 10), world.priority("middle", 20), world.priority("high", 1000)
    world.pod("cheap", gpus=8, priorityClassName=low)
    world.pod("dear", gpus=8, priorityClassName=middle)
    before = world.wait_placed("cheap", "dear")
    world.pod("urgent", gpus=8, priorityClassName=high)
    found = world.wait_placed("urgent")
    assert found["urgent"] == before["cheap"]
    assert "dear" in found
    [event] = wait_until(lambda: world.events("Preempted"), what="the event")
    assert event["regarding"]["name"] == "cheap"


def test_victim_is_told_by_whom_before_it_goes(world: World) -> None:
    """A victim with a finalizer shows the condition DisruptionTarget while it terminates."""
    world.nodes(1)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    world.pod("victim", gpus=8, priorityClassName=low)
    world.wait_placed("victim")
    path = f"/api/v1/namespaces/{world.namespace}/pods/victim"
    finalizers = {"metadata": {"finalizers": ["example.test/hold"]}}
    world.plane.request("PATCH", path, finalizers, "application/merge-patch+json")
    world.pod("urgent", gpus=8, priorityClassName=high)
    wait_until(lambda: world.get("victim")["metadata"].get("deletionTimestamp"), what="the eviction")
    conditions = {c["type"]: c for c in world.get("victim")["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    nominated = wait_until(lambda: world.get("urgent")["status"].get("nominatedNodeName"), what="the nomination")
    assert nominated == world.get("victim")["spec"]["nodeName"]
    world.plane.request("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    world.wait_placed("urgent")


def test_urgent_gang_evicts_what_it_needs_at_once(world: World) -> None:
    """A gang of two takes two of three nodes from less important pods, and no third."""
    world.nodes(3)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    for i in range(3):
        world.pod(f"low-{i}", gpus=8, priorityClassName=low)
    world.wait_placed("low-0", "low-1", "low-2")
    names = world.gang("urgent", 2, priorityClassName=high)
    found = world.wait_placed(*names)
    assert sum(name.startswith("low") for name in found) == 1


def test_gang_that_would_not_fit_anyway_evicts_nobody(world: World) -> None:
    """One node belongs to somebody more important: no eviction helps the whole gang."""
    world.nodes(2)
    low, high, top = world.priority("low", 10), world.priority("high", 1000), world.priority("top", 5000)
    world.pod("low", gpus=8, priorityClassName=low)
    world.pod("top", gpus=8, priorityClassName=top)
    before = world.wait_placed("low", "top")
    names = world.gang("urgent", 2, priorityClassName=high)
    world.wait_condition(names[0], "Unschedulable")
    assert world.placed() == before


def test_job_whose_gang_is_evicted_makes_its_pods_anew(world: World) -> None:
    """The pods of a Job with a failure policy go, its new ones wait as a gang, and run when there is room again."""
    world.nodes(2)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    world.group("job", 2)
    world.job("job", 2, gpus=8, gang="job", priorityClassName=low)
    wait_until(lambda: len(world.placed()) == 2, what="the gang")
    before = set(world.placed())
    world.pod("urgent", gpus=8, priorityClassName=high)
    world.wait_placed("urgent")
    wait_until(lambda: set(world.placed()) == {"urgent"}, what=lambda: f"the gang to go; placed are {world.placed()}")
    world.delete_pod("urgent")
    wait_until(lambda: len(world.placed()) == 2, what=lambda: f"the new pods; placed are {world.placed()}")
    assert not before & set(world.placed())


def test_gang_is_a_victim_as_a_whole(world: World) -> None:
    """A pod that takes one node from a gang at its minimum ends the whole gang."""
    world.nodes(2)
    low, high = world.priority("low", 10), world.priority("high", 1000)
    names = world.gang("job", 2, priorityClassName=low)
    world.wait_placed(*names)
    world.pod("urgent", gpus=8, priorityClassName=high)
    world.wait_placed("urgent")
    wait_until(lambda: set(world.placed()) == {"urgent"}, what=lambda: f"the gang to go; placed are {world.placed()}")
