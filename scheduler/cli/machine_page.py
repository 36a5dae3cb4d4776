"""A machine as text and as JSON: its links, where its devices hang, and the best set of GPUs of each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.topology import GpuSet, Machine, NodeKind, PcieClass, gpus_of_mask, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMES = {
    NodeKind.NUMA: "NUMA node", NodeKind.HOST_BRIDGE: "host bridge", NodeKind.ROOT_PORT: "root port",
    NodeKind.PCIE_SWITCH: "PCIe switch", NodeKind.NVSWITCH: "NVSwitch", NodeKind.GPU: "GPU", NodeKind.NIC: "NIC",
}  # fmt: skip


def best_sets(machine: Machine, free: int) -> list[GpuSet]:
    """Return the best set of each size that is free, the smallest first."""
    table = table_of(machine)
    found = (table.best(free, size) for size in range(1, free.bit_count() + 1))
    return [best for best in found if best is not None]


def machine_text(machine: Machine, free: int, sets: Sequence[GpuSet]) -> str:
    """Return the page that `topology show` prints."""
    count, nics = machine.gpu_count, len(machine.nics)
    head = f"{_counted(count, 'GPU')}, {_counted(nics, 'NIC')}; free: {_listed(gpus_of_mask(free)) or 'none'}"
    if not machine.is_whole:
        head += "; the resource counts shares of GPUs, so sets mean nothing to a pod"
    parts = [head, "", "NVLink, GB/s per direction", *_matrix(machine.nvlink_gbps.tolist()), "", *_tree(machine), ""]
    parts += [f"{'k':>3}  {'GB/s':>6}  {'of best':>7}  best set of k free GPUs"]
    for best in sets:
        share = table_of(machine).quality(free, len(best.gpus))
        note = "" if best.is_connected else "  (not all joined by NVLink)"
        parts.append(f"{len(best.gpus):>3}  {best.bandwidth_gbps:>6}  {share:>6}%  {_listed(best.gpus)}{note}")
    return "\n".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def machine_json(machine: Machine, free: int, sets: Sequence[GpuSet]) -> dict[str, Any]:
    """Return the same as JSON: bandwidths in GB/s per direction, PCIe in the words of `nvidia-smi topo -m`."""
    graph = machine.graph
    return {
        "gpus": machine.gpu_count,
        "free": list(gpus_of_mask(free)),
        "nvlinkGigabytesPerSecond": machine.nvlink_gbps.tolist(),
        "pcie": [[PcieClass(cell).name if cell else None for cell in row] for row in machine.pcie.tolist()],
        "nics": [{"name": nic.name, "rail": nic.rail} for nic in machine.nics],
        "nicPcie": [[PcieClass(cell).name if cell else None for cell in row] for row in machine.nic_pcie.tolist()],
        "nodes": [{"name": name, "kind": str(graph.nodes[name]["kind"])} for name in sorted(graph.nodes)],
        "edges": [
            {"ends": [one, other], "kind": str(data["kind"]), "gigabytesPerSecond": data["gbps"]}
            for one, other, data in edges_of(machine)
        ],
        "best": [
            {"k": len(best.gpus), "gpus": list(best.gpus), "gigabytesPerSecond": best.bandwidth_gbps} for best in sets
        ],
    }


def edges_of(machine: Machine) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the edges with their data, sorted, the lower end of each first."""
    edges = machine.graph.edges(data=True)
    return sorted(
        ((min(one, other), max(one, other), data) for one, other, data in edges), key=lambda edge: (edge[0], edge[1])
    )


def children_of(machine: Machine, name: str, parent: str | None) -> list[str]:
    """Return what hangs below a node of the PCIe tree, seen from its parent, in the order of the first GPU or NIC below."""
    graph = machine.graph
    below = [n for n, link in graph[name].items() if n != parent and link["kind"] == "pcie"]
    if graph.nodes[name]["kind"] in (NodeKind.GPU, NodeKind.NIC):
        return []
    return sorted(below, key=lambda child: _order(machine, child, name))


def tops_of(machine: Machine) -> list[str]:
    """Return the NUMA nodes, in the order of the first device below each."""
    tops = [name for name, data in machine.graph.nodes(data=True) if data["kind"] is NodeKind.NUMA]
    return sorted(tops, key=lambda top: _order(machine, top, None))


def title_of(machine: Machine, name: str) -> str:
    """Return what a node is called on a page."""
    data = machine.graph.nodes[name]
    number = name.rstrip("0123456789")
    if data["kind"] is NodeKind.NIC:
        rail = "" if data.get("rail") is None else f", rail {data['rail']}"
        return f"NIC {data.get('device', name)}{rail}"
    if data["kind"] in (NodeKind.GPU, NodeKind.NUMA):
        return f"{_NAMES[data['kind']]} {name[len(number) :] or '?'}"
    return _NAMES[data["kind"]]


def _order(machine: Machine, name: str, parent: str | None) -> tuple[int, str]:
    """Return a key by the lowest GPU below, NICs after GPUs."""
    kind = machine.graph.nodes[name]["kind"]
    if kind in (NodeKind.GPU, NodeKind.NIC):
        return int(name[3:]) + (1000 if kind is NodeKind.NIC else 0), name
    below = children_of(machine, name, parent)
    return min((_order(machine, child, name) for child in below), default=(2000, name))


def _tree(machine: Machine) -> Iterator[str]:
    """Yield the PCIe tree, a line for each device or part; what has one child only is on its child's line."""

    def lines(name: str, parent: str | None, indent: int, before: str) -> Iterator[str]:
        title = f"{before}{title_of(machine, name)}"
        below = children_of(machine, name, parent)
        if len(below) == 1 and machine.graph.nodes[name]["kind"] is NodeKind.ROOT_PORT:
            yield from lines(below[0], name, indent, f"{title} - ")
            return
        yield f"{'  ' * indent}{title}"
        for child in below:
            yield from lines(child, name, indent + 1, "")

    for top in tops_of(machine):
        yield from lines(top, None, 0, "")


def _matrix(rows: list[list[int]]) -> Iterator[str]:
    width = max(4, *(len(str(cell)) for row in rows for cell in row)) + 1
    yield " " * 6 + "".join(f"{f'GPU{gpu}':>{max(width, 6)}}" for gpu in range(len(rows)))
    for gpu, row in enumerate(rows):
        cells = ["-" if other == gpu else str(cell) for other, cell in enumerate(row)]
        yield f"{f'GPU{gpu}':<6}" + "".join(f"{cell:>{max(width, 6)}}" for cell in cells)


def _listed(gpus: Sequence[int]) -> str:
    return ",".join(map(str, gpus))
