"""The loop: inputs in order, decisions in small steps, effects out, nothing while it must not decide."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scheduler.engine.inputs import (
    BindingSucceeded,
    GangChanged,
    Input,
    NodeChanged,
    NodeRemoved,
    PendingPodLeft,
    PodChanged,
    PodRemoved,
)
from scheduler.framework.effects import Effect
from scheduler.kube.inbox import Inbox
from scheduler.kube.loop import EngineLoop
from scheduler.kube.standby import Standby
from tests.builders import a_gang, a_node, a_pod
from tests.kube.scripted import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable


class Engine:
    """A stand-in that counts."""

    def __init__(self, steps: int = 0) -> None:
        """Have so many steps to do."""
        self.handled: list[Input] = []
        self.steps = 0
        self.left = steps
        self.deadline: float | None = None
        self.effects: list[Effect] = []
        self.error: Exception | None = None

    def handle(self, happened: Input, /) -> None:
        """Keep it."""
        self.handled.append(happened)

    def step(self, work_units: int = 1, /) -> bool:
        """Do one step."""
        del work_units
        if self.error:
            raise self.error
        self.steps += 1
        self.left -= 1
        return self.left > 0

    def take_effects(self) -> Iterable[Effect]:
        """Return what the test put there."""
        taken, self.effects = self.effects, []
        return taken

    def next_deadline(self) -> float | None:
        """Return what the test set."""
        return self.deadline


class Nobody:
    """An observer that looks away."""

    def input(self, item: Input) -> None:
        """Look away."""

    def step_began(self) -> None:
        """Look away."""

    def step_ended(self, *, has_more: bool) -> None:
        """Look away."""


async def until(condition: object) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0)


def loop_of(engine: Engine, inbox: Inbox, out: list[Effect], *, may_decide: bool = True) -> EngineLoop:
    """Return a loop around the engine."""
    return EngineLoop(engine, inbox, out.extend, may_decide=lambda: may_decide, observer=Nobody())


async def test_inputs_are_handled_between_steps() -> None:
    """A long decision does not hold them up."""
    engine, inbox, out = Engine(steps=50), Inbox(), []
    loop = loop_of(engine, inbox, out)
    task = asyncio.create_task(loop.run())
    await until(lambda: engine.steps > 3)
    inbox.put(PodRemoved("x"))
    await until(lambda: engine.handled)
    assert engine.left > 0
    await until(lambda: engine.left <= 0)
    loop.stop()
    await task


async def test_what_comes_in_turn_by_turn_is_decided_together() -> None:
    """Pods of one burst come through Kopf one after the other."""
    engine, inbox = Engine(), Inbox()
    loop = loop_of(engine, inbox, [])
    task = asyncio.create_task(loop.run())
    await until(lambda: engine.steps == 1)
    for name in "abc":
        inbox.put(PodRemoved(name))
        await asyncio.sleep(0)
    await until(lambda: engine.steps > 1)
    assert [item for item in engine.handled if isinstance(item, PodRemoved)] == [PodRemoved(name) for name in "abc"]
    assert engine.steps == 2
    loop.stop()
    await task


async def test_inputs_without_end_do_not_keep_it_from_deciding() -> None:
    """A stream of changes in a large cluster."""
    engine, inbox = Engine(), Inbox()
    loop = loop_of(engine, inbox, [])
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while engine.steps < 3:
            inbox.put(PodRemoved("x"))
            await asyncio.sleep(0)
    loop.stop()
    await task


async def test_effects_go_out_after_each_step() -> None:
    """In the engine's order."""
    engine, inbox, out = Engine(), Inbox(), []
    engine.effects = [Effect(), Effect()]
    loop = loop_of(engine, inbox, out)
    task = asyncio.create_task(loop.run())
    await until(lambda: len(out) == 2)
    loop.stop()
    await task


async def test_a_deadline_wakes_the_engine() -> None:
    """Even without any input."""
    engine, inbox = Engine(), Inbox()
    engine.deadline = 0.0
    loop = loop_of(engine, inbox, [])
    task = asyncio.create_task(loop.run())
    await until(lambda: engine.steps >= 3)
    loop.stop()
    await task


async def test_without_permission_inputs_are_taken_and_nothing_is_decided() -> None:
    """The Lease is in doubt."""
    engine, inbox = Engine(), Inbox()
    loop = loop_of(engine, inbox, [], may_decide=False)
    task = asyncio.create_task(loop.run())
    inbox.put(PodRemoved("x"))
    await until(lambda: engine.handled)
    assert engine.steps == 0
    loop.stop()
    await task


async def test_an_exception_of_the_engine_ends_the_loop() -> None:
    """The process ends and starts anew."""
    engine = Engine()
    engine.error = RuntimeError("bug")
    with pytest.raises(RuntimeError, match="bug"):
        await loop_of(engine, Inbox(), []).run()


def test_a_standby_keeps_the_latest_of_each_object() -> None:
    """And gives it to the engine in an order that it can use."""
    standby = Standby()
    pod, bound = a_pod("p").build(), a_pod("p").on("n").build()
    for item in (
        PodChanged(a_pod("gone").build()), PodChanged(pod), PodChanged(bound), PendingPodLeft("uid-p"),
        PodChanged(a_pod("left").build()), PendingPodLeft("uid-left"), PodRemoved("uid-gone"),
        GangChanged(a_gang("g", 2).build()), NodeChanged(a_node("n").build()), NodeChanged(a_node("m").build()),
        NodeRemoved("m"), BindingSucceeded("uid-p"),
    ):  # fmt: skip
        standby.handle(item)
    assert len(standby) == 3
    assert standby.inputs() == [
        NodeChanged(a_node("n").build()),
        GangChanged(a_gang("g", 2).build()),
        PodChanged(bound),
    ]
    assert len(standby) == 3
