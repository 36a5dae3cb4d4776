"""The bare client: binds each pod to a preset node as soon as its watch shows it.  No scheduler can be faster.

    python -m benchmarks.peers.bare SERVER TOKEN CERTIFICATE-FILE SCHEDULER-NAME NODES

It is what is left of a scheduler in Python without any decision, without conditions and without events.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from scheduler.kube.event_loop import new_runner

from .client import CONNECTIONS, PODS, Api
from .objects import node_name


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: _Pod


async def run(api: Api, scheduler: str, nodes: int) -> None:
    """Bind until killed."""
    pods: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(bind(api, pods, nodes))
        decode = msgspec.json.Decoder(_Event).decode
        selector = f"spec.nodeName%3D,spec.schedulerName%3D{scheduler}"
        version = "0"  # what is there already comes first
        while True:
            async for lines in api.stream(f"{PODS}?fieldSelector={selector}", version):
                for line in lines:
                    event = decode(line)
                    version = event.object.metadata.resource_version
                    if event.type == "ADDED":
                        pods.put_nowait(event.object.metadata.name)


async def bind(api: Api, pods: asyncio.Queue[str], nodes: int) -> None:
    """Bind pods to the node of their number."""
    while True:
        name = await pods.get()
        node = node_name(int(name.rpartition("-")[2]) % nodes)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await api.post(f"{PODS}/{name}/binding", msgspec.json.encode(body))


async def main(server: str, token: str, authority: str, scheduler: str, nodes: int) -> None:
    """Bind as the command line says."""
    async with Api(server, token, authority) as api:
        await run(api, scheduler, nodes)


if __name__ == "__main__":
    server, token, certificate, scheduler, nodes = sys.argv[1:]
    with new_runner() as runner:
        runner.run(main(server, token, Path(certificate).read_text(), scheduler, int(nodes)))
