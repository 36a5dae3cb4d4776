"""The garbage collector has little to look at, and what it takes is seen."""

from __future__ import annotations

import gc

from scheduler.engine.inputs import PodChanged
from scheduler.kube.collector import CollectorPauses, settle
from scheduler.kube.metrics import Metrics
from scheduler.kube.standby import Standby
from scheduler.kube.wire import ObjectKey
from scheduler.model.api import ApiPod
from tests.builders import a_pod

PAUSES = "ai_scheduler_collector_pause_seconds_count"


def pauses_of(metrics: Metrics, generation: str) -> float:
    """Return how many pauses of a generation were observed."""
    return metrics.registry.get_sample_value(PAUSES, {"generation": generation}) or 0.0


def test_pauses_are_observed_until_it_stops() -> None:
    """By generation."""
    metrics = Metrics()
    pauses = CollectorPauses(metrics)
    pauses.start()
    try:
        before = pauses_of(metrics, "2"), pauses_of(metrics, "0")
        gc.collect()
        gc.collect(0)
    finally:
        pauses.stop()
    assert pauses_of(metrics, "2") == before[0] + 1
    assert pauses_of(metrics, "0") >= before[1] + 1
    after = pauses_of(metrics, "2")
    gc.collect()
    pauses.stop()
    assert pauses_of(metrics, "2") == after


def test_what_is_settled_is_looked_at_no_more() -> None:
    """Objects that were there are frozen, and later ones are not."""
    lives_on = [[]]
    settle()
    try:
        later = [[]]
        tracked = {id(item) for item in gc.get_objects()}
        assert id(lives_on) not in tracked
        assert id(later) in tracked
    finally:
        gc.unfreeze()


def test_pods_are_nothing_to_look_at() -> None:
    """However many pods the picture of a standby holds, the collector knows of none of them."""
    picture = Standby()
    gc.collect()
    before = len(gc.get_objects())
    for i in range(1000):
        picture.handle(PodChanged(a_pod(f"p{i}").cpu("1").gpus(1).label("x", str(i)).on("n").build()))
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert not gc.is_tracked(ObjectKey("u", "n", "x", "1"))
    assert not gc.is_tracked(ApiPod())
