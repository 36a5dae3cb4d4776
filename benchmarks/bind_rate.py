"""Create → bind on one real API server: ai-scheduler and kube-scheduler in turns, in one run.

    python -m benchmarks.bind_rate [--pods 2000] [--nodes 500] [--rounds 3]

A pod is done when a watch shows its node.  No kubelets and no controllers run; both schedulers have their limits of
requests per second raised.  Loopback only; every round is bounded in time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import Process
from e2e.deployment import ROOT, apply_crds
from e2e.objects import node

CONNECTIONS = 64
ROUND_SECONDS = 240
PROGRAMS = ("ai-scheduler", "kube-scheduler")


def pod(name: str, scheduler: str) -> dict[str, Any]:
    """A plain pod."""
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }  # fmt: skip


def start(program: str, plane: ControlPlane, folder: Path) -> Process:
    """Start a scheduler as administrator, so that both have equal rights."""
    configuration: dict[str, Any] = {
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }
    file = folder / f"{program}.yaml"
    if program == "ai-scheduler":
        configuration |= {"healthzBindAddress": "127.0.0.1:0", "metricsBindAddress": "127.0.0.1:0"}
        file.write_text(yaml.safe_dump(configuration))
        command = [str(Path(sys.executable).parent / "ai-scheduler"), "run", "--config", str(file)]
    else:
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        profiles = {"profiles": [{"schedulerName": "kube-scheduler"}]}
        file.write_text(yaml.safe_dump({**head, **configuration, **profiles}))
        command = [str(plane.programs / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
    return Process(program, command, folder / f"{program}.log", folder=ROOT)


class Round:
    """One round: create pods, and watch until all have a node."""

    def __init__(self, session: aiohttp.ClientSession, server: str, scheduler: str, count: int, prefix: str) -> None:
        self._session = session
        self._url = f"{server}/api/v1/namespaces/default/pods"
        self._scheduler = scheduler
        self._names = [f"{prefix}-{scheduler}-{i}" for i in range(count)]

    async def run(self) -> tuple[float, float]:
        """Return pods per second from the first creation to the last binding, and the 99th percentile in seconds."""
        created: dict[str, float] = {}
        bound: dict[str, float] = {}
        async with self._session.get(self._url, params={"limit": "1"}) as response:
            version = (await response.json())["metadata"]["resourceVersion"]
        watch = asyncio.create_task(self._watch(version, bound))
        begun = time.perf_counter()
        gate = asyncio.Semaphore(CONNECTIONS)

        async def create(name: str) -> None:
            async with gate:
                created[name] = time.perf_counter()
                async with self._session.post(self._url, json=pod(name, self._scheduler)) as response:
                    response.raise_for_status()

        async with asyncio.timeout(ROUND_SECONDS):
            await asyncio.gather(*(create(name) for name in self._names))
            await watch
        latencies = sorted(bound[name] - created[name] for name in self._names)
        return len(self._names) / (max(bound.values()) - begun), latencies[int(len(latencies) * 0.99) - 1]

    async def delete(self) -> None:
        """Remove the pods at once."""
        async with self._session.delete(self._url, json={"gracePeriodSeconds": 0}) as response:
            response.raise_for_status()

    async def _watch(self, version: str, bound: dict[str, float]) -> None:
        """Note when each pod got its node; a stream that the server ends, as it does with slow readers, is resumed."""
        wanted = set(self._names)
        while len(bound) < len(wanted):
            parameters = {"watch": "1", "resourceVersion": version, "fieldSelector": "spec.nodeName!="}
            async with self._session.get(self._url, params=parameters, timeout=aiohttp.ClientTimeout(None)) as response:
                async for line in response.content:
                    item = json.loads(line)["object"]
                    version = item["metadata"]["resourceVersion"]
                    if item["metadata"]["name"] in wanted:
                        bound.setdefault(item["metadata"]["name"], time.perf_counter())
                    if len(bound) == len(wanted):
                        return


async def warm_up(session: aiohttp.ClientSession, server: str, scheduler: str) -> None:
    """Bind a few pods, so that start-up is not measured."""
    warm = Round(session, server, scheduler, 20, "warm")
    await warm.run()
    await warm.delete()


async def measure(plane: ControlPlane, folder: Path, count: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Run the rounds in turns."""
    results: dict[str, list[tuple[float, float]]] = {program: [] for program in PROGRAMS}
    context = ssl.create_default_context(cadata=plane.certificate_authority)
    headers = {"Authorization": f"Bearer {plane.token}"}
    connector = aiohttp.TCPConnector(limit=CONNECTIONS + 4, ssl=context)
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=2**22) as session:
        for number in range(rounds):
            for program in PROGRAMS if number % 2 == 0 else PROGRAMS[::-1]:
                process = start(program, plane, folder)
                try:
                    await warm_up(session, plane.server, program)
                    one = Round(session, plane.server, program, count, f"round{number}")
                    rate, p99 = await one.run()
                    results[program].append((rate, p99))
                    print(f"round {number + 1}: {program:14} {rate:7.0f} pods/s, p99 {p99:5.2f} s", flush=True)
                    await one.delete()
                except BaseException:
                    print(process.log_tail(20), file=sys.stderr)
                    raise
                finally:
                    process.kill()
    return results


def main() -> None:
    """Print rates, medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = build.build(["etcd", "kube-apiserver", "kubectl", "kube-scheduler"])
    with ControlPlane(programs=programs) as plane, tempfile.TemporaryDirectory() as folder:
        apply_crds(plane)
        for i in range(options.nodes):
            plane.request("POST", "/api/v1/nodes", node(f"n{i:04}", "all", gpus=0))
            plane.request("PATCH", f"/api/v1/nodes/n{i:04}", {"spec": {"taints": None}})
        results = asyncio.run(measure(plane, Path(folder), options.pods, options.rounds))
    medians = {program: statistics.median(rate for rate, _ in found) for program, found in results.items()}
    for program, found in results.items():
        rates = [rate for rate, _ in found]
        print(f"{program:14} median {medians[program]:6.0f} pods/s ({min(rates):.0f}-{max(rates):.0f})")
    print(f"ratio {medians['ai-scheduler'] / medians['kube-scheduler']:.2f}")


if __name__ == "__main__":
    main()
