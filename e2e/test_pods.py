"""Single pods on a real API server: placed, refused with reasons, and left alone where they should be."""

from e2e.objects import World
from e2e.waiting import wait_until


def test_pod_is_bound_and_runs(world: World) -> None:
    """A pod that names the scheduler gets a node, the event says so, and kwok runs it."""
    [node] = world.nodes(1)
    world.pod("one")
    assert world.wait_placed("one") == {"one": node}
    wait_until(lambda: world.get("one")["status"]["phase"] == "Running", what="the pod to run")
    [event] = wait_until(lambda: world.events("Scheduled"), what="the event")
    assert event["note"] == f"Successfully assigned {world.namespace}/one to {node}"
    assert event["reportingController"] == "ai-scheduler"


def test_pod_of_another_scheduler_is_left_alone(world: World) -> None:
    """Only pods that name the scheduler are placed by it."""
    world.nodes(1)
    world.pod("theirs", schedulerName="somebody-else")
    world.pod("ours")
    world.wait_placed("ours")
    assert "theirs" not in world.placed()


def test_refusal_is_told_in_the_words_of_kube_scheduler(world: World) -> None:
    """A pod without a place gets condition and event with counted reasons, once, and its place when there is one."""
    world.node("cpu", gpus=0)
    world.node("full", gpus=2)
    world.pod("big", gpus=4)
    message = world.wait_condition("big", "Unschedulable")["message"]
    assert "nodes are available: " in message
    assert "2 Insufficient nvidia.com/gpu" in message
    assert len(wait_until(lambda: world.events("FailedScheduling"), what="the event")) == 1
    roomy = world.node("roomy", gpus=8)
    assert world.wait_placed("big")["big"] == roomy


def test_taints_selectors_and_affinity_are_kept(world: World) -> None:
    """Nodes are chosen by taints, labels and affinity as kube-scheduler chooses them."""
    plain = world.node("plain", labels={"disk": "hdd"})
    tainted = world.node(
        "tainted", labels={"disk": "ssd"}, taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]
    )
    world.pod("anywhere")
    tolerations = [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    world.pod("tolerant", tolerations=tolerations, affinity=affinity)
    world.pod("intolerant", affinity=affinity)
    assert world.wait_placed("anywhere", "tolerant") == {"anywhere": plain, "tolerant": tainted}
    assert "untolerated taint" in world.wait_condition("intolerant", "Unschedulable")["message"]


def test_gated_pod_waits_for_its_gate(world: World) -> None:
    """A pod with scheduling gates is not tried before the last one is gone."""
    world.nodes(1)
    world.pod("gated", schedulingGates=[{"name": "example.test/quota"}])
    world.pod("free")
    world.wait_placed("free")
    assert world.condition("gated")["reason"] == "SchedulingGated"
    path = f"/api/v1/namespaces/{world.namespace}/pods/gated"
    world.plane.request("PATCH", path, {"spec": {"schedulingGates": []}}, "application/merge-patch+json")
    world.wait_placed("gated")


def test_foreign_bindings_are_counted(world: World) -> None:
    """Pods that somebody else binds use their nodes: nothing is bound over them."""
    a, b = world.nodes(2)
    for i in range(2):
        world.pod(f"foreign-{i}", gpus=4, schedulerName="somebody-else", nodeName=a)
    wait_until(lambda: len(world.placed()) == 2, what="the foreign pods")
    names = [f"ours-{i}" for i in range(4)]
    for name in names:
        world.pod(name, gpus=2)
    found = world.wait_placed(*names)
    assert {found[name] for name in names} == {b}
