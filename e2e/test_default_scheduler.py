"""In kube-scheduler's place on a real API server: which nodes a pod may have."""

import re
from collections import Counter
from typing import Any

from e2e.objects import FAKE, ROLE, DefaultWorld, is_in, spread
from e2e.waiting import wait_until

NOWHERE = "e2e/nowhere"
CPU_REFUSAL = re.compile(
    r"0/\d+ nodes are available: 2 Insufficient cpu(, \d+ node\(s\) didn't match Pod's node affinity/selector)?\. "
    r"preemption: 0/\d+ nodes are available: 2 No preemption victims found for incoming pod"
    r"(, \d+ Preemption is not helpful for scheduling)?\."
)
"""What kube-scheduler says; what it adds about the nodes of other tests may be there or not."""


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    """Returns the affinity to nodes that one of the terms describes."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def port(number: int, host_ip: str = "", protocol: str = "TCP") -> dict[str, Any]:
    """Returns the part of a container that takes a port of its node."""
    return {"ports": [{"containerPort": 8080, "hostPort": number, "hostIP": host_ip, "protocol": protocol}]}


def test_pod_without_scheduler_name_is_placed(default_world: DefaultWorld) -> None:
    """A pod that names no scheduler is one of `default-scheduler`, under which name its event is reported."""
    node = default_world.node("only")
    spec = default_world.template()["spec"]
    del spec["schedulerName"]
    default_world.make("/api/v1", "pods", {"metadata": {"name": "plain"}, "spec": spec})
    assert default_world.wait_placed("plain") == {"plain": node}
    [event] = wait_until(lambda: default_world.events("Scheduled"), what="the event")
    assert event["reportingController"] == "default-scheduler"


def test_cpu_limits_what_runs(default_world: DefaultWorld) -> None:
    """With all CPUs taken, one more pod stays pending with kube-scheduler's words."""
    default_world.nodes(2)
    for name in ("a", "b"):
        default_world.pod(name, cpu="3500m")
    default_world.wait_placed("a", "b")
    default_world.pod("extra", cpu="1")
    assert CPU_REFUSAL.fullmatch(default_world.wait_refused("extra", "Insufficient cpu"))


def test_ephemeral_storage_limits_what_runs(default_world: DefaultWorld) -> None:
    """Local storage that containers ask for is counted as CPUs are."""
    default_world.node("only", resources={"ephemeral-storage": "10Gi"})
    default_world.pod("filler", requests={"ephemeral-storage": "8Gi"})
    default_world.wait_placed("filler")
    default_world.pod("extra", requests={"ephemeral-storage": "3Gi"})
    default_world.wait_refused("extra", "1 Insufficient ephemeral-storage")


def test_overhead_of_a_runtime_class_is_counted(default_world: DefaultWorld) -> None:
    """Two pods would fit by their containers, but not with what their RuntimeClass adds."""
    default_world.node("only", resources={FAKE: "1000"})
    overhead = {"handler": "fake", "overhead": {"podFixed": {FAKE: "250"}}}
    runtime = default_world.make_shared("/apis/node.k8s.io/v1", "runtimeclasses", "heavy", overhead)
    default_world.pod("filler", requests={FAKE: "700"}, runtimeClassName=runtime)
    default_world.wait_placed("filler")
    default_world.pod("extra", requests={FAKE: "75"}, runtimeClassName=runtime)
    default_world.wait_refused("extra", f"1 Insufficient {FAKE}")


def test_selector_of_no_node_is_refused(default_world: DefaultWorld) -> None:
    """A pod whose node selector no node has stays pending and says so."""
    default_world.nodes(2)
    default_world.pod("picky", nodeSelector={NOWHERE: "yes"})
    default_world.wait_refused("picky", "node(s) didn't match Pod's node affinity/selector")


def test_selector_finds_its_node(default_world: DefaultWorld) -> None:
    """A pod lands on the one node with the labels of its selector."""
    default_world.nodes(2)
    special = default_world.node("special", cpu="1", labels={ROLE: "special"})
    default_world.pod("picky", nodeSelector={"e2e/pool": default_world.pool, ROLE: "special"})
    assert default_world.wait_placed("picky") == {"picky": special}


def test_required_affinity_of_no_node_is_refused(default_world: DefaultWorld) -> None:
    """A pod none of whose required terms matches a node stays pending."""
    default_world.node("other", labels={ROLE: "other"})
    default_world.pod("picky", affinity=required(is_in(ROLE, "special"), is_in(NOWHERE, "x", "y")))
    default_world.wait_refused("picky", "node(s) didn't match Pod's node affinity/selector")


def test_required_affinity_finds_its_node(default_world: DefaultWorld) -> None:
    """One matching term of several is enough for a node."""
    default_world.node("other", labels={ROLE: "other"})
    special = default_world.node("special", cpu="1", labels={ROLE: "special"})
    default_world.pod("picky", affinity=required(is_in(ROLE, "special"), is_in(NOWHERE, "x", "y")))
    assert default_world.wait_placed("picky") == {"picky": special}


def test_tolerated_taint_does_not_keep_a_pod_away(default_world: DefaultWorld) -> None:
    """A pod that tolerates the taint of a node and asks for it lands there."""
    taint = {"key": "e2e/taint", "value": "a", "effect": "NoSchedule"}
    node = default_world.node("tainted", taints=[taint])
    default_world.pod("tolerant", tolerations=[{**taint, "operator": "Equal"}])
    assert default_world.wait_placed("tolerant") == {"tolerant": node}


def test_taint_keeps_a_pod_away_until_it_is_gone(default_world: DefaultWorld) -> None:
    """A pod that tolerates another value stays pending, and is placed when the taint is lifted."""
    taint = {"key": "e2e/taint", "value": "a", "effect": "NoSchedule"}
    node = default_world.node("tainted", taints=[taint])
    default_world.pod("other", tolerations=[{**taint, "value": "b", "operator": "Equal"}])
    default_world.wait_refused("other", "1 node(s) had untolerated taint(s)")
    default_world.plane.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})
    default_world.wait_placed("other")


def test_host_port_on_all_addresses_conflicts_with_one(default_world: DefaultWorld) -> None:
    """A port taken on 0.0.0.0 is taken on every address."""
    default_world.node("only")
    default_world.pod("all", container=port(54322))
    default_world.wait_placed("all")
    default_world.pod("one", container=port(54322, "127.0.0.1"))
    default_world.wait_refused("one", "1 node(s) didn't have free ports for the requested pod ports")


def test_host_port_may_be_shared_by_address_and_protocol(default_world: DefaultWorld) -> None:
    """The same port on another address, or of another protocol, is free."""
    default_world.node("only")
    default_world.pod("first", container=port(54321, "127.0.0.1"))
    default_world.pod("address", container=port(54321, "10.0.0.1"))
    default_world.pod("protocol", container=port(54321, "10.0.0.1", "UDP"))
    default_world.wait_placed("first", "address", "protocol")


def test_spread_constraint_divides_pods_evenly(default_world: DefaultWorld) -> None:
    """Four pods with a skew of one over two nodes are two and two, though one node has more room."""
    roomy, full = (
        default_world.node("roomy", cpu="64", labels={ROLE: "a"}),
        default_world.node("full", labels={ROLE: "b"}),
    )
    default_world.controller("replicasets", "even", 4, topologySpreadConstraints=spread("even", ROLE), cpu="900m")
    assert Counter(default_world.wait_pods(4, app="even")) == {roomy: 2, full: 2}


def test_spread_constraint_refuses_what_would_lean(default_world: DefaultWorld) -> None:
    """When one of two nodes is full, its lack of pods keeps the other one from getting more."""
    roomy, _ = default_world.node("roomy", labels={ROLE: "a"}), default_world.node("full", cpu="1", labels={ROLE: "b"})
    for name in ("even-0", "even-1", "even-2"):
        labels = {"app": "even"}
        default_world.pod(name, cpu="900m", labels=labels, topologySpreadConstraints=spread("even", ROLE))
    default_world.wait_placed("even-0", "even-1", "even-2")
    default_world.pod("last", cpu="900m", labels={"app": "even"}, topologySpreadConstraints=spread("even", ROLE))
    refusal = default_world.wait_refused("last", "1 node(s) didn't match pod topology spread constraints")
    assert "1 Insufficient cpu" in refusal
    assert Counter(default_world.placed().values())[roomy] == 2


def test_gated_replicas_wait_for_their_gates(default_world: DefaultWorld) -> None:
    """The gated pods of a ReplicaSet are not tried; each is placed when its own gate is gone."""
    default_world.node("only")
    default_world.controller("replicasets", "gated", 3, schedulingGates=[{"name": "example.test/quota"}])
    names = default_world.wait_made(3, app="gated")
    for name in names:
        default_world.wait_condition(name, "SchedulingGated")
    open_gates(default_world, names[0])
    assert set(default_world.wait_placed(names[0])) == {names[0]}
    for name in names[1:]:
        open_gates(default_world, name)
    default_world.wait_pods(3, app="gated")


def open_gates(world: DefaultWorld, name: str) -> None:
    """Removes the scheduling gates of a pod."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{name}"
    world.plane.request("PATCH", path, {"spec": {"schedulingGates": []}})
