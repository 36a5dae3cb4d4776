"""Shares: what each queue would have if the cluster were divided anew: first what is guaranteed, then the rest by weight.

For reclaim and for the status.  Among siblings, from the top of the tree down:

1. Each gets what it is guaranteed, as far as it asks for it; if that is more than there is, all get the same part of it.
2. What is left goes to those of the highest priority first, then to the next.  Among equals the shares grow together, each in
   proportion to its weight, until a queue has all that it asks for or a resource that it asks for is used up.
3. Those of weight 0 get what the others of their priority leave, all alike.

A queue that asks for several resources grows in all of them at once, in the proportions in which it asks (dominant resource
fairness); its share is the largest part of any resource of the cluster.  A resource that is enough for all is divided as asked.
All numbers are exact fractions, so there are no ties to break: equal queues get equal shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Amounts = dict[str, Fraction]
_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(slots=True)
class Claim:
    """What one queue asks for among its siblings."""

    name: str
    #: By resource, what its pods on nodes and those that wait ask for, limits heeded.
    demand: Mapping[str, Fraction | int]
    #: By resource; None is all that it asks for. What is not named does not count.
    guaranteed: Mapping[str, int | None] = field(default_factory=dict)
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    weight: Fraction = _ONE
    priority: int = 0


@dataclass(slots=True, eq=False)
class _Grower:
    """A claim as it grows: it has `part` of its demand, from 0 to `most`."""

    claim: Claim
    dominant: str
    #: The largest part of any resource of the cluster that the whole demand is.
    share: Fraction
    part: Fraction = _ZERO

    @property
    def weight(self) -> Fraction:
        return self.claim.weights.get(self.dominant, self.claim.weight)


def divide(
    total: Mapping[str, Fraction | int], cluster: Mapping[str, int], claims: Sequence[Claim]
) -> dict[str, Amounts]:
    """Return what each claim gets of a total, by its name and the resource.

    Shares are measured by what the whole `cluster` has; of a resource that it does not have nobody gets anything.
    O(claims · (claims + resources)).
    """
    left = {r: Fraction(n) for r, n in total.items() if cluster.get(r)}
    growers = [g for claim in claims if (g := _grower(claim, cluster)) is not None]
    _guarantee(growers, left)
    for priority in sorted({g.claim.priority for g in growers}, reverse=True):
        bucket = [g for g in growers if g.claim.priority == priority and g.weight > 0]
        _grow(bucket, {g: g.weight / g.share for g in bucket}, dict.fromkeys(bucket, _ONE), left)
        last = [g for g in growers if g.claim.priority == priority and g.weight <= 0]
        _grow(last, {g: _ONE / g.share for g in last}, dict.fromkeys(last, _ONE), left)
    plenty = _plenty(total, claims, cluster)
    found: dict[str, Amounts] = {claim.name: {} for claim in claims}
    for g in growers:
        for resource, count in g.claim.demand.items():
            if cluster.get(resource):
                found[g.claim.name][resource] = Fraction(count) if resource in plenty else count * g.part
    return found


def _grower(claim: Claim, cluster: Mapping[str, int]) -> _Grower | None:
    shares = [(Fraction(n) / cluster[r], r) for r, n in claim.demand.items() if n > 0 and cluster.get(r)]
    if not shares:
        return None
    share, dominant = max(shares, key=lambda entry: (entry[0], entry[1]))
    return _Grower(claim, dominant, share)


def guaranteed_part(demand: Mapping[str, Fraction | int], guaranteed: Mapping[str, int | None]) -> Fraction:
    """Return which part of a demand is guaranteed in every resource that has a guarantee; 0 if none of them has."""
    parts = [
        _ONE if guaranteed[r] is None else min(_ONE, Fraction(guaranteed[r] or 0) / n)
        for r, n in demand.items()
        if n > 0 and r in guaranteed
    ]
    return min(parts, default=_ZERO)


def _guarantee(growers: Sequence[_Grower], left: dict[str, Fraction]) -> None:
    """Give each what it is guaranteed, or all the same part of that."""
    parts = {g: guaranteed_part(_of(g, left), g.claim.guaranteed) for g in growers}
    some = [g for g in growers if parts[g] > 0]
    _grow(some, parts, parts, left)


def _of(grower: _Grower, resources: Iterable[str]) -> dict[str, Fraction | int]:
    known = set(resources)
    return {r: n for r, n in grower.claim.demand.items() if r in known}


def _grow(
    growers: Iterable[_Grower], speeds: Mapping[_Grower, Fraction], most: Mapping[_Grower, Fraction], left: dict[str, Fraction]
) -> None:  # fmt: skip
    """Let parts grow together at their speeds, until each has its most or a resource that it asks for is used up."""
    growing = [g for g in growers if g.part < most[g]]
    while growing:
        growing = [
            g for g in growing if all(left.get(r, _ZERO) > 0 for r, n in g.claim.demand.items() if n > 0 and r in left)
        ]
        if not growing:
            return
        drain: Amounts = {}
        for g in growing:
            for r, n in g.claim.demand.items():
                if n > 0 and r in left:
                    drain[r] = drain.get(r, _ZERO) + n * speeds[g]
        full = [(most[g] - g.part) / speeds[g] for g in growing]
        step = min(full + [left[r] / rate for r, rate in drain.items()])
        for g in growing:
            g.part += step * speeds[g]
        for r, rate in drain.items():
            left[r] -= step * rate
        growing = [g for g in growing if g.part < most[g]]


def _plenty(total: Mapping[str, Fraction | int], claims: Iterable[Claim], cluster: Mapping[str, int]) -> set[str]:
    """Return the resources of which there is enough for everything that is asked for."""
    asked: Amounts = {}
    for claim in claims:
        for r, n in claim.demand.items():
            asked[r] = asked.get(r, _ZERO) + n
    return {r for r, n in asked.items() if cluster.get(r) and n <= total.get(r, 0)}
