"""Connections: which of several sets of GPUs that a claim may have is the best connected one.

For the plugin of dynamic resources, which hands `ConnectedFirst` to the allocator: the devices of a request are tried in an
order that begins with the best set, so what is allowed stays as it is, and of that the best connected is found first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.model.device_claims import EXACT_COUNT
from scheduler.topology import (
    MAX_GPUS,
    Machine,
    PcieClass,
    PcieLayout,
    build_machine,
    gpus_of_mask,
    known_machine,
    table_of,
)  # fmt: skip

from .errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model.devices import Attribute, Device

    from .ledger import DeviceId
    from .pools import Candidate, Pool
    from .requests import Want
    from .search import Search

#: As NVIDIA's driver calls the product: the label of GPU feature discovery has the same name with dashes.
PRODUCT_NAME = "productName"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"


@dataclass(frozen=True, slots=True)
class Connections:
    """The GPUs among the devices of a node, by their number in its machine."""

    machine: Machine
    gpu_of: Mapping[DeviceId, int]


def machine_of_slices(pools: Sequence[Pool]) -> Machine | None:
    """Return the machine that the slices of a node tell: all its GPUs are of one product, whose NVLinks are fixed.

    None where the product says nothing of links, as that of PCIe boards, so that the next source is asked.
    """
    gpus = [candidate for pool in pools for candidate in pool.devices if _is_whole_gpu(candidate)]
    named = {attribute.value if attribute is not None else None for attribute in map(_product_of, gpus)}
    if len(named) != 1 or not 1 < len(gpus) <= MAX_GPUS:
        return None
    machine = known_machine("-".join(str(named.pop()).split()), len(gpus))
    return machine if machine.nvlink_gbps.any() else None


def gpus_of(pools: Sequence[Pool]) -> frozenset[DeviceId]:
    """Return the whole GPUs of a node."""
    return frozenset(candidate.id for pool in pools for candidate in pool.devices if _is_whole_gpu(candidate))


def numbers_of(pools: Sequence[Pool]) -> dict[DeviceId, int]:
    """Return the numbers of a node's GPUs by their `index`; nothing if some GPU has none, or one that another has too."""
    gpus = [candidate for pool in pools for candidate in pool.devices if _is_whole_gpu(candidate)]
    found: dict[DeviceId, int] = {}
    for gpu in gpus:
        number = _whole(gpu.device, "index")
        if number is not None and 0 <= number < MAX_GPUS:
            found[gpu.id] = number
    return found if len(set(found.values())) == len(gpus) else {}


def connections_of(pools: Sequence[Pool], known: Machine | None) -> Connections | None:
    """Return the GPUs of a node and how they are linked; None where that cannot be told, or makes no difference.

    `known` is what slices, the node agent, annotations or labels tell of the machine: GPUs are matched by their `index`.  Without it,
    or where the numbers do not match, PCIe roots and NUMA nodes in the attributes of the devices tell which are near.
    """
    gpus = [candidate for pool in pools for candidate in pool.devices if _is_whole_gpu(candidate)]
    if not 1 < len(gpus) <= MAX_GPUS:
        return None
    numbers = [_whole(candidate.device, "index") for candidate in gpus]
    is_numbered = None not in numbers and len(set(numbers)) == len(numbers)
    if known is not None and is_numbered and all(0 <= (n or 0) < known.gpu_count for n in numbers):
        return Connections(known, {gpu.id: n or 0 for gpu, n in zip(gpus, numbers, strict=True)})
    if is_numbered:
        gpus = [gpu for _, gpu in sorted(zip(numbers, gpus, strict=True), key=lambda pair: pair[0] or 0)]
    machine = _machine_of(gpus)
    return None if machine is None else Connections(machine, {gpu.id: turn for turn, gpu in enumerate(gpus)})


class ConnectedFirst:
    """The order in which devices are tried: the best connected set first, everything else as listed."""

    def __init__(self, by_site: Mapping[str, Connections | None]) -> None:
        """Take the connections by name of node."""
        self._by_site = by_site

    def __call__(self, search: Search, want: Want, devices: list[Candidate]) -> list[Candidate]:
        """Return the devices of a request in the order to try them."""
        connections = self._by_site.get(want.site.name)
        if connections is None or want.is_admin or want.exact.mode != EXACT_COUNT:
            return devices
        free = sum(
            1 << connections.gpu_of[c.id] for c in devices if c.id in connections.gpu_of and _is_free(search, want, c)
        )
        chosen = _chosen(search, want, connections)
        table, total = table_of(connections.machine), _still_wanted(search, want)
        best = table.best(free | chosen, min(total, free.bit_count()) + chosen.bit_count())
        if (
            best is None or best.mask & chosen != chosen
        ):  # what was chosen before is not part of the best set: near to it
            best = table.best(free, min(want.count, free.bit_count()))
        wanted = 0 if best is None else best.mask & free
        first = table.best(wanted, min(want.count, wanted.bit_count()))
        ranks = dict.fromkeys(gpus_of_mask(wanted), 1) | dict.fromkeys(first.gpus if first else (), 0)
        return sorted(devices, key=lambda c: ranks.get(connections.gpu_of.get(c.id, -1), 2))


def _is_free(search: Search, want: Want, candidate: Candidate) -> bool:
    try:
        return not search.usage.is_taken(candidate.id) and want.fits(candidate, search.evaluator)
    except AllocationError:
        return False  # the search says so when it comes to it


def _chosen(search: Search, want: Want, connections: Connections) -> int:
    """Return the GPUs that the claims of the same node's pod were given in this search."""
    found = 0
    for choice in (each for chosen in search.chosen for each in chosen):
        if choice.want.site.name == want.site.name and choice.want.claim.label == want.claim.label:
            found |= 1 << connections.gpu_of[choice.candidate.id] if choice.candidate.id in connections.gpu_of else 0
    return found


def _still_wanted(search: Search, want: Want) -> int:
    """Return how many devices of the same class this request and those after it in the claim ask for."""
    for wants in search.wants:
        for turn, alternatives in enumerate(wants.requests):
            if want in alternatives:
                later = [each[0] for each in wants.requests[turn + 1 :]]
                return want.count + sum(
                    other.count
                    for other in later
                    if other.exact.class_name == want.exact.class_name and not other.is_admin
                )
    return want.count


def _is_whole_gpu(candidate: Candidate) -> bool:
    """Tell whether a device is a whole GPU that belongs to the node: by its `type`, else by the name of its driver."""
    device = candidate.device
    if not candidate.where.node_name or device.allows_multiple:
        return False
    kind = device.attributes.get("type")
    return kind.value == "gpu" if kind is not None else candidate.id[0].startswith("gpu.")


def _product_of(candidate: Candidate) -> Attribute | None:
    return candidate.device.attributes.get(PRODUCT_NAME)


def _machine_of(gpus: Sequence[Candidate]) -> Machine | None:
    """Return a machine that knows which GPUs are near over PCIe; None if the attributes do not tell."""
    numa = [_whole(gpu.device, NUMA_NODE) for gpu in gpus]
    numa = [_whole(gpu.device, "numa") if n is None else n for gpu, n in zip(gpus, numa, strict=True)]
    roots: dict[str, list[int]] = defaultdict(list)
    for turn, gpu in enumerate(gpus):
        if (root := gpu.device.attributes.get(PCIE_ROOT)) is not None:
            roots[str(root.value)].append(turn)
    if len(set(numa)) < 2 and len(roots) < 2:  # noqa: PLR2004 - all alike
        return None
    layout = PcieLayout.of_numa(numa).with_groups(list(roots.values()), PcieClass.PXB)
    return build_machine("devices", len(gpus), layout=layout, is_known=False)


def _whole(device: Device, name: str) -> int | None:
    attribute = device.attributes.get(name)
    return int(attribute.value) if attribute is not None and attribute.kind == "int" else None  # type: ignore[arg-type]
