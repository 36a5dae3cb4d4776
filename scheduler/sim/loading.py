"""Makes a World of manifests: reads, checks, defaults, links owners, and decides what is created when.

For the command line and tests.  All problems of all objects are told together (ManifestError); nothing is half loaded.

**When objects are created.** The annotation `submit-seconds` says it, for any object.  Without it an object is there from the
start, or, with `Arrivals.CREATED`, when its creationTimestamp says, counted from the earliest one of an unbound workload.

**How long pods run.** The annotation `run-seconds` says it, on the pod, the pod template, or the Job.  Without it a pod runs on,
or `Durations` says: as long as its Job ran in truth, or so many seconds.  Pods of ReplicaSets, Deployments and StatefulSets
always run on.  Jobs that had finished are history, unless durations come from Jobs: then they run again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import msgspec

from scheduler.model import Gang, budget_from_api, node_from_api, priority_class_from_api
from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPodGroup, ApiPriorityClass
from scheduler.model.dialects import DIALECTS, membership_of
from scheduler.model.dialects.owner_objects import ApiOwner
from scheduler.model.storage_api import ApiClaim, ApiPersistentVolume, ApiStorageClass
from scheduler.model.times import parse_time

from .annotations import RUN_SECONDS, SUBMIT_SECONDS, seconds_of
from .clock import DEFAULT_START
from .defaults import DEFAULT_NAMESPACE, Admission, rfc3339, suffix_of, uid_of
from .groups import gangs_of, pod_of_template
from .kinds import Loaded, WireObject, kind_of, kinds_of, load_document, sources_of
from .known import thing_of, unnamed_namespaces
from .manifests import ManifestError, Problem, read_paths
from .notes import Notes
from .objects import ApiJob, ApiReplicas, JobStatus, PodTemplate, copy_meta
from .owners import Owners, run_seconds_of_job
from .world import (
    BudgetObject,
    ControllerObject,
    KnownObject,
    Owner,
    PodObject,
    StorageObject,
    Submitted,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.model.api import ObjectMeta, PodSpec
    from scheduler.model.dialects import Dialect

    from .manifests import Document
    from .world import Item

DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
_TERMINAL = ("Succeeded", "Failed")
Stampable = TypeVar("Stampable", bound=WireObject)


class Arrivals(Enum):
    """When an object without `submit-seconds` is created."""

    AT_START = "start"
    CREATED = "created"


class Durations(Enum):
    """How long a pod without `run-seconds` runs, if no number is given."""

    ANNOTATION = "annotation"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How manifests are read."""

    #: Pods that name one of these schedulers are ours; the first one is given to pods of others with `schedule_all`.
    scheduler_names: tuple[str, ...] = ("ai-scheduler",)
    schedule_all: bool = False
    arrivals: Arrivals = Arrivals.AT_START
    #: A number stands for seconds.
    durations: Durations | float = Durations.ANNOTATION
    #: How pods name their gangs, and which objects tell of them.
    dialects: tuple[Dialect, ...] = DIALECTS


def load_world(paths: Sequence[str], options: LoadOptions = LoadOptions()) -> World:
    """Return the world that manifests describe; raises ManifestError with everything that is wrong."""
    documents, problems = read_paths(paths)
    return world_of(documents, problems, options)


def world_of(documents: Iterable[Document], problems: Iterable[Problem], options: LoadOptions) -> World:
    """Return the world of documents that were read; `problems` are those of reading them."""
    loader = _Loader(options, list(problems))
    for document in documents:
        loader.add(document)
    return loader.world()


@dataclass
class _Loader:
    """Collects objects, then makes the world of them."""

    options: LoadOptions
    problems: list[Problem]
    notes: Notes = field(default_factory=Notes)
    loaded: list[Loaded] = field(default_factory=list)
    places: dict[tuple[str, str, str, str], Document] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find out which kinds are read."""
        self.kinds = kinds_of(self.options.dialects)
        self.notes.dialects = self.options.dialects

    def add(self, document: Document) -> None:
        """Check one document and keep its object."""
        kind = kind_of(document, self.kinds)
        if kind is None:
            self.notes.unread[f"{document.kind} ({document.api_version})"] += 1
            return
        loaded, problems = load_document(document, kind)
        self.problems += problems
        if loaded is None:
            return
        if isinstance(loaded.api, ApiPod | ApiJob | ApiReplicas):
            self.notes.look_at_keys(document)
        loaded = self._named(loaded)
        meta = loaded.api.metadata
        place = (kind.group, kind.kind, meta.namespace, meta.name)
        if (former := self.places.setdefault(place, document)) is not document:
            self.problems.append(
                document.problem("", f"is there twice; it stands at {former.source}:{former.line} too")
            )
            return
        self.loaded.append(loaded)

    def world(self) -> World:
        """Return the world, or raise what is wrong."""
        can_refer = not self.problems
        admission = Admission(
            priority_class_from_api(loaded.api) for loaded in self.loaded if isinstance(loaded.api, ApiPriorityClass)
        )
        if can_refer:
            self._check_classes(admission)
        if self.problems:
            raise ManifestError(self.problems)
        builder = _Builder(self.loaded, self.options, admission, self.notes)
        submitted = builder.build()
        if not any(isinstance(loaded.api, ApiNode) for loaded in self.loaded):
            self.notes.said.append("there is no Node, so nothing can be placed")
        groups = {entry.item.key for entry in submitted if isinstance(entry.item, Gang)}
        claims = {place[2:] for place in self.places if place[1] == "PersistentVolumeClaim"}
        notes = self.notes.all(groups, claims)
        return World(
            tuple(submitted), builder.start, notes, _default_class(self.loaded), dialects=self.options.dialects
        )

    def _named(self, loaded: Loaded) -> Loaded:
        """Return the object with namespace, name and uid."""
        kind, meta = loaded.kind, loaded.api.metadata
        namespace = (meta.namespace or DEFAULT_NAMESPACE) if kind.is_namespaced else ""
        name = meta.name
        if not name:
            prefix = loaded.document.body["metadata"]["generateName"]
            name = f"{prefix}{suffix_of(kind.kind, namespace, prefix, len(self.loaded))}"
        uid = meta.uid or uid_of(kind.kind, namespace, name)
        named = copy_meta(meta, namespace=namespace, name=name, uid=uid)
        return Loaded(kind, loaded.document, msgspec.structs.replace(loaded.api, metadata=named))

    def _check_classes(self, admission: Admission) -> None:
        """Find names of priority classes that do not exist."""
        for loaded in self.loaded:
            match loaded.api:
                case ApiPod(spec=spec) if spec.priority is None:
                    named, path = spec.priority_class_name, "spec"
                case ApiJob() | ApiReplicas():
                    template = loaded.api.spec.template.spec
                    named = template.priority_class_name if template.priority is None else ""
                    path = "spec.template.spec"
                case ApiPodGroup(spec=group):
                    named, path = group.priority_class_name, "spec"
                case _:
                    continue
            if text := admission.problem(named):
                self.problems.append(loaded.document.problem(f"{path}.priorityClassName", text))


@dataclass
class _Builder:
    """Turns checked objects into what is created when."""

    loaded: list[Loaded]
    options: LoadOptions
    admission: Admission
    notes: Notes
    start: float = DEFAULT_START

    def build(self) -> list[Submitted]:
        """Return everything that is created, by time, then by what others refer to, then as written."""
        self.sources = sources_of(self.options.dialects)
        self.owners = Owners(self.loaded, replay_finished=self.options.durations is Durations.JOB)
        self.start = self._start()
        ranked = [
            (0.0, 0, number, Submitted(0.0, KnownObject(namespace)))
            for number, namespace in enumerate(unnamed_namespaces(self.loaded))
        ]
        for number, loaded in enumerate(self.loaded):
            for item, rank in self._items(loaded):
                seconds = self._moment(loaded, item)
                ranked.append((seconds, rank, number, Submitted(seconds, item)))
        self._note()
        return [entry[3] for entry in sorted(ranked, key=lambda entry: entry[:3])]

    def _items(self, loaded: Loaded) -> Iterator[tuple[Item, int]]:
        """Yield what an object becomes, if anything, with the rank of its kind."""
        api, thing = loaded.api, thing_of(loaded)
        self.notes.lone_controllers += loaded.kind.kind == "ReplicationController"
        if thing is not None:
            yield KnownObject(thing), 2
        if (source := self.sources.get((loaded.kind.group, loaded.kind.kind))) is not None:
            if isinstance(api, ApiOwner):
                self.notes.unmade[loaded.kind.kind] += 1
            yield from ((gang, 2) for gang in gangs_of(loaded, self._stamped(api).metadata, source))
        match api:
            case ApiPriorityClass():
                yield priority_class_from_api(api), 0
            case ApiNode():
                node = node_from_api(api)
                self.notes.look_at_node(node)
                yield node, 1
            case ApiClaim() | ApiPersistentVolume():
                yield StorageObject(api), 3
            case ApiBudget():
                yield BudgetObject(api, budget_from_api(api)), 3
            case ApiJob() | ApiReplicas():
                yield from ((item, 5) for item in self._controller(loaded, api))
            case ApiPod():
                yield from ((item, 4 if item.owner else 5) for item in self._pod(loaded, api))

    def _controller(self, loaded: Loaded, api: ApiJob | ApiReplicas) -> Iterator[ControllerObject]:
        """Yield a controller, if its pods are ours and it has something to do."""
        owner = Owner(loaded.kind.kind, api.metadata.namespace, api.metadata.name)
        if owner in self.owners.idle:
            return
        template = api.spec.template
        spec = self._ours(template.spec, owner)
        if spec.scheduler_name not in self.options.scheduler_names:
            self.notes.foreign_daemons += owner.kind == "DaemonSet"
            self.notes.foreign += owner.kind != "DaemonSet"
            return
        self.notes.look_at_workload(loaded.document, pod_of_template(owner, template))
        own = {claim.metadata.name for claim in _claim_templates(api)}
        shared = [volume for volume in spec.volumes or () if volume.name not in own]
        self.notes.look_at_volumes(loaded.document, owner.namespace, shared)
        template = PodTemplate(metadata=template.metadata, spec=self.admission.admit(spec))
        admitted = msgspec.structs.replace(api, spec=msgspec.structs.replace(api.spec, template=template))
        run_seconds = None
        if isinstance(admitted, ApiJob):
            run_seconds = self._run_seconds(template.metadata, admitted)
            if owner in self.owners.replayed:
                admitted = msgspec.structs.replace(admitted, status=JobStatus())
        yield ControllerObject(owner, self.owners.root_of(owner), self._stamped(admitted), run_seconds)

    def _pod(self, loaded: Loaded, api: ApiPod) -> Iterator[PodObject]:
        """Yield a pod, unless it has ended, is neither ours to place nor in a gang, or its controller will make it."""
        owner = self.owners.owner_of(api)
        if api.status.phase in _TERMINAL or (owner and owner in self.owners.idle and not api.spec.node_name):
            return
        job = self.owners.jobs.get(owner) if owner else None
        if owner in self.owners.replayed:
            return
        is_bound = bool(api.spec.node_name)
        if not is_bound and self.options.arrivals is Arrivals.CREATED and owner in self.owners.controllers:
            return
        spec = self.admission.admit(api.spec if is_bound else self._ours(api.spec, owner))
        if not is_bound and spec.scheduler_name not in self.options.scheduler_names:
            self.notes.foreign += 1
            if membership_of(api, self.options.dialects) is None:
                return  # of others that wait, members of gangs alone are seen, as in a cluster
        elif not is_bound:
            self.notes.look_at_workload(loaded.document, api)
            self.notes.look_at_volumes(loaded.document, api.metadata.namespace, spec.volumes or ())
        runs_on = owner is not None and owner.kind in ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet")
        run_seconds = None if runs_on else self._run_seconds(api.metadata, job)
        root = self.owners.root_of(owner) if owner else None
        yield PodObject(self._stamped(msgspec.structs.replace(api, spec=spec)), run_seconds, owner, root)

    def _ours(self, spec: PodSpec, owner: Owner | None = None) -> PodSpec:
        """Return the spec with our scheduler's name, if all pods are to be ours; a DaemonSet's pods never are."""
        if not self.options.schedule_all or spec.scheduler_name in self.options.scheduler_names:
            return spec
        if owner is not None and owner.kind == "DaemonSet":
            return spec
        return msgspec.structs.replace(spec, scheduler_name=self.options.scheduler_names[0])

    def _run_seconds(self, meta: ObjectMeta, job: ApiJob | None) -> float | None:
        """Return how long a pod runs: by its annotation, its Job's annotation, its Job's own time, or the number."""
        annotated = seconds_of(meta.annotations, RUN_SECONDS)
        if annotated is None and job is not None:
            annotated = seconds_of(job.metadata.annotations, RUN_SECONDS)
        if annotated is not None or self.options.durations is Durations.ANNOTATION:
            return annotated
        if isinstance(self.options.durations, float):
            return self.options.durations
        return run_seconds_of_job(job) if job is not None else None

    def _start(self) -> float:
        """Return the moment of the start: what the input's times say, or the default."""
        metas = [loaded.api.metadata for loaded in self.loaded]
        if self.options.arrivals is Arrivals.CREATED:
            metas = [loaded.api.metadata for loaded in self.loaded if _is_unbound_workload(loaded)]
        times = [moment for meta in metas if (moment := parse_time(meta.creation_timestamp)) is not None]
        if self.options.arrivals is Arrivals.CREATED:
            return min(times, default=DEFAULT_START)
        times += [
            moment
            for loaded in self.loaded
            if isinstance(loaded.api, ApiPod) and (moment := parse_time(loaded.api.status.start_time)) is not None
        ]
        return max(times, default=DEFAULT_START)

    def _moment(self, loaded: Loaded, item: Item) -> float:
        """Return when an object is created, in seconds after the start."""
        annotated = seconds_of(loaded.api.metadata.annotations, SUBMIT_SECONDS)
        if annotated is not None:
            return annotated
        created = parse_time(loaded.api.metadata.creation_timestamp)
        if self.options.arrivals is Arrivals.AT_START or created is None or not _is_unbound_workload(loaded):
            return 0.0
        if isinstance(item, KnownObject):  # nobody minds an owner without pods
            return 0.0
        if isinstance(item, ControllerObject) and item.owner in self.owners.with_bound_pods:
            return 0.0
        return max(0.0, created - self.start)

    def _stamped(self, api: Stampable) -> Stampable:
        """Return the object with a creationTimestamp: its own, or that of its submission."""
        meta = api.metadata
        if meta.creation_timestamp:
            return api
        created = self.start + (seconds_of(meta.annotations, SUBMIT_SECONDS) or 0.0)
        return msgspec.structs.replace(api, metadata=msgspec.structs.replace(meta, creation_timestamp=rfc3339(created)))

    def _note(self) -> None:
        """Say what was left out."""
        if self.notes.foreign:
            names = ", ".join(self.options.scheduler_names)
            self.notes.said.append(
                f"{self.notes.foreign} pending pod(s) or controller(s) name another scheduler than {names} and stay out; "
                "--schedule-all schedules them too"
            )
        if self.owners.finished:
            self.notes.said.append(
                f"{self.owners.finished} Job(s) had finished already and stay out; --duration-from job runs them again"
            )
        lost = self.owners.pods_on_unknown_nodes
        if lost:
            self.notes.said.append(f"{lost} pod(s) run on nodes that the input does not have, and do not count")


def _is_unbound_workload(loaded: Loaded) -> bool:
    """Tell whether an object is a workload that may arrive later: a controller or an unbound pod."""
    api = loaded.api
    return isinstance(api, ApiJob | ApiReplicas) or (isinstance(api, ApiPod) and not api.spec.node_name)


def _claim_templates(api: ApiJob | ApiReplicas) -> Sequence[ApiClaim]:
    """Return the templates of the claims that a StatefulSet makes."""
    return (api.spec.volume_claim_templates or ()) if isinstance(api, ApiReplicas) else ()


def _default_class(loaded: Iterable[Loaded]) -> str:
    """Return the StorageClass of claims that name none: of several the newest, as admission has it."""
    marked = [
        entry.api.metadata
        for entry in loaded
        if isinstance(entry.api, ApiStorageClass)
        and (entry.api.metadata.annotations or {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    ]
    newest = sorted(marked, key=lambda meta: (-(parse_time(meta.creation_timestamp) or 0.0), meta.name))
    return newest[0].name if newest else ""
