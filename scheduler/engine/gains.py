"""Gains: what few rows that changed are worth more or less than before, found node by node.

For a candidate, which asks so of one pod after the other; for a few rows no array is worth its price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.runtime import Runtime, ScorePart
    from scheduler.model import Pod
    from scheduler.state.snapshot import Ints, Nodes

#: Stands for the scores of a part that gives every row the same.
SAME: Ints = np.zeros(0, dtype=np.int64)


def gains_of(
    runtime: Runtime, state: CycleState, pod: Pod, nodes: Nodes,
    parts: Sequence[ScorePart], scores: Sequence[Ints], rows: Sequence[int],
) -> dict[int, int] | None:  # fmt: skip
    """Score rows that stayed feasible again, and return by how much the weighted total of each differs from before.

    `nodes` are all rows; `scores` has an array over them for each part, before it is normalised, which is brought up to date,
    and SAME for a part that gives every node the same.
    None if all rows have to be looked at: a plugin that looks further has changed its mind, or a score that is normalised
    differs.  Then some of the rows may be up to date already.
    """
    if runtime.has_silent_far_score(state, pod):
        return None
    gains = dict.fromkeys(rows, 0)
    asked = [(row, nodes[row]) for row in rows]
    for part, known in zip(parts, scores, strict=True):
        if part.plugin.READS_NODES_ONLY or known is SAME:
            continue
        if runtime.is_far_sighted(part.plugin) and not runtime.is_part_settled(part, state, pod):
            return None
        for row, node in asked:
            former, score = int(known[row]), runtime.raw_score(part, state, pod, nodes, row, node)
            if former != score:
                if part.normalize is not None:
                    return None
                known[row] = score
                gains[row] += (score - former) * part.weight
    return gains
