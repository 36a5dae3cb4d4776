"""Contract: looks at a plugin class, before it is used, for the mistakes that would make it do nothing or fail always.

For the registry.  Whatever cannot be seen from the class is found when a method is called.
"""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING

from .plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Method of a point → its arguments after self.
METHODS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "sort_key": ("workload",),
    "pre_filter": ("state", "pod", "nodes"),
    "filter": ("state", "pod", "node"),
    "filter_all": ("state", "pod", "nodes"),
    "post_filter": ("state", "pod", "failure"),
    "post_filter_gang": ("state", "workload", "failure"),
    "pre_score": ("state", "pod", "nodes"),
    "score": ("state", "pod", "node"),
    "score_all": ("state", "pod", "nodes"),
    "normalize": ("state", "pod", "scores"),
    "same_score": ("pod", "nodes"),
    "generate_domains": ("state", "workload", "nodes"),
    "fabric_for": ("workload", "constraint"),
    "score_placement": ("state", "workload", "rows"),
    "reserve": ("state", "pod", "node_name"),
    "unreserve": ("state", "pod", "node_name"),
    "permit": ("state", "pod", "node_name"),
    "pre_bind": ("state", "pod", "node_name"),
    "bind": ("state", "pod", "node_name"),
    "post_bind": ("state", "pod", "node_name"),
    "queueing_hint": ("event", "change", "pod", "reason"),
    "counted_requests": ("pod",),
    "sign": ("pod",),
    "is_settled": ("state", "pod", "point"),
}
_HELPING = ("normalize", "same_score", "queueing_hint", "counted_requests", "sign", "is_settled")
_ALIKE = 0.8


def mistakes(cls: type[Plugin]) -> Iterator[str]:
    """Yield what is wrong with a plugin class, as sentences."""
    if not cls.NAME:
        yield f"{cls.__name__} has no NAME"
    if not any(hasattr(cls, method) for method in METHODS if method not in _HELPING):
        yield f"{cls.__name__} implements no extension point; its methods may be {', '.join(METHODS)}"
    for name in _own_methods(cls):
        if name in METHODS:
            yield from _wrong_arguments(cls, name)
        elif near := get_close_matches(name, [m for m in METHODS if not hasattr(cls, m)], n=1, cutoff=_ALIKE):
            yield f"{cls.__name__}.{name} is no extension point; did you mean {near[0]}? Otherwise begin its name with _"


def _own_methods(cls: type[Plugin]) -> list[str]:
    known = set(dir(Plugin))
    return [n for n in dir(cls) if not n.startswith("_") and n not in known and callable(getattr(cls, n))]


def _wrong_arguments(cls: type[Plugin], name: str) -> Iterator[str]:
    try:
        signature = inspect.signature(getattr(cls, name))
    except (TypeError, ValueError):
        return
    is_static = isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    wanted = METHODS[name] if is_static else ("self", *METHODS[name])
    try:
        signature.bind(*wanted)
    except TypeError:
        yield f"{cls.__name__}.{name}{signature} takes other arguments; it is called as {name}({', '.join(METHODS[name])})"
