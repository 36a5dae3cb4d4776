"""DefaultBinder binds a pod with a Binding object, which carries the annotations that other plugins left for it.

At Bind.  A plugin publishes on the pod by writing a dict to the CycleState under `("annotations", pod.uid)`; the API
server copies what a Binding carries to the pod, so it costs no request of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scheduler.framework.effects import BindPod, PodRef
from scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.model import Pod

NAME = "DefaultBinder"
#: First part of the key in the CycleState; the second is the pod's uid.
ANNOTATIONS = "annotations"


class DefaultBinder(Plugin):
    """Bind through the API server."""

    NAME: ClassVar[str] = NAME

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> BindPod:
        """Return the binding, with the pod's uid as precondition."""
        annotations = dict(state.read((ANNOTATIONS, pod.uid), {}))
        return BindPod(PodRef(pod.namespace, pod.name, pod.uid), node_name, annotations)
