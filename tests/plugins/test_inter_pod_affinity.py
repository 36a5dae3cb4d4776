"""InterPodAffinity: what is near whom, and what that is worth; expected values by hand, from kube-scheduler's rules."""

from __future__ import annotations

import pytest

from scheduler.framework.change import Change
from scheduler.framework.status import ClusterEvent, Code
from scheduler.model.owners import Namespace
from scheduler.plugins.inter_pod_affinity import ANTI_AFFINITY, EXISTING, NO_AFFINITY
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.plugins.asking import SKIPPED, Cluster

NAME, ZONE, HOST = "InterPodAffinity", "zone", "kubernetes.io/hostname"
NEAR = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_AFFINITY.text)
FAR = (Code.UNSCHEDULABLE, ANTI_AFFINITY.text)
THEIRS = (Code.UNSCHEDULABLE, EXISTING.text)


def nodes() -> list[NodeBuilder]:
    """Return two nodes in zone a, one in zone b, and one in none."""
    zones = {"a1": "a", "a2": "a", "b1": "b"}
    return [a_node(n).label(ZONE, z) for n, z in zones.items()] + [a_node("x1")]


def web(name: str, node: str) -> PodBuilder:
    """Return a placed web pod."""
    return a_pod(name).labels(app="web").on(node)


def test_pods_that_nobody_objects_to_are_left_alone() -> None:
    """Neither terms of its own nor terms that mean it."""
    cluster = Cluster(nodes(), [web("w", "a1").anti_affinity(ZONE, app="db")])
    assert cluster.filter(NAME, a_pod("p").labels(app="web")) == SKIPPED
    assert cluster.score(NAME, a_pod("p")) == SKIPPED


def test_required_affinity_holds_in_the_whole_domain() -> None:
    """Every node of the zone will do; one without the label never does."""
    cluster = Cluster(nodes(), [web("w", "a1")])
    assert cluster.filter(NAME, a_pod("p").affinity(ZONE, app="web")) == {"b1": NEAR, "x1": NEAR}


def test_all_terms_must_be_met_by_one_pod() -> None:
    """Two pods that match one term each satisfy nothing (§2a.14 of what was measured)."""
    cluster = Cluster(nodes(), [web("w", "a1"), a_pod("d").labels(tier="back").on("a1")])
    both = a_pod("p").affinity(ZONE, app="web").affinity(ZONE, tier="back")
    assert cluster.filter(NAME, both) == {"a1": NEAR, "a2": NEAR, "b1": NEAR, "x1": NEAR}


@pytest.mark.parametrize("where", ["x1", None])
def test_first_of_a_series_may_go_anywhere_with_the_label(where: str | None) -> None:
    """If it means itself and nobody stands in any domain; a pod on a node without the label is in none."""
    pods = [web("w", where)] if where else []
    cluster = Cluster(nodes(), pods)
    assert cluster.filter(NAME, a_pod("p").labels(app="web").affinity(ZONE, app="web")) == {"x1": NEAR}


def test_first_that_does_not_mean_itself_goes_nowhere() -> None:
    """Nobody is there to be near."""
    refused = Cluster(nodes()).filter(NAME, a_pod("p").affinity(ZONE, app="web"))
    assert refused == dict.fromkeys(("a1", "a2", "b1", "x1"), NEAR)


def test_anti_affinity_passes_nodes_without_the_label() -> None:
    """No label, no domain, nobody near; evictions may help elsewhere."""
    cluster = Cluster(nodes(), [web("w", "a1")])
    assert cluster.filter(NAME, a_pod("p").anti_affinity(ZONE, app="web")) == {"a1": FAR, "a2": FAR}


def test_existing_pods_keep_others_away() -> None:
    """The anti-affinity of a pod that is there counts like one's own, and is named last."""
    cluster = Cluster(nodes(), [web("w", "a1").anti_affinity(ZONE, app="db")])
    assert cluster.filter(NAME, a_pod("p").labels(app="db")) == {"a1": THEIRS, "a2": THEIRS}
    both = a_pod("p").labels(app="db").anti_affinity(HOST, app="web")
    assert cluster.filter(NAME, both) == {"a1": FAR, "a2": THEIRS}


def test_terminating_pods_still_count() -> None:
    """Until they are gone."""
    cluster = Cluster(nodes(), [web("w", "a1").terminating()])
    assert cluster.filter(NAME, a_pod("p").anti_affinity(HOST, app="web")) == {"a1": FAR}


NAMESPACES = (Namespace(name="default", labels={"team": "a"}), Namespace(name="other", labels={"team": "b"}))


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({}, {}),
        ({"namespaces": ["other"]}, {"a1": FAR}),
        ({"namespaceSelector": {}}, {"a1": FAR}),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, {"a1": FAR}),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {}),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}, "namespaces": ["other"]}, {"a1": FAR}),
    ],
)
@pytest.mark.parametrize("is_theirs", [False, True])
def test_namespaces_of_a_term(fields: dict, refused: dict, is_theirs: bool) -> None:
    """None: its own; listed ones and selected ones together; the empty selector: all. Of one's own terms and of theirs."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}} | fields
    asks = a_pod("asks").labels(app="web").pod_term("podAntiAffinity", term)
    meant = a_pod("meant").labels(app="web").namespace("other")
    if is_theirs:
        found = Cluster(nodes(), [asks.on("a1")], NAMESPACES).filter(NAME, meant)
        assert found == (dict.fromkeys(refused, THEIRS) or SKIPPED)
    else:
        assert Cluster(nodes(), [meant.on("a1")], NAMESPACES).filter(NAME, asks) == refused


def test_selectors_match_as_the_api_says() -> None:
    """None matches no pod, the empty one every pod, NotIn those without the label."""
    cluster = Cluster(nodes(), [web("w", "a1")])

    def refused(**term: object) -> object:
        return cluster.filter(NAME, a_pod("p").pod_term("podAntiAffinity", {"topologyKey": HOST, **term}))

    assert refused() == {}
    assert refused(labelSelector={}) == {"a1": FAR}
    not_in = {"key": "tier", "operator": "NotIn", "values": ["front"]}
    assert refused(labelSelector={"matchExpressions": [not_in]}) == {"a1": FAR}


def test_selector_that_makes_no_sense_is_a_refusal() -> None:
    """Never an exception: upstream calls it "parsing pod"."""
    bad = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    said = Cluster(nodes()).filter(NAME, a_pod("p").pod_term("podAffinity", bad))
    assert said == 'UnschedulableAndUnresolvable: parsing pod: "Near" is not a valid label selector operator'
    there = a_pod("w").pod_term("podAntiAffinity", bad).on("a1")
    assert Cluster(nodes(), [there]).filter(NAME, a_pod("p")) == SKIPPED


def test_preferences_count_both_ways() -> None:
    """Own weights, weights of pods that are there, and 1 for each required affinity that means the pod."""
    there = [
        web("w", "a1").prefers_near(30, HOST, app="db"),
        web("v", "b1").affinity(HOST, app="db"),
        web("u", "b1").prefers_near(-5, HOST, app="db"),
    ]
    cluster = Cluster(nodes(), there)
    pod = a_pod("p").labels(app="db").prefers_near(10, ZONE, app="web").prefers_near(-3, HOST, app="web")
    # a1: 10 near, -3 far, +30 theirs; a2: 10; b1: 2 x 10, 2 x -3, +1 hard, -5 theirs; x1: nothing
    assert cluster.score(NAME, pod) == {"a1": (37, 100), "a2": (10, 27), "b1": (10, 27), "x1": (0, 0)}


def test_hard_weight_and_ignoring_preferences_are_arguments() -> None:
    """As kube-scheduler's."""
    there = [web("w", "a1").affinity(HOST, app="db"), web("v", "b1").prefers_near(4, HOST, app="db")]
    args = {NAME: {"hardPodAffinityWeight": 7}}
    scores = Cluster(nodes(), there, args=args).score(NAME, a_pod("p").labels(app="db"))
    assert scores == {"a1": (7, 100), "a2": (0, 0), "b1": (4, 57), "x1": (0, 0)}
    args = {NAME: {"ignorePreferredTermsOfExistingPods": True}}
    assert Cluster(nodes(), there, args=args).score(NAME, a_pod("p").labels(app="db")) == SKIPPED


def test_equal_sums_are_all_zero() -> None:
    """Upstream's normalisation gives 0, not 100, where nothing tells nodes apart."""
    cluster = Cluster([a_node("n1").label(ZONE, "a"), a_node("n2").label(ZONE, "a")], [web("w", "n1")])
    assert cluster.score(NAME, a_pod("p").prefers_near(5, ZONE, app="web")) == {"n1": (5, 0), "n2": (5, 0)}


@pytest.mark.parametrize(
    ("event", "app", "node_labels", "is_hope"),
    [
        (ClusterEvent.POD_ASSIGNED, "web", None, True),
        (ClusterEvent.POD_ASSIGNED, "db", None, False),
        (ClusterEvent.POD_REMOVED, "web", None, False),
        (ClusterEvent.POD_REMOVED, "db", None, True),
        (ClusterEvent.NODE_LABELS, "", {ZONE: "b"}, True),
        (ClusterEvent.NODE_LABELS, "", {ZONE: "a", "other": "b"}, False),
    ],
)
def test_hint(event: ClusterEvent, app: str, node_labels: dict | None, is_hope: bool) -> None:
    """A pod that is needed came, one that is not stood went, or a node has another domain."""
    pod = a_pod("p").affinity(ZONE, app="web").anti_affinity(ZONE, app="db").build()
    there = a_pod("there").labels(app=app).on("a1")
    is_there = event is ClusterEvent.POD_ASSIGNED
    cluster = Cluster(nodes(), [there] if is_there else [])
    former = a_node("a1")
    for key, value in (node_labels or {}).items():
        former.label(key, value)
    change = Change(
        event, "a1", "uid-there" if app else "", former_pod=there.build() if app and not is_there else None,
        former_node=former.build() if node_labels else None,
    )  # fmt: skip
    plugin = cluster.plugin(NAME)
    assert plugin.queueing_hint(event, change, pod, NO_AFFINITY) is is_hope  # type: ignore[attr-defined]


def test_hint_hears_when_a_pod_that_objects_goes() -> None:
    """The terms of the removed pod meant the refused one."""
    gone = web("w", "a1").anti_affinity(ZONE, app="db").build()
    pod = a_pod("p").labels(app="db").build()
    change = Change(ClusterEvent.POD_REMOVED, "a1", gone.uid, former_pod=gone)
    plugin = Cluster(nodes()).plugin(NAME)
    assert plugin.queueing_hint(ClusterEvent.POD_REMOVED, change, pod, EXISTING)  # type: ignore[attr-defined]
