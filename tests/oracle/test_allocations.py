"""The comparison of allocators: the same seed makes the same cases, equal answers are equal, and others are told."""

from typing import Any

from e2e.oracle.allocations import FEATURES, AllocationTally, case, case_of, compare, features_of, verdict

RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}


def answer(*results: dict[str, Any], **allocation: Any) -> dict[str, Any]:
    """A case that was feasible with one claim."""
    return {"feasible": True, "allocations": [{"devices": {"results": list(results)}, **allocation}]}


def test_a_case_is_a_function_of_its_id() -> None:
    """So one that differs can be made again alone."""
    assert case(3, 14) == case_of("allocation-3-14")
    assert case(3, 14) != case(3, 15)
    wanted = [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in case(3, 14)["claims"]]
    assert set(case(3, 14)["allocate"]) <= {*wanted}


def test_every_feature_is_in_some_cases_of_few() -> None:
    """The generator reaches everything that is counted."""
    seen = {feature for index in range(300) for feature in features_of(case(1, index))}
    assert seen == {*FEATURES}


def test_ids_of_shares_and_forms_of_amounts_do_not_matter() -> None:
    """Ids are drawn at random upstream; an amount may be written in several ways."""
    ours = answer({**RESULT, "shareID": "1", "consumedCapacity": {"memory": "1Gi"}})
    theirs = answer({**RESULT, "shareID": "2", "consumedCapacity": {"memory": str(2**30)}})
    assert compare("c", ours, theirs) == []
    assert compare("c", ours, answer(RESULT))[0].path == ("allocations",)


def test_another_device_or_another_reach_is_a_mismatch() -> None:
    """Not only whether there is a solution is compared."""
    everywhere = answer(RESULT)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert compare("c", everywhere, answer({**RESULT, "device": "y"})) != []
    assert compare("c", everywhere, answer(RESULT, nodeSelector={"nodeSelectorTerms": [term]})) != []


def test_kinds_of_errors_are_compared_and_their_texts_are_not() -> None:
    """An error that holds for every node is not one of this node."""
    fatal = {"feasible": False, "error": "a", "errorKind": "fatal"}
    assert compare("c", fatal, {**fatal, "error": "b"}) == []
    assert compare("c", fatal, {**fatal, "errorKind": "node"})[0].path == ("verdict",)
    assert compare("c", {"feasible": False}, fatal)[0].ours == "infeasible"
    assert verdict(answer()) == "feasible"


def test_what_only_this_allocator_gave_up_is_a_mismatch() -> None:
    """Where the real one ran out of time nothing can be compared."""
    gave_up, no = {"feasible": False, "errorKind": "gave-up"}, {"feasible": False}
    tally = AllocationTally()
    assert tally.add(case(1, 1), gave_up, no) != []
    assert tally.add(case(1, 1), no, gave_up) == []
    assert tally.table()[-1] == "allocations: 2 cases, 0 devices given, 1 mismatches"


def test_features_that_were_hardly_seen_fail_the_run() -> None:
    """Four hundred cases must have each feature in both verdicts."""
    tally = AllocationTally()
    tally.verdicts["feasible"] = 400
    assert "taints: only 0 infeasible allocations" in tally.shortcomings()
