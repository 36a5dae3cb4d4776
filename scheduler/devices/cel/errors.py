"""What can go wrong with an expression; none of it ever counts as "does not match".

For the parts beside it and for whoever evaluates selectors.
"""

from __future__ import annotations


class CelError(Exception):
    """An expression cannot be evaluated on a value; the message is for users."""


class CelCompileError(CelError):
    """An expression makes no sense, or uses what is not known here."""


class CelCostError(Exception):
    """An expression takes too much work. It is no CelError, so that no `||` of the expression swallows it."""


def no_overload(function: str, *kinds: str) -> CelError:
    """Return the error for a function that does not take values of these kinds."""
    return CelError(f"no such overload: {function}({', '.join(kinds)})")
