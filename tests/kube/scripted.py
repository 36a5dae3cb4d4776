"""ScriptedServer: a small API server in this process that stores, lists, watches, and misbehaves when told to.

For the protocol tests.  It keeps the rules that our code relies on: one growing resourceVersion, pages, field and label
selectors (an object that stops matching is sent as DELETED, in its state *before*), 410 for versions that are too old,
preconditions, bindings, and discovery.  Tests wait for conditions, never for time.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

#: After this a test counts as hanging.  It is no measure of speed: what takes half a second of work on a quiet machine (Kopf's
#: start, say) takes many on one that others load.
PATIENCE_SECONDS = 60.0
_PATH = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+))?(?:/([^/]+))?$")

Object = dict[str, Any]
NAMESPACED = {
    "pods", "leases", "events", "podgroups", "poddisruptionbudgets", "resourceclaims", "persistentvolumeclaims", "services",
    "replicationcontrollers", "replicasets", "statefulsets", "csistoragecapacities",
    "compositepodgroups", "jobs", "jobsets", "leaderworkersets", "rayclusters", "pytorchjobs", "tfjobs", "xgboostjobs",
    "jaxjobs", "paddlejobs", "mpijobs", "batches",
}  # fmt: skip
KINDS = {
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
    "/api/v1/namespaces": "Namespace",
    "/api/v1/services": "Service",
    "/api/v1/persistentvolumeclaims": "PersistentVolumeClaim",
    "/api/v1/persistentvolumes": "PersistentVolume",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "CustomResourceDefinition",  # Kopf wants to see it
    "/apis/scheduling.k8s.io/v1/priorityclasses": "PriorityClass",
    "/apis/policy/v1/poddisruptionbudgets": "PodDisruptionBudget",
    "/apis/coordination.k8s.io/v1/leases": "Lease",
    "/apis/events.k8s.io/v1/events": "Event",
}
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
GROUPS = "/apis/scheduling.ai-scheduler.io/v1alpha1/podgroups"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
EVENTS, LEASES = "/apis/events.k8s.io/v1/events", "/apis/coordination.k8s.io/v1/leases"


@dataclass
class Request:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class Answer:
    """What to answer instead of the truth."""

    status: int = 200
    reason: str = ""
    message: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    #: Do what was asked before answering so.
    after_doing_it: bool = False
    #: Cut the connection instead of answering.
    cut: bool = False
    #: Answer with success and this page, as a proxy or a login page does.
    page: str | None = None
    #: Say nothing until the test ends.
    silent: bool = False


@dataclass
class _Watch:
    path: str
    matches: Callable[[Object], bool]
    queue: asyncio.Queue[bytes | None]
    is_cut: bool = False


class ScriptedServer:
    """The server; a context manager that listens on a free port."""

    def __init__(self, *, extra: dict[str, str] | None = None) -> None:
        """Serve the usual collections and `extra` ones (path to kind)."""
        self.kinds = dict(KINDS) | (extra or {})
        self.objects: dict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.requests: list[Request] = []
        self.version = 100
        self.oldest = 0
        #: Headers that are accepted; empty for any.
        self.tokens: set[str] = set()
        self.has_aggregated_discovery = True
        self._history: list[tuple[int, str, Object | None, Object | None]] = []
        self._answers: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._watches: list[_Watch] = []
        self._changed = asyncio.Condition()
        self._ending = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> Self:
        """Listen."""
        app = web.Application(client_max_size=2**25)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        self._ending.set()
        for watch in self._watches:
            watch.queue.put_nowait(None)
        await self._runner.cleanup()

    # ---- what tests do ----

    def put(self, path: str, obj: Object, *, silently: bool = False) -> Object:
        """Create or replace an object; `silently`, as while nobody was watching."""
        stored = copy.deepcopy(obj)
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        stored["metadata"].setdefault("uid", f"uid-{stored['metadata']['name']}")
        key = (stored["metadata"].get("namespace", ""), stored["metadata"]["name"])
        before = self.objects[path].get(key)
        self.objects[path][key] = stored
        self._happened(path, before, stored, silently=silently)
        return stored

    def remove(self, path: str, name: str, namespace: str = "default", *, silently: bool = False) -> None:
        """Delete an object."""
        self.version += 1
        before = self.objects[path].pop((namespace if path.rsplit("/", 1)[1] in NAMESPACED else "", name))
        self._happened(path, before, None, silently=silently)

    def get(self, path: str, name: str, namespace: str = "default") -> Object | None:
        """Return an object as it is."""
        return self.objects[path].get((namespace if path.rsplit("/", 1)[1] in NAMESPACED else "", name))

    def script(self, method: str, path: str, *answers: Answer) -> None:
        """Answer the next requests for exactly this path (a watch counts as method WATCH) like this."""
        self._answers[method, path].extend(answers)

    def send(self, path: str, line: bytes) -> None:
        """Send a raw line to whoever watches a collection."""
        for watch in self._watches_of(path):
            watch.queue.put_nowait(line)

    def error(self, path: str, code: int) -> None:
        """Send an ERROR event and end the watches of a collection."""
        status = {"kind": "Status", "code": code, "reason": "Expired", "message": "scripted"}
        self.send(path, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        self.end(path)

    def bookmark(self, path: str) -> None:
        """Send a bookmark with the newest version."""
        obj = {"kind": "x", "metadata": {"resourceVersion": str(self.version)}}
        self.send(path, json.dumps({"type": "BOOKMARK", "object": obj}).encode() + b"\n")

    def end(self, path: str, *, cut: bool = False) -> None:
        """End the watches of a collection, in order or by cutting the connection."""
        for watch in self._watches_of(path):
            watch.is_cut = cut
            watch.queue.put_nowait(None)

    def compact(self) -> None:
        """Forget the history: watches from older versions get 410."""
        self.oldest = self.version
        self._history.clear()

    def watchers(self, path: str) -> int:
        """Return how many watch a collection."""
        return len(self._watches_of(path))

    def seen(self, method: str, path: str) -> list[Request]:
        """Return the requests for a path; method LIST and WATCH tell GETs of collections apart."""
        return [r for r in self.requests if r.method == method and r.path == path]

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Wait until a condition holds, which is looked at after each request and change and every few milliseconds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                async with self._changed:
                    try:
                        await asyncio.wait_for(self._changed.wait(), 0.01)
                    except TimeoutError:
                        continue
        assert condition(), what

    # ---- serving ----

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(text) if (text := await request.text()) else None
        is_watch = request.query.get("watch") == "true"
        method = (
            "WATCH"
            if is_watch
            else "LIST"
            if request.method == "GET" and request.path in self.kinds
            else request.method
        )
        self.requests.append(Request(method, request.path, dict(request.query), body, dict(request.headers)))
        await self._tell()
        if self.tokens and request.headers.get("Authorization") not in self.tokens:
            return _status(401, "Unauthorized", "scripted")
        if answers := self._answers[method, request.path]:
            answer = answers.popleft()
            if answer.after_doing_it:
                await self._do(request, body, is_watch=is_watch)
            if answer.silent:
                await self._ending.wait()
            if answer.cut or answer.silent:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if answer.page is not None:
                return web.Response(text=answer.page)
            return _status(answer.status, answer.reason, answer.message, answer.headers)
        return await self._do(request, body, is_watch=is_watch)

    async def _do(self, request: web.Request, body: Any, *, is_watch: bool) -> web.StreamResponse:  # noqa: PLR0911 - one return per kind of request
        if request.path == "/apis" and self.has_aggregated_discovery and "g=apidiscovery" in request.headers["Accept"]:
            return web.json_response(self._aggregated())
        if (found := self._discovery(request.path)) is not None:
            return web.json_response(found)
        match = _PATH.match(request.path)
        if match is None:
            return _status(404, "NotFound", "the server could not find the requested resource")
        prefix, namespace, plural, name, sub = match.groups()
        path = f"{prefix}/{plural}"
        if path not in self.kinds:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if is_watch:
            return await self._watch(request, path)
        if name is None:
            return self._list(request, path) if request.method == "GET" else self._create(path, namespace or "", body)
        key = (namespace or "", name)
        obj = self.objects[path].get(key)
        if obj is None:
            return _status(404, "NotFound", f'{plural} "{name}" not found')
        if sub == "binding":
            return self._bind(obj, body)
        return await self._one(request, path, obj, body)

    def _aggregated(self) -> Object:
        """Return groups, versions and resources in one document, as servers since 1.30 do."""
        found: dict[str, dict[str, list[Object]]] = {}
        for path in self.kinds:
            if path.startswith("/apis/"):
                _, _, group, version, plural = path.split("/")
                found.setdefault(group, {}).setdefault(version, []).append({"resource": plural})
        versions = {g: [{"version": v, "resources": r} for v, r in of.items()] for g, of in found.items()}
        return {
            "kind": "APIGroupDiscoveryList",
            "items": [{"metadata": {"name": group}, "versions": of} for group, of in versions.items()],
        }

    def _discovery(self, path: str) -> Object | None:
        if path == "/api":
            return {"versions": ["v1"]}
        versions = {kind_path.rsplit("/", 1)[0] for kind_path in self.kinds}
        if path == "/apis":
            groups = sorted(v.split("/")[2:4] for v in versions if v.startswith("/apis/"))
            return {
                "groups": [
                    {"name": g, "versions": [{"version": v}], "preferredVersion": {"version": v}} for g, v in groups
                ]
            }
        if path not in versions:
            return None
        verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
        return {
            "resources": [
                {"name": p.rsplit("/", 1)[1], "kind": kind, "singularName": kind.lower(), "verbs": verbs,
                 "namespaced": p.rsplit("/", 1)[1] in NAMESPACED}
                for p, kind in self.kinds.items() if p.rsplit("/", 1)[0] == path
            ]
        }  # fmt: skip

    def _list(self, request: web.Request, path: str) -> web.Response:
        matches = _matcher(request.query)
        items = [obj for _, obj in sorted(self.objects[path].items()) if matches(obj)]
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(items) + 1
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        page = items[start : start + limit]
        if "PartialObjectMetadataList" in request.headers.get("Accept", ""):
            page = [{"metadata": obj["metadata"]} for obj in page]
        return web.json_response({"metadata": meta, "items": page})

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or self.version)
        if since < self.oldest:
            return _status(410, "Expired", "too old resource version")
        watch = _Watch(path, _matcher(request.query), asyncio.Queue())
        for version, changed, before, after in self._history:
            if version > since and changed == path and (line := _event(watch, version, before, after)):
                watch.queue.put_nowait(line)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._watches.append(watch)
        try:
            await response.prepare(request)
            await self._tell()
            while (line := await watch.queue.get()) is not None:
                await response.write(line)
            if watch.is_cut and request.transport is not None:
                request.transport.abort()
        except (ConnectionError, RuntimeError):
            pass  # the client went away
        finally:
            self._watches.remove(watch)
        return response

    def _create(self, path: str, namespace: str, body: Object) -> web.Response:
        body["metadata"].setdefault("namespace", namespace)
        if self.get(path, body["metadata"]["name"], body["metadata"]["namespace"]):
            return _status(409, "AlreadyExists", "exists")
        return web.json_response(self.put(path, body), status=201)

    async def _one(self, request: web.Request, path: str, obj: Object, body: Any) -> web.Response:  # noqa: PLR0911 - one return per kind of request
        meta = obj["metadata"]
        match request.method:
            case "GET":
                return web.json_response(obj)
            case "DELETE":
                if ((body or {}).get("preconditions") or {}).get("uid", meta["uid"]) != meta["uid"]:
                    return _status(409, "Conflict", "the UID in the precondition does not match")
                self.remove(path, meta["name"], meta.get("namespace", ""))
                return web.json_response({})
            case "PUT":
                if body["metadata"].get("resourceVersion") not in (None, meta["resourceVersion"]):
                    return _status(409, "Conflict", "the object has been modified")
                return web.json_response(self.put(path, body))
            case "PATCH":
                if (body.get("metadata") or {}).get("uid", meta["uid"]) != meta["uid"]:
                    return _status(409, "Conflict", "the UID in the precondition does not match")
                if (body.get("metadata") or {}).get("resourceVersion", meta["resourceVersion"]) != meta[
                    "resourceVersion"
                ]:
                    return _status(409, "Conflict", "the object has been modified")
                is_strategic = request.content_type.startswith("application/strategic")
                return web.json_response(self.put(path, _merged(obj, body, is_strategic=is_strategic)))
        return _status(405, "MethodNotAllowed", "no")

    def _bind(self, pod: Object, body: Object) -> web.Response:
        if body["metadata"].get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match")
        if node := pod["spec"].get("nodeName"):
            return _status(409, "Conflict", f"pod is already assigned to node {node}")
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = body["target"]["name"]
        bound["metadata"].setdefault("annotations", {}).update(body["metadata"].get("annotations") or {})
        self.put(PODS, bound)
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    def _happened(self, path: str, before: Object | None, after: Object | None, *, silently: bool) -> None:
        self._history.append((self.version, path, before, after))
        for watch in self._watches_of(path):
            if not silently and (line := _event(watch, self.version, before, after)):
                watch.queue.put_nowait(line)

    def _watches_of(self, path: str) -> list[_Watch]:
        return [watch for watch in self._watches if watch.path == path]

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _event(watch: _Watch, version: int, before: Object | None, after: Object | None) -> bytes | None:
    """Return what a watch sees of a change: in the state before, if the object leaves its selector."""
    did, does = before is not None and watch.matches(before), after is not None and watch.matches(after)
    if not did and not does:
        return None
    kind = ("MODIFIED" if did else "ADDED") if does else "DELETED"
    obj = copy.deepcopy(after if does else before)
    assert obj is not None
    obj["metadata"]["resourceVersion"] = str(version)
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def _matcher(query: Any) -> Callable[[Object], bool]:
    """Return what field and label selectors (existence only) say of an object."""
    terms = [re.match(r"([\w.]+)(!?=)(.*)", term) for term in (query.get("fieldSelector") or "").split(",") if term]
    labels = [label for label in (query.get("labelSelector") or "").split(",") if label]

    def value(obj: Object, dotted: str) -> str:
        for part in dotted.split("."):
            obj = (obj.get(part) if isinstance(obj, dict) else None) or {}
        return obj if isinstance(obj, str) else ""

    def matches(obj: Object) -> bool:
        fields = all((value(obj, t[1]) == t[3]) == (t[2] == "=") for t in terms if t)
        return fields and all(label in (obj["metadata"].get("labels") or {}) for label in labels)

    return matches


def _merged(target: Any, patch: Any, *, is_strategic: bool) -> Any:
    """Return a merge patch's result; strategic ones merge conditions by type."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key == "conditions" and is_strategic:
            by_type = {c["type"]: c for c in result.get(key) or ()}
            for condition in value:
                by_type[condition["type"]] = by_type.get(condition["type"], {}) | condition
            result[key] = list(by_type.values())
        else:
            result[key] = _merged(result.get(key), value, is_strategic=is_strategic)
    return result


def _status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code, headers=headers)
