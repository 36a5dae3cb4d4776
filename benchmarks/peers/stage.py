"""Stage: what a workload needs of the world while it runs, and the measurements that all workloads share."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import objects
from .audit import Requests, writes
from .client import PODS, PodWatch, percentile
from .schedulers import BARE, pod_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from .audit import Audit
    from .client import Api
    from .schedulers import Scheduler

NODES = "/api/v1/nodes"
GROUPS = f"/apis/{objects.GROUP_API}/namespaces/default/podgroups"
#: After the last binding: how long no write may come until a burst counts as over, and how long that may take.
QUIET_SECONDS, LONGEST_SETTLING_SECONDS = 1.0, 15.0
WARM_UP_PODS = 20
WARM_UP_SECONDS = 120.0
LONGEST_SECONDS = 240.0
EVALUATIONS = "ai_scheduler_node_evaluations_total"

#: One measurement by name: seconds end in _s, and so on; `results.py` says what is compared with what.
Figures = dict[str, float]


@dataclass
class Stage:
    """One scheduler on one control plane."""

    api: Api
    audit: Audit
    scheduler: Scheduler
    #: How long to look whether anything is written while nothing changes.
    idle_seconds: float = 5.0
    requests: dict[str, Requests] = field(default_factory=dict)
    #: When the pods of the last burst were created, by name.
    created: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How pods name the scheduler."""
        return pod_name(self.scheduler.name)

    @staticmethod
    async def make_nodes(api: Api, count: int, gpus: int) -> None:
        """Make the nodes, before the scheduler starts."""
        await api.post_all(NODES, [objects.node(i, gpus) for i in range(count)])

    @staticmethod
    async def clear(api: Api) -> None:
        """Remove pods, devices and nodes, which an earlier workload on the same control plane may have left."""
        for path in (PODS, f"/apis/{objects.DEVICE_API}/resourceslices", NODES):
            await api.delete(path)

    async def warm_up(self) -> None:
        """Wait until the scheduler has bound a few pods, so that its start is not measured; they are removed again."""
        names = [f"warm-{i}" for i in range(WARM_UP_PODS)]
        watch = await PodWatch(self.api).start()
        await self.api.post_all(PODS, [objects.pod(name, self.name) for name in names])
        try:
            await watch.wait_bound(names, WARM_UP_SECONDS)
        finally:
            await watch.stop()
        await self.api.delete(PODS)
        await self.audit.settle(QUIET_SECONDS, LONGEST_SETTLING_SECONDS)

    @asynccontextmanager
    async def costs(self, pods: int, figures: Figures, what: str = "") -> AsyncIterator[None]:
        """Add to the figures what the scheduler spends inside, until its writes have ended: CPU, memory and requests."""
        self.audit.take()
        cpu, evaluations = self.scheduler.cpu_seconds, self.scheduler.counter(EVALUATIONS)
        yield
        requests = await self.audit.settle(QUIET_SECONDS, LONGEST_SETTLING_SECONDS)
        figures["cpu_s_per_1000_pods"] = (self.scheduler.cpu_seconds - cpu) * 1000 / pods
        figures["rss_mib"] = self.scheduler.resident_mib
        figures["requests_per_pod"] = requests.total() / pods
        if self.scheduler.is_ours:
            figures["node_evaluations_per_pod"] = (self.scheduler.counter(EVALUATIONS) - evaluations) / pods
        self.requests[what] = requests

    async def idle(self, figures: Figures) -> None:
        """Add to the figures what the scheduler writes while nothing changes; the bare client has nothing to write."""
        if self.scheduler.name == BARE:
            return
        self.audit.take()
        await asyncio.sleep(self.idle_seconds)
        found = self.audit.take()
        figures["idle_writes"] = writes(found)
        self.requests["idle"] = found

    async def burst(self, pods: Mapping[str, bytes], figures: Figures) -> PodWatch:
        """Create pods at once, wait until all are bound, and add rate and latency to the figures."""
        watch = await PodWatch(self.api).start()
        created: dict[str, float] = {}

        async def create(item: tuple[str, bytes]) -> None:
            created[item[0]] = time.perf_counter()
            await self.api.post(PODS, item[1])

        try:
            await self.api.each(pods.items(), create)
            await watch.wait_bound(pods, LONGEST_SECONDS)
        finally:
            await watch.stop()
        figures["pods_per_s"] = len(pods) / (max(watch.bound[name] for name in pods) - min(created.values()))
        figures["p99_s"] = percentile([watch.bound[name] - created[name] for name in pods], 99)
        self.created = created
        return watch


def gang_p99(gangs: Sequence[Sequence[str]], created: Mapping[str, float], bound: Mapping[str, float]) -> float:
    """Return the 99th percentile of the seconds from a gang's first creation to its last binding."""
    return percentile([max(bound[m] for m in gang) - min(created[m] for m in gang) for gang in gangs], 99)
