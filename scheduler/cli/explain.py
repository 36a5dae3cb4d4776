"""`ai-scheduler explain`: what every plugin says of a pod in a cluster, for people, for scripts, and line by line for tests."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click
from rich.console import Console

from .reading import configuration_of, give_up, with_base

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.config import Profile, SchedulerConfiguration
    from scheduler.explain.explanation import Explanation
    from scheduler.explain.objects import GroupKind, Kind
    from scheduler.model import Pod
    from scheduler.model.api import ApiPod
    from scheduler.model.dialects import Dialect
    from scheduler.sim.kinds import Kind as CheckedKind
    from scheduler.sim.manifests import Document, Problem

STDIN = "-"
_BASES = ("ai-scheduler", "kube-default")
_WIDTH_OF_FILES = 160
_MOST_NAMES = 10


@click.command()
@click.option("--cases", "cases", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE.jsonl",
              help="Cases, one a line; - for standard input.")  # fmt: skip
@click.option("--snapshot", "is_snapshot", is_flag=True, help="The manifests or dumps of a cluster, in PATH.")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--pod", "pod", metavar="NAMESPACE/NAME", help="The pod to explain; without a namespace, in default.")
@click.option(
    "--config", "file", type=click.Path(dir_okay=False), metavar="FILE", help="The scheduler's configuration."
)
@click.option("--profile", metavar="NAME",
              help="The profile to ask, by its schedulerName, or one of the built-in ones, ai-scheduler and kube-default; "
              "without it, the one that the pod names, else the first.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def explain(
    cases: str | None, paths: tuple[str, ...], pod: str | None, file: str | None, profile: str | None, output: str, *,
    is_snapshot: bool,
) -> None:  # fmt: skip
    """Tell what every plugin says of a pod: each Filter on each node, each score, and what preemption would do.

    \b
    For people and scripts, in a cluster as manifests or a dump describe it:
      ai-scheduler explain --snapshot PATH... --pod NAMESPACE/NAME [-o json]

    PATH is a folder, a file, or - for standard input. A pod that is bound is explained as if it waited. A dump with
    everything that is read (leave out kinds that the cluster does not know):

    \b
      kubectl get nodes,pods,pc,jobs,deploy,rs,sts,ds,pdb,ns,svc,rc,pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments,resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses,devicetaintrules,noderesourcetopologies.topology.node.k8s.io,podgroups.scheduling.ai-scheduler.io,topologies.scheduling.ai-scheduler.io,nodetopologies.scheduling.ai-scheduler.io,queues.scheduling.ai-scheduler.io -A -o yaml

    \b
    For tests, one JSON line in, one result line out, with kube-scheduler's plugins:
      ai-scheduler explain --cases FILE.jsonl

    Exit codes: 0 explained, whatever the answer is, 2 the input cannot be used.
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    if (cases is None) != is_snapshot:
        raise click.UsageError("Give either --cases FILE.jsonl, or --snapshot PATH... with --pod.")
    if cases is not None:
        if paths or pod or file or profile:
            raise click.UsageError("--cases takes no PATH, --pod, --config or --profile: each case says it all.")
        _run_cases(cases)
        return
    if not paths or not pod:
        raise click.UsageError("--snapshot needs PATH... and --pod NAMESPACE/NAME.")
    configuration = configuration_of(file)
    _tell(*_explained(paths, pod, configuration, profile), output)


def _run_cases(path: str) -> None:
    """Write a result for every line, as soon as it is known."""
    from scheduler.explain.cases import run  # noqa: PLC0415 - numpy is slow to import

    out = sys.stdout.buffer
    with _opened(path) as lines:
        for result in run(lines):
            out.write(result + b"\n")
            out.flush()


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        lines = open(path, "rb")  # noqa: PTH123, SIM115 - closed below
    except OSError as error:
        give_up(f"--cases: {path} cannot be read: {error.strerror or error}")
    with lines:
        yield lines


def _explained(
    paths: tuple[str, ...], name: str, configuration: SchedulerConfiguration, profile_name: str | None
) -> tuple[Explanation, Profile, list[str]]:
    """Return the explanation, whose it is, and what is to be known of it, or tell all that is wrong with the input."""
    from scheduler.explain.snapshot import explain_in  # noqa: PLC0415 - numpy is slow to import
    from scheduler.framework.registry import RegistryError  # noqa: PLC0415 - likewise
    from scheduler.model.dialects import dialects_of  # noqa: PLC0415 - likewise

    dialects = dialects_of(configuration.group_kinds)
    objects, notes = _objects(paths, dialects)
    namespace, _, short = name.rpartition("/")
    pod, others = _taken_out(objects, namespace or "default", short)
    configuration, profile = _profile(configuration, profile_name, pod)
    notes = [*_notes_of(pod, profile, profile_name, dialects), *_gaps(pod, others), *notes]
    try:
        found = explain_in(configuration, profile, others, pod)
    except (RegistryError, ValueError) as error:
        give_up(str(error))
    return found, profile, [*([found.queue] if found.queue else []), *notes]


def _objects(paths: Sequence[str], dialects: Sequence[Dialect]) -> tuple[list[tuple[GroupKind, Any]], list[str]]:
    """Return all objects that matter, with the priorities that the API server would fill in, and what was left out."""
    from scheduler.explain.objects import kinds_of  # noqa: PLC0415 - numpy is slow to import
    from scheduler.sim.kinds import kinds_of as checked_kinds_of  # noqa: PLC0415 - likewise
    from scheduler.sim.manifests import read_paths  # noqa: PLC0415 - likewise

    kinds, checks = kinds_of(dialects), checked_kinds_of(dialects)
    documents, problems = read_paths(paths)
    loaded: list[tuple[Document, GroupKind, Any]] = []
    unread: dict[str, int] = {}
    for document in documents:
        group_kind = (document.api_version.rpartition("/")[0], document.kind)
        kind = kinds.get(group_kind)
        api, wrong = (None, []) if kind is None else _checked(document, kind, checks.get(group_kind))
        problems += wrong
        if api is not None:
            loaded.append((document, group_kind, api))
        elif not wrong:
            unread[document.kind] = unread.get(document.kind, 0) + 1
    problems += _twice(loaded)
    objects = [] if problems else _admitted(loaded, problems)
    if problems:
        count = len(problems)
        lines = [*map(str, problems), f"{count} {'problem' if count == 1 else 'problems'}; nothing was explained."]
        give_up("\n".join(lines))
    left_out = ", ".join(f"{count} {kind}" for kind, count in sorted(unread.items()))
    return objects, [f"not read: {left_out}"] if left_out else []


def _checked(document: Document, kind: Kind, checks: CheckedKind | None) -> tuple[Any | None, list[Problem]]:
    """Return an object as it is read, or what is wrong with it, as the simulation finds it where that reads the same."""
    import msgspec  # noqa: PLC0415 - only here

    from scheduler.sim.kinds import load_document  # noqa: PLC0415 - numpy is slow to import
    from scheduler.sim.schema import type_problems, without_nulls  # noqa: PLC0415 - likewise

    if checks is not None and checks.wire_type is kind.wire_type:
        wrong = load_document(document, checks)[1]
    else:
        found = type_problems(without_nulls(document.body), kind.wire_type)
        wrong = [document.problem(path, text) for path, text in found]
    return (None if wrong else msgspec.convert(without_nulls(document.body), kind.wire_type)), wrong


def _twice(loaded: Sequence[tuple[Document, GroupKind, Any]]) -> Iterator[Problem]:
    places: dict[tuple[object, ...], Document] = {}
    for document, group_kind, api in loaded:
        place = (group_kind, api.metadata.namespace, api.metadata.name)
        former = places.setdefault(place, document)
        if former is not document:
            yield document.problem("", f"is there twice; it stands at {former.source}:{former.line} too")


def _admitted(
    loaded: Sequence[tuple[Document, GroupKind, Any]], problems: list[Problem]
) -> list[tuple[GroupKind, Any]]:
    """Return the objects, pods with their priorities; a class that does not exist is a problem."""
    from msgspec import structs  # noqa: PLC0415 - only here

    from scheduler.model import priority_class_from_api  # noqa: PLC0415 - likewise
    from scheduler.model.api import ApiPod, ApiPriorityClass  # noqa: PLC0415 - likewise
    from scheduler.sim.defaults import Admission  # noqa: PLC0415 - likewise

    admission = Admission(priority_class_from_api(api) for _, _, api in loaded if isinstance(api, ApiPriorityClass))
    objects = []
    for document, group_kind, api in loaded:
        admitted = api
        if isinstance(api, ApiPod) and api.spec.priority is None:
            if text := admission.problem(api.spec.priority_class_name):
                problems.append(document.problem("spec.priorityClassName", text))
            admitted = structs.replace(api, spec=admission.admit(api.spec))
        objects.append((group_kind, admitted))
    return objects


def _taken_out(
    objects: Sequence[tuple[GroupKind, Any]], namespace: str, name: str
) -> tuple[ApiPod, list[tuple[GroupKind, Any]]]:
    """Return the pod that is meant, and everything else."""
    pods = {(api.metadata.namespace or "default", api.metadata.name): api for of, api in objects if of == ("", "Pod")}
    pod = pods.get((namespace, name))
    if pod is None:
        known = [f"{where}/{called}" for where, called in sorted(pods)]
        more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
        none = "a pod, but the input has none (those that a Job or another controller would make are not explained)"
        allowed = f"{', '.join(known[:_MOST_NAMES])}{more}" if known else none
        give_up(f"--pod: there is no Pod {namespace}/{name} in the input; allowed: {allowed}")
    if pod.status.phase in ("Succeeded", "Failed"):
        give_up(f"--pod: Pod {namespace}/{name} has ended ({pod.status.phase}); allowed: a pod that waits or runs")
    return pod, [(of, api) for of, api in objects if api is not pod]


def _profile(
    configuration: SchedulerConfiguration, name: str | None, pod: ApiPod
) -> tuple[SchedulerConfiguration, Profile]:
    """Return the profile that is asked: the one that is named, else the pod's own, else the first."""
    profiles = {profile.scheduler_name: profile for profile in configuration.profiles}
    if name is None:
        return configuration, profiles.get(pod.spec.scheduler_name, configuration.profiles[0])
    if name in _BASES and name not in profiles:
        configuration = with_base(configuration, name)
        return configuration, configuration.profiles[0]
    if name not in profiles:
        allowed = ", ".join(dict.fromkeys((*profiles, *_BASES)))
        give_up(f"--profile: {name!r} is unknown; allowed: {allowed}")
    return configuration, profiles[name]


def _notes_of(pod: ApiPod, profile: Profile, asked: str | None, dialects: Sequence[Dialect]) -> Iterator[str]:
    """Yield what a reader would not expect of the pod."""
    from scheduler.model import gang_key_of, pod_from_api  # noqa: PLC0415 - only here
    from scheduler.model.gang import PREFIX  # noqa: PLC0415 - likewise

    if pod.spec.node_name:
        yield f"the pod is on node {pod.spec.node_name}; it is taken off and explained as if it waited"
    if asked is None and pod.spec.scheduler_name != profile.scheduler_name:
        yield f"the pod names the scheduler {pod.spec.scheduler_name}, which is no profile; {profile.scheduler_name} is asked"
    for condition in pod.status.conditions or ():
        if condition.type == f"{PREFIX}/PromisedStart" and condition.status == "True" and not pod.spec.node_name:
            yield f"the pod is promised a start: {condition.message}"
    if pod.spec.scheduling_gates:
        yield f"the pod is not tried while it has gates: {', '.join(gate.name for gate in pod.spec.scheduling_gates)}"
    key = gang_key_of(pod_from_api(pod, dialects))
    if key is not None:
        yield (
            f"the pod belongs to the gang {key}, which is placed as a whole; here it is looked at alone: "
            "whether the gang fits, and if not why, is told by ai-scheduler simulate with the same input"
        )
        for condition in pod.status.conditions or ():
            if (
                condition.type == "PodScheduled"
                and condition.status == "False"
                and condition.message
                and not pod.spec.node_name
            ):
                yield f"when the gang was last refused, the pod was told: {condition.message}"


def _gaps(pod: ApiPod, others: Sequence[tuple[GroupKind, Any]]) -> Iterator[str]:
    """Yield what the input lacks that the answer depends on; the cluster itself would have it."""
    from scheduler.model import pod_from_api  # noqa: PLC0415 - only here
    from scheduler.model.pod_claims import claim_uses  # noqa: PLC0415 - likewise
    from scheduler.sim.dump import LEAVE_OUT, dump_command  # noqa: PLC0415 - likewise

    view, kinds = pod_from_api(pod), {kind for (_, kind), _ in others}
    dump = f"a whole dump is ({LEAVE_OUT}): {dump_command()}"
    lacking = {
        "PersistentVolumeClaim": "the pod uses claims" if claim_uses(view) else "",
        "Namespace": "the pod selects namespaces" if _selects(view) else "",
        "ResourceClaim": "the pod uses resource claims" if view.claims else "",
    }
    for kind, why in lacking.items():
        if why and kind not in kinds:
            yield f"the input has no {kind} ({why}); {dump}"
    for (_, kind), api in others:
        name = f"{kind} {api.metadata.name}"
        if kind == "PersistentVolume" and not api.status.phase:
            yield f"{name} has no status.phase: it counts as not available"
        elif kind == "PersistentVolumeClaim" and api.spec.volume_name and not api.status.phase:
            yield f"{name} names a volume but has no status: it counts as not bound"


def _selects(view: Pod) -> bool:
    """Tell whether a term of a pod selects namespaces by their labels."""
    terms = view.terms
    if terms is None:
        return False
    weighted = [term for _, term in (*terms.preferred, *terms.preferred_anti)]
    return any(term.namespace_selector for term in (*terms.affinity, *terms.anti_affinity, *weighted))


def _tell(found: Explanation, profile: Profile, notes: Sequence[str], output: str) -> None:
    if output == "json":
        from scheduler.explain.document import document_of  # noqa: PLC0415 - only here

        click.echo(json.dumps(document_of(found, profile, notes), indent=2))
        return
    from scheduler.explain.report import print_explanation  # noqa: PLC0415 - only here

    console = Console() if sys.stdout.isatty() else Console(file=sys.stdout, width=_WIDTH_OF_FILES, soft_wrap=True)
    print_explanation(found, profile, notes, console)
