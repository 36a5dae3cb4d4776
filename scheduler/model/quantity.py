"""Kubernetes quantities as exact integers.

For everything that reads a resource amount: the model, the CRDs and the CLI.  It stops at numbers: what an amount
means (a request, a capacity) is for others to say.  Grammar and rounding are those of
`k8s.io/apimachinery/pkg/api/resource.Quantity`: a value that is no whole unit is rounded away from zero.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

#: Larger amounts are taken as this one, so that sums and products by 100 stay within 64 bits. 2**56 bytes are 72 PB.
LARGEST = 2**56

_PATTERN = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?", re.ASCII
)
_SUFFIXES = {
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
    "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
_LONGEST = 64
_LARGEST_EXPONENT = 30


class QuantityError(ValueError):
    """A text is no Kubernetes quantity; the message says what would be."""


def parse_quantity(text: str | float) -> Fraction:
    """Return the exact value of a quantity such as ``"1.5Gi"``, ``"100m"``, ``"1e3"`` or a plain JSON number.

    Raises QuantityError for anything else.
    """
    plain = str(text).strip() if isinstance(text, int | float) and not isinstance(text, bool) else text
    match = _PATTERN.fullmatch(plain) if isinstance(plain, str) and len(plain) <= _LONGEST else None
    if match is None:
        raise QuantityError(
            f"{text!r} is not a quantity: a number with an optional suffix n, u, m, k, M, G, T, P, E, "
            "Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
        )
    sign, digits, suffix, exponent = match.groups()
    value = Fraction(digits)
    if suffix:
        value *= _SUFFIXES[suffix]
    elif exponent:
        if abs(int(exponent)) > _LARGEST_EXPONENT:
            raise QuantityError(f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}")
        value *= Fraction(10) ** int(exponent)
    return -value if sign == "-" else value


def _whole(value: Fraction) -> int:
    """Return the value rounded away from zero and cut to ±LARGEST."""
    floor, rest = divmod(abs(value.numerator), value.denominator)
    size = min(floor + (1 if rest else 0), LARGEST)
    return -size if value < 0 else size


@lru_cache(maxsize=65_536)
def to_units(text: str | float) -> int:
    """Return a quantity in whole units (bytes, devices, pods), rounded away from zero."""
    return _whole(parse_quantity(text))


@lru_cache(maxsize=65_536)
def to_milli(text: str | float) -> int:
    """Return a quantity in thousandths (millicores for ``cpu``), rounded away from zero."""
    return _whole(parse_quantity(text) * 1000)


def amount(resource: str, text: str | float) -> int:
    """Return how much of a resource a quantity is: millicores for ``cpu``, whole units for everything else."""
    return to_milli(text) if resource == "cpu" else to_units(text)
