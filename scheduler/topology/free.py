"""Which GPUs of a node are free, derived from the pods bound to it, and the pod annotation that tells a pod's set.

The annotation `scheduling.ai-scheduler.io/gpus` reads `0,1,2,3;basis=assumed`: GPU indices in ascending order, then how they are
known. `allocated`: DRA gave the pod these devices. `reported`: the node agent saw them. `assumed`: the scheduler scored this
set, and the kubelet was free to choose another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .gpusets import table_of
from .graph import MAX_GPUS, TopologyError, gpus_of_mask, mask_of_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .graph import Machine

GPUS_ANNOTATION = "scheduling.ai-scheduler.io/gpus"

_FORM = re.compile(r"(?P<gpus>(?:[0-9]{1,2}(?:,[0-9]{1,2}){0,63})?);basis=(?P<basis>allocated|reported|assumed)")


class Basis(StrEnum):
    """How a set of GPUs is known; the module says what each means."""

    ALLOCATED = "allocated"
    REPORTED = "reported"
    ASSUMED = "assumed"


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


def free_gpus(machine: Machine, pods: Sequence[tuple[int, str | None]]) -> FreeGpus:
    """Return the free GPUs of a node whose bound pods are given in bind order as (GPU count, annotation or None).

    First every annotated pod occupies its set, since that is the better knowledge; then each other pod takes what NVIDIA's
    best-effort policy picks from the rest. An annotation that is malformed, of another size than the pod, out of range, or
    overlapping an earlier one counts as none and becomes a problem, never an exception. A pod that asks for more than is left
    takes all that is left. Where the resource counts shares of GPUs (`is_whole` False) no mask can be told: all count as free.
    """
    if not machine.is_whole:
        return FreeGpus(
            machine.all_gpus, Basis.ASSUMED, ("the node shares GPUs between pods; which are free cannot be told",)
        )
    free = machine.all_gpus
    problems: dict[int, str] = {}
    unannotated: list[int] = []
    for position, (gpu_count, annotation) in enumerate(pods):
        mask = _annotated(machine, free, gpu_count, annotation)
        if isinstance(mask, int):
            free &= ~mask
            continue
        unannotated.append(position)
        if mask is not None:
            problems[position] = mask
    for position in unannotated:
        gpu_count = pods[position][0]
        assumed = table_of(machine).best_effort(free, gpu_count)
        if assumed is None:
            lack = f"asks for {gpu_count} GPUs where {free.bit_count()} are left"
            problems[position] = f"{problems[position]}; {lack}" if position in problems else lack
        free = 0 if assumed is None else free & ~assumed.mask
    return FreeGpus(free, Basis.ASSUMED, tuple(f"pod {at}: {problem}" for at, problem in sorted(problems.items())))


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
