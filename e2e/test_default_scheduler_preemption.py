"""In kube-scheduler's place on a real API server: who is evicted for whom."""

from collections.abc import Iterator

import pytest

from e2e.controlplane.client import ApiError
from e2e.objects import FAKE, HOSTNAME, ROLE, DefaultWorld, spread
from e2e.waiting import wait_until

SYSTEM = "kube-system"


def test_important_pod_evicts_the_least_important(default_world: DefaultWorld) -> None:
    """Of two nodes full of a resource, the one with the less important pod is cleared, and nothing else."""
    low, medium, high = (default_world.priority(name, value) for name, value in (("l", 1), ("m", 100), ("h", 1000)))
    a, b = default_world.nodes(2, resources={FAKE: "10"})
    default_world.pod("low", requests={FAKE: "7"}, priorityClassName=low, nodeSelector={HOSTNAME: a})
    default_world.pod("medium", requests={FAKE: "7"}, priorityClassName=medium, nodeSelector={HOSTNAME: b})
    default_world.wait_placed("low", "medium")
    default_world.pod("high", requests={FAKE: "7"}, priorityClassName=high)
    assert default_world.wait_placed("high") == {"medium": b, "high": a}
    [event] = wait_until(lambda: default_world.events("Preempted"), what="the event")
    assert event["regarding"]["name"] == "low"


@pytest.fixture
def system_world(default_world: DefaultWorld) -> Iterator[DefaultWorld]:
    """The namespace of the system, on the nodes of the test; the pod "critical" is gone at the end."""
    world = DefaultWorld(default_world.plane, SYSTEM)
    world.pool = default_world.pool
    yield world
    if world.get("critical"):
        path = f"/api/v1/namespaces/{SYSTEM}/pods/critical"
        world.plane.request("DELETE", path, {"gracePeriodSeconds": 0})


def test_critical_pod_evicts(default_world: DefaultWorld, system_world: DefaultWorld) -> None:
    """A pod of `system-cluster-critical` in the system's namespace takes the place of one in another namespace."""
    node = default_world.node("only", resources={FAKE: "10"})
    default_world.pod("low", requests={FAKE: "7"}, priorityClassName=default_world.priority("high", 1_000_000))
    default_world.wait_placed("low")
    system_world.pod("critical", requests={FAKE: "7"}, priorityClassName="system-cluster-critical")
    assert system_world.wait_placed("critical")["critical"] == node
    assert "low" not in default_world.placed()


def test_victim_shows_its_disruption(default_world: DefaultWorld) -> None:
    """A victim that a finalizer holds says in its status that it is preempted."""
    default_world.node("only", resources={FAKE: "1"})
    low, high = default_world.priority("low", 1), default_world.priority("high", 1000)
    default_world.pod("victim", requests={FAKE: "1"}, priorityClassName=low)
    default_world.wait_placed("victim")
    path = f"/api/v1/namespaces/{default_world.namespace}/pods/victim"
    default_world.plane.request("PATCH", path, {"metadata": {"finalizers": ["example.test/hold"]}})
    default_world.pod("high", requests={FAKE: "1"}, priorityClassName=high)
    wait_until(lambda: default_world.get("victim")["metadata"].get("deletionTimestamp"), what="the eviction")
    conditions = {c["type"]: c for c in default_world.get("victim")["status"]["conditions"]}
    default_world.plane.request("PATCH", path, {"metadata": {"finalizers": None}})
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    default_world.wait_placed("high")


def test_spread_constraint_decides_who_is_evicted(default_world: DefaultWorld) -> None:
    """One victim would make room, but the skew is met only without two of the three less important pods."""
    low, medium, high = (default_world.priority(name, value) for name, value in (("l", 1), ("m", 100), ("h", 1000)))
    a, b = (default_world.node(name, resources={FAKE: "10"}, labels={ROLE: name}) for name in ("a", "b"))
    labels, constraints = {"app": "even"}, spread("even", ROLE)
    default_world.pod(
        "high", requests={FAKE: "9"}, labels=labels, priorityClassName=high, nodeSelector={HOSTNAME: a}
    )  # fmt: skip
    names = [f"low-{i}" for i in range(3)]
    for name in names:
        default_world.pod(
            name, requests={FAKE: "3"}, labels=labels, priorityClassName=low, nodeSelector={HOSTNAME: b}
        )  # fmt: skip
    default_world.wait_placed("high", *names)
    default_world.pod(
        "medium",
        requests={FAKE: "3"},
        labels=labels,
        priorityClassName=medium,
        topologySpreadConstraints=constraints,
    )
    found = default_world.wait_placed("medium")
    assert found["medium"] == b
    assert "high" in found
    assert sum(name in found for name in names) == 1


def test_replica_sets_of_four_priorities(default_world: DefaultWorld) -> None:
    """On one node, the least important replicas go and wait anew; those of the classes between stay."""
    classes = [default_world.priority(f"p{i}", i) for i in range(1, 5)]
    default_world.node("only", resources={FAKE: "1000"})
    for i, (replicas, amount) in enumerate(((5, "40"), (4, "50"), (4, "95"))):
        default_world.controller(
            "replicasets", f"rs{i}", replicas, requests={FAKE: amount}, priorityClassName=classes[i]
        )
    before = [uids(default_world, f"rs{i}", count) for i, count in enumerate((5, 4, 4))]
    default_world.controller("replicasets", "rs3", 1, requests={FAKE: "400"}, priorityClassName=classes[3])
    default_world.wait_pods(1, app="rs3")
    default_world.wait_made(5, app="rs0")
    assert not before[0] & {p["metadata"]["uid"] for p in default_world.pods(app="rs0")}
    assert [uids(default_world, f"rs{i}", 4) for i in (1, 2)] == before[1:]
    assert not any(p["spec"].get("nodeName") for p in default_world.pods(app="rs0"))


def uids(world: DefaultWorld, app: str, count: int) -> set[str]:
    """Waits for the pods of a ReplicaSet to be placed and returns their uids."""
    world.wait_pods(count, app=app)
    return {p["metadata"]["uid"] for p in world.pods(app=app)}


def test_budget_is_respected_where_another_node_has_none(default_world: DefaultWorld) -> None:
    """Though it is less important, a pod whose budget is used up stays, and one without a budget goes."""
    low, medium, high = (default_world.priority(name, value) for name, value in (("l", 1), ("m", 100), ("h", 1000)))
    a, b = default_world.nodes(2, resources={FAKE: "1"})
    default_world.pod(
        "kept", labels={"app": "kept"}, requests={FAKE: "1"}, priorityClassName=low, nodeSelector={HOSTNAME: a}
    )  # fmt: skip
    default_world.wait_placed("kept")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    default_world.make("/apis/policy/v1", "poddisruptionbudgets", {"metadata": {"name": "kept"}, "spec": budget})
    wait_until(lambda: budget_is_counted(default_world, "kept"), what="the budget to be counted")
    default_world.pod("free", requests={FAKE: "1"}, priorityClassName=medium, nodeSelector={HOSTNAME: b})
    default_world.wait_placed("free")
    default_world.pod("high", requests={FAKE: "1"}, priorityClassName=high)
    assert default_world.wait_placed("high") == {"kept": a, "high": b}


def budget_is_counted(world: DefaultWorld, name: str) -> bool:
    """Tells whether the controller has seen the healthy pod of a budget."""
    path = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets/{name}"
    try:
        status = world.plane.request("GET", path).get("status", {})
    except ApiError:
        return False
    return bool(status.get("currentHealthy") == 1 and status.get("disruptionsAllowed") == 0)


def test_pod_that_never_preempts_waits(default_world: DefaultWorld) -> None:
    """A pod of a class with preemptionPolicy Never says so and is placed when the other one leaves by itself."""
    default_world.node("only", resources={FAKE: "1"})
    low = default_world.priority("low", 1)
    never = {"value": 1000, "preemptionPolicy": "Never"}
    polite = default_world.make_shared("/apis/scheduling.k8s.io/v1", "priorityclasses", "polite", never)
    default_world.pod("low", requests={FAKE: "1"}, priorityClassName=low)
    default_world.wait_placed("low")
    default_world.pod("polite", requests={FAKE: "1"}, priorityClassName=polite)
    default_world.wait_refused("polite", "not eligible due to preemptionPolicy=Never")
    assert set(default_world.placed()) == {"low"}
    default_world.delete_pod("low")
    default_world.wait_placed("polite")
