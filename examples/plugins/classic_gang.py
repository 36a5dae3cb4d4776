"""ClassicGang holds the pods of a gang at Permit until enough of them have a place; then all go at once."""

from scheduler import CycleState, Plugin, Pod, Status, WaitingPod

NAME, SIZE = "classic-gang/name", "classic-gang/size"
PATIENCE_SECONDS = 60


class ClassicGang(Plugin):
    """Let the pods with one label `classic-gang/name` go when `classic-gang/size` of them wait."""

    NAME = "ClassicGang"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Wait for the siblings; the one that completes the gang lets the others go."""
        if NAME not in pod.labels:
            return None
        siblings = [other for other in self.handle.waiting() if self.is_sibling(pod, other)]
        there, size = len(siblings) + 1, int(pod.labels[SIZE])
        if there < size:
            return Status.wait(PATIENCE_SECONDS, f"{there} of {size} pods of {pod.labels[NAME]} have a place")
        for other in siblings:
            self.handle.allow(other.pod.uid, self.NAME)
        return None

    def is_sibling(self, pod: Pod, other: WaitingPod) -> bool:
        """Tell whether a waiting pod belongs to the same gang."""
        return (pod.namespace, pod.labels[NAME]) == (other.pod.namespace, other.pod.labels.get(NAME))
