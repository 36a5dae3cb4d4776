"""Shares: the division of a cluster equals progressive filling by a chain of linear programs, which know nothing of ours.

One resource exactly (up to what a solver's floating point can tell), several on the dominant share.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from scheduler.model.queue import Quota
from scheduler.queues.fairness import Fairness
from scheduler.queues.ledger import Use
from scheduler.queues.shares import Claim, divide
from scheduler.queues.tree import build

from .making import a_queue

CLOSE = 1e-7


def parts(given_amounts, claim: Claim) -> float:
    """Return which part of its demand a claim got, as its scarcest resource tells."""
    return min(float(given_amounts.get(r, 0)) / n for r, n in claim.demand.items() if n)


def filled(total, cluster, claims):
    """Return the part of its demand that each claim gets, by name: linear programs that raise the smallest share, again and again."""
    claims = [claim for claim in claims if any(claim.demand.values())]
    part = {claim.name: 0.0 for claim in claims}
    share = {c.name: max(n / cluster[r] for r, n in c.demand.items()) for c in claims}
    weight = {
        c.name: float(c.weights.get(max(c.demand, key=lambda r: (c.demand[r] / cluster[r], r)), c.weight))
        for c in claims
    }
    promised = {
        c.name: min((1.0 if c.guaranteed[r] is None else min(1.0, c.guaranteed[r] / n) for r, n in c.demand.items() if n and r in c.guaranteed), default=0.0)
        for c in claims
    }  # fmt: skip
    _raise([c for c in claims if promised[c.name]], part, promised, promised, total, claims)
    for priority in sorted({c.priority for c in claims}, reverse=True):
        bucket = [c for c in claims if c.priority == priority]
        for some in ([c for c in bucket if weight[c.name] > 0], [c for c in bucket if weight[c.name] == 0]):
            speeds = {c.name: (weight[c.name] or 1.0) / share[c.name] for c in some}
            _raise(some, part, speeds, {c.name: 1.0 for c in some}, total, claims)
    return part


def _raise(some, part, speeds, most, total, everybody):
    """Raise the parts of some claims, in proportion to speeds, from where they are; those that can grow no more are fixed."""
    growing = {c.name for c in some if part[c.name] < most[c.name] - 1e-12}
    while growing:
        names = [c.name for c in everybody]
        # Unknowns: how far all that grow are raised together, and the part of each.
        a_ub, b_ub, a_eq, b_eq = [], [], [], []
        for resource, amount in total.items():
            a_ub.append([0.0] + [float(c.demand.get(resource, 0)) for c in everybody])
            b_ub.append(float(amount))
        for number, name in enumerate(names):
            row = [0.0] * (len(names) + 1)
            row[number + 1] = 1.0
            row[0] = -float(speeds[name]) if name in growing else 0.0
            a_eq.append(row)
            b_eq.append(part[name])
        bounds = [(0, None)] + [(0, max(part[n], float(most[n])) if n in growing else None) for n in names]
        found = linprog([-1.0] + [0.0] * len(names), A_ub=a_ub, b_ub=b_ub, A_eq=a_eq, b_eq=b_eq, bounds=bounds)
        assert found.status == 0, found.message
        for number, name in enumerate(names):
            part[name] = found.x[number + 1]
        used = {r: sum(c.demand.get(r, 0) * part[c.name] for c in everybody) for r in total}
        full = {r for r in total if used[r] > float(total[r]) - 1e-9 * max(1.0, float(total[r]))}
        growing = {
            c.name for c in some
            if c.name in growing and part[c.name] < most[c.name] - 1e-9 and not any(c.demand.get(r) for r in full)
        }  # fmt: skip


@st.composite
def claims_of_one(draw):
    """Return claims of one resource."""
    count = draw(st.integers(1, 6))
    return [
        Claim(
            f"q{n}",
            {"gpu": draw(st.integers(0, 60))},
            {"gpu": draw(st.one_of(st.integers(0, 40), st.none()))} if draw(st.booleans()) else {},
            {},
            Fraction(draw(st.integers(0, 5))),
            draw(st.sampled_from((0, 0, 0, 7))),
        )
        for n in range(count)
    ]


@settings(max_examples=120, deadline=None)
@given(claims_of_one(), st.integers(1, 80))
def test_one_resource_is_divided_as_linear_programs_divide_it(claims, total):
    """And nothing that is asked for lies idle."""
    found = divide({"gpu": total}, {"gpu": 100}, claims)
    expected = filled({"gpu": total}, {"gpu": 100}, claims)
    for claim in claims:
        if claim.demand["gpu"]:
            assert float(found[claim.name]["gpu"]) == pytest.approx(
                expected[claim.name] * claim.demand["gpu"], abs=1e-5
            )
    asked = sum(claim.demand["gpu"] for claim in claims)
    assert sum(amounts.get("gpu", 0) for amounts in found.values()) == min(total, asked)


@st.composite
def claims_of_two(draw):
    """Return claims of two resources."""
    count = draw(st.integers(1, 5))
    return [
        Claim(
            f"q{n}",
            {"cpu": draw(st.integers(1, 40)), "gpu": draw(st.integers(0, 40))},
            {"gpu": draw(st.integers(0, 20))} if draw(st.booleans()) else {},
            {},
            Fraction(draw(st.integers(1, 4))),
            draw(st.sampled_from((0, 0, 3))),
        )
        for n in range(count)
    ]


@settings(max_examples=120, deadline=None)
@given(claims_of_two(), st.integers(5, 60), st.integers(5, 60))
def test_several_resources_are_divided_on_the_dominant_share(claims, cpu, gpu):
    """What each queue gets in its scarcest resource is what the programs give it; nothing is given twice."""
    total = {"cpu": cpu, "gpu": gpu}
    found, expected = divide(total, total, claims), filled(total, total, claims)
    for claim in claims:
        assert parts(found[claim.name], claim) == pytest.approx(expected[claim.name], abs=1e-6)
    for resource, amount in total.items():
        assert sum(amounts.get(resource, 0) for amounts in found.values()) <= amount


class _Books:
    """Stands for a ledger: what each leaf asks for."""

    def __init__(self, wanted):
        self.version = 1
        self._wanted = wanted

    def use(self, node):
        return Use(wanted=dict(self._wanted.get(node.key.name, {})))


@st.composite
def trees(draw):
    """Return queues in a random tree, and what the leaves ask for."""
    count = draw(st.integers(2, 8))
    queues, parents = [], {}
    for n in range(count):
        parent = draw(st.sampled_from(["", *(q.name for q in queues)]))
        guaranteed, weight = draw(st.integers(0, 10)), draw(st.integers(0, 4))
        limit = draw(st.one_of(st.none(), st.integers(guaranteed, 30)))
        queues.append(a_queue(f"q{n}", guaranteed, limit, weight, dialect="kai", parent=parent))
        parents[f"q{n}"] = parent
    leaves = [q.name for q in queues if q.name not in parents.values()]
    return queues, {name: {"nvidia.com/gpu": draw(st.integers(0, 30))} for name in leaves}


@settings(max_examples=80, deadline=None)
@given(trees(), st.integers(1, 60))
def test_a_tree_is_divided_level_by_level_as_linear_programs_divide_it(tree_and_wanted, total):
    """Exactly, for one resource; limits are heeded at every level."""
    queues, wanted = tree_and_wanted
    tree = build(queues, {})
    fairness = Fairness(tree, _Books(wanted), {"nvidia.com/gpu": total})
    demands: dict[str, int] = {}

    def demand(node) -> int:
        own = (
            wanted.get(node.key.name, {}).get("nvidia.com/gpu", 0) if node.is_leaf else sum(map(demand, node.children))
        )
        limit = node.quota("nvidia.com/gpu").limit
        demands[node.key.name] = own if limit is None else min(own, limit)
        return demands[node.key.name]

    demand(tree.root)

    def check(node, amount: float) -> None:
        claims = [
            Claim(
                str(child.key), {"gpu": demands[child.key.name]},
                {"gpu": quota.guaranteed} if (quota := child.queue.quotas.get("nvidia.com/gpu", Quota())) else {},
                {}, child.queue.weight,
            )
            for child in node.children
        ]  # fmt: skip
        expected = filled({"gpu": amount}, {"gpu": total}, claims)
        for child in node.children:
            mine = float(fairness.share(child, "nvidia.com/gpu"))
            assert mine == pytest.approx(expected.get(str(child.key), 0.0) * demands[child.key.name], abs=1e-4)
            check(child, mine)

    check(tree.root, float(total))


def test_guarantees_come_first_and_the_rest_goes_by_weight():
    """By hand: 10 GPUs, 2 + 2 guaranteed, 6 left as 1 to 2."""
    claims = [
        Claim("a", {"gpu": 8}, {"gpu": 2}, {"gpu": Fraction(1)}),
        Claim("b", {"gpu": 6}, {"gpu": 2}, {"gpu": Fraction(2)}),
    ]
    assert divide({"gpu": 10}, {"gpu": 10}, claims) == {"a": {"gpu": 4}, "b": {"gpu": 6}}


def test_equal_queues_get_equal_shares_exactly():
    """Thirds are thirds, whatever the names."""
    claims = [Claim(name, {"gpu": 10}) for name in "abc"]
    found = divide({"gpu": 10}, {"gpu": 10}, claims)
    assert {amounts["gpu"] for amounts in found.values()} == {Fraction(10, 3)}
    assert np.isclose(float(sum(amounts["gpu"] for amounts in found.values())), 10)
