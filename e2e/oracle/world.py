"""The small cluster that a case is made of, while themes shape it.

`World` holds what a case will say (nodes, pods, other objects, the pending pod, configuration) beside the only source of
chance, so that a case is a pure function of its seed.  Themes change these manifests in place; `case()` ends the work.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

Object = dict[str, Any]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "example.test/rack"
ABSENT = "absent/key"
"""A topology key that no node carries."""

PODS_PER_NODE = 12
"""Go's sort is not stable beyond, and victims of equal importance keep the node's order only if it is."""

NAMESPACES: dict[str, dict[str, str]] = {
    "default": {"team": "core"},
    "team-a": {"env": "prod", "team": "a"},
    "team-b": {"env": "dev", "team": "b"},
    "bare": {},
}


class World:
    """One case in the making: its objects, its pending pod and the chance that shapes both."""

    def __init__(self, rng: random.Random, case_id: str) -> None:
        """Start with the namespaces and nothing else."""
        self.rng = rng
        self.id = case_id
        self.tags: list[str] = []
        self.nodes: list[Object] = []
        self.others: list[Object] = []
        self.pods: list[Object] = []
        self.pending: Object = {}
        self.plugin_args: dict[str, Object] = {}
        self.gates: dict[str, bool] = {}
        self.is_request = False
        self._uids = 0
        self.namespaces = [self._namespace(name, labels) for name, labels in NAMESPACES.items()]

    def _namespace(self, name: str, labels: dict[str, str]) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": self.uid(), "labels": {"kubernetes.io/metadata.name": name, **labels}},
            "spec": {},
            "status": {"phase": "Active"},
        }

    def maybe(self, probability: float) -> bool:
        """Tells, by chance, whether something happens."""
        return self.rng.random() < probability

    def pick(self, values: Sequence[T]) -> T:
        """Draws one value."""
        return values[int(self.rng.random() * len(values))]

    def some(self, values: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Draws between `least` and `most` different values, in random order."""
        most = len(values) if most is None else min(most, len(values))
        return self.rng.sample(list(values), self.rng.randint(min(least, most), most))

    def number(self, least: int, most: int) -> int:
        """Draws a whole number, both ends included."""
        return self.rng.randint(least, most)

    def uid(self) -> str:
        """Returns the next uid; uids grow in the order of creation."""
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012d}"

    def add(self, api_version: str, kind: str, name: str, namespace: str | None = None, **fields: Any) -> Object:
        """Adds an object that is neither node nor pod, and returns it; `labels` and `annotations` go to its metadata."""
        metadata: Object = {"name": name, "uid": self.uid()}
        if namespace is not None:
            metadata["namespace"] = namespace
        for key in ("labels", "annotations"):
            if fields.get(key):
                metadata[key] = fields[key]
            fields.pop(key, None)
        added = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        self.others.append(added)
        return added

    def find(self, kind: str, name: str) -> Object | None:
        """Returns an object added before, if there is one of that kind and name."""
        for added in self.others:
            if added["kind"] == kind and added["metadata"]["name"] == name:
                return added
        return None

    @property
    def node_names(self) -> list[str]:
        """The nodes' names in order."""
        return [node["metadata"]["name"] for node in self.nodes]

    @property
    def spec(self) -> Object:
        """The spec of the pending pod."""
        spec: Object = self.pending["spec"]
        return spec

    @property
    def namespace(self) -> str:
        """The namespace of the pending pod."""
        namespace: str = self.pending["metadata"]["namespace"]
        return namespace

    def bound(self) -> list[Object]:
        """Returns the pods that sit on a node and have not ended."""
        return [
            pod
            for pod in self.pods
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in {"Succeeded", "Failed"}
        ]

    def pods_on(self, node: str) -> list[Object]:
        """Returns all pods that name a node, ended ones too."""
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == node]

    def configure(self, plugin: str, **args: Any) -> None:
        """Sets arguments of a plugin beside those set before."""
        self.plugin_args.setdefault(plugin, {}).update(args)

    def case(self) -> Object:
        """Returns the case as it is written to a line."""
        made: Object = {"id": self.id, "tags": self.tags, "pod": self.pending}
        if not self.is_request:
            made["objects"] = [*self.namespaces, *self.nodes, *self.others, *self.pods]
        if self.plugin_args:
            made["pluginConfig"] = [{"name": name, "args": args} for name, args in sorted(self.plugin_args.items())]
        if self.gates:
            made["gates"] = self.gates
        return made
