"""Notes about an input: what of it is not simulated, what is missing in it, and what looks like a slip of the pen.

For the loader.  A note is no problem: the simulation runs, and its report says what to mind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduler.model.dialects import DIALECTS, membership_of
from scheduler.topology import NODE_TOPOLOGY_ANNOTATION, PRODUCT_LABEL, TopologyError, machine_of

from .dump import LEAVE_OUT, dump_command
from .words import count, short_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scheduler.model import Node
    from scheduler.model.api import ApiPod
    from scheduler.model.dialects import Dialect
    from scheduler.model.gang import GangKey
    from scheduler.model.volume_api import Volume

    from .manifests import Document

_GPU = "nvidia.com/gpu"
_MOST_NAMES = 5
#: Keys that people write for schedulerName, as their letters.
_SLIPS = ("scheduler", "schedulername", "schedulernames", "schedulersname")


@dataclass
class Notes:
    """Collects notes, and draws those of one kind together."""

    said: list[str] = field(default_factory=list)
    #: Pods and controllers that name another scheduler, and DaemonSets among them.
    foreign: int = 0
    foreign_daemons: int = 0
    #: ReplicationControllers.
    lone_controllers: int = 0
    #: Objects that make pods in a cluster, and tell of their gangs here, by kind.
    unmade: Counter[str] = field(default_factory=Counter)
    #: How pods name their gangs.
    dialects: tuple[Dialect, ...] = DIALECTS
    unread: Counter[str] = field(default_factory=Counter)
    _slips: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _members: dict[GangKey, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    #: Groups that pods tell of, so that they need no object.
    _implied: set[GangKey] = field(default_factory=set)
    #: Claims that pods name, by namespace and name, with the pods.
    _claims: dict[tuple[str, str], dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _unclear_nodes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _unlabelled_nodes: list[str] = field(default_factory=list)

    def look_at_node(self, node: Node) -> None:
        """Find out whether the links of a node's GPUs are known."""
        try:
            machine_of(node.labels, node.annotations)
        except TopologyError as error:
            self._unclear_nodes[str(error)].append(node.name)
            return
        is_told = PRODUCT_LABEL in node.labels or NODE_TOPOLOGY_ANNOTATION in node.annotations
        if node.allocatable.get(_GPU, 0) and not is_told:
            self._unlabelled_nodes.append(node.name)

    def look_at_keys(self, document: Document) -> None:
        """Find keys that somebody took for schedulerName, or a schedulerName where nobody reads it."""
        path, spec = _pod_spec(document)
        outer = document.body.get("spec")
        if path != "spec" and isinstance(outer, dict) and "schedulerName" in outer:
            self._slips[f"spec.schedulerName is not read there, did you mean {path}.schedulerName?"][document.title] = (
                None
            )
        for key in spec:
            letters = "".join(filter(str.isalpha, str(key))).lower()
            if key != "schedulerName" and letters in _SLIPS:
                self._slips[f"{path}.{key} is unknown, did you mean schedulerName?"][document.title] = None

    def look_at_workload(self, document: Document, pod: ApiPod) -> None:
        """Keep which group the pods of a workload of ours, such as this one, name."""
        if (membership := membership_of(pod, self.dialects)) is not None:
            self._members[membership.key][document.title] = None
            if membership.implied is not None:
                self._implied.add(membership.key)

    def look_at_volumes(self, document: Document, namespace: str, volumes: Iterable[Volume]) -> None:
        """Keep which claims a workload of ours names."""
        for volume in volumes:
            if volume.persistent_volume_claim is not None:
                self._claims[namespace, volume.persistent_volume_claim.claim_name][document.title] = None

    def all(self, groups: Collection[GangKey], claims: Collection[tuple[str, str]]) -> tuple[str, ...]:
        """Return all notes; `groups` and `claims` are the PodGroups and claims of the input."""
        return (*self._of_unread(), *self.said, *self._of_groups(groups), *self._of_claims(claims), *self._of_slips(),
                *self._of_nodes())  # fmt: skip

    def _of_groups(self, groups: Collection[GangKey]) -> Iterator[str]:
        kinds = {dialect.name: dialect.sources[0].kind for dialect in self.dialects if dialect.sources}
        missing: dict[str, list[GangKey]] = defaultdict(list)
        for key in self._members:
            if key not in groups and key not in self._implied:
                missing[kinds.get(key.dialect, "gang")].append(key)
        for kind, keys in missing.items():
            is_any = any(kinds.get(key.dialect) == kind for key in groups)
            lack = "which the input does not hold" if is_any else f"but the input holds no {kind}"
            dump = dump_command({key.dialect for key in keys}, self.dialects)
            names = listed(sorted(map(str, keys)), kind)
            yield f"pods name {names}, {lack}, so they wait; a dump with everything ({LEAVE_OUT}): {dump}"

    def _of_claims(self, claims: Collection[tuple[str, str]]) -> Iterator[str]:
        missing = sorted(f"{namespace}/{name}" for namespace, name in self._claims if (namespace, name) not in claims)
        if missing:
            names = listed(missing, "PersistentVolumeClaim")
            lack = "which the input does not hold, so they wait"
            yield f"pods name {names}, {lack}; a dump with everything ({LEAVE_OUT}): {dump_command()}"

    def _of_slips(self) -> Iterator[str]:
        for slip, titles in self._slips.items():
            yield f"{listed(titles)}: {slip}"

    def _of_nodes(self) -> Iterator[str]:
        for error, names in self._unclear_nodes.items():
            nodes = f"Node{'s' if len(names) > 1 else ''} {short_names(names)}"
            yield f"{nodes}: {error}; the GPUs there are scheduled without their links"
        if names := self._unlabelled_nodes:
            has = "has" if len(names) == 1 else "have"
            yield (
                f"{count(len(names), 'node')} with GPUs {has} no {PRODUCT_LABEL} label (GPU feature discovery sets it): "
                f"NVLink is unknown there"
            )

    def _of_unread(self) -> Iterator[str]:
        if self.foreign_daemons:
            daemons = count(self.foreign_daemons, "DaemonSet")
            yield f"no pods are made for {daemons} of another scheduler; those that the input holds on nodes count"
        if self.lone_controllers:
            controllers = count(self.lone_controllers, "ReplicationController")
            yield f"no pods are made for {controllers}; those that the input holds count"
        if self.unmade:
            made = ", ".join(count(number, kind) for kind, number in sorted(self.unmade.items()))
            yield f"no pods are made for {made}; those that the input holds count, and start as these say"
        if self.unread:
            yield f"not read: {', '.join(f'{number} {name}' for name, number in sorted(self.unread.items()))}"


def listed(names: Iterable[str], kind: str = "") -> str:
    """Return the first names, and how many more there are; a kind that all share is named once."""
    found = list(names)
    shown = ", ".join(found[:_MOST_NAMES])
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    prefix = f"{kind}{'s' if len(found) > 1 else ''} " if kind else ""
    return f"{prefix}{shown}{more}"


def _pod_spec(document: Document) -> tuple[str, dict[str, Any]]:
    """Return the path and the content of the pod spec in a pod or a controller as it was written."""
    found: Any = document.body.get("spec")
    if document.kind == "Pod":
        return "spec", found if isinstance(found, dict) else {}
    for key in ("template", "spec"):
        found = found.get(key) if isinstance(found, dict) else None
    return "spec.template.spec", found if isinstance(found, dict) else {}
