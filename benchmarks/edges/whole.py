"""The whole process against the scripted server: start-up, a burst of pods, and what the garbage collector takes meanwhile.

The scheduler is the real program in a process of its own.  While it works, its health page is asked every 20 ms: how long an
answer takes is how long its event loop was held up.
"""

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from e2e.controlplane.process import free_ports

ROOT = Path(__file__).parent.parent.parent
PATIENCE_SECONDS = 900
ASK_SECONDS = 0.02
_PAUSE = re.compile(r'ai_scheduler_collector_pause_seconds_bucket\{generation="(\d)",le="([\d.e-]+|\+Inf)"\} ([\d.]+)')


class Server:
    """The scripted server as a child process."""

    def __init__(self, **terms: int) -> None:
        command = [sys.executable, "-m", "benchmarks.edges.server", json.dumps(terms)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        self.url = self._child.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()


class Scheduler:
    """The scheduler as a child process."""

    def __init__(self, url: str, folder: Path, intake: str) -> None:
        [self.port] = free_ports(1)
        cluster = {
            "clusters": [{"name": "x", "cluster": {"server": url}}],
            "users": [{"name": "x", "user": {"token": "t"}}],
        }
        context = {"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "current-context": "x"}
        (folder / "kubeconfig").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **cluster, **context}))
        address = f"127.0.0.1:{self.port}"
        configuration = {
            "intake": intake, "healthzBindAddress": address, "metricsBindAddress": address,
            "clientConnection": {"kubeconfig": str(folder / "kubeconfig"), "qps": -1},
        }  # fmt: skip
        (folder / "configuration").write_text(yaml.safe_dump(configuration))
        program = Path(sys.executable).parent / "ai-scheduler"
        command = [str(program), "run", "--config", str(folder / "configuration")]
        self.log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.began = time.monotonic()
        self._child = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT, env=environment)

    def cpu_seconds(self) -> float:
        """Returns the CPU time that it has used."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self) -> float:
        """Returns its resident memory."""
        return int(Path(f"/proc/{self._child.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()


async def told(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """Returns what the server has seen so far."""
    async with session.get(f"{url}/bench") as response:
        found: dict[str, Any] = await response.json(content_type=None)
        return found


async def until_bound(session: aiohttp.ClientSession, url: str, count: int) -> dict[str, Any]:
    """Waits until so many bindings have been made."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await told(session, url)
            if len(found["bindings"]) >= count:
                return found
            await asyncio.sleep(0.1)


class Probe:
    """Asks the health page again and again, and keeps the longest answer time."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/healthz"
        self.longest_seconds = 0.0

    async def run(self) -> None:
        """Asks until cancelled."""
        while True:
            began = time.monotonic()
            try:
                async with self._session.get(self._url) as response:
                    await response.read()
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)  # it does not listen yet
            else:
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
            await asyncio.sleep(ASK_SECONDS)


async def pauses(session: aiohttp.ClientSession, port: int) -> dict[str, dict[str, int]]:
    """Returns how many pauses of each generation of the garbage collector were at most how long, in seconds."""
    async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
        text = await response.text()
    found: dict[str, dict[str, int]] = {}
    for generation, limit, count in _PAUSE.findall(text):
        found.setdefault(generation, {})[limit] = int(float(count))
    return found


async def measure(intake: str, nodes: int, pods: int, burst: int) -> dict[str, Any]:
    """Returns what a start in a full cluster and a burst of pods took."""
    with Server(nodes=nodes, pods=pods, pending=1) as server, tempfile.TemporaryDirectory() as folder:
        async with aiohttp.ClientSession() as session:
            scheduler = Scheduler(server.url, Path(folder), intake)
            probe = Probe(session, scheduler.port)
            asking = asyncio.create_task(probe.run())
            try:
                first = await until_bound(session, server.url, 1)
                report = {
                    "first_binding_seconds": first["bindings"][0] - scheduler.began,
                    "first_binding_cpu_seconds": scheduler.cpu_seconds(),
                    "start_held_up_seconds": probe.longest_seconds,
                }
                await asyncio.sleep(3)
                probe.longest_seconds = 0.0
                cpu = scheduler.cpu_seconds()
                async with session.post(f"{server.url}/bench/burst?pods={burst}") as response:
                    response.raise_for_status()
                found = await until_bound(session, server.url, burst + 1)
                return report | summary(found, burst) | {
                    "cpu_milliseconds_per_pod": (scheduler.cpu_seconds() - cpu) / burst * 1000,
                    "burst_held_up_seconds": probe.longest_seconds,
                    "resident_mib": scheduler.resident_mib(),
                    "collector_pauses": await pauses(session, scheduler.port),
                }  # fmt: skip
            except TimeoutError:
                print(scheduler.log.read_text()[-3000:], file=sys.stderr)
                raise
            finally:
                asking.cancel()
                scheduler.kill()


def summary(found: dict[str, Any], burst: int) -> dict[str, float]:
    """Returns what the server saw of a burst: rate, first binding, longest gap between two, and the worst wait of the Lease."""
    began = found["bursts"][-1]
    times = [at for at in found["bindings"] if at >= began]
    leases = [at for at in found["leases"] if at >= began - 3] + [found["now"]]
    return {
        "pods_per_second": burst / (times[-1] - began),
        "burst_first_binding_seconds": times[0] - began,
        "longest_gap_between_bindings_seconds": max(b - a for a, b in itertools.pairwise(times)),
        "longest_gap_between_renewals_seconds": max((b - a for a, b in itertools.pairwise(leases)), default=0.0),
    }
