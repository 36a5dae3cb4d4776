"""How tests call a plugin by itself: by node name, on a snapshot of builders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from tests.builders import snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.builders import NodeBuilder, PodBuilder


def make(cls: Any, args: dict[str, Any] | None = None) -> Any:
    """Return a plugin with arguments as they stand in a configuration."""
    return cls(None if args is None else cls.Args.model_validate(args), None)


def refusals(
    plugin: Any, pod: PodBuilder, nodes: Iterable[NodeBuilder], pods: Iterable[PodBuilder] = ()
) -> dict[str, tuple[Code, list[str]]]:
    """Return code and reasons of every node that Filter refuses."""
    snapshot = snapshot_of(nodes, pods)
    verdicts = plugin.filter_all(CycleState(), pod.build(), snapshot.nodes)
    statuses = {name: verdicts.status_at(row) for name, row in snapshot.row_of.items()}
    return {name: (s.code, [r.text for r in s.reasons]) for name, s in statuses.items() if s is not None}


def scores(
    plugin: Any, pod: PodBuilder, nodes: Iterable[NodeBuilder], pods: Iterable[PodBuilder] = ()
) -> dict[str, int]:
    """Return the raw score of every node."""
    snapshot = snapshot_of(nodes, pods)
    raw = plugin.score_all(CycleState(), pod.build(), snapshot.nodes)
    return dict(zip(snapshot.nodes.names, raw.tolist(), strict=True))


def skips(answer: object) -> bool:
    """Tell whether PreFilter or PreScore leaves the plugin out."""
    return isinstance(answer, Status) and answer.code is Code.SKIP
