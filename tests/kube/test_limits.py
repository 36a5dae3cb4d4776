"""One refusal slows all writes down: none while the server wants none, then one after the other."""

from __future__ import annotations

import asyncio

from scheduler.kube.limits import CAREFUL_SECONDS, FIRST_STEP_SECONDS, Brake


class Clock:
    """A clock that stands still, and a sleep that is over at once and remembers."""

    def __init__(self) -> None:
        """Start at noon."""
        self.now = 1000.0
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Note it."""
        self.naps.append(round(seconds, 6))

    async def waits(self, brake: Brake, count: int) -> list[float]:
        """Return how long so many writes that come now have to wait."""
        self.naps = []
        await asyncio.gather(*(brake.wait() for _ in range(count)))
        return self.naps


def a_brake() -> tuple[Brake, Clock]:
    """Return a brake and its clock."""
    clock = Clock()
    return Brake(lambda: clock.now, clock.sleep), clock


async def test_without_a_refusal_nothing_waits() -> None:
    """The usual case."""
    brake, clock = a_brake()
    assert await clock.waits(brake, 100) == []


async def test_all_wait_until_the_server_wants_them_then_go_one_by_one() -> None:
    """Retry-After for all, not only for the one that was refused."""
    brake, clock = a_brake()
    brake.refused(3.0)
    step = FIRST_STEP_SECONDS
    assert await clock.waits(brake, 3) == [3.0, 3.0 + step, 3.0 + 2 * step]


async def test_refusals_of_requests_under_way_say_nothing_new() -> None:
    """Sixty-four bindings in flight are refused at once: the step stays as it is."""
    brake, clock = a_brake()
    for _ in range(64):
        brake.refused(3.0)
    assert await clock.waits(brake, 2) == [3.0, 3.0 + FIRST_STEP_SECONDS]


async def test_a_refusal_of_careful_writes_doubles_the_step() -> None:
    """The server is still too busy."""
    brake, clock = a_brake()
    brake.refused(1.0)
    clock.now += 1.5
    brake.refused(1.0)
    assert await clock.waits(brake, 2) == [1.0, 1.0 + 2 * FIRST_STEP_SECONDS]


async def test_it_is_free_again_after_a_while() -> None:
    """And the next refusal begins with the first step."""
    brake, clock = a_brake()
    brake.refused(1.0)
    clock.now += 1.0 + CAREFUL_SECONDS
    assert await clock.waits(brake, 10) == []
    brake.refused(1.0)
    assert await clock.waits(brake, 2) == [1.0, 1.0 + FIRST_STEP_SECONDS]
