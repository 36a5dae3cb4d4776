"""Ranks: which pods of a gang are neighbours, from the indices that controllers write on their pods.

For the adapters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.gang import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model.api import ApiPod

RANK_LABEL = f"{PREFIX}/rank"
#: Labels that number pods, the first that a pod has counts; several keys together are read as digits, the first the highest.
RANK_LABELS: tuple[tuple[str, ...], ...] = (
    (RANK_LABEL,),
    ("jobset.sigs.k8s.io/job-global-index", "batch.kubernetes.io/job-completion-index"),
    ("jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"),
    ("leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index"),
    ("training.kubeflow.org/replica-index",),
    ("ray.io/replica-index",),
    ("batch.kubernetes.io/job-completion-index",),
    ("apps.kubernetes.io/pod-index",),
    ("volcano.sh/task-index",),
)
COMPLETION_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
#: More digits than any index has; longer texts are no numbers to anybody.
_LONGEST_INDEX = 18


def rank_of(pod: ApiPod) -> tuple[int, ...]:
    """Return a pod's rank; empty if it has none that can be read."""
    labels = pod.metadata.labels
    if labels:
        for keys in RANK_LABELS:
            if keys[0] in labels and (rank := _read(labels, keys)):
                return rank
    annotations = pod.metadata.annotations
    return _read(annotations, (COMPLETION_INDEX_ANNOTATION,)) if annotations else ()


def _read(texts: Mapping[str, str], keys: tuple[str, ...]) -> tuple[int, ...]:
    found = [texts.get(key, "") for key in keys]
    return tuple(map(int, found)) if all(map(_is_index, found)) else ()


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_INDEX
