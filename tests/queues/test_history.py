"""History: past usage fades by half in a half-life, in whole numbers, and an order that remembers heeds it."""

from __future__ import annotations

import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.queues.history import History
from scheduler.queues.ledger import Use
from scheduler.queues.tree import build
from tests.builders import GPU
from tests.engine.world import World

from .making import a_node, a_queue, know, queued

HOUR = 3600.0


def history_of(*spans: tuple[float, int]) -> int:
    """Return what is remembered of GPUs used for spans of (half-lives, GPUs)."""
    tree, history, now, use = build([a_queue("a")], {}), History(HOUR), 0.0, Use()
    (node,) = [node for node in tree.leaves() if node.key.name == "a"]
    history.advance(now, [node], lambda _: use)
    for half_lives, gpus in spans:
        use.used = {GPU: gpus} if gpus else {}
        now += half_lives * HOUR
        history.advance(now, [node], lambda _: use)
    return history.past(node, GPU)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(1, 1000)], 500),
        ([(2, 1000)], 750),
        ([(20, 1000)], 1000),
        ([(20, 1000), (1, 0)], 500),
        ([(20, 1000), (3, 0)], 125),
        ([(20, 1000), (10_000, 0)], 0),
    ],
)
def test_usage_fades_by_half_in_a_half_life(spans, expected):
    """By hand, up to rounding down."""
    assert expected - 2 <= history_of(*spans) <= expected


@pytest.mark.parametrize(("half_life", "first"), [(0, "a1"), (3600, "b1")])
def test_who_used_much_lately_waits_longer(half_life, first):
    """Two queues that use nothing now: the one that slept comes first where the past is remembered."""
    configuration = SchedulerConfiguration.model_validate({"queueUsageHalfLifeSeconds": half_life})
    world = know(World(a_node("n").gpus(8), configuration=configuration), a_queue("a"), a_queue("b"))
    world.add(queued("a0", "a", 8)).wait(HOUR)
    world.add(queued("wakes", "b", 0)).remove("a0").wait(1)
    world.add(queued("b1", "b", 8), queued("a1", "a", 8)).wait(1)
    assert first in world.placed
