"""Which gang a pod belongs to: single groups, groups of groups, groups that only pods tell of."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Gang, GangKey, Membership, Pod, TopologyConstraint
from scheduler.model.needs import minimum_of
from scheduler.state.cluster import ClusterState
from scheduler.state.groups import Groups
from tests.builders import a_pod

COMPOSITE, LEAF = "native-composite", "native"


def leaf(name: str, minimum: int, parent: str = "", **fields: object) -> Gang:
    """Return a native PodGroup."""
    return msgspec.structs.replace(
        Gang(key=GangKey(LEAF, "default", name), min_member=minimum, parent=parent), **fields
    )


def composite(name: str, minimum: int | None = None, parent: str = "") -> Gang:
    """Return a native CompositePodGroup."""
    key = GangKey(COMPOSITE, "default", name)
    return Gang(
        key=key, min_member=0, min_subgroups=minimum, parent=parent, is_composite=True, kind="CompositePodGroup"
    )


def member(name: str, group: str, implied: Gang | None = None, dialect: str = LEAF) -> Pod:
    """Return a pod that names a group."""
    key = GangKey(dialect, "default", group)
    return msgspec.structs.replace(a_pod(name).build(), membership=Membership(key=key, implied=implied))


def test_groups_of_one_composite_are_one_gang() -> None:
    """Its minimum follows from those of its parts; a pod's role is its own group."""
    groups = Groups()
    for group in (composite("all", 1), leaf("prefill", 2, "all"), leaf("decode", 3, "all")):
        groups.put(group)
    [(key, gang)] = [(key, gang) for key, gang in groups.gangs.items() if gang.is_composite]
    assert key == GangKey(COMPOSITE, "default", "all")
    assert minimum_of(gang) == 2
    pod = member("p", "decode")
    groups.join(pod)
    assert groups.gang_of(pod) == key
    assert groups.role_of(pod) == "decode"


def test_a_composite_waits_for_the_groups_that_it_counts_or_names() -> None:
    """With a stand-in for each that does not exist yet; one is enough to tell that its minimum is not there."""
    groups = Groups()
    for group in (composite("all", 2), leaf("a", 2, "all")):
        groups.put(group)
    key = GangKey(COMPOSITE, "default", "all")
    assert [(s.name, s.min_member) for s in groups.gangs[key].subgroups] == [("a", 2), ("group 2 of 2", 1)]
    groups.put(leaf("b", 3, "all"))
    assert minimum_of(groups.gangs[key]) == 5
    groups.put(msgspec.structs.replace(composite("all"), expected_parts=("a", "c")))
    assert [s.name for s in groups.gangs[key].subgroups] == ["a", "b", "c"]


def test_a_tree_of_composites_is_one_gang() -> None:
    """Composites may be parts of composites."""
    groups = Groups()
    for group in (composite("top"), composite("east", parent="top"), leaf("a", 2, "east"), leaf("b", 3, "top")):
        groups.put(group)
    gang = groups.gangs[GangKey(COMPOSITE, "default", "top")]
    assert minimum_of(gang) == 5
    assert [subgroup.parent for subgroup in gang.subgroups if subgroup.name == "a"] == ["east/"]


def test_pods_wait_for_a_composite_that_does_not_exist_yet() -> None:
    """They are held at the group that is missing, never alone."""
    groups = Groups()
    groups.put(leaf("a", 2, "all"))
    pod = member("p", "a")
    groups.join(pod)
    key = groups.gang_of(pod)
    assert key == GangKey(COMPOSITE, "default", "all")
    assert key not in groups.gangs
    assert groups.put(composite("all")) == []
    assert minimum_of(groups.gangs[key]) == 2


def test_a_parent_that_appears_moves_the_pods() -> None:
    """The groups whose pods belong to another gang now are told."""
    groups = Groups()
    groups.put(leaf("a", 2))
    moved = groups.put(leaf("a", 2, "all"))
    assert moved == [GangKey(LEAF, "default", "a")]


def test_a_cycle_is_a_problem_of_the_gang() -> None:
    """Two composites that name each other hold all pods, and say so."""
    groups = Groups()
    for group in (composite("one", parent="two"), composite("two", parent="one"), leaf("a", 1, "one")):
        groups.put(group)
    pod = member("p", "a")
    groups.join(pod)
    key = groups.gang_of(pod)
    assert key is not None
    assert "leads back" in "; ".join(groups.gangs[key].problems)


def test_too_deep_a_tree_is_a_problem() -> None:
    """Four levels are allowed, the pods' own group included."""
    groups = Groups()
    names = ["l1", "l2", "l3", "l4"]
    for above, name in zip(["", *names], names, strict=False):
        groups.put(composite(name, parent=above))
    groups.put(leaf("a", 1, "l4"))
    assert "nested too deeply" in "; ".join(groups.gangs[GangKey(COMPOSITE, "default", "l1")].problems)


def test_a_tree_of_any_depth_is_told_as_too_deep() -> None:
    """Anybody may make 1,500 groups, each below the next: more than calls may be nested in Python."""
    groups = Groups()
    for number in range(1_500):
        groups.put(composite(f"c{number}", 1, f"c{number - 1}" if number else ""))
    groups.put(leaf("leaf", 1, "c1499"))
    pod = member("p", "leaf")
    groups.join(pod)
    key = groups.gang_of(pod)
    assert key == GangKey(COMPOSITE, "default", "c0")
    assert list(groups.uids(key)) == [pod.uid]
    assert any("nested too deeply" in problem for problem in groups.gangs[key].problems)


def test_any_number_of_groups_that_are_missing_costs_the_same() -> None:
    """One stand-in with the minimum of all; two billion of them would end the process."""
    groups = Groups()
    groups.put(leaf("a", 2, "all"))
    groups.put(composite("all", 2**31 - 1))
    gang = groups.gangs[GangKey(COMPOSITE, "default", "all")]
    assert [(s.name, s.min_member) for s in gang.subgroups] == [
        ("a", 2), ("groups 2 to 2147483647 of 2147483647", 2**31 - 2)
    ]  # fmt: skip
    assert minimum_of(gang) == 2**31


def test_a_basic_group_is_no_gang() -> None:
    """Its pods are scheduled one by one, unless they want to be near together."""
    groups = Groups()
    groups.put(leaf("loose", 0))
    pod = member("p", "loose")
    groups.join(pod)
    assert groups.gang_of(pod) is None
    groups.put(leaf("loose", 0, topology=TopologyConstraint(required="rack")))
    assert groups.gang_of(pod) == GangKey(LEAF, "default", "loose")
    assert groups.gangs[GangKey(LEAF, "default", "loose")].min_member == 1


def test_a_gang_that_only_pods_tell_of_lives_as_long_as_they_do() -> None:
    """It needs no object."""
    key = GangKey("armada", "default", "g")
    implied = Gang(key=key, min_member=2)
    groups = Groups()
    pods = [member(name, "g", implied, "armada") for name in "ab"]
    for pod in pods:
        groups.join(pod)
    assert groups.gangs[key].min_member == 2
    for pod in pods:
        groups.leave(pod)
    assert key not in groups.gangs


def test_pods_that_disagree_about_their_gang_are_told() -> None:
    """Nobody guesses who is right; when one leaves the other is."""
    key = GangKey("armada", "default", "g")
    groups = Groups()
    one, two = (member(f"p{n}", "g", Gang(key=key, min_member=n), "armada") for n in (2, 3))
    groups.join(one)
    groups.join(two)
    assert "at least 2 and 3 members" in groups.gangs[key].problems[0]
    groups.leave(two)
    assert groups.gangs[key].problems == ()


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("composite"), NAMES, st.sampled_from(["", "a", "b", "c"])),
        st.tuples(st.just("leaf"), NAMES, st.sampled_from(["", "a", "b", "c"])),
        st.tuples(st.just("drop"), NAMES, st.sampled_from([COMPOSITE, LEAF])),
        st.tuples(st.just("pod"), NAMES, st.sampled_from(["p1", "p2"])),
        st.tuples(st.just("gone"), NAMES, st.sampled_from(["p1", "p2"])),
    ),
    max_size=25,
)


@pytest.mark.parametrize("is_implied", [False, True])
@given(STEPS)
def test_whatever_happens_the_groups_equal_rebuilt_ones(is_implied: bool, steps: list[tuple[str, str, str]]) -> None:
    """No order of events leaves anything behind, cycles included."""
    state = ClusterState()
    for step, name, more in steps:
        match step:
            case "composite":
                state.groups.put(composite(name, parent=more))
            case "leaf":
                state.groups.put(leaf(name, 2, more))
            case "drop":
                state.groups.drop(GangKey(more, "default", name))
            case "pod":
                implied = Gang(key=GangKey(LEAF, "default", name), min_member=3) if is_implied else None
                state.set_pod(member(more, name, implied))
            case "gone":
                state.remove_pod(f"uid-{more}")
    assert state.validate() == []
