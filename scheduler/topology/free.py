"""Which GPUs of a node are free, from the node agent's report and the pods bound to the node; the annotation of a pod's set.

The annotation `scheduling.ai-scheduler.io/gpus` reads `0,1,2,3;basis=assumed`: GPU indices in ascending order, then how it was
known which were free. `allocated`: DRA gave the pod these devices. `reported`: the node agent had seen which were free. `assumed`:
the scheduler derived it from the annotations of the pods there. But for `allocated`, the kubelet was free to choose another set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from .gpusets import table_of
from .graph import MAX_GPUS, TopologyError, gpus_of_mask, mask_of_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model.node_topology import DeviceReport

    from .graph import Machine

GPUS_ANNOTATION = "scheduling.ai-scheduler.io/gpus"

_FORM = re.compile(r"(?P<gpus>(?:[0-9]{1,2}(?:,[0-9]{1,2}){0,63})?);basis=(?P<basis>allocated|reported|assumed)")


class Basis(StrEnum):
    """How a set of GPUs is known; the module says what each means."""

    ALLOCATED = "allocated"
    REPORTED = "reported"
    ASSUMED = "assumed"


class BoundPod(NamedTuple):
    """What counts of a pod on a node: how many GPUs it asks for, what its annotation says, and who it is since when."""

    gpu_count: int
    annotation: str | None = None
    #: Namespace and name.
    key: str = ""
    #: Seconds since the epoch; `started` is None until the kubelet has seen it.
    created: float = 0.0
    started: float | None = None


@dataclass(frozen=True)
class FreeGpus:
    """The mask of free GPUs, how it is known, and what was wrong with the pods' annotations (sentences, in bind order)."""

    mask: int
    basis: Basis
    problems: tuple[str, ...] = ()


def format_gpus(mask: int, basis: Basis) -> str:
    """Return the annotation's value for a set."""
    return f"{','.join(map(str, gpus_of_mask(mask)))};basis={basis}"


def parse_gpus(text: str, gpu_count: int = MAX_GPUS) -> tuple[int, Basis]:
    """Return mask and basis of the annotation's value; raises TopologyError that names it and the allowed values.

    Indices may come in any order, but none twice and none from `gpu_count` on.
    """
    found = _FORM.fullmatch(text)
    gpus = [int(gpu) for gpu in found["gpus"].split(",") if gpu] if found else []
    if found is None or len(set(gpus)) != len(gpus) or any(gpu >= gpu_count for gpu in gpus):
        raise TopologyError(
            f"annotation {GPUS_ANNOTATION}: {text[:80]!r} is not allowed; allowed are different GPUs from 0 to "
            f"{gpu_count - 1} and their basis, such as '0,1;basis=assumed'",
        )
    return mask_of_gpus(gpus), Basis(found["basis"])


def free_gpus(machine: Machine, pods: Sequence[BoundPod], report: DeviceReport | None = None) -> FreeGpus:
    """Return the free GPUs of a node whose bound pods are given in bind order.

    Best known are the GPUs of pods that the report names, and those that it says are not free for no pod of the node.  Then every
    annotated pod occupies its set, and each other pod takes what NVIDIA's best-effort policy picks from the rest. An annotation
    that is malformed, of another size than the pod, out of range, or overlapping an earlier one counts as none and becomes a
    problem, never an exception; so does a report of GPUs that the machine does not have. A pod that asks for more than is left
    takes all that is left. Where the resource counts shares of GPUs (`is_whole` False) no mask can be told: all count as free.
    """
    if not machine.is_whole:
        return FreeGpus(
            machine.all_gpus, Basis.ASSUMED, ("the node shares GPUs between pods; which are free cannot be told",)
        )
    seen = _seen(machine, pods, report) if report is not None else ""
    free, told = (machine.all_gpus, set[int]()) if isinstance(seen, str) else seen
    problems: dict[int, str] = {}
    unannotated: list[int] = []
    for position, pod in enumerate(pods):
        if position in told:
            continue
        mask = _annotated(machine, free, pod.gpu_count, pod.annotation)
        if isinstance(mask, int):
            free &= ~mask
            continue
        unannotated.append(position)
        if mask is not None:
            problems[position] = mask
    for position in unannotated:
        gpu_count = pods[position].gpu_count
        assumed = table_of(machine).best_effort(free, gpu_count)
        if assumed is None:
            lack = f"asks for {gpu_count} GPUs where {free.bit_count()} are left"
            problems[position] = f"{problems[position]}; {lack}" if position in problems else lack
        free = 0 if assumed is None else free & ~assumed.mask
    texts = [f"pod {at}: {problem}" for at, problem in sorted(problems.items())]
    basis = Basis.ASSUMED if report is None or isinstance(seen, str) else Basis.REPORTED
    return FreeGpus(free, basis, (*filter(None, [seen if isinstance(seen, str) else ""]), *texts))


def _seen(machine: Machine, pods: Sequence[BoundPod], report: DeviceReport) -> tuple[int, set[int]] | str:
    """Return the GPUs that a report leaves, and the positions of the pods whose GPUs it tells; or what is wrong with it.

    A pod that is younger than the report is another one of the same name.  What pods had that are gone by now is free again.
    Without names of pods, those that had started by then have some of the GPUs that were not free.
    """
    named = [*report.free, *(gpu for gpus in (report.held or {}).values() for gpu in gpus)]
    for gpu in named:
        if not 0 <= gpu < machine.gpu_count:
            return f"status: GPU {gpu} where the node has {machine.gpu_count}; allowed are those of the node"
    free = mask_of_gpus(report.free)
    if report.held is None:
        told = {at for at, pod in enumerate(pods) if pod.started is not None and pod.started <= report.observed}
        return free, told
    here = {pod.key: at for at, pod in enumerate(pods) if pod.created <= report.observed and pod.key in report.held}
    for key, gpus in report.held.items():
        if key not in here:
            free |= mask_of_gpus(gpus)
    return free, set(here.values())


def _annotated(machine: Machine, free: int, gpu_count: int, annotation: str | None) -> int | str | None:
    """Return the mask that an annotation tells, what is wrong with it, or None where there is none."""
    if annotation is None:
        return None
    try:
        mask, _ = parse_gpus(annotation, machine.gpu_count)
    except TopologyError as error:
        return str(error)
    if mask.bit_count() != gpu_count:
        return f"annotation {GPUS_ANNOTATION} names {mask.bit_count()} GPUs; allowed are the {gpu_count} that the pod asks for"
    if mask & ~free:
        return f"annotation {GPUS_ANNOTATION} names GPUs of an earlier pod: {','.join(map(str, gpus_of_mask(mask & ~free)))}"
    return mask
