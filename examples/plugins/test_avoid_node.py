"""AvoidNode, called as what it is: a class with two functions."""

from scheduler import CycleState, Node, NodeView, Pod
from scheduler.state.snapshot import Row

from avoid_node import LABEL, NOW, AvoidNode

POD = Pod(uid="1", namespace="default", name="pod")


def node(maintenance: str) -> NodeView:
    """Return an empty node with the label."""
    return NodeView(Row(Node(name="node", labels={LABEL: maintenance})))


def test_node_in_maintenance_is_refused() -> None:
    """It gets no pods, and says why; the others get them."""
    plugin = AvoidNode(args=None, handle=None)
    refusal = plugin.filter(CycleState(), POD, node("now"))
    assert refusal is not None
    assert refusal.reasons == (NOW,)
    assert plugin.filter(CycleState(), POD, node("soon")) is None


def test_node_whose_maintenance_comes_soon_is_the_last_choice() -> None:
    """It scores less than a node without maintenance."""
    plugin = AvoidNode(args=None, handle=None)
    assert plugin.score(CycleState(), POD, node("soon")) < plugin.score(CycleState(), POD, node(""))
