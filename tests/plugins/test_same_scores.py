"""A plugin that says that all nodes have the same score is right, and says it of the pods that do not concern it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.cycle_state import CycleState
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.plugins.gpu_isolation import GPUIsolation
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.plugins.volume_binding import VolumeBinding
from tests.builders import a_node, a_pod, snapshot_of

from .calling import make

if TYPE_CHECKING:
    from scheduler.framework.plugin import Plugin

LARGE, IMAGE = 900 * 2**20, "example.test/large:v1"
PLUGINS = [make(kind) for kind in (DynamicResources, GPUIsolation, ImageLocality, TaintToleration, VolumeBinding)]


@st.composite
def nodes(draw: Any, name: str) -> Any:
    """Draw a node with what these plugins look at."""
    node = a_node(name)
    if draw(st.booleans()):
        node.gpus(8)
    if draw(st.booleans()):
        node.image(IMAGE, LARGE)
    if draw(st.booleans()):
        node.taint("t", "v", draw(st.sampled_from(("PreferNoSchedule", "NoSchedule"))))
    return node


@st.composite
def pods(draw: Any) -> Any:
    """Draw a pod that some of it concerns."""
    pod = a_pod()
    if draw(st.booleans()):
        pod.gpus(1)
    if draw(st.booleans()):
        pod.image(IMAGE)
    if draw(st.booleans()):
        pod.tolerate("t")
    return pod


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.data())
def test_what_is_said_of_all_nodes_is_true_of_each(rows: list[int], data: st.DataObject) -> None:
    """Also of some of them, and after something came to stand on one."""
    snapshot = snapshot_of([data.draw(nodes(f"n{k}")) for k in range(6)])
    pod = data.draw(pods()).build()
    said = {plugin.NAME: plugin.same_score(pod, snapshot.nodes) for plugin in PLUGINS}
    snapshot.place(data.draw(pods()).uid("other").build(), rows[0])
    for plugin in PLUGINS:
        if said[plugin.NAME] is not None:
            for some in (snapshot.nodes, snapshot.nodes.select(np.array(rows))):
                scores = plugin.score_all(CycleState(), pod, some)
                if hasattr(plugin, "normalize"):
                    scores = plugin.normalize(CycleState(), pod, scores)
                assert scores.tolist() == [said[plugin.NAME]] * len(some)


@pytest.mark.parametrize(
    ("plugin", "pod", "score"),
    [
        (make(DynamicResources), a_pod(), 0),
        (make(VolumeBinding), a_pod(), 0),
        (make(GPUIsolation), a_pod().gpus(1), 100),
        (make(GPUIsolation), a_pod(), None),
        (make(ImageLocality), a_pod().image("example.test/unknown:v1"), 0),
        (make(ImageLocality), a_pod().image(IMAGE), None),
        (make(TaintToleration), a_pod().tolerate(), 100),
        (make(TaintToleration), a_pod(), None),
    ],
)
def test_it_is_said_of_pods_that_do_not_concern_the_plugin(plugin: Plugin, pod: Any, score: int | None) -> None:
    """Of two nodes, one has GPUs, an image and a taint that keeps pods off if there is another place."""
    two = [a_node("plain"), a_node("rich").gpus(8).image(IMAGE, LARGE).taint("soft", "", "PreferNoSchedule")]
    assert plugin.same_score(pod.build(), snapshot_of(two).nodes) == score  # type: ignore[attr-defined]
