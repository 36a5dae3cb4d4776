"""Which gang a pod belongs to when it speaks several dialects."""

from typing import Any

import msgspec
import pytest

from scheduler.model.api import ApiPod
from scheduler.model.dialects import DIALECTS, membership_of

#: What a pod that speaks a dialect shows, in the order of precedence.
SPOKEN: list[tuple[str, dict[str, Any]]] = [
    ("ai-scheduler", {"labels": {"scheduling.ai-scheduler.io/pod-group": "g"}}),
    ("native", {"spec": {"schedulingGroup": {"podGroupName": "g"}}}),
    ("coscheduling", {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}),
    ("volcano", {"annotations": {"scheduling.k8s.io/group-name": "g"}}),
    ("kai", {"annotations": {"pod-group-name": "g"}}),
    ("koordinator", {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}),
    (
        "kueue",
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
        },
    ),
    (
        "yunikorn",
        {
            "labels": {"yunikorn.apache.org/app-id": "g"},
            "annotations": {"yunikorn.apache.org/task-group-name": "workers"},
        },
    ),
    ("armada", {"annotations": {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": "2"}}),
    ("jobset", {"labels": {"jobset.sigs.k8s.io/jobset-name": "g"}}),
]


def pod_that_speaks(dialects: list[dict[str, Any]]) -> ApiPod:
    """Return a pod with what all of these show."""
    labels, annotations, spec = dict[str, str](), dict[str, str](), dict[str, Any]()
    for shown in dialects:
        labels |= shown.get("labels", {})
        annotations |= shown.get("annotations", {})
        spec |= shown.get("spec", {})
    meta = {"name": "p", "namespace": "default", "labels": labels, "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": spec}, ApiPod)


@pytest.mark.parametrize("first", range(len(SPOKEN)), ids=[name for name, _ in SPOKEN])
def test_the_first_dialect_that_a_pod_speaks_counts(first: int) -> None:
    """The order is that of docs/gangs.md."""
    found = membership_of(pod_that_speaks([shown for _, shown in SPOKEN[first:]]))
    assert found is not None
    assert found.key.dialect == SPOKEN[first][0]


def test_every_dialect_but_other_owners_is_here() -> None:
    """A new dialect has to say where it stands."""
    names = [dialect.name for dialect in DIALECTS]
    assert names[: len(SPOKEN) - 1] == [name for name, _ in SPOKEN[:-1]]
    assert "jobset" in names
