"""Just enough arithmetic on resource quantities to keep generated pods legal; not the semantics under test."""

from fractions import Fraction

from .world import Object

SUFFIXES = {
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "G": 10**9,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def amount(quantity: str) -> Fraction:
    """Returns the number that a quantity stands for."""
    digits = quantity.rstrip("mkMGTKi")
    suffix = quantity[len(digits) :]
    return Fraction(digits) * (SUFFIXES[suffix] if suffix else 1)


def container_total(spec: Object, resource: str) -> Fraction:
    """Returns what a pod's containers ask for together, with sidecars and init containers as upstream counts them."""

    def requested(container: Object) -> Fraction:
        return amount(container["resources"].get("requests", {}).get(resource, "0"))

    sidecars = peak = Fraction(0)
    for one in spec.get("initContainers", ()):
        if one.get("restartPolicy") == "Always":
            sidecars += requested(one)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + requested(one))
    return max(peak, sidecars + sum((requested(one) for one in spec["containers"]), Fraction(0)))
