"""A machine as an SVG: the PCIe tree below, NVLinks above, free GPUs marked, and the best set of each size as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.sim.svg import drawing, element, label, tip
from scheduler.topology import GpuSet, LinkKind, Machine, NodeKind, gpus_of_mask, table_of

from .machine_page import children_of, edges_of, title_of, tops_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STEP, _LEFT, _BOX = 92, 20, 78
_Y_SWITCH, _Y_DEVICE, _ROW = 40, 230, 56
_TABLE_ROW = 22
_LEVELS = {NodeKind.PCIE_SWITCH: 1, NodeKind.ROOT_PORT: 3, NodeKind.HOST_BRIDGE: 4, NodeKind.NUMA: 5}
_FILLS = {NodeKind.GPU: "#76b900", NodeKind.NIC: "#4a90d9", NodeKind.NVSWITCH: "#f0c808"}
_TAKEN, _PLAIN, _INK = "#b8b8b8", "#eeeeee", "#222222"


def machine_svg(machine: Machine, free: int, sets: Sequence[GpuSet]) -> str:
    """Return the drawing; it needs no style sheet."""
    places = _places(machine)
    width = max((x for x, _ in places.values()), default=0) + _STEP + _LEFT
    bottom = max((y for _, y in places.values()), default=0) + _ROW
    height = bottom + (len(sets) + 2) * _TABLE_ROW
    content = [
        element("rect", width=width, height=height, fill="#ffffff"),
        *_links(machine, places),
        *_boxes(machine, places, free),
        *_table(machine, free, sets, bottom),
    ]
    title = f"{machine.gpu_count} GPUs and {len(machine.nics)} NICs"
    group = element("g", *content, font_family="sans-serif", font_size=12)
    svg = drawing(float(width), float(height), tip(title), group, title=title)
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def _places(machine: Machine) -> dict[str, tuple[int, int]]:
    """Return the middle of each node's box: devices in a row, what joins them below, NVSwitches above."""
    places: dict[str, tuple[int, int]] = {}
    column = 0

    def place(name: str, parent: str | None, depth: int) -> int:
        nonlocal column
        below = [place(child, name, depth + 1) for child in children_of(machine, name, parent)]
        kind = machine.graph.nodes[name]["kind"]
        if not below:
            x, y = _LEFT + column * _STEP + _BOX // 2, _Y_DEVICE
            column += 1
        else:
            level = _LEVELS[kind] + (
                1 if kind is NodeKind.PCIE_SWITCH and any(_is_switch(machine, name, parent)) else 0
            )
            x, y = sum(below) // len(below), _Y_DEVICE + level * _ROW
        places[name] = (x, y)
        return x

    for top in tops_of(machine):
        place(top, None, 0)
    middle = _LEFT + column * _STEP // 2
    switches = [name for name, data in machine.graph.nodes(data=True) if data["kind"] is NodeKind.NVSWITCH]
    return places | dict.fromkeys(switches, (middle, _Y_SWITCH))


def _is_switch(machine: Machine, name: str, parent: str | None) -> Iterator[bool]:
    for child in children_of(machine, name, parent):
        yield machine.graph.nodes[child]["kind"] is NodeKind.PCIE_SWITCH


def _links(machine: Machine, places: dict[str, tuple[int, int]]) -> Iterator[str]:
    for one, other, data in edges_of(machine):
        (x1, y1), (x2, y2) = places[one], places[other]
        said = tip(
            f"{title_of(machine, one)} to {title_of(machine, other)}: {data['kind']}, {data['gbps']} GB/s per direction"
        )
        if data["kind"] is LinkKind.NVLINK and y1 == y2:
            top = _Y_DEVICE - 24 - min(170, abs(x2 - x1) // 3)
            path = f"M {x1} {y1 - 14} Q {(x1 + x2) // 2} {top - 30} {x2} {y2 - 14}"
            yield element("path", said, d=path, fill="none", stroke="#76b900", stroke_width=1.5 * data["links"])
        else:
            dash = "6 4" if data["kind"] is LinkKind.SMP else None
            stroke = "#76b900" if data["kind"] is LinkKind.NVLINK else "#888888"
            yield element(
                "line", said, x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=2, stroke_dasharray=dash
            )


def _boxes(machine: Machine, places: dict[str, tuple[int, int]], free: int) -> Iterator[str]:
    taken = {f"gpu{gpu}" for gpu in gpus_of_mask(machine.all_gpus & ~free)}
    for name, (x, y) in sorted(places.items()):
        fill = _TAKEN if name in taken else _FILLS.get(machine.graph.nodes[name]["kind"], _PLAIN)
        left, top = x - _BOX // 2, y - 14
        yield element("rect", tip(name), x=left, y=top, width=_BOX, height=28, rx=4, fill=fill, stroke=_INK)
        size = 9 if len(title_of(machine, name)) > 11 else 12  # noqa: PLR2004 - what fits into a box
        yield label(title_of(machine, name), x, y + 4, text_anchor="middle", font_size=size, fill=_INK)


def _table(machine: Machine, free: int, sets: Sequence[GpuSet], top: int) -> Iterator[str]:
    columns = (_LEFT, _LEFT + 40, _LEFT + 130, _LEFT + 210)
    rows = [("k", "GB/s", "of best", "best set of k free GPUs")]
    for best in sets:
        share = table_of(machine).quality(free, len(best.gpus))
        gpus = ", ".join(map(str, best.gpus))
        rows.append((str(len(best.gpus)), str(best.bandwidth_gbps), f"{share} %", gpus))
    for number, row in enumerate(rows):
        y = top + (number + 1) * _TABLE_ROW
        for x, text in zip(columns, row, strict=True):
            yield label(text, x, y, font_weight="bold" if number == 0 else None, fill=_INK)
