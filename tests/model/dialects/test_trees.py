"""Trees of subgroups: which are none, and how few pods satisfy one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dialects.trees import least_members, tree_problems
from scheduler.model.gang import Gang, GangKey, Subgroup


def tree(*parts, needed=None):
    """Return a gang of subgroups, each a name and perhaps a parent."""
    subgroups = tuple(part if isinstance(part, Subgroup) else part_of(*part.split("<")) for part in parts)
    return Gang(key=GangKey("kai", "default", "job"), subgroups=subgroups, min_subgroups=needed)


def part_of(name, parent="", **fields):
    """Return a subgroup."""
    return Subgroup(name=name, parent=parent, **fields)


def names(gang):
    """Return the names of what is a tree, in order."""
    return [subgroup.name for subgroup in tree_problems(gang)[0]]


def test_parents_stand_before_their_children():
    """The order of the list does not matter."""
    gang = tree("leader<decode", "worker<decode", "decode")
    assert names(gang) == ["decode", "leader", "worker"]
    assert tree_problems(gang)[1] == ()


@pytest.mark.parametrize(
    ("gang", "fields"),
    [
        (tree("a<b"), ["spec.subGroups[a].parent: 'b'"]),
        (tree("a<a"), ["spec.subGroups[a].parent: 'a'"]),
        (tree("a<b", "b<c", "c<a"), ["spec.subGroups[a].parent: 'b'"]),
        (tree("a<b", "b<a", "below<a"), ["spec.subGroups[a].parent: 'b'"]),
        (tree("a", "b", "a"), ["spec.subGroups: the name 'a'"]),
        (tree(""), ["spec.subGroups: a name is empty"]),
        (tree("a", "b<a", "c<b", "d<c"), ["spec.subGroups[d].parent: it is on level 5"]),
        (tree("a", needed=2), ["spec.minSubGroup: 2 is out of range"]),
        (tree(part_of("a", min_subgroups=1)), ["spec.subGroups[a].minSubGroup: 1 is out of range"]),
    ],
)
def test_what_is_no_tree_says_so(gang, fields):
    """Each fault gets one sentence, which names the field."""
    problems = tree_problems(gang)[1]
    assert len(problems) == len(fields)
    assert all(problem.startswith(field) for problem, field in zip(problems, fields, strict=True))


def test_a_gang_with_three_levels_of_subgroups_is_a_tree():
    """The gang itself is the first of four levels."""
    assert tree_problems(tree("a", "b<a", "c<b"))[1] == ()


def test_what_is_not_below_the_gang_is_left_out():
    """The engine can walk what it gets."""
    assert names(tree("a", "b<c", "c<b", "d<nobody", "a")) == ["a"]


def test_dialects_name_their_own_fields():
    """The sentence speaks of the object as the user wrote it."""
    gang = tree(part_of("a", min_subgroups=3))
    (problem,) = tree_problems(gang, field="spec.roles", minimum="minRoles")[1]
    assert problem.startswith("spec.roles[a].minRoles: 3 is out of range; allowed are numbers up to 0")


def test_the_least_of_a_tree_are_its_cheapest_parts():
    """Two of three replicas of 3, 5 and 4 pods are 7 pods; a stated minimum of a parent may be more."""
    replicas = [part_of("a", min_member=3), part_of("b", min_member=5), part_of("c", min_member=4)]
    assert least_members(replicas, 2) == 3 + 4
    assert least_members(replicas, None) == 3 + 5 + 4
    nested = [part_of("top", min_member=9), part_of("x", "top", min_member=2), part_of("y", "top", min_member=3)]
    assert least_members(nested, None) == 9


def test_a_subgroup_may_be_satisfied_by_some_of_its_parts():
    """The number of parts counts on every level."""
    nested = [part_of("top", min_subgroups=1), part_of("x", "top", min_member=2), part_of("y", "top", min_member=3)]
    assert least_members(nested, None) == 2
    assert least_members([], None) == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", *"abcdef"])), max_size=8))
def test_what_comes_back_is_always_a_tree(pairs):
    """Whatever parents are named: each name once, after its parent, on at most three levels below the gang."""
    ordered, problems = tree_problems(tree(*(part_of(name, parent) for name, parent in pairs)))
    depths = {"": 1}
    for subgroup in ordered:
        assert subgroup.name not in depths
        depths[subgroup.name] = depths[subgroup.parent] + 1
    assert max(depths.values()) <= 4
    assert bool(problems) == (len(ordered) < len(pairs))
