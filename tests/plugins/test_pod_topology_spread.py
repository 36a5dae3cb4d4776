"""PodTopologySpread: skews and scores; expected values by hand, from kube-scheduler's rules."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scheduler.framework.change import Change
from scheduler.framework.status import ClusterEvent, Code
from scheduler.model.label_tests import selector_of_labels
from scheduler.model.owners import Owner
from scheduler.plugins.pod_topology_spread import NO_LABEL, SKEWED, PodTopologySpreadArgs
from scheduler.plugins.pod_topology_spread.plugin import rounded
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.plugins.asking import SKIPPED, Cluster

NAME, ZONE, HOST = "PodTopologySpread", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TOO_MANY = (Code.UNSCHEDULABLE, SKEWED.text)
MISSING = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_LABEL.text)


def nodes(**zones: str) -> list[NodeBuilder]:
    """Return nodes by name and zone; an empty zone for none."""
    known = zones or {"a1": "a", "a2": "a", "b1": "b"}
    return [a_node(n).label(ZONE, z) if z else a_node(n) for n, z in known.items()]


def web(name: str, node: str) -> PodBuilder:
    """Return a placed web pod."""
    return a_pod(name).labels(app="web").on(node)


def spread(**fields: Any) -> PodBuilder:
    """Return a web pod with one constraint over zones."""
    constraint = {
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    return a_pod("p").labels(app="web").patch_spread(constraint | fields)


def test_pods_without_constraints_are_left_alone() -> None:
    """Nor do soft constraints filter, nor hard ones score."""
    cluster = Cluster(nodes())
    assert cluster.filter(NAME, a_pod("p")) == cluster.score(NAME, a_pod("p")) == SKIPPED
    assert cluster.filter(NAME, spread(whenUnsatisfiable="ScheduleAnyway")) == SKIPPED
    assert cluster.score(NAME, spread()) == SKIPPED


def test_skew_counts_the_pod_itself() -> None:
    """One in a, none in b: a second one in a would be 2 over 0."""
    assert Cluster(nodes(), [web("w", "a1")]).filter(NAME, spread()) == {"a1": TOO_MANY, "a2": TOO_MANY}


def test_pod_that_does_not_match_adds_nothing() -> None:
    """One over none is a skew of 1."""
    pod = spread().label("app", "other")
    assert Cluster(nodes(), [web("w", "a1")]).filter(NAME, pod) == {}


def test_nodes_without_the_label_cannot_be_cured() -> None:
    """And make no domain."""
    refused = Cluster(nodes(a1="a", x1=""), [web("w", "x1"), web("v", "x1")]).filter(NAME, spread())
    assert refused == {"x1": MISSING}


@pytest.mark.parametrize(("minimum", "is_refused"), [(None, False), (2, False), (3, True)])
def test_too_few_domains_make_the_minimum_zero(minimum: int | None, is_refused: bool) -> None:
    """With one pod in each of two zones: 1 + 1 - 1 is fine, 1 + 1 - 0 is not."""
    fields = {} if minimum is None else {"minDomains": minimum}
    refused = Cluster(nodes(a1="a", b1="b"), [web("w", "a1"), web("v", "b1")]).filter(NAME, spread(**fields))
    assert refused == ({"a1": TOO_MANY, "b1": TOO_MANY} if is_refused else {})


def test_terminating_and_foreign_pods_do_not_count() -> None:
    """Those on their way out, and those of other namespaces."""
    there = [web("w", "a1").terminating(), web("v", "a2").namespace("other")]
    assert Cluster(nodes(), there).filter(NAME, spread()) == {}


def test_empty_selector_counts_nobody_but_the_pod() -> None:
    """As upstream (§2a.15 of what was measured)."""
    there = [web("w", "a1"), web("v", "a1")]
    assert Cluster(nodes(), there).filter(NAME, spread(labelSelector={})) == {}
    refused = Cluster(nodes(), there).filter(NAME, spread(labelSelector={}, minDomains=3, maxSkew=1))
    assert refused == {}


@pytest.mark.parametrize(("policy", "is_refused"), [("Honor", False), ("Ignore", True)])
def test_affinity_policy_decides_which_nodes_are_domains(policy: str, is_refused: bool) -> None:
    """With Honor zone b is no domain for a pod that is held to a, so a has the minimum itself."""
    pod = spread(nodeAffinityPolicy=policy).select(ZONE, "a")
    refused = Cluster(nodes(), [web("w", "a1")]).filter(NAME, pod)
    assert refused == ({"a1": TOO_MANY, "a2": TOO_MANY} if is_refused else {})


@pytest.mark.parametrize(("policy", "is_refused"), [("Honor", False), ("Ignore", True)])
def test_taints_policy_decides_it_too(policy: str, is_refused: bool) -> None:
    """A tainted zone counts unless the constraint honours taints."""
    tainted = [a_node("a1").label(ZONE, "a"), a_node("b1").label(ZONE, "b").taint("no")]
    refused = Cluster(tainted, [web("w", "a1")]).filter(NAME, spread(nodeTaintsPolicy=policy))
    assert refused == ({"a1": TOO_MANY} if is_refused else {})


def test_match_label_keys_narrow_the_selector() -> None:
    """Pods of another revision do not count."""
    pod = spread(matchLabelKeys=["rev", "absent"]).label("rev", "2")
    there = [web("w", "a1").label("rev", "1")]
    assert Cluster(nodes(), there).filter(NAME, pod) == {}
    assert Cluster(nodes(), [web("w", "a1").label("rev", "2")]).filter(NAME, pod) == {"a1": TOO_MANY, "a2": TOO_MANY}


def test_first_constraint_that_fails_is_named() -> None:
    """A missing label of the second constraint does not hide the skew of the first."""
    pod = spread().patch_spread(
        {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    )
    # no node has the second key, so no node counts for the first either
    assert Cluster(nodes(), [web("w", "a1")]).filter(NAME, pod) == dict.fromkeys(("a1", "a2", "b1"), MISSING)


def test_selector_that_makes_no_sense_is_an_error() -> None:
    """As upstream: an Error status at that pod, never an exception."""
    bad = spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": []}]})
    said = Cluster(nodes()).filter(NAME, bad)
    assert said.startswith("Error: obtaining pod's hard topology spread constraints")


def test_score_weighs_counts_by_the_number_of_domains() -> None:
    """Two in a, one in b, two domains: ln 4 each; 100 (max + min - s) / max."""
    pod = spread(whenUnsatisfiable="ScheduleAnyway", maxSkew=1)
    there = [web("w", "a1"), web("v", "a2"), web("u", "b1")]
    high, low = round(2 * math.log(4)), round(math.log(4))
    assert Cluster(nodes(), there).score(NAME, pod) == {
        "a1": (high, 100 * low // high), "a2": (high, 100 * low // high), "b1": (low, 100),
    }  # fmt: skip


def test_only_feasible_nodes_make_domains_for_the_score() -> None:
    """With b alone feasible there is one domain: ln 3; pods on other nodes of it count."""
    pod = spread(whenUnsatisfiable="ScheduleAnyway", maxSkew=3)
    there = [web(f"w{k}", "b2") for k in range(4)]
    scores = Cluster(nodes(a1="a", b1="b", b2="b"), there).score(NAME, pod, ["b1"])
    assert scores == {"b1": (round(4 * math.log(3) + 2), 100)}


def test_own_constraints_ignore_nodes_without_the_key() -> None:
    """They get 0."""
    pod = spread(whenUnsatisfiable="ScheduleAnyway")
    scores = Cluster(nodes(a1="a", b1="b", x1=""), [web("w", "a1")]).score(NAME, pod)
    assert scores == {"a1": (1, 0), "b1": (0, 100), "x1": (0, 0)}


SERVICE = Owner(kind="Service", namespace="default", name="web", selector=selector_of_labels({"app": "web"}))
REPLICAS = Owner(kind="ReplicaSet", namespace="default", name="web-1", selector=selector_of_labels({"app": "web"}))


@pytest.mark.parametrize("owner", [SERVICE, REPLICAS])
def test_system_defaults_spread_what_belongs_together(owner: Owner) -> None:
    """Hosts with a skew of 3, zones with 5; nodes without a zone are one more, and are scored by host alone."""
    pod = a_pod("p").labels(app="web").owner("ReplicaSet", "web-1", "apps/v1")
    there = [web("w", "a1"), web("v", "a1"), web("u", "x1")]
    scores = Cluster(nodes(a1="a", a2="a", b1="b", x1=""), there, [owner]).score(NAME, pod)
    hosts, zones = math.log(4 + 2), math.log(3 + 2)
    assert {n: raw for n, (raw, _) in scores.items()} == {
        "a1": round(2 * hosts + 2 + 2 * zones + 4), "a2": round(2 + 2 * zones + 4), "b1": 2 + 4, "x1": round(hosts + 2),
    }  # fmt: skip


def test_labels_of_a_replication_controller_take_the_place_of_a_services() -> None:
    """Upstream merges label sets; the selectors of ReplicaSets are added to them instead."""
    front = selector_of_labels({"app": "front"})
    there = [a_pod("f").labels(app="front").on("a1"), web("w", "b1")]
    for kind, version, near in (("ReplicationController", "v1", "a1"), ("ReplicaSet", "apps/v1", None)):
        owner = Owner(kind=kind, namespace="default", name="o", selector=front)
        pod = a_pod("p").labels(app="web").owner(kind, "o", version)
        scores = Cluster(nodes(a1="a", b1="b"), there, [SERVICE, owner]).score(NAME, pod)
        assert {n for n, (_, normal) in scores.items() if normal < 100} == ({near} if near else set())


def test_pods_of_nobody_have_no_defaults() -> None:
    """No Service means them, and no controller is known."""
    assert Cluster(nodes(), [web("w", "a1")], [REPLICAS]).score(NAME, a_pod("p").labels(app="web")) == SKIPPED


def test_listed_defaults_filter_too() -> None:
    """With `defaultingType: List`."""
    listed = [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    args = {NAME: {"defaultConstraints": listed, "defaultingType": "List"}}
    cluster = Cluster(nodes(), [web("w", "a1")], [SERVICE], args=args)
    assert cluster.filter(NAME, a_pod("p").labels(app="web")) == {"a1": TOO_MANY, "a2": TOO_MANY}
    assert cluster.filter(NAME, a_pod("p").labels(app="db")) == SKIPPED


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}, "defaultingType"),
        ({"defaultingType": "List", "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]}, "maxSkew: 0 is out of range"),
        ({"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}, "topologyKey: is missing"),
        ({"defaultingType": "List", "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "Never"}]}, "allowed: DoNotSchedule, ScheduleAnyway"),
        ({"defaultingType": "List", "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}, "labelSelector: must be left out"),
        ({"defaultingType": "List", "defaultConstraints": [{"topologyKey": 3}]}, "is no topologySpreadConstraint"),
    ],
)  # fmt: skip
def test_mistakes_in_arguments_are_named(args: dict[str, Any], said: str) -> None:
    """As kube-scheduler refuses them."""
    with pytest.raises(ValidationError, match=said):
        PodTopologySpreadArgs.model_validate(args)


@pytest.mark.parametrize(
    ("app", "namespace", "is_hope"), [("web", "default", True), ("db", "default", False), ("web", "other", False)]
)
def test_hint_hears_of_pods_that_count(app: str, namespace: str, is_hope: bool) -> None:
    """Of the same namespace, meant by a constraint."""
    gone = a_pod("gone").labels(app=app).namespace(namespace).on("a1").build()
    change = Change(ClusterEvent.POD_REMOVED, "a1", gone.uid, former_pod=gone)
    plugin: Any = Cluster(nodes()).plugin(NAME)
    assert plugin.queueing_hint(ClusterEvent.POD_REMOVED, change, spread().build(), SKEWED) is is_hope


@pytest.mark.parametrize(("labels", "is_hope"), [({ZONE: "c"}, True), ({}, False)])
def test_hint_hears_of_nodes_with_the_keys(labels: dict[str, str], is_hope: bool) -> None:
    """Others change no domain."""
    node = a_node("new")
    for key, value in labels.items():
        node.label(key, value)
    plugin: Any = Cluster([*nodes(), node]).plugin(NAME)
    change = Change(ClusterEvent.NODE_ADDED, "new")
    assert plugin.queueing_hint(ClusterEvent.NODE_ADDED, change, spread().build(), SKEWED) is is_hope


@given(st.one_of(st.floats(0, 2**51), st.integers(0, 2**20).map(lambda n: n + 0.5)), st.sampled_from((-1, 0, 1)))
def test_halves_are_rounded_up_and_nothing_below_them(number: float, side: int) -> None:
    """As Go's math.Round does, also for the numbers right beside a half."""
    beside = max(0.0, math.nextafter(number, side * math.inf) if side else number)
    exact = Fraction(beside) + Fraction(1, 2)
    assert rounded(np.array([beside])).tolist() == [math.floor(exact)]
