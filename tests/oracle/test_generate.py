"""The generator: the same seed gives the same cases, and every theme gives cases that an API server could hold."""

import re
from collections import Counter
from typing import Any

import pytest

from e2e.oracle.generate import DEFAULT_THEMES, case, case_of, cases, to_line
from e2e.oracle.themes import THEMES, Ground
from e2e.oracle.world import PODS_PER_NODE

LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SEED = 7
CASES_PER_THEME = 40

Object = dict[str, Any]


def of_kind(made: Object, kind: str) -> list[Object]:
    """Returns the objects of a kind."""
    return [one for one in made.get("objects", ()) if one["kind"] == kind]


def all_pods(made: Object) -> list[Object]:
    """Returns all pods, the pending one first."""
    return [made["pod"], *of_kind(made, "Pod")]


@pytest.fixture(scope="module", params=sorted(THEMES))
def themed(request: pytest.FixtureRequest) -> list[Object]:
    """Give some cases of each theme."""
    return [case(request.param, SEED, index) for index in range(CASES_PER_THEME)]


def test_same_seed_gives_same_lines() -> None:
    """Cases are a function of the seed."""
    count = 2 * len(DEFAULT_THEMES)
    first = [to_line(one) for one in cases(3, count)]
    assert first == [to_line(one) for one in cases(3, count)]
    assert first != [to_line(one) for one in cases(4, count)]


def test_id_names_one_case() -> None:
    """A case can be made again from its id alone."""
    for made in cases(5, len(DEFAULT_THEMES)):
        assert case_of(made["id"]) == made


def test_themes_take_turns() -> None:
    """Without a theme, all are drawn equally often."""
    made = [one["tags"][0] for one in cases(1, 3 * len(DEFAULT_THEMES))]
    assert Counter(made) == dict.fromkeys(DEFAULT_THEMES, 3)


def test_names_are_unique(themed: list[Object]) -> None:
    """No two objects share kind, namespace and name, and no two share a uid."""
    for made in themed:
        metadata = [one["metadata"] for one in [*made.get("objects", ()), made["pod"]]]
        objects = [*made.get("objects", ()), made["pod"]]
        names = Counter((one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects)
        assert max(names.values()) == 1, made["id"]
        assert len({one["uid"] for one in metadata}) == len(metadata), made["id"]


def test_chance_cannot_decide(themed: list[Object]) -> None:
    """At most one running pod lacks a start time, and no node holds more pods than Go sorts stably."""
    for made in themed:
        bound = [pod for pod in of_kind(made, "Pod") if pod["spec"].get("nodeName")]
        assert sum("startTime" not in pod["status"] for pod in bound) <= 1, made["id"]
        on_node = Counter(pod["spec"]["nodeName"] for pod in bound)
        assert max(on_node.values(), default=0) <= PODS_PER_NODE, made["id"]


def test_cluster_is_small(themed: list[Object]) -> None:
    """A case has nodes unless it is a request case, and few of them."""
    for made in themed:
        nodes = of_kind(made, "Node")
        if "objects" in made:
            assert 2 <= len(nodes) <= 9
        else:
            assert made["tags"][0] == "requests"


def test_labels_and_taints_are_legal(themed: list[Object]) -> None:
    """Label and taint values have the form that the API server asks for; a node has no taint twice."""
    for made in themed:
        for one in [*made.get("objects", ()), made["pod"]]:
            for value in one["metadata"].get("labels", {}).values():
                assert LABEL_VALUE.fullmatch(value)
        for node in of_kind(made, "Node"):
            taints = node["spec"].get("taints", ())
            assert all(LABEL_VALUE.fullmatch(taint.get("value", "")) for taint in taints)
            assert len({(taint["key"], taint["effect"]) for taint in taints}) == len(taints)


def test_tolerations_are_legal(themed: list[Object]) -> None:
    """Exists has no value, an empty key wants Exists, seconds want NoExecute, comparisons want their gate."""
    for made in themed:
        for pod in all_pods(made):
            for one in pod["spec"].get("tolerations", ()):
                operator = one.get("operator", "Equal")
                assert not (operator == "Exists" and "value" in one)
                assert one.get("key") or operator == "Exists"
                assert "tolerationSeconds" not in one or one["effect"] == "NoExecute"
                if operator in {"Lt", "Gt"}:
                    assert made["gates"]["TaintTolerationComparisonOperators"]
                    assert str(int(one["value"])) == one["value"]


def test_spread_constraints_are_legal(themed: list[Object]) -> None:
    """Constraints differ in key or action, and only those that reject set minDomains."""
    for made in themed:
        for pod in all_pods(made):
            constraints = pod["spec"].get("topologySpreadConstraints", ())
            assert all(one["maxSkew"] > 0 for one in constraints)
            assert all(one["whenUnsatisfiable"] == "DoNotSchedule" for one in constraints if "minDomains" in one)
            assert all("labelSelector" in one for one in constraints if "matchLabelKeys" in one)
            pairs = {(one["topologyKey"], one["whenUnsatisfiable"]) for one in constraints}
            assert len(pairs) == len(constraints)


def test_host_ports_of_a_pod_differ(themed: list[Object]) -> None:
    """No port of a pod's containers is claimed twice, and on the host network every port is the host's."""
    for made in themed:
        for pod in all_pods(made):
            ports = [port for one in pod["spec"]["containers"] for port in one.get("ports", ())]
            claimed = [(port["hostPort"], port["protocol"]) for port in ports if "hostPort" in port]
            assert len(set(claimed)) == len(claimed), made["id"]
            if pod["spec"].get("hostNetwork"):
                assert all(port["hostPort"] == port["containerPort"] for port in ports)


def test_devices_are_not_overcommitted(themed: list[Object]) -> None:
    """Whatever is asked for besides cpu, memory and disk has an equal limit, and no name is used twice."""
    usual = {"cpu", "memory", "ephemeral-storage"}
    for made in themed:
        for pod in all_pods(made):
            containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
            assert len({one["name"] for one in containers}) == len(containers), made["id"]
            for one in containers:
                requests, limits = one["resources"].get("requests", {}), one["resources"].get("limits", {})
                assert {name: requests[name] for name in requests.keys() - usual} == limits


def test_preemption_has_ranks() -> None:
    """Preemption cases hold pods below the pending one, so that there is someone to evict, nearly always."""
    themes = [name for name, theme in THEMES.items() if theme.ground is Ground.FULL]
    made = [case(name, SEED, index) for name in themes for index in range(20)]
    below = [
        any(pod["spec"]["priority"] < one["pod"]["spec"]["priority"] for pod in of_kind(one, "Pod")) for one in made
    ]
    assert sum(below) > 0.9 * len(below)


def test_unknown_id_is_refused() -> None:
    """An id of no theme is an error, not an empty case."""
    with pytest.raises(KeyError):
        case_of("nonsense-1-2")
