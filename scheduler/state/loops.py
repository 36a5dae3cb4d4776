"""Loops over all nodes for which numpy takes several passes: compiled where the package was built with a C compiler.

For plugins that score sums of amounts and pods, which do the same in numpy where there is no compiled form: the same operations of
IEEE doubles in the same order, so that scores are equal to the last bit (`_loops.c`, and a property test).  A compiled form that does not load, or is not of the source beside it, is none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from types import ModuleType

try:
    from . import _loops
except ImportError:
    _loops = None  # type: ignore[assignment]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
#: Small whole numbers.
Small: TypeAlias = npt.NDArray[np.int16]


def is_current(module: ModuleType, source: Path) -> bool:
    """Tell whether a module was compiled from this source, as it is now; true where the source is not there."""
    if not source.is_file():
        return True
    return bool(getattr(module, "SOURCE", "") == hashlib.sha256(source.read_bytes()).hexdigest())


#: The module `_loops`; None without it, and in a working copy whose source has changed since it was compiled.
compiled = _loops if _loops is not None and is_current(_loops, Path(__file__).with_name("_loops.c")) else None
#: So many resources, or constraints, are scored in one pass.
MOST_PARTS = 3
#: What is added to the pods near a node is less than this.
MOST_MORE = 2**28


class Part(NamedTuple):
    """What one resource adds to a mean; arrays of one length, contiguous, whole numbers up to 2**46."""

    #: Hundredths that are left on each node; none where more is used than offered.
    kept: Floats
    #: What each offers, 1 for nothing.
    offered: Floats
    #: Nodes that offer some; None if all do.
    has: Bools | None
    #: Hundredths that are to be taken besides.
    taken: float
    #: The share that is in use counts, not the one that is left.
    is_most: bool
    weight: int


def mean_share(parts: tuple[Part, ...]) -> Ints | None:
    """Return the weighted mean of shares in percent over the resources that each node offers, rounded down twice.

    0 where nothing is offered.  Between one and MOST_PARTS resources; None without the compiled form.
    """
    if compiled is None:
        return None
    out = np.empty(len(parts[0].kept), dtype=np.int64)
    compiled.mean_share(parts, out)
    return out


def balance_gain(first: tuple[Floats, Floats, float], second: tuple[Floats, Floats, float], base: Small) -> Ints | None:
    """Return half of `base` and of how near each other two shares in use come, in percent, rounded down twice.

    Of each resource: what is in use and what is offered (more than 0), shape (nodes,), and what comes besides.  None
    without the compiled form.
    """
    if compiled is None:
        return None
    out = np.empty(len(base), dtype=np.int64)
    compiled.balance_gain(first, second, base, out)
    return out


class Near(NamedTuple):
    """What one constraint adds to the number of pods near each node; arrays are contiguous."""

    #: Matching pods, fewer than 2**31: by domain, or by node where `numbers` is None.
    counts: Ints
    #: The domain of each node.
    numbers: Ints | None
    weight: float
    more: float


def sum_by(numbers: Ints, counts: Ints, size: int) -> Ints | None:
    """Return the sum of the counts that belong to each number below a size, shape (size,); None without the compiled form."""
    if compiled is None:
        return None
    out = np.empty(size, dtype=np.int64)
    compiled.sum_by(numbers, counts, out)
    return out


def sum_near(parts: tuple[Near, ...], shift: float, nodes: int) -> Ints | None:
    """Return the sums of counts · weight + more over the parts, plus a shift, cut off; shape (nodes,).

    None without the compiled form, for more than MOST_PARTS parts, and for sums that may be too large.
    """
    if compiled is None or len(parts) > MOST_PARTS or any(part.more > MOST_MORE for part in parts):
        return None
    out = np.empty(nodes, dtype=np.int64)
    compiled.sum_near(parts, shift, out)
    return out


def fewest_best(scores: Ints) -> Ints | None:
    """Return 100 · (highest + lowest - score) // highest, 100 where all are 0.

    None without the compiled form, and if a score is negative or 2**24 or more.
    """
    if compiled is None:
        return None
    out = np.empty(len(scores), dtype=np.int64)
    return out if compiled.fewest_best(scores, out) else None
