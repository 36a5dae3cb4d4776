"""Parts of the cluster whose nodes are joined better to each other than to the rest, and what they are worth to a gang.

For the plugin beside it.  The tightest are NVLink cliques that span nodes (GB200 NVL72); then come groups by node label.  A node
without a label is in no domain of that level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.plugin import Domain
from scheduler.topology import clique_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    import numpy.typing as npt

    from scheduler.model import Node
    from scheduler.state.snapshot import Nodes

#: The level of domains in which members of the gang run already: before all others.
HOME_LEVEL = -1
CLIQUE_WORTH = 60
TIGHTNESS_WORTH = 40


def domains_of(nodes: Nodes, labels: Sequence[str], home: Collection[str]) -> list[Domain]:
    """Return cliques (level 0), then a level for each label; those with a node of `home` (names) have `HOME_LEVEL`.

    A group of the same nodes as a tighter one is left out.
    """
    home_rows = {nodes.snapshot.row_of[name] for name in home if name in nodes.snapshot.row_of}
    domains: dict[tuple[int, ...], Domain] = {}
    for level, names in enumerate((_cliques(nodes), *(_labelled(nodes, label) for label in labels))):
        prefix = f"{labels[level - 1]}=" if level else ""
        for name, rows in _groups(nodes, names).items():
            is_home = not home_rows.isdisjoint(rows)
            domains.setdefault(rows, Domain(prefix + name, rows, HOME_LEVEL if is_home else level))
    return list(domains.values())


def worth(nodes: Nodes, resource: str, wanted: int) -> int:
    """Return 0 to 100 for a gang that wants so many GPUs on these nodes.

    60 if one NVLink clique joins all of them; up to 40 the fewer GPUs they have beyond the wanted ones, used or not: the
    smallest domain that can hold the gang leaves the larger ones whole.
    """
    if not len(nodes) or not wanted:
        return 0
    cliques = _cliques(nodes)
    is_clique = cliques[0] is not None and bool((cliques == cliques[0]).all())
    offered = int(nodes.allocatable(resource).sum())
    return CLIQUE_WORTH * is_clique + TIGHTNESS_WORTH * wanted // max(offered, wanted)


def _groups(nodes: Nodes, names: npt.NDArray[np.object_]) -> dict[str, tuple[int, ...]]:
    """Return rows by name, ascending; nodes without a name are left out."""
    rows_by_name: dict[str, list[int]] = {}
    for row, name in zip(nodes.rows.tolist(), names.tolist(), strict=True):
        if name:
            rows_by_name.setdefault(name, []).append(row)
    return {name: tuple(rows) for name, rows in sorted(rows_by_name.items())}


def _cliques(nodes: Nodes) -> npt.NDArray[np.object_]:
    return nodes.column(("NVLinkTopology", "clique"), lambda node: clique_of(node.labels), object)


def _labelled(nodes: Nodes, label: str) -> npt.NDArray[np.object_]:
    def value(node: Node) -> str | None:
        return node.labels.get(label)

    return nodes.column(("NVLinkTopology", "label", label), value, object)
