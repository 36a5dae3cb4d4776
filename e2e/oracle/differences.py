"""Where the scheduler differs from upstream on purpose, or does not go yet: a table of names, reasons and what they explain.

An entry explains differences by the paths of the leaves they are at.  Nothing else is forgiven, and every entry is counted,
so that one that explains nothing any more can be seen and dropped.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .compare import Leaf, Mismatch
from .world import Object


@dataclass(frozen=True)
class Difference:
    """One deliberate difference; `explains` yields the paths, or beginnings of paths, that it accounts for in a case."""

    name: str
    reason: str
    explains: Callable[[Object, Object, Object], Iterator[Leaf]]


def _early_refusal(_case: Object, ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives what upstream says after "not found", where its DynamicResources missed what its PreFilter never wrote."""
    said = theirs.get("preemption", {}).get("postFilter", {})
    if said.get("code") == "Error" and said.get("reasons") == ["not found"]:
        yield ("preemption",)
        text, ending = theirs.get("fitError", ""), " not found"
        if text.endswith(ending) and ours.get("fitError", "").startswith(text.removesuffix(ending)):
            yield ("fitError",)


def _error_order(_case: Object, ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives the order in which the errors of several nodes stand in a text, if they are the same errors."""
    said = [one.get("preemption", {}).get("postFilter", {}) for one in (ours, theirs)]
    if all(one.get("code") == "Error" for one in said):
        if len({_parts(" ".join(one.get("reasons", ()))) for one in said}) == 1:
            yield ("preemption", "postFilter", "reasons")
        if len({_parts(one.get("fitError", "")) for one in (ours, theirs)}) == 1:
            yield ("fitError",)


def _parts(text: str) -> tuple[str, ...]:
    """Returns a text cut at its errors, in an order that is always the same."""
    return tuple(sorted(re.split(r", (?=running \")|\[(?=running \")", text.removesuffix("]"))))


def _search_limit(_case: Object, ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives that the search for devices was given up here after a number of steps where upstream's was not."""
    if "timed out trying to allocate devices (gave up after" in ours.get("error", "") and not theirs.get("error"):
        yield ("error",)


def _score_panic(_case: Object, _ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives scores that upstream never made, because its VolumeBinding panicked; it leaves nodes without a name."""
    if "" in theirs.get("total", {}):
        yield from (("scores",), ("total",), ("best",))


def _claim_names(case: Object, _ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives nodes that upstream clears of pods whose claims only have the names of the pod's own, in other namespaces."""
    said = theirs.get("preemption", {})
    if not said.get("candidates"):
        return
    namespace, names = _namespace_of(case["pod"]), _exclusive_claims(case)
    strangers = {
        f"{_namespace_of(one)}/{one['metadata']['name']}"
        for one in case["objects"]
        if one["kind"] == "Pod" and _namespace_of(one) != namespace and names & _claims_of(one)
    }
    nodes = [node for node, found in said.get("candidates", {}).items() if strangers & set(found["pods"])]
    for node in nodes:
        yield ("preemption", "candidates", node)
        yield ("preemption", "rejected", node)
    if not set(nodes).isdisjoint(said.get("chosen", ())):
        yield from (("preemption", "chosen"), ("preemption", "postFilter"), ("fitError",))


def _exclusive_claims(case: Object) -> set[str]:
    """Returns the names of the pod's claims that one pod alone may use."""
    exclusive = {
        one["metadata"]["name"]
        for one in case["objects"]
        if one["kind"] == "PersistentVolumeClaim"
        and _namespace_of(one) == _namespace_of(case["pod"])
        and "ReadWriteOncePod" in one["spec"].get("accessModes", ())
    }
    return exclusive & _claims_of(case["pod"])


def _namespace_of(one: Object) -> str:
    return str(one["metadata"].get("namespace") or "default")


def _claims_of(pod: Object) -> set[str]:
    """Returns the names of the claims that a pod's volumes name."""
    volumes = pod["spec"].get("volumes") or ()
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if volume.get("persistentVolumeClaim")}


DIFFERENCES = (
    Difference(
        "claim-names",
        "In the dry run of a preemption upstream's VolumeRestrictions takes a claim of another namespace for the pod's own "
        "ReadWriteOncePod claim if it has its name, and evicts a pod that does not free it.",
        _claim_names,
    ),
    Difference(
        "error-order",
        "Where Filter fails on several nodes of a preemption's dry run, upstream lists the errors in the order in which its "
        "goroutines ended; here they stand in the order of the nodes.",
        _error_order,
    ),
    Difference(
        "search-limit",
        "Upstream gives the search for devices up after ten seconds of the clock; here it ends after a number of steps, so that "
        "equal inputs give equal decisions on any machine, and that nobody else waits for one pod.",
        _search_limit,
    ),
    Difference(
        "score-panic",
        "Upstream's VolumeBinding panics at Score over a claim whose class stands only in the annotation "
        "volume.beta.kubernetes.io/storage-class; here the annotation counts, as it does in upstream's own Filter.",
        _score_panic,
    ),
    Difference(
        "early-refusal",
        'After a refusal by PreFilter upstream\'s DynamicResources fails at PostFilter with "not found", so that its event '
        "ends in that and a stale nomination stays; here DefaultPreemption says that it is not helpful.",
        _early_refusal,
    ),
)


@dataclass(frozen=True)
class Explained:
    """The differences of a case, parted into those that an entry of the table accounts for and the rest."""

    by_name: dict[str, list[Mismatch]]
    rest: list[Mismatch]


def explain(case: Object, ours: Object, theirs: Object, found: list[Mismatch]) -> Explained:
    """Parts the differences of a case."""
    by_name: dict[str, list[Mismatch]] = {}
    rest = found
    for difference in DIFFERENCES:
        paths = list(difference.explains(case, ours, theirs))
        explained = [one for one in rest if any(one.path[: len(path)] == path for path in paths)]
        if explained:
            by_name[difference.name] = explained
            rest = [one for one in rest if one not in explained]
    return Explained(by_name, rest)
