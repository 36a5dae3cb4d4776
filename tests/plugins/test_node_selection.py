"""NodeName, NodeUnschedulable, TaintToleration, NodeAffinity and NodePorts: which nodes a pod may use, and likes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.taint_toleration import MOST_NAMED, TaintToleration
from tests.builders import a_node, a_pod, snapshot_of, term

from .calling import make, refusals, scores, skips

NEVER = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
AFFINITY_TEXT = "node(s) didn't match Pod's node affinity/selector"
TAINT_TEXT = "node(s) had untolerated taint(s)"
CORDON = "node.kubernetes.io/unschedulable"


def test_a_pod_goes_to_the_node_it_names() -> None:
    """PreFilter narrows the search, Filter refuses the rest; most pods name none."""
    nodes, pod = [a_node("a"), a_node("b")], a_pod().on("b")
    narrowed = make(NodeName).pre_filter(CycleState(), pod.build(), snapshot_of(nodes).nodes)
    assert narrowed.node_names == {"b"}
    assert refusals(make(NodeName), pod, nodes) == {"a": (NEVER, ["node(s) didn't match the requested node name"])}
    assert make(NodeName).pre_filter(CycleState(), a_pod().build(), snapshot_of(nodes).nodes) is None
    assert refusals(make(NodeName), a_pod(), nodes) == {}


@pytest.mark.parametrize(
    ("pod", "is_refused"),
    [
        (a_pod(), True), (a_pod().tolerate(), False), (a_pod().tolerate(CORDON), False),
        (a_pod().tolerate(CORDON, effect="NoSchedule"), False), (a_pod().tolerate(CORDON, effect="NoExecute"), True),
        (a_pod().tolerate(CORDON, "Equal", ""), False), (a_pod().tolerate(CORDON, "Equal", "x"), True),
    ],
)  # fmt: skip
def test_cordoned_nodes_are_avoided(pod: Any, is_refused: bool) -> None:
    """Unless the pod tolerates the taint of a cordoned node, be it there or not."""
    found = refusals(make(NodeUnschedulable), pod, [a_node("a"), a_node("b").cordoned()])
    assert found == ({"b": (NEVER, ["node(s) were unschedulable"])} if is_refused else {})


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        (a_pod(), {"both", "execute", "schedule"}),
        (a_pod().tolerate("k", "Equal", "v"), {"both", "execute"}),
        (a_pod().tolerate("k"), {"both", "execute"}),
        (a_pod().tolerate("k", effect="NoExecute"), {"both", "execute", "schedule"}),
        (a_pod().tolerate("e"), {"both", "schedule"}),
        (a_pod().tolerate("k").tolerate("e"), set()),
        (a_pod().tolerate(), set()),
        (a_pod().tolerate("k", "Lt", "9").tolerate("e", "Gt", "1"), {"both", "execute", "schedule"}),
    ],
)
def test_hard_taints_refuse(pod: Any, refused: set[str]) -> None:
    """NoSchedule and NoExecute count, PreferNoSchedule does not; one untolerated taint is enough."""
    nodes = [
        a_node("clean"),
        a_node("schedule").taint("k", "v"),
        a_node("execute").taint("e", effect="NoExecute"),
        a_node("both").taint("k", "v").taint("e", effect="NoExecute"),
        a_node("soft").taint("k", "v", "PreferNoSchedule"),
    ]
    assert refusals(make(TaintToleration), pod, nodes) == {name: (NEVER, [TAINT_TEXT]) for name in refused}


def test_reasons_name_the_taint() -> None:
    """People learn which toleration is missing; only so many are told apart."""
    snapshot = snapshot_of([a_node("a").taint("k", "v"), a_node("b").taint("e", effect="NoExecute")])
    verdicts = make(TaintToleration).filter_all(CycleState(), a_pod().build(), snapshot.nodes)
    named = [verdicts.status_at(row).reasons[0].numbers for row in (0, 1)]
    assert named == [(("taint", "k=v:NoSchedule"),), (("taint", "e:NoExecute"),)]
    many = snapshot_of([a_node(f"n{i:02}").taint("own", str(i)) for i in range(MOST_NAMED + 20)])
    verdicts = make(TaintToleration).filter_all(CycleState(), a_pod().tolerate("unused").build(), many.nodes)
    assert not verdicts.passes().any()
    assert len(verdicts.rejections) <= MOST_NAMED + 1


def test_soft_taints_lower_the_score() -> None:
    """Untolerated PreferNoSchedule taints are counted, and the count is turned round: 100 - 100·count/most."""
    soft = "PreferNoSchedule"
    nodes = [
        a_node("two").taint("a", effect=soft).taint("b", effect=soft),
        a_node("one").taint("a", effect=soft),
        a_node("zero"),
    ]
    plugin, state = make(TaintToleration), CycleState()
    assert scores(plugin, a_pod(), nodes) == {"two": 2, "one": 1, "zero": 0}
    assert scores(plugin, a_pod().tolerate("a"), nodes) == {"two": 1, "one": 0, "zero": 0}
    assert scores(plugin, a_pod().tolerate("a", effect="NoSchedule"), nodes) == {"two": 2, "one": 1, "zero": 0}
    pod = a_pod().build()
    assert plugin.normalize(state, pod, np.array([2, 1, 0])).tolist() == [0, 50, 100]
    assert plugin.normalize(state, pod, np.array([3, 1, 2])).tolist() == [0, 67, 34]
    assert plugin.normalize(state, pod, np.array([0, 0])).tolist() == [100, 100]
    assert plugin.normalize(state, pod, np.array([], dtype=np.int64)).tolist() == []


ZONES = [a_node("a").label("zone", "a").label("gen", "7"), a_node("b").label("zone", "b"), a_node("c")]


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        (a_pod(), "abc"),
        (a_pod().select("zone", "a"), "a"),
        (a_pod().select("zone", "a").select("gen", "8"), ""),
        (a_pod().select("zone", ""), ""),
        (a_pod().require(term(("zone", "In", ["a", "b"]))), "ab"),
        (a_pod().require(term(("zone", "NotIn", ["a"]))), "bc"),
        (a_pod().require(term(("zone", "Exists"))), "ab"),
        (a_pod().require(term(("zone", "DoesNotExist"))), "c"),
        (a_pod().require(term(("gen", "Gt", ["6"]))), "a"),
        (a_pod().require(term(("gen", "Lt", ["6"]))), ""),
        (a_pod().require(term(("zone", "In", [str(i) for i in range(20)] + ["b"]))), "b"),
        (a_pod().require(term(("zone", "NotIn", [str(i) for i in range(20)] + ["b"]))), "ac"),
        (a_pod().require(term(("zone", "Exists"), ("gen", "Exists"))), "a"),
        (a_pod().require(term(("gen", "Exists")), term(("zone", "In", ["b"]))), "ab"),
        (a_pod().require(term()), ""),
        (a_pod().require(term(), term(("zone", "In", ["b"]))), "b"),
        (a_pod().require(term(fields=[("metadata.name", "In", ["c"])])), "c"),
        (a_pod().require(term(fields=[("metadata.name", "NotIn", ["c"])])), "ab"),
        (a_pod().require(term(("zone", "Exists"), fields=[("metadata.name", "In", ["c"])])), ""),
        (a_pod().require(term(("zone", "Like", ["a"]))), ""),
        (a_pod().require(term(("zone", "NotIn", []))), ""),
        (a_pod().require(term(("zone", "Exists", ["a"]))), ""),
        (a_pod().require(term(("gen", "Lt", ["1.5"]), ("zone", "Exists"))), ""),
        (a_pod().require(term(("gen", "Lt", ["1.5"])), term(("zone", "Exists"))), "ab"),
        (a_pod().require(term(("gen", "Gt", ["-3"]))), ""),
        (a_pod().require(term(("gen", "Gt", ["007"]))), ""),
        (a_pod().require(term(("gen", "Gt", ["006"]))), "a"),
        (a_pod().require(term(("gen", "Lt", ["9223372036854775808"]))), ""),
        (a_pod().require(term(("none", "NotIn", ["a b"]))), ""),
        (a_pod().require(term(("none", "NotIn", ["a" * 64]))), ""),
        (a_pod().require(term(("none", "NotIn", ["a" * 63]))), "abc"),
        (a_pod().require(term(("a/b/c", "DoesNotExist"))), ""),
        (a_pod().require(term(("Upper.case/c", "DoesNotExist"))), ""),
        (a_pod().require(term(("example.com/", "DoesNotExist"))), ""),
        (a_pod().require(term(("example.com/C_c.c", "DoesNotExist"))), "abc"),
        (a_pod().require(term(("a" * 254 + "/c", "DoesNotExist"))), ""),
        (a_pod().require(term((".".join(["a" * 63] * 3) + "/c", "DoesNotExist"))), "abc"),
        (a_pod().require(term(fields=[("metadata.name", "In", ["a", "b"])])), ""),
        (a_pod().require(term(fields=[("metadata.name", "Exists")])), ""),
        (a_pod().require(term(fields=[("metadata.namespace", "In", [""])])), "abc"),
        (a_pod().require(term(fields=[("metadata.namespace", "NotIn", [""])])), ""),
        (a_pod().select("a b", "c d"), ""),
        (a_pod().select("zone", "a").require(term(("zone", "In", ["b"]))), ""),
    ],
)
def test_required_affinity(pod: Any, fitting: str) -> None:
    """The selector and one of the terms must hold, and a term that does not parse never does; evictions cannot help."""
    expected = {name: (NEVER, [AFFINITY_TEXT]) for name in "abc" if name not in fitting}
    assert refusals(make(NodeAffinity), pod, ZONES) == expected


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([term(fields=[("metadata.name", "In", ["a"])])], {"a"}),
        (
            [term(fields=[("metadata.name", "In", ["a"])]), term(fields=[("metadata.name", "In", ["gone"])])],
            {"a", "gone"},
        ),
        ([term(fields=[("metadata.name", "In", ["a"])]), term(("zone", "Exists"))], None),
        ([term(fields=[("metadata.name", "NotIn", ["a"])])], None),
        ([term(("zone", "Exists"))], None),
    ],
)
def test_pinned_names_narrow_the_search(terms: list[Any], names: set[str] | None) -> None:
    """Only if every term pins names, and only operator In does."""
    answer = make(NodeAffinity).pre_filter(CycleState(), a_pod().require(*terms).build(), snapshot_of(ZONES).nodes)
    assert (answer.node_names if answer else None) == names


def test_terms_that_contradict_themselves_end_the_cycle() -> None:
    """No node can have two names."""
    pod = a_pod().require(term(fields=[("metadata.name", "In", ["a"]), ("metadata.name", "In", ["b"])])).build()
    answer = make(NodeAffinity).pre_filter(CycleState(), pod, snapshot_of(ZONES).nodes)
    assert (answer.code, answer.message) == (NEVER, "pod affinity terms conflict")


def test_pods_that_require_or_prefer_nothing_are_skipped() -> None:
    """PreFilter and PreScore leave them alone; an added affinity concerns everybody."""
    state, nodes, pod = CycleState(), snapshot_of(ZONES).nodes, a_pod().build()
    plugin = make(NodeAffinity)
    assert skips(plugin.pre_filter(state, pod, nodes))
    assert skips(plugin.pre_score(state, pod, nodes))
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term(("zone", "Exists"))]}}
    added = make(NodeAffinity, {"addedAffinity": required})
    assert not skips(added.pre_filter(state, pod, nodes))
    assert skips(added.pre_score(state, pod, nodes))
    assert plugin.pre_filter(state, a_pod().select("zone", "a").build(), nodes) is None
    assert plugin.pre_score(state, a_pod().prefer(1, term(("zone", "Exists"))).build(), nodes) is None


def test_added_affinity_is_asked_first() -> None:
    """A node that misses both is refused for the profile's own affinity."""
    required = {"nodeSelectorTerms": [term(("gen", "Exists"))]}
    preferred = [{"weight": 5, "preference": term(("zone", "Exists"))}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    plugin = make(NodeAffinity, {"addedAffinity": affinity})
    enforced = (NEVER, ["node(s) didn't match scheduler-enforced node affinity"])
    found = refusals(plugin, a_pod().select("zone", "b"), ZONES)
    assert found == {"a": (NEVER, [AFFINITY_TEXT]), "b": enforced, "c": enforced}
    assert scores(plugin, a_pod().prefer(2, term(("gen", "Exists"))), ZONES) == {"a": 7, "b": 5, "c": 0}


def test_added_affinity_must_make_sense() -> None:
    """Nonsense is refused where the configuration is read."""
    with pytest.raises(ValidationError, match="is no nodeAffinity"):
        make(NodeAffinity, {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 7}})


@pytest.mark.parametrize("bound", ["abc", "1.5", "", "-3"])
def test_a_preference_that_does_not_parse_ends_the_cycle(bound: str) -> None:
    """PreScore fails, as in kube-scheduler, unless the term has no weight; the configuration must not have one either."""
    bad = term(("gen", "Gt", [bound]))
    nodes = snapshot_of(ZONES).nodes
    pod = a_pod().prefer(1, term(("zone", "Exists"))).prefer(1, bad).build()
    answer = make(NodeAffinity).pre_score(CycleState(), pod, nodes)
    assert (answer.code, "Gt on gen takes" in answer.message or "no label value" in answer.message) == (
        Code.ERROR,
        True,
    )
    assert make(NodeAffinity).pre_score(CycleState(), a_pod().prefer(0, bad).build(), nodes) is None
    for added in (
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": bad}]},
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term(("zone", "Exists")), bad]}},
    ):
        with pytest.raises(ValidationError, match="does not parse"):
            make(NodeAffinity, {"addedAffinity": added})


def test_preferred_affinity_adds_weights() -> None:
    """Weights of matching terms add up; an empty term matches nothing; the highest sum becomes 100."""
    pod = a_pod().prefer(10, term(("zone", "Exists"))).prefer(20, term(("gen", "Exists"))).prefer(50, term())
    plugin, state = make(NodeAffinity), CycleState()
    assert scores(plugin, pod, ZONES) == {"a": 30, "b": 10, "c": 0}
    assert plugin.normalize(state, pod.build(), np.array([30, 10, 0])).tolist() == [100, 33, 0]
    assert plugin.normalize(state, pod.build(), np.array([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("ours", "theirs", "clash"),
    [
        (("TCP", "", 80), ("TCP", "", 80), True),
        (("TCP", "", 80), ("TCP", "", 81), False),
        (("TCP", "", 80), ("UDP", "", 80), False),
        (("TCP", "10.0.0.1", 80), ("TCP", "", 80), True),
        (("TCP", "0.0.0.0", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.2", 80), False),
        (("TCP", "::", 80), ("TCP", "10.0.0.1", 80), False),
        (("TCP", "::", 80), ("TCP", "::", 80), True),
        (("TCP", "::", 80), ("TCP", "0.0.0.0", 80), True),
    ],
)
def test_host_ports_clash(ours: tuple[str, str, int], theirs: tuple[str, str, int], clash: bool) -> None:
    """Equal protocol and port, and equal addresses or the wildcard 0.0.0.0."""
    pod = a_pod().port(ours[2], protocol=ours[0], ip=ours[1])
    old = a_pod("old").port(theirs[2], protocol=theirs[0], ip=theirs[1]).on("b")
    found = refusals(make(NodePorts), pod, [a_node("a"), a_node("b")], [a_pod("quiet").on("a"), old])
    text = "node(s) didn't have free ports for the requested pod ports"
    assert found == ({"b": (Code.UNSCHEDULABLE, [text])} if clash else {})


def test_pods_without_host_ports_are_skipped() -> None:
    """Nearly all pods."""
    nodes = snapshot_of([a_node()]).nodes
    assert skips(make(NodePorts).pre_filter(CycleState(), a_pod().build(), nodes))
    assert make(NodePorts).pre_filter(CycleState(), a_pod().port(80).build(), nodes) is None
