"""Measures what Kopf costs per pending pod, on a real API server: `python -m benchmarks.kopf_cost --pods 5000`.

For each variant of settings a fresh operator process (`benchmarks.kopf_operator`) starts while `--pods` pending pods
exist; then further pods are created and deleted while it runs. `docs/adr/0001-kopf-for-pending-pods.md` draws the
conclusions. Everything stays on loopback; without kubelets, controllers or a scheduler.
"""

import argparse
import asyncio
import json
import ssl
import sys
import time
import timeit
from collections.abc import Iterable, Sequence
from typing import Any, cast

import aiohttp
import kopf

from benchmarks.kopf_operator import VARIANTS, reader
from e2e.controlplane.cluster import ControlPlane

CONCURRENT_REQUESTS = 32
VARIANT_SECONDS = 180
"""No variant may take longer; a slower one fails the program."""

Report = dict[str, float]


def a_pod(name: str) -> dict[str, Any]:
    """Returns a pending pod as training jobs have them: about 5 KB once the server has added its part."""
    variables = [
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "NCCL_DEBUG",
        "NCCL_IB_HCA",
        "OMP_NUM_THREADS",
        "RUN",
        "HOME",
    ]
    resources = {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "8", "rdma/hca": "1"}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "shm", "emptyDir": {}}]
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}]
    trainer = {
        "name": "trainer",
        "image": "registry.example/team/trainer:2026.11",
        "command": ["torchrun", "--nproc-per-node=8", "train.py"],
        "env": [{"name": each, "value": f"value-of-{each.lower()}"} for each in variables],
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": mounts,
    }
    sidecar = {"name": "metrics", "image": "registry.example/metrics:1", "resources": {"requests": {"cpu": "100m"}}}
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3"]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "training", "scheduling.ai-scheduler.io/pod-group": name.rpartition("-")[0], "team": "a"},
            "annotations": {"example.com/owner": "team-a", "example.com/experiment": "baseline-7"},
        },
        "spec": {
            "schedulerName": "ai-scheduler",
            "containers": [trainer, sidecar],
            "volumes": volumes,
            "affinity": {"nodeAffinity": affinity},
            "nodeSelector": {"node-pool": "gpu"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


class Pods:
    """Creates and deletes pods in bulk."""

    PATH = "/api/v1/namespaces/default/pods"

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Takes a session that is bound to the server."""
        self._session = session
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def create(self, names: Iterable[str]) -> None:
        """Creates pods, many at a time."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._send("POST", self.PATH, a_pod(name)))

    async def delete(self, names: Iterable[str]) -> None:
        """Deletes pods at once, without grace."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._send("DELETE", f"{self.PATH}/{name}", {"gracePeriodSeconds": 0}))

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        async with self._slots, self._session.request(method, path, json=body) as answer:
            answer.raise_for_status()
            await answer.read()


async def measure(variant: str, connection: dict[str, Any], pods: Pods, later: int) -> list[Report]:
    """Returns what a fresh operator says of the first list, of `later` new pods, and of their deletion."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.kopf_operator", variant),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    tell, hear = child.stdin, child.stdout
    assert tell is not None
    assert hear is not None
    names = [f"later-{index}" for index in range(later)]

    async def answer() -> Report:
        line = await hear.readline()
        if not line:
            raise RuntimeError(f"{variant}: the operator ended early")
        report: Report = json.loads(line)
        return report

    try:
        async with asyncio.timeout(VARIANT_SECONDS):
            tell.write(json.dumps(connection).encode() + b"\n")
            reports = [await answer()]
            for kind, act in (("ADDED", pods.create), ("DELETED", pods.delete)):
                tell.write(f"{kind} {later}\n".encode())
                await answer()
                await act(names)
                reports.append(await answer())
            return reports
    finally:
        child.kill()
        await child.wait()


def row(variant: str, runs: Sequence[list[Report]], pods: int, later: int) -> str:
    """Returns a line of the table: the least of the runs, since the load of other programs only ever adds."""

    def least(phase: int, name: str) -> float:
        return min(run[phase][name] for run in runs)

    cells = [
        f"{least(0, 'seconds'):.1f}",
        f"{least(0, 'cpu_seconds') / pods * 1000:.2f}",
        f"{least(0, 'stall_milliseconds'):.0f}",
        f"{least(0, 'tasks'):.0f}",
        f"{least(0, 'peak_megabytes'):.0f}",
        f"{least(0, 'idle_megabytes'):.0f}",
        f"{least(1, 'cpu_seconds') / later * 1000:.2f}",
        f"{least(1, 'stall_milliseconds'):.0f}",
        f"{least(2, 'cpu_seconds') / later * 1000:.2f}",
    ]
    return f"| {variant} | " + " | ".join(cells) + " |"


def reading_microseconds(reads: str, pod: dict[str, Any]) -> float:
    """Returns how long a handler takes to read a pod, apart from all that Kopf does around it."""
    event = cast("kopf.RawEvent", {"type": "ADDED", "object": pod})
    read, body, rounds = reader(reads), kopf.Body(event["object"]), 10_000
    return timeit.timeit(lambda: read(event, body), number=rounds) / rounds * 1e6


HEADER = """\
| settings | list: s to last handler | list: CPU ms/pod | list: longest block of the loop, ms | tasks then | peak MB | MB when idle | new pod: CPU ms | block, ms | deleted pod (2 events): CPU ms |
|---|---|---|---|---|---|---|---|---|---|"""


async def run(cluster: ControlPlane, chosen: Sequence[str], pods: int, later: int, repeats: int) -> None:
    """Measures every chosen variant and prints the table."""
    tls = ssl.create_default_context(cadata=cluster.certificate_authority)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connector = aiohttp.TCPConnector(ssl=tls, limit=CONCURRENT_REQUESTS)
    async with aiohttp.ClientSession(cluster.server, headers=headers, connector=connector) as session:
        bulk = Pods(session)
        started = time.monotonic()
        await bulk.create(f"job-{index // 64}-{index % 64}" for index in range(pods))
        pod = cluster.request("GET", f"{Pods.PATH}/job-0-0")
        print(
            f"{pods} pods of {len(json.dumps(pod))} bytes created in {time.monotonic() - started:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        authority = cluster.certificate_authority
        connection = {
            "server": cluster.server,
            "token": cluster.token,
            "certificate_authority": authority,
            "pods": pods,
        }
        runs: dict[str, list[list[Report]]] = {variant: [] for variant in chosen}
        for number in range(repeats):  # In rounds, so that a busy minute of the machine does not fall on one variant.
            for variant in chosen:
                runs[variant].append(await measure(variant, connection, bulk, later))
                print(f"round {number + 1}", row(variant, runs[variant][-1:], pods, later), file=sys.stderr, flush=True)
        for name in ("body", "event", "structs"):
            print(f"reading 10 fields of a pod: {name} {reading_microseconds(name, pod):.1f} µs", file=sys.stderr)
        print(HEADER)
        for variant in chosen:
            print(row(variant, runs[variant], pods, later))


def main() -> None:
    """Reads the command line, starts a control plane and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=5000, help="pending pods that exist at the start")
    parser.add_argument("--later", type=int, default=2000, help="pods that are created and deleted while it runs")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each variant; the table shows the least")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="only this one; may be repeated")
    options = parser.parse_args()
    with ControlPlane() as cluster:
        asyncio.run(run(cluster, options.variant or list(VARIANTS), options.pods, options.later, options.repeats))


if __name__ == "__main__":
    main()
