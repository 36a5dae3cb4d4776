"""What a gang still needs: flat gangs, roles, elastic roles, trees with some of their subgroups."""

import pytest

from scheduler.model.gang import Gang, GangKey, Subgroup
from scheduler.model.needs import Needs, minimum_of

KEY = GangKey("ai-scheduler", "default", "job")
LAUNCHER, WORKER = Subgroup(name="launcher", min_member=1), Subgroup(name="worker", min_member=4)


@pytest.mark.parametrize(
    ("gang", "placed", "missing"),
    [
        (Gang(key=KEY, min_member=4), {}, 4),
        (Gang(key=KEY, min_member=4), {"": 3}, 1),
        (Gang(key=KEY, min_member=4), {"": 9}, 0),
        (Gang(key=KEY, min_member=0, subgroups=(LAUNCHER, WORKER)), {}, 5),
        # Workers cannot stand in for the launcher.
        (Gang(key=KEY, min_member=0, subgroups=(LAUNCHER, WORKER)), {"worker": 6}, 1),
        # The total may ask for more than the roles do; any role will do for the rest.
        (Gang(key=KEY, min_member=8, subgroups=(LAUNCHER, WORKER)), {"worker": 2}, 6),
        (Gang(key=KEY, min_member=8, subgroups=(LAUNCHER, WORKER)), {"worker": 7}, 1),
        # An elastic role needs nothing.
        (Gang(key=KEY, min_member=0, subgroups=(LAUNCHER, Subgroup(name="extra"))), {}, 1),
        # Two of three replicas, whichever are cheapest to complete.
        (
            Gang(
                key=KEY,
                min_member=0,
                min_subgroups=2,
                subgroups=tuple(Subgroup(name=name, min_member=3) for name in ("a", "b", "c")),
            ),
            {"b": 2},
            4,
        ),
    ],
)
def test_the_least_number_of_missing_pods(gang: Gang, placed: dict[str, int], missing: int) -> None:
    """It is the sum over what each part still lacks."""
    assert Needs(gang, placed).missing() == missing


def test_a_tree_needs_some_of_its_subgroups_at_each_level() -> None:
    """One of two blocks, each with both of its roles."""
    gang = Gang(
        key=KEY,
        min_member=0,
        min_subgroups=1,
        subgroups=(
            Subgroup(name="east"),
            Subgroup(name="west", min_subgroups=1),
            Subgroup(name="east-prefill", parent="east", min_member=2),
            Subgroup(name="east-decode", parent="east", min_member=4),
            Subgroup(name="west-prefill", parent="west", min_member=7),
            Subgroup(name="west-decode", parent="west", min_member=8),
        ),
    )
    assert minimum_of(gang) == 6
    assert Needs(gang, {"west-decode": 5}).missing() == 3
    assert Needs(gang, {"west-decode": 5}).missing({"west-decode": 3}) == 0


def test_roles_that_the_gang_does_not_have_are_told() -> None:
    """A slip of the pen is not silently a member of no role."""
    gang = Gang(key=KEY, min_member=0, subgroups=(LAUNCHER, WORKER))
    assert Needs(gang, {}, {"u1": "wroker", "u2": "worker"}).unknown_roles() == ["wroker"]
    assert Needs(Gang(key=KEY), {}, {"u1": "anything"}).unknown_roles() == []


def test_what_counts_for_each_role_is_told() -> None:
    """Launcher 0 of 1, worker 3 of 4."""
    gang = Gang(key=KEY, min_member=0, subgroups=(LAUNCHER, WORKER))
    assert Needs(gang, {"worker": 3}).shortfalls() == [("launcher", 0, 1), ("worker", 3, 4)]
