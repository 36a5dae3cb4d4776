"""Lists and watch events of pods through a reflector, with the handler of assigned pods: seconds, CPU seconds and memory.

`python -m benchmarks.edges.reading URL` is the process that is measured: it lists, says what that cost, and follows the
events that are asked for.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

from scheduler.kube.auth import Connection, Login
from scheduler.kube.client import Client
from scheduler.kube.collector import THRESHOLDS, settle
from scheduler.kube.event_loop import new_runner
from scheduler.kube.feeds import ASSIGNED, PODS, Feed
from scheduler.kube.inbox import Inbox
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.standby import Standby
from scheduler.kube.views import PodViews
from scheduler.model import pod_from_api
from scheduler.model.api import ApiPod


def memory_mib(line: str = "VmRSS") -> float:
    """Returns the resident memory of this process, now or at most."""
    text = next(text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith(line))
    return int(text.split()[1]) / 1024


async def main(url: str, events: int, rounds: int) -> None:
    """Lists, then follows `events` changes as often as `rounds` says; prints what each cost."""
    client = Client(Login(lambda: Connection(url)))
    inbox, standby = Inbox(), Standby()
    views = PodViews(inbox.put)
    feed = Feed(
        "pods", lambda api: views.assigned_changed(pod_from_api(api)), lambda key, _: views.assigned_left(key.uid)
    )
    reflector = Reflector(client, Resource("pods", PODS, ApiPod, ASSIGNED), feed)
    await client.get_bytes(f"{PODS}/none")  # what a first request imports and opens is not what is measured
    gc.collect()
    before, began, cpu = memory_mib(), time.perf_counter(), time.process_time()
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    report = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu, "pods": len(reflector)}
    for item in inbox.take():
        standby.handle(item)
    print(json.dumps(report | {"mib": memory_mib() - before, "peak_mib": memory_mib("VmHWM") - before}), flush=True)
    settle()
    for _ in range(rounds):
        began, cpu, seen = time.perf_counter(), time.process_time(), 0
        touching = asyncio.create_task(client.post(f"/bench/touch?pods={events}", {}))
        while seen < events:
            await inbox.wait(10)
            taken = inbox.take()
            for item in taken:
                standby.handle(item)
            seen += len(taken)
            await asyncio.sleep(0)
        print(
            json.dumps({"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}), flush=True
        )
        await asyncio.gather(touching, return_exceptions=True)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()


if __name__ == "__main__":
    gc.set_threshold(*THRESHOLDS)
    settle()
    with new_runner() as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
