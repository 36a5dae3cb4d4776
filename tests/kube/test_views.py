"""PodViews: whatever order the views speak in, the engine learns the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.engine.inputs import Input, PendingPodLeft, PodChanged, PodRemoved
from scheduler.kube.views import PodViews
from tests.builders import PodBuilder, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """A timer that the test fires."""

    def __init__(self) -> None:
        """Start with none."""
        self.calls: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def __call__(self, delay: float, callback: Callable[..., None], *args: object) -> Timer:
        """Keep the call."""
        del delay
        self.calls.append((callback, args))
        return self

    def cancel(self) -> None:
        """Drop all calls."""
        self.calls.clear()

    def fire(self) -> None:
        """Make all calls."""
        calls, self.calls = self.calls, []
        for callback, args in calls:
            callback(*args)


def views() -> tuple[PodViews, list[Input], Timer]:
    """Return views, what they say, and their timer."""
    said: list[Input] = []
    timer = Timer()
    return PodViews(said.append, timer), said, timer


def kinds(said: list[Input]) -> list[str]:
    """Return the kinds of what was said."""
    return [type(item).__name__ for item in said]


def member(name: str = "p") -> PodBuilder:
    """Return a pod of a gang."""
    return a_pod(name).gang("g", 2)


def test_a_bound_pod_is_not_made_pending_again_by_late_news() -> None:
    """The pending view runs behind the assigned one."""
    pods, said, _ = views()
    pods.pending_changed(a_pod("p").build())
    pods.assigned_changed(a_pod("p").on("n").build())
    pods.pending_changed(a_pod("p").build())
    pods.pending_left("uid-p")
    assert said == [
        PodChanged(a_pod("p").build()), PodChanged(a_pod("p").on("n").build()), PendingPodLeft("uid-p"),
    ]  # fmt: skip


def test_after_our_binding_the_pending_view_is_stale() -> None:
    """It is not believed even before the assigned view shows the pod."""
    pods, said, _ = views()
    pods.pending_changed(a_pod("p").build())
    pods.bound("uid-p")
    pods.pending_changed(a_pod("p").build())
    assert kinds(said) == ["PodChanged"]


def test_a_pod_that_was_gone_stays_gone() -> None:
    """Late news of a deleted pod do not revive it."""
    pods, said, _ = views()
    pods.assigned_changed(a_pod("p").on("n").build())
    pods.assigned_left("uid-p")
    pods.pending_changed(a_pod("p").build())
    assert kinds(said) == ["PodChanged", "PodRemoved"]


def test_leaving_twice_is_told_once() -> None:
    """The reconciler and Kopf may both notice."""
    pods, said, _ = views()
    pods.pending_changed(a_pod("p").build())
    pods.pending_left("uid-p")
    pods.pending_left("uid-p")
    assert kinds(said) == ["PodChanged", "PendingPodLeft"]


def test_a_member_that_ends_is_not_removed_in_between() -> None:
    """The assigned view says DELETED first, the finished view shows it a moment later."""
    pods, said, timer = views()
    pods.assigned_changed(member().on("n").build())
    pods.assigned_left("uid-p")
    pods.finished_changed(member().on("n").phase("Succeeded").build())
    timer.fire()
    assert kinds(said) == ["PodChanged", "PodChanged"]
    pods.finished_left("uid-p")
    assert said[-1] == PodRemoved("uid-p")


def test_the_finished_view_may_be_first() -> None:
    """Then the assigned view's DELETED is no news, and neither are its late changes."""
    pods, said, _ = views()
    pods.assigned_changed(member().on("n").build())
    pods.finished_changed(member().on("n").phase("Failed").build())
    pods.assigned_changed(member().on("n").build())
    pods.assigned_left("uid-p")
    assert [item.pod.phase for item in said if isinstance(item, PodChanged)] == ["Running", "Failed"]
    assert len(said) == 2


def test_a_member_that_really_went_is_removed_a_moment_later() -> None:
    """Nobody showed it as finished."""
    pods, said, timer = views()
    pods.assigned_changed(member().on("n").build())
    pods.assigned_left("uid-p")
    assert kinds(said) == ["PodChanged"]
    timer.fire()
    assert said[-1] == PodRemoved("uid-p")


def test_a_terminating_member_is_removed_at_once() -> None:
    """Its room is wanted, and it was on its way out."""
    pods, said, _ = views()
    pods.assigned_changed(member().on("n").terminating().build())
    pods.assigned_left("uid-p")
    assert said[-1] == PodRemoved("uid-p")


def test_what_is_remembered_is_bounded() -> None:
    """Millions of pods may come and go."""
    pods, _, _ = views()
    for i in range(25_000):
        pods.pending_left(f"u{i}")
    assert len(pods._gone) == 20_000
