"""Search: where a workload goes as a whole, from the domain that suits it best to the whole cluster.

For `cycle`.  The placer finds nodes for its pods; this decides among what nodes the placer looks, and looks again
elsewhere while a placement would keep somebody from starting when it was promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.runtime import call

from .bounds import places

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.plugin import Domain
    from scheduler.framework.runtime import Runtime
    from scheduler.framework.workload import Workload
    from scheduler.state.snapshot import Bools, Snapshot

    from .delays import Delays
    from .placement import Placer

#: How many domains of one level are tried to the end before the best is chosen.
MOST_DOMAINS = 8
#: So many other places are tried for a workload that would delay somebody.
MOST_TRIES = 8


class Search:
    """One search for one workload on one snapshot; what it finds is left on the placer and the snapshot."""

    def __init__(
        self,
        runtime: Runtime,
        snapshot: Snapshot,
        workload: Workload,
        placer: Placer,
        state: CycleState,
        delays: Delays | None = None,
    ) -> None:
        """Take what the attempt depends on; `delays` tells whom a placement would keep from starting as promised."""
        self._runtime = runtime
        self._snapshot = snapshot
        self._workload = workload
        self._placer = placer
        self._state = state
        self._delays = delays
        #: Whom every place that was found would delay.
        self.delayed = ""

    def run(self) -> Generator[int, None, str | None]:
        """Place the workload where it delays nobody.

        Returns the path of its domain, empty for the whole cluster, or None if there is no place; `delayed` is set if
        there would be places but for somebody's promise.
        """
        if self._runtime.profile.points["placement_score"]:
            self._placer.rate = lambda rows: self._rate(tuple(sorted(rows.tolist())))
        where = yield from self._where()
        if where is None or not self._delays:
            return where
        allowed = np.ones(len(self._snapshot.all_rows), dtype=np.bool_)
        for _ in range(MOST_TRIES):
            whom = yield from self._delays.whom(self._placer.placed)
            if not whom:
                return where
            allowed[[row for _, row in self._placer.placed.values()]] = False
            self._placer.clear()
            if not self.delayed and (yield from self._delays.whom({})):
                break  # it would be late anyway
            self.delayed = whom
            yield from self._placer.evaluate()
            if not (yield from self._placer.place_all(self._workload.needed, allowed)):
                return None
            where = self._placer.region
        else:
            self._placer.clear()
            return None
        yield from self._placer.evaluate()
        return (yield from self._where())

    def fits(self) -> Generator[int, None, bool]:
        """Place as many pods as the workload needs, and no more; False leaves nothing placed."""
        for _, allowed in self._domains():
            if (yield from self._placer.place_all(self._workload.needed, allowed, self._workload.needed)):
                return True
        return False

    def _where(self) -> Generator[int, None, str | None]:
        """Place the workload, whomever that delays."""
        placer = self._placer
        if (yield from placer.place_lone()):
            return ""
        for domain, allowed in self._domains():
            if (yield from placer.place_all(self._workload.needed, allowed)):
                if allowed is not None and placer.parts is None:
                    yield from placer.place_rest()
                return domain or placer.region
        return None

    def _domains(self) -> Iterator[tuple[str, Bools | None]]:
        """Yield where to look: where room was made, domains from the tightest and least roomy, then everywhere."""
        nominated = self._placer.nominated_rows()
        if nominated is not None and self._placer.parts is None:
            yield "", nominated
        if self._workload.gang is not None:
            for plugin in self._runtime.plugins("placement_generate"):
                if not hasattr(plugin, "generate_domains"):
                    continue
                domains: list[Domain] = call(
                    plugin, "generate_domains", self._state, self._workload, self._snapshot.nodes
                )
                for domain in self._roomy(domains):
                    mask = np.zeros(len(self._snapshot.all_rows), dtype=np.bool_)
                    mask[list(domain.rows)] = True
                    yield domain.name, mask
        yield "", None

    def _roomy(self, domains: list[Domain]) -> list[Domain]:
        """Return the domains that might hold the whole workload, best first, a bounded number of them."""
        nodes = self._snapshot.nodes
        rooms = [(self._placer.count(c), places(c.asks, nodes, c.feasible)) for c in self._placer.candidates]
        rated: list[tuple[int, int, int, str, Domain]] = []
        for domain in domains:
            rows = np.array(domain.rows, dtype=np.int64)
            counts = [int(room[rows].sum()) for _, room in rooms]
            if sum(map(min, (wanted for wanted, _ in rooms), counts)) >= self._placer.total_pods:
                rated.append((domain.level, -self._rate(domain.rows), sum(counts), domain.name, domain))
        rated.sort(key=lambda entry: entry[:4])
        return [entry[4] for entry in rated[:MOST_DOMAINS]]

    def _rate(self, rows: tuple[int, ...]) -> int:
        return sum(
            enabled.weight * int(call(enabled.plugin, "score_placement", self._state, self._workload, rows))
            for enabled in self._runtime.profile.points["placement_score"]
        )
