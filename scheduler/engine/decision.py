"""Decision: the record of one attempt; it can be stored, compared and shown.

For logs, metrics, reports and explanations.  Equal inputs give equal Decisions, byte for byte.
"""

from __future__ import annotations

import msgspec


class PlacedPod(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod goes."""

    pod: str
    uid: str
    node: str
    annotations: dict[str, str] = {}


class VictimPod(msgspec.Struct, frozen=True, kw_only=True):
    """Who must go."""

    pod: str
    uid: str
    node: str
    violates_budget: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle decided, and why."""

    cycle: int
    #: Seconds since the epoch.
    time: float
    #: Of the snapshot it was decided on.
    generation: int
    workload: str
    is_gang: bool
    profile: str
    priority: int
    #: How many pods were looked at, and how many of them had to be placed together.
    pods: int
    needed: int
    #: scheduled, unschedulable, error, waiting or nominated.
    result: str
    placements: tuple[PlacedPod, ...] = ()
    #: Plugin → sentence → how many nodes, for the first pod that found no node.
    verdicts: dict[str, dict[str, int]] = {}
    #: Node → weighted total, of the best nodes for the first pod.
    scores: dict[str, int] = {}
    #: Node → plugin → normalised score, of those nodes.
    parts: dict[str, dict[str, int]] = {}
    domain: str = ""
    victims: tuple[VictimPod, ...] = ()
    #: Code and sentence of a refusal.
    reason: str = ""
    message: str = ""
    #: never, not now, gave up searching; empty if scheduled.
    finality: str = ""
    #: Node evaluations that it took.
    evaluations: int = 0
    #: The start that the workload was promised last, seconds since the epoch; None if it was told none.
    promised_start: float | None = None


encode_decision = msgspec.json.Encoder(order="sorted").encode
