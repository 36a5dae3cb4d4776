"""The workloads: each fills a fresh cluster, lets the scheduler work, and returns figures by name.

Each one says how many nodes and GPUs it wants in full and in small.  A workload is the same for every scheduler, pod by
pod; gangs are Kubernetes' own PodGroups for all of them.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import objects
from .client import PODS, PodWatch
from .objects import GPUS_PER_NODE
from .schedulers import BARE, KUBE, OURS, REFLECTOR
from .stage import GROUPS, LONGEST_SECONDS, Figures, Stage, gang_p99

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REFUSED_MEMBERS = 10
#: Native gangs back off for up to 10 s times the root of their size.
LONGEST_BACKOFF_SECONDS = 90.0
DEVICES = f"/apis/{objects.DEVICE_API}"


@dataclass(frozen=True)
class Sizes:
    """How large a workload is."""

    nodes: int
    pods: int
    gang: int = 1


@dataclass(frozen=True)
class Workload:
    """One row of the table, or several that share a cluster."""

    name: str
    full: Sizes
    small: Sizes | None
    gpus: int
    run: Callable[[Stage, Sizes], Awaitable[dict[str, Figures]]]
    schedulers: tuple[str, ...] = (OURS, KUBE)
    #: Who does it in small.
    small_schedulers: tuple[str, ...] = (OURS,)


async def singles(stage: Stage, sizes: Sizes) -> dict[str, Figures]:
    """Pods without GPUs, all at once."""
    figures: Figures = {}
    pods = {f"pod-{i}": objects.pod(f"pod-{i}", stage.name) for i in range(sizes.pods)}
    async with stage.costs(sizes.pods, figures):
        await stage.burst(pods, figures)
    await stage.idle(figures)
    return {"": figures}


async def gangs(stage: Stage, sizes: Sizes) -> dict[str, Figures]:
    """Gangs of pods with two GPUs that exactly fill the cluster."""
    figures: Figures = {}
    names = [f"gang-{i}" for i in range(sizes.pods // sizes.gang)]
    members = [[f"{name}-{k}" for k in range(sizes.gang)] for name in names]
    gpus = sizes.nodes * GPUS_PER_NODE // sizes.pods
    await stage.api.post_all(GROUPS, [objects.group(name, sizes.gang) for name in names])
    pods = {
        pod: objects.pod(pod, stage.name, gpus=gpus, group=name)
        for name, gang in zip(names, members, strict=True)
        for pod in gang
    }
    async with stage.costs(sizes.pods, figures):
        watch = await stage.burst(pods, figures)
    figures["gang_p99_s"] = gang_p99(members, stage.created, watch.bound)
    await stage.idle(figures)
    return {"": figures}


async def whole_nodes(stage: Stage, sizes: Sizes) -> dict[str, Figures]:
    """One gang on half of the nodes and, when it is gone, one on all of them; then a gang for which no room is left."""
    found: dict[str, Figures] = {}
    for size in (sizes.nodes // 2, sizes.nodes):
        figures = found[f"one gang of {size}"] = {}
        await _one_gang(stage, size, figures)
        if size != sizes.nodes:
            await stage.api.delete(PODS)
            await stage.audit.settle(1.0, 15.0)
    found["no, then yes"] = await _no_then_yes(stage, sizes)
    return found


async def _one_gang(stage: Stage, size: int, figures: Figures) -> None:
    name = f"whole-{size}"
    await stage.api.post(GROUPS, objects.group(name, size))
    pods = {f"{name}-{i}": objects.pod(f"{name}-{i}", stage.name, gpus=GPUS_PER_NODE, group=name) for i in range(size)}
    async with stage.costs(size, figures):
        watch = await stage.burst(pods, figures)
    figures["gang_s"] = gang_p99([list(pods)], stage.created, watch.bound)
    figures["after_last_creation_s"] = max(watch.bound[p] for p in pods) - max(stage.created.values())


async def _no_then_yes(stage: Stage, sizes: Sizes) -> Figures:
    """Ask for room on a full cluster; then make room and wait for the same gang."""
    figures: Figures = {}
    count = min(REFUSED_MEMBERS, sizes.nodes)
    names = [f"late-{i}" for i in range(count)]
    await stage.api.post(GROUPS, objects.group("late", count))
    watch = await PodWatch(stage.api).start(with_refusals=True)
    async with stage.costs(count, figures, "no"):
        await stage.api.post_all(
            PODS, [objects.pod(name, stage.name, gpus=GPUS_PER_NODE, group="late") for name in names]
        )
        asked = time.perf_counter()
        await watch.wait_refused(names, LONGEST_SECONDS)
    figures["no_first_s"] = min(watch.refused.values()) - asked
    figures["no_s"] = max(watch.refused.values()) - asked
    await asyncio.sleep(2)  # a wait of two seconds is told in a condition once
    await stage.idle(figures)
    await stage.api.each([f"{PODS}/whole-{sizes.nodes}-{i}" for i in range(count)], stage.api.delete)
    freed = time.perf_counter()
    await watch.wait_bound(names, LONGEST_BACKOFF_SECONDS)
    figures["yes_s"] = max(watch.bound[name] for name in names) - freed
    await watch.stop()
    return figures


class Churn:
    """Jobs that come and go in a cluster that is kept four fifths full: of five jobs, one gang and four single pods.

    As many jobs as are bound leave again, chosen by chance from those that run, the same for every scheduler.
    """

    OUTSTANDING = 20

    def __init__(self, stage: Stage, sizes: Sizes) -> None:
        self._stage = stage
        self._gang = sizes.gang
        self._random = random.Random(1)
        self._gpus = 2
        room = sizes.nodes * GPUS_PER_NODE * 4 // 5 // self._gpus
        per_node = GPUS_PER_NODE // self._gpus
        self._running = [(f"before-{i}", i // per_node) for i in range(room)]
        self._left = sizes.pods
        self._created: dict[str, float] = {}
        self.jobs: list[list[str]] = []

    async def fill(self) -> None:
        """Put the first pods where they run."""
        bodies = [
            objects.pod(name, self._stage.name, gpus=self._gpus, node_name=objects.node_name(node))
            for name, node in self._running
        ]
        await self._stage.api.post_all(PODS, bodies)

    async def run(self, figures: Figures) -> None:
        """Let all jobs come, and wait until the last is bound."""
        stage = self._stage
        watch = await PodWatch(stage.api).start()
        began = time.perf_counter()
        async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as group:
            for _ in range(self.OUTSTANDING):
                group.create_task(self._one_after_the_other(watch))
        pods = [name for job in self.jobs for name in job]
        await watch.stop()
        figures["pods_per_s"] = len(pods) / (max(watch.bound[name] for name in pods) - began)
        figures["gang_p99_s"] = gang_p99([j for j in self.jobs if len(j) > 1], self._created, watch.bound)
        figures["p99_s"] = gang_p99([j for j in self.jobs if len(j) == 1], self._created, watch.bound)

    async def _one_after_the_other(self, watch: PodWatch) -> None:
        while self._left > 0:
            job = self._next_job()
            await self._submit(job)
            while not all(name in watch.bound for name in job):
                await watch.next_change()
            leaving = [self._running.pop(self._random.randrange(len(self._running))) for _ in job]
            self._running += [(name, 0) for name in job]
            for name, _ in leaving:
                await self._stage.api.delete(f"{PODS}/{name}")

    def _next_job(self) -> list[str]:
        number = len(self.jobs)
        size = self._gang if number % 5 == 0 else 1
        job = [f"job-{number}-{k}" for k in range(size)]
        self.jobs.append(job)
        self._left -= size
        return job

    async def _submit(self, job: list[str]) -> None:
        name = job[0].rpartition("-")[0] if len(job) > 1 else ""
        if name:
            await self._stage.api.post(GROUPS, objects.group(name, len(job)))
        for pod in job:
            self._created[pod] = time.perf_counter()
            await self._stage.api.post(PODS, objects.pod(pod, self._stage.name, gpus=self._gpus, group=name))


async def mixed(stage: Stage, sizes: Sizes) -> dict[str, Figures]:
    """Gangs that arrive into churn."""
    figures: Figures = {}
    churn = Churn(stage, sizes)
    await churn.fill()
    await stage.audit.settle(1.0, 15.0)
    async with stage.costs(sizes.pods, figures):
        await churn.run(figures)
    await stage.idle(figures)
    return {"": figures}


async def claims(stage: Stage, sizes: Sizes) -> dict[str, Figures]:
    """Pods that each claim one of the devices that their nodes publish."""
    figures: Figures = {}
    api = stage.api
    await api.post(f"{DEVICES}/deviceclasses", objects.device_class())
    await api.post_all(f"{DEVICES}/resourceslices", [objects.devices(i) for i in range(sizes.nodes)])
    names = [f"claim-{i}" for i in range(sizes.pods)]
    await api.post_all(f"{DEVICES}/namespaces/default/resourceclaims", [objects.claim(name) for name in names])
    await stage.audit.settle(1.0, 15.0)
    pods = {f"pod-{name}": objects.pod(f"pod-{name}", stage.name, claim=name) for name in names}
    async with stage.costs(sizes.pods, figures):
        await stage.burst(pods, figures)
    await stage.idle(figures)
    return {"": figures}


ALL = (OURS, REFLECTOR, KUBE, BARE)
WORKLOADS = (
    Workload("singles on 1,000 nodes", Sizes(1000, 10_000), Sizes(50, 300), 0, singles, ALL),
    Workload("singles on 5,000 nodes", Sizes(5000, 10_000), None, 0, singles, (OURS, KUBE, BARE)),
    Workload(
        "gangs of 4 × 2 GPUs",
        Sizes(500, 2000, 4),
        Sizes(40, 160, 4),
        GPUS_PER_NODE,
        gangs,
        (OURS, REFLECTOR, KUBE),
        small_schedulers=(OURS, KUBE),
    ),
    Workload("whole nodes", Sizes(512, 512), Sizes(32, 32), GPUS_PER_NODE, whole_nodes),
    Workload("gangs into churn", Sizes(500, 2000, 4), Sizes(40, 160, 4), GPUS_PER_NODE, mixed),
    Workload("device claims", Sizes(500, 2000), Sizes(40, 100), 0, claims),
)
