"""A lean scripted API server in a process of its own: `python -m benchmarks.edges.server '{"nodes": 5000, "pods": 50000}'`.

It keeps pods as a name and a node and makes bytes on demand, so that it costs less than what is measured.  It says on its first
line of output where it listens.  `POST /bench/{burst,touch}?pods=N` makes N pending pods or changes N assigned ones at once;
`GET /bench` tells what was written, and when.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from benchmarks.edges.objects import event, node, pod

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
GROUPS = ("coordination.k8s.io/v1", "events.k8s.io/v1")
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
CHUNK_EVENTS = 50


@dataclass
class World:
    """What there is: pods by name with their node (empty while pending), and what was written."""

    nodes: int
    pods: dict[str, str]
    version: int = 1000
    lease: dict | None = None
    leases: list[float] = field(default_factory=list)
    bindings: list[float] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)
    bursts: list[float] = field(default_factory=list)
    watches: list["Connection"] = field(default_factory=list)
    pages: dict[str, list[bytes]] = field(default_factory=dict)


class Connection(asyncio.Protocol):
    """One connection: requests in, answers out; a watch takes it over."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rest = b""
        self.view = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        if self in self.world.watches:
            self.world.watches.remove(self)

    def data_received(self, data: bytes) -> None:
        self.rest += data
        while (end := self.rest.find(b"\r\n\r\n")) >= 0:
            head = self.rest[:end]
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.rest) < end + 4 + length:
                return
            body, self.rest = self.rest[end + 4 : end + 4 + length], self.rest[end + 4 + length :]
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            path, _, query = target.partition("?")
            self.serve(method, path, {k: v[0] for k, v in parse_qs(unquote(query)).items()}, body)

    def serve(self, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith("/bench"):
            self.bench(method, path, query)
        elif query.get("watch") == "true":
            self.watch(path, query)
        elif method == "GET":
            self.read(path, query)
        else:
            self.write(path, body)

    def answer(self, body: bytes, status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    # ---- reading ----

    def read(self, path: str, query: dict[str, str]) -> None:
        if path.endswith("/leases/ai-scheduler"):
            return self.object(self.world.lease)
        if "/pods/" in path:
            name = path.rsplit("/", 1)[1]
            return self.answer(pod(name, self.world.version, self.world.pods.get(name, "")))
        if (found := discovery(path)) is not None:
            return self.answer(json.dumps(found).encode())
        view = view_of(path, query)
        start = int(query.get("continue") or 0)
        if view not in self.world.pages:
            self.prepare(view)
        items = self.world.pages[view]
        end = min(len(items), start + int(query.get("limit") or len(items) or 1))
        more = b',"continue":"%d"' % end if end < len(items) else b""
        meta = b'{"metadata":{"resourceVersion":"%d"%s},"items":[' % (self.world.version, more)
        return self.answer(meta + b",".join(items[start:end]) + b"]}")

    def prepare(self, view: str) -> None:
        """Makes the bytes of a list, which count for nobody's time if that is done beforehand."""
        self.world.pages[view] = list(self.objects(view))

    def objects(self, view: str) -> Iterable[bytes]:
        world = self.world
        if view == "nodes":
            return (node(f"node-{i}", 1) for i in range(world.nodes))
        if view == "assigned":
            return (pod(name, 1, on, "Running") for name, on in world.pods.items() if on)
        if view == "pending":
            return (pod(name, 1) for name, on in world.pods.items() if not on)
        return ()

    def object(self, found: dict | None) -> None:
        if found is None:
            self.answer(b'{"kind":"Status","code":404,"reason":"NotFound","message":"not found"}', "404 Not Found")
        else:
            self.answer(json.dumps(found).encode())

    def watch(self, path: str, query: dict[str, str]) -> None:
        self.view = view_of(path, query)
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.world.watches.append(self)

    def send(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        self.transport.write(b"%x\r\n%s\r\n" % (len(data), data))

    def tell(self, view: str, lines: list[bytes]) -> None:
        self.world.pages.pop(view, None)
        for connection in [c for c in self.world.watches if c.view == view]:
            connection.send(lines)

    # ---- writing ----

    def write(self, path: str, body: bytes) -> None:
        world, parts = self.world, path.split("/")
        if "leases" in parts:
            world.version += 1
            world.lease = json.loads(body)
            world.lease["metadata"] |= {"resourceVersion": str(world.version), "uid": "uid-lease"}
            world.leases.append(time.monotonic())
            return self.object(world.lease)
        kind = "binding" if parts[-1] == "binding" else "event" if "events" in parts else "status"
        world.writes[kind] += 1
        if kind != "binding":
            return self.answer(b'{"kind":"Status","status":"Success","metadata":{}}')
        name = parts[-2]
        world.pods[name] = on = json.loads(body)["target"]["name"]
        world.bindings.append(time.monotonic())
        world.version += 2
        self.answer(b'{"kind":"Status","status":"Success","metadata":{}}', "201 Created")
        self.tell("pending", [event("DELETED", pod(name, world.version - 1))])
        return self.tell("assigned", [event("ADDED", pod(name, world.version, on))])

    # ---- control ----

    def bench(self, method: str, path: str, query: dict[str, str]) -> None:
        world = self.world
        if method == "GET":
            told = {"leases": world.leases, "bindings": world.bindings, "writes": world.writes, "bursts": world.bursts}
            return self.answer(
                json.dumps(told | {"now": time.monotonic(), "watches": [c.view for c in world.watches]}).encode()
            )
        count = int(query["pods"])
        if path == "/bench/burst":
            names = [f"burst-{len(world.bursts)}-{i}" for i in range(count)]
            world.pods |= dict.fromkeys(names, "")
            lines = [event("ADDED", pod(name, world.version + i)) for i, name in enumerate(names, 1)]
            world.bursts.append(time.monotonic())
            view = "pending"
        else:
            names = [name for name, on in world.pods.items() if on]
            chosen = [names[i % len(names)] for i in range(count)]
            lines = [
                event("MODIFIED", pod(name, world.version + i, world.pods[name], "Running"))
                for i, name in enumerate(chosen, 1)
            ]
            view = "assigned"
        world.version += count
        for start in range(0, count, CHUNK_EVENTS):
            self.tell(view, lines[start : start + CHUNK_EVENTS])
        return self.answer(b"{}")


def view_of(path: str, query: dict[str, str]) -> str:
    """Returns which objects a list or watch is about; empty for those of which there are none."""
    if path == NODES:
        return "nodes"
    selector = query.get("fieldSelector", "")
    if path != PODS or "schedulerName!=" in selector or "phase!=Running" in selector:
        return ""
    return "assigned" if "spec.nodeName!=" in selector else "pending"


def discovery(path: str) -> dict | None:
    """Returns what a server without any CRD says of itself; Kopf waits for namespaces as well as for pods."""
    resources = {
        "/api/v1": {"pods": "Pod", "namespaces": "Namespace"},
        "/apis/events.k8s.io/v1": {"events": "Event"},
        "/apis/coordination.k8s.io/v1": {"leases": "Lease"},
    }
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        split = [group.split("/") for group in GROUPS]
        return {
            "groups": [{"name": g, "versions": [{"version": v}], "preferredVersion": {"version": v}} for g, v in split]
        }
    if path not in resources:
        return None
    return {
        "resources": [
            {"name": plural, "kind": kind, "singularName": kind.lower(), "verbs": VERBS, "namespaced": kind == "Pod"}
            for plural, kind in resources[path].items()
        ]
    }


async def main(terms: dict[str, int]) -> None:
    """Serves until standard input ends."""
    nodes = terms.get("nodes", 0)
    pods = {f"pod-{i}": f"node-{i % nodes}" for i in range(terms.get("pods", 0))}
    world = World(nodes, pods | {f"pending-{i}": "" for i in range(terms.get("pending", 0))})
    for view in ("nodes", "assigned", "pending"):
        Connection(world).prepare(view)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(world), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(json.loads(sys.argv[1])))
