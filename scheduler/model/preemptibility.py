"""Preemptibility: whether a workload may be evicted for others at all, in the words of several projects.

For preemption and for queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .gang import Gang
    from .pod import Pod

_KAI_KEY: Final = "kai.scheduler/preemptibility"
_VOLCANO_KEY: Final = "volcano.sh/preemptable"
#: What Go's strconv.ParseBool takes for true.
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
#: From this priority on KAI's workloads are not preemptible, if nothing says otherwise.
KAI_FIRM_PRIORITY: Final = 100


def stated_preemptibility(pod: Pod, gang: Gang | None) -> bool | None:
    """Return whether a pod may be evicted as its group says, or it itself; None if nobody says."""
    if gang is not None and gang.is_preemptible is not None:
        return gang.is_preemptible
    kai = pod.labels.get(_KAI_KEY) or pod.annotations.get(_KAI_KEY)
    if kai in ("preemptible", "non-preemptible"):
        return kai == "preemptible"
    return volcano_preemptable(pod.annotations, pod.labels)


def volcano_preemptable(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool | None:
    """Return what a pod or group says in Volcano's words, the annotation before the label; None if it says nothing.

    What is no truth value is false, as to Volcano (`GetPodPreemptable`).
    """
    for told in (annotations, labels):
        if _VOLCANO_KEY in told:
            return told[_VOLCANO_KEY] in _TRUE
    return None


def is_firm(pod: Pod, gang: Gang | None) -> bool:
    """Tell whether a pod is not preemptible; in a queue such work may use no more than what is guaranteed."""
    stated = stated_preemptibility(pod, gang)
    if stated is not None:
        return not stated
    return gang is not None and gang.key.dialect == "kai" and pod.priority >= KAI_FIRM_PRIORITY
