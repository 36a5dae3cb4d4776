"""How near NICs are to a set of GPUs: on the GPUs' own PCIe switches, on their NUMA nodes, or anywhere on the node.

For whoever chooses GPUs for a pod that asks for NICs too.  A NIC is as near to a set as to the nearest GPU of it.  The quality of a
choice is 100 for each NIC on a switch of the set, 50 for each on a NUMA node of it and 0 for any other, on the average over the
NICs that are asked for; those that are missing count as 0.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .graph import TopologyError, gpus_of_mask, mask_of_gpus
from .pcie import PcieClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from .graph import Machine

NIC_SCOPE_ANNOTATION = "scheduling.ai-scheduler.io/nic-scope"
NICS_ANNOTATION = "scheduling.ai-scheduler.io/nics"
_QUALITY_OF_NUMA = 50


class NicScope(IntEnum):
    """How near; a larger value is nearer."""

    NODE = 0
    NUMA = 1
    SWITCH = 2


#: The scopes by the words of annotation and arguments.
SCOPES: Mapping[str, NicScope] = {scope.name.lower(): scope for scope in NicScope}


class NicAsk(NamedTuple):
    """How many NICs go with a set, which ones are free (a mask), and how near all have to be; None if anywhere will do."""

    wanted: int
    free: int
    required: NicScope | None = None


class NicChoice(NamedTuple):
    """The NICs for a set of GPUs, by index; how near the farthest is, None where too few are free; and their quality."""

    nics: tuple[int, ...]
    scope: NicScope | None
    quality: int


def parse_scope(text: str) -> NicScope:
    """Return the scope of a word; raises TopologyError that names the annotation and the allowed words."""
    if text not in SCOPES:
        raise TopologyError(
            f"annotation {NIC_SCOPE_ANNOTATION}: {text[:40]!r} is unknown; allowed: {', '.join(SCOPES)}"
        )
    return SCOPES[text]


def parse_nics(text: str, machine: Machine) -> int | None:
    """Return the mask of the NICs that an annotation names; None unless all are of the machine."""
    index = {nic.name: number for number, nic in enumerate(machine.nics)}
    names = re.split(r",|;.*", text)
    named = [index.get(name) for name in names if name]
    return mask_of_gpus(nic for nic in named if nic is not None) if None not in named else None


def scopes_of(machine: Machine) -> NDArray[np.int64]:
    """Return the `NicScope` of each GPU and NIC, shape (GPUs, NICs)."""
    scopes = np.full(machine.nic_pcie.shape, int(NicScope.NODE), dtype=np.int64)
    scopes[machine.nic_pcie >= int(PcieClass.NODE)] = int(NicScope.NUMA)
    scopes[machine.nic_pcie >= int(PcieClass.PXB)] = int(NicScope.SWITCH)
    return scopes


def masks_near(machine: Machine, scope: NicScope) -> list[int]:
    """Return for each NIC the mask of the GPUs that it is at least so near to."""
    scopes = scopes_of(machine)
    return [mask_of_gpus(np.flatnonzero(column >= int(scope)).tolist()) for column in scopes.T]


def gpu_order(machine: Machine) -> list[int]:
    """Return the GPUs by the lowest rail of the NICs on their PCIe switches, those without one last; then by index."""
    scopes, last = scopes_of(machine), len(machine.nics)
    rails = [
        min((nic.rail for n, nic in enumerate(machine.nics) if nic.rail is not None and scopes[gpu, n] == NicScope.SWITCH), default=last)
        for gpu in range(machine.gpu_count)
    ]  # fmt: skip
    return sorted(range(machine.gpu_count), key=lambda gpu: (rails[gpu], gpu))


def choose_nics(machine: Machine, gpus: int, ask: NicAsk) -> NicChoice:
    """Return the NICs for a set: the nearest, divided evenly among the GPUs, then by rail and index; O(NICs · GPUs) for each."""
    scopes, members = scopes_of(machine), gpus_of_mask(gpus)
    left = [nic for nic in gpus_of_mask(ask.free) if nic < len(machine.nics)]
    served = dict.fromkeys(members, 0)
    chosen: list[tuple[int, NicScope]] = []

    def key(nic: int) -> tuple[int, int, int, int]:
        nearest = max((int(scopes[gpu, nic]) for gpu in members), default=0)
        fewest = min((served[gpu] for gpu in members if scopes[gpu, nic] == nearest), default=0)
        rail = machine.nics[nic].rail
        return -nearest, fewest, nic if rail is None else rail, nic

    while left and len(chosen) < ask.wanted:
        nic = min(left, key=key)
        nearest, fewest, *_ = key(nic)
        gpu = next((g for g in members if scopes[g, nic] == -nearest and served[g] == fewest), None)
        if gpu is not None:
            served[gpu] += 1
        left.remove(nic)
        chosen.append((nic, NicScope(-nearest)))
    quality = quality_of([scope for _, scope in chosen], ask.wanted)
    scope = min((scope for _, scope in chosen), default=None) if len(chosen) == ask.wanted else None
    return NicChoice(tuple(sorted(nic for nic, _ in chosen)), scope, quality)


def quality_of(scopes: Iterable[NicScope], count: int) -> int:
    """Return the quality of NICs at some scopes where so many are asked for, 0 to 100."""
    worth = {NicScope.SWITCH: 100, NicScope.NUMA: _QUALITY_OF_NUMA, NicScope.NODE: 0}
    return sum(worth[scope] for scope in scopes) // count if count else 100


class NicPreference:
    """Compares many sets of GPUs of one machine at once by the NICs that are near them."""

    def __init__(self, machine: Machine) -> None:
        """Look up which GPUs each NIC is near to."""
        self._on_switch = masks_near(machine, NicScope.SWITCH)
        self._on_numa = masks_near(machine, NicScope.NUMA)

    def counts(self, sets: NDArray[np.int64], free: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many free NICs are on switches, and at least on NUMA nodes, of each set."""
        on_switch, on_numa = np.zeros((2, len(sets)), dtype=np.int64)
        for nic in gpus_of_mask(free):
            on_switch += (sets & self._on_switch[nic]) != 0
            on_numa += (sets & self._on_numa[nic]) != 0
        return on_switch, on_numa

    def allowed(self, sets: NDArray[np.int64], ask: NicAsk) -> NDArray[np.bool_]:
        """Return which sets have as many NICs as asked at the required scope."""
        on_switch, on_numa = self.counts(sets, ask.free)
        enough = {NicScope.SWITCH: on_switch, NicScope.NUMA: on_numa}
        there = np.full(len(sets), ask.free.bit_count(), dtype=np.int64)
        if ask.required is None:
            return np.ones(len(sets), dtype=np.bool_)
        is_near: NDArray[np.bool_] = enough.get(ask.required, there) >= ask.wanted
        return is_near

    def worth(self, sets: NDArray[np.int64], ask: NicAsk) -> NDArray[np.int64]:
        """Return the sum that `quality_of` divides by the count, for the nearest NICs of each set."""
        on_switch, on_numa = self.counts(sets, ask.free)
        switched: NDArray[np.int64] = np.minimum(on_switch, ask.wanted)
        others: NDArray[np.int64] = np.minimum(on_numa, ask.wanted) - switched
        return 100 * switched + _QUALITY_OF_NUMA * others
