"""Candidate: one shape of pod against all nodes of a snapshot: where it may go and what each place is worth.

For placement and preemption.  Filter and Score run once per shape; after that only rows that the snapshot says have
changed are evaluated again, also from one cycle to the next.  Scores that are normalised are normalised over the rows that
are feasible now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Reason, Status

from .bounds import places
from .gains import gains_of
from .kept import Kept
from .looks import looks_on, refused_by
from .messages import narrowed_text
from .statuses import Statuses, counted
from .totals import TIE_BITS, Totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.framework.filter_result import FilterResult
    from scheduler.framework.runtime import Runtime, ScorePart
    from scheduler.model import Pod
    from scheduler.state.snapshot import Bools, Ints, Snapshot

    from .looks import Look

#: If more than one row in so many changed, all are evaluated anew.
_MANY = 4
#: Up to so many rows are evaluated one by one: then no array is worth its price.
_FEW = 4


class Candidate:
    """A shape, its feasible rows and their scores."""

    def __init__(self, runtime: Runtime, snapshot: Snapshot, pod: Pod) -> None:
        """Take what to evaluate; `sync` does it."""
        self.pod = pod
        self.state = CycleState()
        #: Set when PreFilter refused the pod altogether.
        self.early: Status | None = None
        #: Node evaluations so far.
        self.evaluations = 0
        self._runtime = runtime
        self._snapshot = snapshot
        self._asks: dict[str, int] | None = None
        self._nominated = Kept()
        self._reserved: Mapping[int, Sequence[Look]] = {}
        self._pool: tuple[int, bytes] = (-1, b"")
        self._refused_by_nominated: dict[int, Status] = {}
        #: Each of these statuses once, so that equal ones are the same.
        self._told: dict[Status, Status] = {}
        #: The reasons as they were counted last, and from which verdicts.
        self._counted: tuple[FilterResult | None, dict[tuple[str, Reason], int]] = (None, {})
        self._ties: Ints = _NONE
        self._epoch = -1
        self._seen = 0
        self._noted: dict[int, None] = {}
        #: Rows that PreFilter and the plugins that read Node objects alone leave open; all that pass every Filter.
        self._narrowed: Bools | None = None
        self._open: Bools = _NOWHERE
        #: Rows that pass the Filters that look at one node, and those that look further.
        self._near: Bools = _NOWHERE
        self._far: Bools = _NOWHERE
        self._feasible: Bools = _NOWHERE
        #: Every verdict, as of when it was asked for; dropped when a row changes.
        self._result: FilterResult | None = None
        self._is_scored = False
        #: Scores by part; of no part before anybody needed them.
        self._totals = _NO_TOTALS
        self._keys: Ints = _NONE

    @property
    def feasible(self) -> Bools:
        """Which rows pass every Filter, with nominated pods counted, shape (rows,); up to date after `sync`."""
        return self._feasible

    def pool(self) -> bytes:
        """Return what names the rows that could take a pod if they were empty; computed once until a node changes."""
        generation, name = self._pool
        if generation != self._snapshot.node_generation:
            could = places(self._asks, self._snapshot.nodes, self._open, is_empty=True) > 0
            name = np.packbits(could).tobytes()
            self._pool = self._snapshot.node_generation, name
        return name

    @property
    def asks(self) -> dict[str, int] | None:
        """What one pod counts against free resources; None if nobody counts (`Runtime.counted_requests`)."""
        return self._asks

    @property
    def is_only_counted(self) -> bool:
        """Free resources alone decide what pods on a node change for this one, and no room is kept for others."""
        is_kept = self._nominated or self._reserved
        return self.early is None and not is_kept and self._runtime.counting_filter(self.state, self.pod) is not None

    def attend(self, pod: Pod, nominated: Kept, ties: Ints, reserved: Mapping[int, Sequence[Look]]) -> None:
        """Serve another attempt: look again at rows where room was kept for others, or is now."""
        self.pod = pod
        self._noted.update(dict.fromkeys(nominated.changed_since(self._nominated)))
        self._nominated = nominated
        former, self._reserved = self._reserved, reserved
        if former or reserved:
            rows = dict.fromkeys((*former, *reserved))
            self._noted.update({row: None for row in rows if former.get(row) != reserved.get(row)})
        if ties is not self._ties:
            self._ties = ties
            self._is_scored = self._is_scored and len(ties) == len(self._feasible)
            if self._is_scored:
                self._keys = self._totals.keys(self._feasible, ties)

    def sync(self) -> int:
        """Bring everything in line with the snapshot; return the number of node evaluations."""
        snapshot, before = self._snapshot, self.evaluations
        log, epoch = snapshot.changed_rows, self._epoch
        if epoch == snapshot.epoch and len(log) == self._seen and not self._noted:
            return 0
        self._epoch = -1  # should a plugin fail, everything is evaluated anew the next time
        rows = self._noted if epoch != snapshot.epoch else self._noted | dict.fromkeys(log[self._seen :])
        if epoch != snapshot.epoch or len(rows) * _MANY > len(self._feasible) or self.early is not None:
            self._evaluate()
        else:
            self._evaluate_again(rows)
        self._epoch, self._seen, self._noted = snapshot.epoch, len(log), {}
        return self.evaluations - before

    def best(self, allowed: Bools | None = None) -> int | None:
        """Return the feasible row with the highest total, ties at the fixed rule; None if there is none."""
        self.sync()
        if not self._is_scored:
            if not self._feasible.any():
                return None
            self._score()
        keys = self._keys if allowed is None else np.where(allowed, self._keys, -1)
        row = int(keys.argmax()) if len(keys) else -1
        return row if row >= 0 and keys[row] >= 0 else None

    def worth(self) -> Ints:
        """Return a key per row by which feasible rows are preferred, shape (rows,): weighted totals, ties at the fixed rule."""
        self.best()
        return self._keys if self._is_scored else np.zeros(len(self._feasible), dtype=np.int64)

    def is_independent(self) -> bool:
        """Tell whether a pod that is placed on one row changes nothing for this shape on any other."""
        return self.early is None and self._runtime.is_settled(self.state, self.pod, "filter")

    def best_rows(self, count: int) -> list[tuple[int, int]]:
        """Return the best rows with their weighted totals; none if nobody needed scores."""
        keys = self._keys if self._is_scored else _NONE
        found: list[tuple[int, int]] = []
        for _ in range(min(count, len(keys))):
            row = int(keys.argmax())
            if (key := int(keys[row])) < 0:
                break
            found.append((row, key))
            keys[row] = -1
        for row, key in found:  # cheaper than a copy
            keys[row] = key
        return [(row, key >> TIE_BITS) for row, key in found]

    def scores_of(self, rows: Sequence[int]) -> list[dict[str, int]]:
        """Return each plugin's normalised scores of some feasible rows."""
        return self._totals.shown(rows) if self._totals.parts else []

    def status_at(self, row: int) -> Status | None:
        """Return why a row is not feasible; None if it is."""
        if self.early is not None:
            return self.early
        if row in self._refused_by_nominated:
            return self._refused_by_nominated[row]
        if self._feasible[row]:
            return None
        return self._why().status_at(row) if self._wanted()[row] else self._narrowed_status()

    def statuses(self) -> Sequence[Status | None]:
        """Return the status of every row, made when it is asked for."""
        return Statuses(self)

    def reasons(self) -> dict[tuple[str, Reason], int]:
        """Count the rows that are not feasible by (plugin, reason)."""
        if self.early is not None:
            return {(self.early.plugin, reason): len(self._feasible) for reason in self.early.reasons}
        if self._result is None or self._counted[0] is not self._result:
            counts = self._count_reasons()  # which finds the verdicts, if there are none
            self._counted = self._result, counts
        return self._counted[1].copy()

    def _count_reasons(self) -> dict[tuple[str, Reason], int]:
        among = ~self._feasible
        among[list(self._refused_by_nominated)] = False
        if not among.any() and not self._refused_by_nominated:
            return {}
        counts = self._why().counts(among & self._wanted())
        narrowed = int(np.count_nonzero(among & ~self._wanted()))
        if narrowed:
            status = self._narrowed_status()
            counts[status.plugin, status.reasons[0]] = narrowed
        for status, number in counted(self._refused_by_nominated.values()):
            for reason in status.reasons:
                counts[status.plugin, reason] = counts.get((status.plugin, reason), 0) + number
        return counts

    def kept_for(self) -> Mapping[int, Sequence[Pod]]:
        """Return the pods, by row, for which room is kept against this shape."""
        return self._nominated

    def reserved_rows(self) -> list[int]:
        """Return the rows where room is reserved against this shape, from now or from a later moment on."""
        return list(self._reserved)

    def resolvable(self) -> Bools:
        """Return the rows that are refused in a way that evictions may cure, shape (rows,)."""
        found = self.curable() & ~self._feasible
        if refused := self._refused_by_nominated:
            found[list(refused)] = [status.code is Code.UNSCHEDULABLE for status in refused.values()]
        return found

    def curable(self) -> Bools:
        """Return the rows that are feasible or that evictions could make so, shape (rows,)."""
        if self.early is not None:
            return np.full_like(self._feasible, self.early.code is Code.UNSCHEDULABLE)
        return ~self._why().unresolvable() & self._wanted()

    def _evaluate(self) -> None:
        """Run PreFilter and Filter over all rows."""
        nodes = self._snapshot.nodes
        self.evaluations += max(1, len(nodes))
        self.state = CycleState()
        self._pool = (-1, b"")
        self._refused_by_nominated = {}
        self._is_scored = False
        self._result = None
        self._feasible = self._open = np.zeros(len(nodes), dtype=np.bool_)
        self.early, self._narrowed = self._runtime.pre_filter(self.state, self.pod, nodes)
        if self.early is not None:
            return
        if self._asks is None:
            self._asks = self._runtime.counted_requests(self.pod)
        self._result = self._runtime.filter(self.state, self.pod, nodes)
        self._near, self._far = self._result.passes_by_sight(self._runtime.is_far_sighted)
        self._feasible = self._near & self._far
        self._open = self._result.passes(nodes_only=True)
        if self._narrowed is not None:
            self._feasible &= self._narrowed
            self._open &= self._narrowed
        if self._nominated or self._reserved:
            rows = dict.fromkeys((*self._nominated, *self._reserved))
            self._respect_nominated([row for row in rows if self._narrowed is None or self._narrowed[row]])

    def _evaluate_again(self, changed: Iterable[int]) -> None:
        """Run the Filters that read pods over the rows that changed; those that look further over all, if they must."""
        runtime, snapshot = self._runtime, self._snapshot
        is_settled = runtime.is_settled(self.state, self.pod, "filter")
        if not is_settled and not runtime.pre_filter_again(self.state, self.pod, snapshot.nodes):
            self._evaluate()
            return
        open_rows = [row for row in changed if self._open[row]]
        kept, refused, reserved = self._nominated, self._refused_by_nominated, self._reserved
        is_few = is_settled and len(open_rows) <= _FEW
        is_plain = is_few and not any(row in kept or row in refused or row in reserved for row in open_rows)
        if is_plain and (not open_rows or self._evaluate_few(open_rows)):
            return
        rows = np.array(open_rows, dtype=np.int64)
        if len(rows):
            self.evaluations += len(rows)
            self._result = None
            nodes = snapshot.nodes.select(rows)
            self._near[rows] = runtime.filter(self.state, self.pod, nodes, changing_only=True, sight="near").passes()
            if is_settled:
                self._far[rows] = runtime.filter(self.state, self.pod, nodes, sight="far").passes()
        if is_settled and not len(rows):
            return
        if not is_settled:
            self._result = None
            self._far = runtime.filter(self.state, self.pod, snapshot.nodes, sight="far").passes()
            rows = np.flatnonzero(self._open)
        former = self._feasible[rows]
        self._feasible[rows] = self._near[rows] & self._far[rows]
        self._look_at_nominated(rows)
        if self._is_scored:
            flipped = former != self._feasible[rows]
            self._keys[rows[flipped]] = -1
            again = rows if is_settled else rows[flipped | np.isin(rows, list(changed))]
            self._keys[again] = -1
            self._score_again(again[self._feasible[again]], is_set_changed=bool(flipped.any()))

    def _evaluate_few(self, rows: list[int]) -> bool:
        """Do the same for few rows one by one, where far-sighted Filters are settled; False, with nothing done, if it cannot."""
        runtime, state, pod, nodes = self._runtime, self.state, self.pod, self._snapshot.nodes
        if runtime.has_far_filter(state):
            return False
        for row in rows:
            if runtime.passes_near(state, pod, nodes, row) != bool(self._feasible[row]):
                return False
        again = [row for row in rows if self._feasible[row]] if self._is_scored else []
        gains = gains_of(runtime, state, pod, nodes, self._totals.parts, self._totals.raw, again) if again else {}
        if gains is None:
            return False
        for row, gain in gains.items():
            self._keys[row] += gain << TIE_BITS
        self.evaluations += len(rows)
        self._result = None
        return True

    def _look_at_nominated(self, rows: Ints) -> None:
        """Look again at those of the rows where room is kept, or was."""
        if self._refused_by_nominated or self._nominated or self._reserved:
            for row in rows.tolist():
                self._refused_by_nominated.pop(row, None)
            self._respect_nominated([row for row in rows.tolist() if row in self._nominated or row in self._reserved])

    def _respect_nominated(self, rows: Sequence[int]) -> None:
        """Filter rows again as they are with the pods that room is kept for: every look must pass."""
        kept = {row: looks_on(row, self._nominated, self._reserved) for row in rows}
        refused = refused_by(self._runtime, self.state, self.pod, self._snapshot, rows, kept)
        for row, status in refused.items():
            self._feasible[row] = False
            self._refused_by_nominated[row] = self._told.setdefault(status, status)

    def _score(self) -> None:
        """Run PreScore and Score over the feasible rows, unless that was done."""
        if self._is_scored:
            return
        size = len(self._feasible)
        rows: Any = slice(None)
        nodes = self._snapshot.nodes
        if not self._feasible.all():
            rows = np.flatnonzero(self._feasible)
            nodes = nodes.select(rows)
        parts = self._runtime.pre_score(self.state, self.pod, nodes)
        self._totals = totals = Totals(parts, size)
        for part, normal in zip(parts, totals.normal, strict=True):
            if (same := self._runtime.same_score(part, self.pod, self._snapshot.nodes)) is not None:
                totals.take_same(part, normal, same)
                continue
            raw = normal if part.normalize is None else np.empty(size, dtype=np.int64)
            if nodes.is_whole:
                raw[:] = scores = self._runtime.raw_scores(part, self.state, self.pod, nodes)
            else:
                raw.fill(_UNKNOWN)
                raw[rows] = scores = self._runtime.raw_scores(part, self.state, self.pod, nodes)
            if part.normalize is not None:
                if not nodes.is_whole:
                    normal.fill(0)
                normal[rows] = self._runtime.normalized(part, self.state, self.pod, scores)
            totals.raw.append(raw)
        self._keys = totals.keys(self._feasible, self._ties)
        self._is_scored = True

    def _score_again(self, rows: Ints, *, is_set_changed: bool) -> None:
        """Score feasible rows that changed, and normalise anew where the set of feasible rows or a score changed."""
        runtime = self._runtime
        if runtime.has_silent_far_score(self.state, self.pod):
            self._is_scored = False
            return
        is_whole_changed = False
        for part, raw, normal in self._totals.differing():
            todo = self._to_score(part, raw, rows, is_set_changed=is_set_changed)
            if todo is None:
                self._is_scored = False
                return
            is_raw_changed = False
            if len(todo):
                scores = runtime.raw_scores(part, self.state, self.pod, self._snapshot.nodes.select(todo))
                is_raw_changed = not np.array_equal(raw[todo], scores)
                raw[todo] = scores
            if part.normalize is None:
                is_whole_changed |= len(todo) > len(rows)
            elif is_set_changed or is_raw_changed:
                feasible = np.flatnonzero(self._feasible)
                scores = runtime.normalized(part, self.state, self.pod, raw[feasible])
                if not np.array_equal(normal[feasible], scores):
                    normal[feasible] = scores
                    is_whole_changed = True
        if is_whole_changed:
            self._keys = self._totals.keys(self._feasible, self._ties)
        elif len(rows):
            self._keys[rows] = self._totals.keys_at(rows, self._ties)

    def _to_score(self, part: ScorePart, raw: Ints, rows: Ints, *, is_set_changed: bool) -> Ints | None:
        """Return the rows that a part has to score again; None if it does not score any more."""
        if part.plugin.READS_NODES_ONLY:
            unknown: Ints = rows[raw[rows] == _UNKNOWN]
            return unknown
        runtime = self._runtime
        if not runtime.is_far_sighted(part.plugin) or not (
            is_set_changed or not runtime.is_part_settled(part, self.state, self.pod)
        ):
            return rows
        feasible = np.flatnonzero(self._feasible)
        nodes = self._snapshot.nodes.select(feasible)
        return feasible if runtime.pre_score_again(part, self.state, self.pod, nodes) else None

    def _wanted(self) -> Bools:
        """Return the rows that PreFilter did not narrow away."""
        return np.ones(len(self._feasible), dtype=np.bool_) if self._narrowed is None else self._narrowed

    def _why(self) -> FilterResult:
        """Return every plugin's verdict on every row, as the snapshot is now."""
        if self._result is None:
            self._result = self._runtime.filter(self.state, self.pod, self._snapshot.nodes)
        return self._result

    def _narrowed_status(self) -> Status:
        names = self.state.read("narrowed-by", ())
        status = Status.unresolvable(Reason("NotNarrowed", narrowed_text(names)))
        return status.stamped(", ".join(names))


_NONE: Ints = np.zeros(0, dtype=np.int64)
_NO_TOTALS = Totals((), 0)
_NOWHERE: Bools = np.zeros(0, dtype=np.bool_)
_UNKNOWN = -(2**40)
