"""Nodes: the columnar view of a cluster that Filter and Score work on; Snapshot: the whole of it, with what-if.

For the engine and plugins.  Columns are numpy arrays over the node axis (int64; millicores, bytes, pieces).  A cycle
changes its snapshot only through `place` and `remove`, and undoes it with what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scheduler.model.quantity import LARGEST

from .domains import Domains
from .pod_index import PodIndex
from .row_cache import F, Followers
from .rows import NodeView, Row

if TYPE_CHECKING:
    from scheduler.model import Node, Pod

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Undo = Callable[[], None]
#: Above every priority: what `Nodes.lowest_priority` says of a node without pods.
NO_PRIORITY = 2**62


class Nodes(Sequence[NodeView]):
    """Some or all rows of a snapshot, as columns; what wide plugins get.

    Columns are read-only arrays of shape (len(nodes),).
    """

    def __init__(self, snapshot: Snapshot, rows: Ints | None = None) -> None:
        """Select rows of a snapshot; None means all."""
        self.snapshot = snapshot
        self._rows = rows

    @property
    def rows(self) -> Ints:
        """Row numbers in the snapshot."""
        return np.arange(len(self.snapshot.all_rows), dtype=np.int64) if self._rows is None else self._rows

    @property
    def is_whole(self) -> bool:
        """These are all rows of the snapshot, in order."""
        return self._rows is None

    @property
    def names(self) -> list[str]:
        """Node names in row order."""
        return [row.node.name for row in self._records()]

    def allocatable(self, resource: str) -> Ints:
        """What each node offers of a resource; 0 where it has none."""
        return self._cut(self.snapshot.column("allocatable", resource))

    def requested(self, resource: str) -> Ints:
        """What the pods of each node ask of a resource."""
        return self._cut(self.snapshot.column("requested", resource))

    def scored_usage(self, resource: str) -> Ints:
        """What scoring counts as used: as `requested`, but cpu and memory with the defaults of silent containers."""
        return self._cut(self.snapshot.column("nonzero" if resource in ("cpu", "memory") else "requested", resource))

    def pod_counts(self) -> Ints:
        """How many pods each node has."""
        return self._cut(self.snapshot.column("pods", ""))

    def lowest_priority(self) -> Ints:
        """The lowest priority of each node's pods, -NO_PRIORITY for one that is going; NO_PRIORITY where there are none."""
        return self._cut(self.snapshot.column("lowest", ""))

    def requested_below(self, priority: int, resource: str) -> Ints:
        """What each node's pods below a priority, and those that are going anyway, ask of a resource, or their count."""
        return self._cut(self.snapshot.column("below", resource, priority))

    def column(
        self, key: Hashable, of_node: Callable[[Node], object], dtype: npt.DTypeLike = np.bool_
    ) -> npt.NDArray[Any]:
        """Return a column computed from Node objects alone, cached under its key until a node changes."""
        return self._cut(self.snapshot.node_column(key, of_node, dtype))

    def at(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the part of a column over all rows of the snapshot that is about these nodes."""
        return column if self._rows is None else column[self._rows]

    def select(self, rows: Ints) -> Nodes:
        """Return the view of some rows, given as positions in this view."""
        return Nodes(self.snapshot, rows if self._rows is None else self._rows[rows])

    def one(self, row: int) -> Nodes:
        """Return the view of one row of the snapshot."""
        return _One(self.snapshot, row)

    def __len__(self) -> int:
        """Count the nodes."""
        return len(self.snapshot.all_rows) if self._rows is None else len(self._rows)

    def __getitem__(self, position: int) -> NodeView:  # type: ignore[override]
        """Return one node by its position in this view."""
        return NodeView(self.snapshot.all_rows[position if self._rows is None else int(self._rows[position])])

    def __iter__(self) -> Iterator[NodeView]:
        """Walk over the nodes in row order."""
        return (NodeView(row) for row in self._records())

    def _records(self) -> Iterable[Row]:
        rows = self.snapshot.all_rows
        return rows if self._rows is None else (rows[int(i)] for i in self._rows)

    def _cut(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self._rows is not None:
            return column[self._rows]
        view = column.view()
        view.flags.writeable = False
        return view


class _One(Nodes):
    """One row; its number becomes an array only if somebody asks for columns."""

    def __init__(self, snapshot: Snapshot, row: int) -> None:
        self.snapshot = snapshot
        self._row = row

    @cached_property
    def _rows(self) -> Ints:  # type: ignore[override]
        return np.array([self._row], dtype=np.int64)


class Snapshot:
    """All nodes at one generation. Rows are sorted by node name."""

    def __init__(self) -> None:
        """Start empty; ClusterState fills it."""
        self.generation = 0
        #: Changes whenever a Node object or the set of nodes does.
        self.node_generation = 0
        self.all_rows: list[Row] = []
        self.row_of: dict[str, int] = {}
        #: Image name to bytes, of all images that some node has: how large each counts, wherever it is.
        self.image_sizes: dict[str, int] = {}
        #: By kind, resource and priority: columns that change with pods, and those that change with nodes only.
        self._columns: dict[tuple[str, str, int], Ints] = {}
        self._fixed: dict[tuple[str, str, int], Ints] = {}
        self._node_columns: dict[Hashable, npt.NDArray[Any]] = {}
        self._domains: dict[str, Domains] = {}
        #: Rows in the order in which they changed, and a number that grows when the list starts anew: whoever has read
        #: so far needs to look at the rest only.
        self.changed_rows: list[int] = []
        self.epoch = 0
        #: Rows that changed since the columns were brought up to date.
        self._stale_rows: list[int] = []
        self._index = PodIndex()
        self._followers = Followers()

    @property
    def nodes(self) -> Nodes:
        """All nodes."""
        return Nodes(self)

    @property
    def pods(self) -> PodIndex:
        """How many pods of which kind stand where; filled when it is first asked for, O(pods)."""
        if not self._index.is_filled:
            self._index.fill(self.all_rows)
        return self._index

    def domains(self, key: str) -> Domains:
        """Return which value of a label each node has, cached until a node changes."""
        domains = self._domains.get(key)
        if domains is None:
            if len(self._domains) > _MOST_NODE_COLUMNS:
                self._domains.clear()
            domains = self._domains[key] = Domains((row.node for row in self.all_rows), key)
        return domains

    def view(self, name: str) -> NodeView:
        """Return one node by name; KeyError if there is none."""
        return NodeView(self.all_rows[self.row_of[name]])

    def place(self, pod: Pod, row: int) -> Undo:
        """Count a pod in on a row, and return how to undo it, which is `take_back`."""
        self.all_rows[row].add(pod)
        if self._index.is_filled:
            self._index.begin_trial(pod, self.all_rows[row].node.name, 1)
        self._refresh(row)
        return lambda: self.take_back(pod.uid, row)

    def take_back(self, uid: str, row: int) -> None:
        """Undo `place`."""
        pod = self.all_rows[row].drop(uid)
        if self._index.is_filled:
            self._index.end_trial(pod, self.all_rows[row].node.name, 1)
        self._refresh(row)

    def keep(self, pod: Pod) -> None:
        """Let a pod that was placed, and is not terminating, stay: it is no what-if any more, and nothing else changes."""
        if self._index.is_filled:
            self._index.keep_trial(pod)

    def remove(self, uid: str, row: int) -> Undo:
        """Count a pod out of a row, and return how to undo it.

        Undone in whatever order, removals leave the order of the row's pods as it was.
        """
        pod = self.all_rows[row].lift(uid)
        if self._index.is_filled:
            self._index.begin_trial(pod, self.all_rows[row].node.name, -1)
        self._refresh(row)

        def undo() -> None:
            self.all_rows[row].lower(pod)
            if self._index.is_filled:
                self._index.end_trial(pod, self.all_rows[row].node.name, -1)
            self._refresh(row)

        return undo

    def mark(self) -> tuple[int, int]:
        """Return where the list of changed rows ends now, for `is_as_at`."""
        return self.epoch, len(self.changed_rows)

    def is_as_at(self, mark: tuple[int, int]) -> None:
        """Take that all changes since a mark were undone: nobody needs to look at those rows."""
        epoch, length = mark
        if epoch == self.epoch:
            del self.changed_rows[length:]

    def replace_rows(self, rows: list[Row], *, nodes_changed: bool) -> None:
        """Take over a new list of rows (sorted by name): ClusterState's way to build from scratch."""
        if self._index.is_filled:
            self._index.rows_replaced(self.all_rows, rows)
        self._carry_columns(rows)
        self.all_rows = rows
        self.row_of = {row.node.name: i for i, row in enumerate(rows)}
        self._followers.clear()
        self.changed_rows.clear()
        self.epoch += 1
        if nodes_changed:
            self.node_generation += 1
            self._node_columns.clear()
            self._domains.clear()

    def replace_row(self, index: int, row: Row) -> None:
        """Take over one changed row whose Node object is the same: ClusterState's incremental refresh."""
        if self._index.is_filled:
            self._index.row_replaced(row.node.name, self.all_rows[index], row)
        self.all_rows[index] = row
        self._refresh(index)

    def column(self, kind: str, resource: str, priority: int = 0) -> Ints:
        """Return a column (read-only): allocatable, requested, nonzero, pods, lowest or below (see `Nodes`)."""
        key = (kind, resource, priority)
        if self._stale_rows:
            self._bring_up_columns()
        column = self._fixed.get(key) if kind == "allocatable" else self._columns.get(key)
        if column is None:
            rows: Iterable[int] = range(len(self.all_rows))
            if kind == "below":
                rows = np.flatnonzero(self.column("lowest", "") < priority).tolist()
            column = np.zeros(len(self.all_rows), dtype=np.int64)
            for row in rows:
                column[row] = _cell(self.all_rows[row], kind, resource, priority)
            if kind == "below" and sum(known == kind for known, _, _ in self._columns) >= _MOST_BELOW_COLUMNS:
                self._columns = {known: values for known, values in self._columns.items() if known[0] != kind}
            (self._fixed if kind == "allocatable" else self._columns)[key] = column
        return column

    def node_column(self, key: Hashable, of_node: Callable[[Node], object], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a column computed from Node objects alone, cached until a node changes."""
        column = self._node_columns.get(key)
        if column is None:
            column = np.array([of_node(row.node) for row in self.all_rows], dtype=dtype)
            if len(self._node_columns) > _MOST_NODE_COLUMNS:
                self._node_columns.clear()
            self._node_columns[key] = column
        return column

    def follower(self, key: Hashable, make: Callable[[], F]) -> F:
        """Return what somebody keeps of the rows under a key, up to date (`RowFollower`)."""
        return self._followers.get(key, make, self)

    def _refresh(self, index: int) -> None:
        """Note that a row changed; columns that depend on pods are brought up to date when they are asked for."""
        self._followers.note(index)
        if len(self.changed_rows) >= _LONGEST_LOG:
            self.changed_rows.clear()
            self.epoch += 1
        self.changed_rows.append(index)
        self._stale_rows.append(index)
        if len(self._stale_rows) >= _MOST_STALE_ROWS:
            self._bring_up_columns()

    def _carry_columns(self, rows: list[Row]) -> None:
        """Take over what columns say of rows that stay, in their new places; only the others are read."""
        self._bring_up_columns()
        former, places = self.all_rows, [self.row_of.get(row.node.name, -1) for row in rows]
        new = [i for i, place in enumerate(places) if place < 0 or former[place] is not rows[i]]
        if len(new) * _MANY > len(rows):
            self._columns.clear()
            self._fixed.clear()
            return
        take = np.array(places, dtype=np.int64)
        for columns in (self._columns, self._fixed):
            for key, column in columns.items():
                columns[key] = carried = column[take]
                for i in new:
                    carried[i] = _cell(rows[i], *key)

    def _bring_up_columns(self) -> None:
        """Bring every column that depends on pods up to date in the rows that changed."""
        stale = dict.fromkeys(self._stale_rows)
        self._stale_rows.clear()
        for (kind, resource, priority), column in self._columns.items():
            for index in stale:
                column[index] = _cell(self.all_rows[index], kind, resource, priority)


_MOST_NODE_COLUMNS = 4096
_MOST_BELOW_COLUMNS = 32
#: If more than one row in so many is new, all are read.
_MANY = 4
_LONGEST_LOG = 65_536
#: So many changes are put off, so that no single question pays for many.
_MOST_STALE_ROWS = 128


def _cell(row: Row, kind: str, resource: str, priority: int) -> int:
    """Return one cell of a column."""
    match kind:
        case "requested":
            return min(row.requested.get(resource, 0), LARGEST)
        case "allocatable":
            return row.node.allocatable.get(resource, 0)
        case "nonzero":
            return min(row.nonzero[0 if resource == "cpu" else 1], LARGEST)
        case "pods":
            return len(row.pods)
        case "lowest":
            found = [-NO_PRIORITY if pod.is_terminating else pod.priority for pod in row.pods.values()]
            return min(found, default=NO_PRIORITY)
        case "below":
            weak = [pod for pod in row.pods.values() if pod.priority < priority or pod.is_terminating]
            return len(weak) if resource == "pods" else sum(pod.requests.get(resource, 0) for pod in weak)
    raise KeyError(kind)
