"""The scores of the best nodes stand in a Decision only if they are wanted; all else is the same."""

from msgspec.structs import replace

from scheduler.config import default
from scheduler.engine import inputs as i
from scheduler.engine.decision import Decision
from scheduler.engine.engine import Engine
from tests.builders import a_node, a_pod


def decisions_of(*, shows_scores: bool) -> list[Decision]:
    """Return what an engine decides about a pod that fits and one that does not."""
    decisions: list[Decision] = []
    engine = Engine(default(), lambda: 1_000_000.0, 0, decisions.append, shows_scores=shows_scores)
    for name in ("n1", "n2"):
        engine.handle(i.NodeChanged(a_node(name).cpu("4").build()))
    for pod in (a_pod("fits").cpu("1"), a_pod("never").cpu("5")):
        engine.handle(i.PodChanged(pod.build()))
    while engine.step():
        pass
    return decisions


def test_without_scores_a_decision_is_the_same_but_for_them() -> None:
    """The live process tells them nowhere."""
    shown, hidden = decisions_of(shows_scores=True), decisions_of(shows_scores=False)
    assert [decision.result for decision in shown] == ["scheduled", "unschedulable"]
    assert shown[0].scores.keys() == shown[0].parts.keys() == {"n1", "n2"}
    assert [replace(decision, scores={}, parts={}) for decision in shown] == hidden
