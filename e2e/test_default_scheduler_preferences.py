"""In kube-scheduler's place on a real API server: which of several nodes a pod gets, and whose company it keeps.

Every node to be avoided is the emptier one, so that only what the test is about speaks against it.
"""

from collections import Counter

from e2e.objects import HOSTNAME, ROLE, ZONE, DefaultWorld, affinity_term, beside, spread
from e2e.waiting import wait_until


def fill(world: DefaultWorld, node: str, cpu: str = "1") -> None:
    """Puts a pod on a node that makes it the fuller one."""
    world.pod(f"filler-{node.rpartition('-')[2]}", cpu=cpu, nodeName=node)


def untolerated(*keys: str) -> list[dict[str, str]]:
    """Returns taints that only advise against a node."""
    return [{"key": f"e2e/{key}", "value": "x", "effect": "PreferNoSchedule"} for key in keys]


def test_pod_keeps_away_whom_it_cannot_stand(default_world: DefaultWorld) -> None:
    """A pod lands elsewhere because of the anti-affinity of a pod that is there already."""
    home, other = default_world.node("home"), default_world.node("other")
    fill(default_world, other)
    alone = {"podAntiAffinity": beside("loud", HOSTNAME)}
    default_world.pod("quiet", affinity=alone, nodeSelector={HOSTNAME: home})
    default_world.wait_placed("quiet")
    default_world.pod("loud", labels={"app": "loud"})
    assert default_world.wait_placed("loud")["loud"] == other


def test_replicas_with_anti_affinity_get_a_node_each(default_world: DefaultWorld) -> None:
    """Of four replicas that cannot stand each other, three get the three nodes and the fourth says why it waits."""
    nodes = default_world.nodes(3)
    default_world.controller("replicasets", "apart", 4, affinity={"podAntiAffinity": beside("apart", HOSTNAME)})
    names = default_world.wait_made(4, app="apart")
    wait_until(lambda: len(default_world.placed()) == 3, what="three replicas placed")
    found = default_world.placed()
    assert sorted(found.values()) == sorted(nodes)
    [fourth] = (name for name in names if name not in found)
    default_world.wait_refused(fourth, "3 node(s) didn't match pod anti-affinity rules")


def test_preferred_anti_affinity_avoids_a_node(default_world: DefaultWorld) -> None:
    """A pod that would rather not be beside another one takes the fuller node."""
    home, other = default_world.node("home"), default_world.node("other")
    fill(default_world, other)
    default_world.pod("first", labels={"app": "first"}, nodeSelector={HOSTNAME: home})
    default_world.wait_placed("first")
    wish = [{"weight": 10, "podAffinityTerm": affinity_term("first", HOSTNAME)}]
    anti = {"preferredDuringSchedulingIgnoredDuringExecution": wish}
    default_world.pod("second", affinity={"podAntiAffinity": anti})
    assert default_world.wait_placed("second")["second"] == other


def test_preferred_taints_are_avoided(default_world: DefaultWorld) -> None:
    """A taint that only advises against a node weighs more than its room."""
    default_world.node("tainted", taints=untolerated("a"))
    other = default_world.node("other")
    fill(default_world, other)
    default_world.pod("one")
    assert default_world.wait_placed("one")["one"] == other


def test_node_whose_preferred_taints_are_tolerated_is_taken(default_world: DefaultWorld) -> None:
    """Of nodes with advising taints, the one whose taints the pod tolerates is best."""
    default_world.node("tainted", taints=untolerated("a", "b"))
    tolerated = default_world.node("tolerated", taints=untolerated("c", "d"))
    fill(default_world, tolerated)
    default_world.pod("one", tolerations=[{"key": f"e2e/{key}", "operator": "Exists"} for key in ("c", "d")])
    assert default_world.wait_placed("one")["one"] == tolerated


def test_spread_that_is_only_wished_for_prefers_the_other_node(default_world: DefaultWorld) -> None:
    """A pod with ScheduleAnyway avoids the node that has four of its kind."""
    crowded, other = default_world.node("crowded", cpu="64"), default_world.node("other")
    fill(default_world, other)
    names = [f"crowd-{i}" for i in range(4)]
    for name in names:
        default_world.pod(name, labels={"app": "crowd"}, nodeSelector={HOSTNAME: crowded})
    default_world.wait_placed(*names)
    wish = spread("crowd", HOSTNAME, "ScheduleAnyway")
    default_world.pod("one", labels={"app": "crowd"}, topologySpreadConstraints=wish)
    assert default_world.wait_placed("one")["one"] == other


def zones(world: DefaultWorld) -> dict[str, str]:
    """Makes two zones of two nodes each, one of them fuller; returns the zone of each node."""
    made = {world.node(f"{zone}{i}", labels={ZONE: zone}): zone for zone in ("left", "right") for i in range(2)}
    for node in (n for n, zone in made.items() if zone == "right"):
        fill(world, node, "500m")
    return made


def test_pods_of_a_service_are_spread_over_zones(default_world: DefaultWorld) -> None:
    """Pods that a Service selects go to both zones alike, without a constraint of their own."""
    zone_of = zones(default_world)
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    default_world.make("/api/v1", "services", {"metadata": {"name": "web"}, "spec": service})
    names = [f"web-{i}" for i in range(4)]
    for name in names:
        default_world.pod(name, labels={"app": "web"})
    found = default_world.wait_placed(*names)
    assert Counter(zone_of[found[name]] for name in names) == {"left": 2, "right": 2}


def test_pods_of_a_replica_set_are_spread_over_zones(default_world: DefaultWorld) -> None:
    """Pods of a ReplicaSet go to both zones alike, without a constraint of their own."""
    zone_of = zones(default_world)
    default_world.controller("replicasets", "web", 4)
    found = default_world.wait_pods(4, app="web")
    assert Counter(zone_of[node] for node in found) == {"left": 2, "right": 2}


def test_pod_follows_another_into_its_zone(default_world: DefaultWorld) -> None:
    """Required affinity by zone allows the other node of the zone, and no other zone."""
    home = default_world.node("home", cpu="1", labels={ZONE: "near"})
    near, _ = default_world.node("near", labels={ZONE: "near"}), default_world.node("far", labels={ZONE: "far"})
    default_world.pod("first", cpu="900m", labels={"app": "first"}, nodeSelector={HOSTNAME: home})
    default_world.wait_placed("first")
    default_world.pod("second", cpu="500m", affinity={"podAffinity": beside("first", ZONE)})
    assert default_world.wait_placed("second")["second"] == near


def test_pod_waits_for_the_one_that_it_must_be_beside(default_world: DefaultWorld) -> None:
    """Required affinity to nobody leaves the pod pending until somebody comes, then it goes there."""
    default_world.node("near", labels={ZONE: "near"})
    far = default_world.node("far", labels={ZONE: "far", ROLE: "far"})
    default_world.pod("second", affinity={"podAffinity": beside("first", ZONE)})
    default_world.wait_refused("second", "2 node(s) didn't match pod affinity rules")
    default_world.pod("first", labels={"app": "first"}, nodeSelector={HOSTNAME: far})
    found = default_world.wait_placed("first", "second")
    assert found["second"] == far


def test_pods_that_want_each_other_begin_with_one(default_world: DefaultWorld) -> None:
    """The first of pods with affinity to their own label may go anywhere; the others go to its zone."""
    zone_of = {default_world.node(f"{zone}{i}", labels={ZONE: zone}): zone for zone in ("a", "b") for i in range(2)}
    default_world.controller("replicasets", "flock", 4, affinity={"podAffinity": beside("flock", ZONE)})
    found = default_world.wait_pods(4, app="flock")
    assert len({zone_of[node] for node in found}) == 1
