"""Traffic: what can wait does so until the road has been free for a moment, and no longer than it wants."""

from __future__ import annotations

import asyncio

from scheduler.kube.traffic import LULL_SECONDS, Traffic

LONG = 20.0


async def test_nobody_waits_for_an_empty_road() -> None:
    """The usual case costs nothing."""
    waiting = asyncio.create_task(Traffic().lull(LONG))
    await asyncio.sleep(0)
    assert waiting.done()


async def test_the_last_one_frees_the_road_after_a_moment() -> None:
    """Two are on it; it is free when both have left and nobody came for the length of a lull."""
    traffic, loop = Traffic(), asyncio.get_running_loop()
    with traffic:
        with traffic:
            waiting = asyncio.create_task(traffic.lull(LONG))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    left_at = loop.time()
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting
    assert loop.time() - left_at >= LULL_SECONDS * 0.9


async def test_whoever_comes_during_the_lull_makes_it_start_anew() -> None:
    """A burst has short pauses."""
    traffic = Traffic()
    with traffic:
        waiting = asyncio.create_task(traffic.lull(LONG))
        await asyncio.sleep(0)
    with traffic:
        await asyncio.sleep(LULL_SECONDS * 2)
        assert not waiting.done()
    await waiting


async def test_patience_ends() -> None:
    """The road is never free: waiting ends all the same, at once if there is no patience left."""
    traffic = Traffic()
    with traffic:
        await traffic.lull(-1.0)
        await traffic.lull(0.01)
