"""Counting: what PostFilter may know of a pod that nothing but free resources keeps from some nodes.

For plugins that dry-run evictions: there, sums say what all Filters would, without asking them for each victim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Pod
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Bools

    from .status import Status


@dataclass(frozen=True, slots=True)
class Counting:
    """What decides for one pod on the open rows: what it asks for, what nodes have free, and the number of pods."""

    #: Resource and how much of it has to be free, without those that the pod asks nothing of.
    asks: tuple[tuple[str, int], ...]
    #: Rows that no Filter refuses by the Node object alone, shape (rows,).
    open: Bools
    #: Pods for which room is kept, against this one, by row.
    kept: Mapping[int, Sequence[Pod]]
    #: What the Filter that counts says of a node with the pods that a record has; None if it passes.
    verdict: Callable[[Row], Status | None]

    def victims(self, record: Row, row: int, weak: Sequence[Pod]) -> list[Pod] | None:
        """Return which of `weak` pods of a row have to go if they come back in this order, as far as there is room.

        None if the pod does not fit without all of them. O(weak pods and those for which room is kept).
        """
        room = self._room_without(record, row, weak)
        return None if room is None else _without_room(weak, *room)

    def units(self, record: Row, row: int, weak: Sequence[Sequence[Pod]]) -> list[int] | None:
        """Return the same for pods of a row that come back together or not at all, as positions in `weak`."""
        room = self._room_without(record, row, [pod for pods in weak for pod in pods])
        return None if room is None else _units_without_room(weak, *room)

    def _room_without(self, record: Row, row: int, weak: Sequence[Pod]) -> tuple[int, list[tuple[str, int]]] | None:
        """Return how many pods, and how much of what is asked for, has room beside the pod without `weak`; None if it has none."""
        offered, requested, kept = record.node.allocatable, record.requested, self.kept.get(row, ())
        places = offered.get("pods", 0) - len(record.pods) + len(weak) - len(kept) - 1
        rooms: list[tuple[str, int]] = []
        for resource, count in self.asks:
            room = offered.get(resource, 0) - requested.get(resource, 0) - count
            for pod in weak:
                room += pod.requests.get(resource, 0)
            for pod in kept:
                room -= pod.requests.get(resource, 0)
            if room < 0:
                return None
            rooms.append((resource, room))
        return None if places < 0 else (places, rooms)

    def refusal(self, record: Row, row: int, weak: Sequence[Pod]) -> Status:
        """Return why a pod does not fit on a row without all of `weak`, as `victims` found."""
        made = record.copy()
        for pod in weak:
            made.drop(pod.uid)
        for pod in self.kept.get(row, ()):
            made.add(pod)
        status = self.verdict(made)
        assert status is not None
        return status


def _without_room(pods: Sequence[Pod], places: int, rooms: Sequence[tuple[str, int]]) -> list[Pod]:
    """Return the pods that find no room, each taken in its turn if there is some."""
    found: list[Pod] = []
    names, left = [resource for resource, _ in rooms], [room for _, room in rooms]
    for pod in pods:
        requests = pod.requests
        after = [room - requests.get(name, 0) for name, room in zip(names, left, strict=True)]
        if places < 1 or (after and min(after) < 0):
            found.append(pod)
        else:
            places -= 1
            left = after
    return found


def _units_without_room(weak: Sequence[Sequence[Pod]], places: int, rooms: Sequence[tuple[str, int]]) -> list[int]:
    """Return the positions of those that find no room, each taken as a whole in its turn if there is some."""
    found: list[int] = []
    names, left = [resource for resource, _ in rooms], [room for _, room in rooms]
    for number, pods in enumerate(weak):
        after = left
        for pod in pods:
            requests = pod.requests
            after = [room - requests.get(name, 0) for name, room in zip(names, after, strict=True)]
        if places < len(pods) or (after and min(after) < 0):
            found.append(number)
        else:
            places -= len(pods)
            left = after
    return found
