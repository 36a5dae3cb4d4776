"""Where the scheduler differs from upstream on purpose, or does not go yet: a table of names, reasons and what they explain.

An entry explains differences by the paths of the leaves they are at.  Nothing else is forgiven, and every entry is counted,
so that one that explains nothing any more can be seen and dropped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .compare import Leaf, Mismatch
from .world import Object

WHOLE_CASE: Leaf = ()
"""The path that explains every difference of a case."""

DYNAMIC_RESOURCES = "DynamicResources"
DYNAMIC_RESOURCES_WEIGHT = 2


@dataclass(frozen=True)
class Difference:
    """One deliberate difference; `explains` yields the paths, or beginnings of paths, that it accounts for in a case."""

    name: str
    reason: str
    explains: Callable[[Object, Object, Object], Iterator[Leaf]]


def _dynamic_resources(case: Object, ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Leaves out pods with claims; elsewhere only what the plugin says of itself, and its share of the totals."""
    pods = [case["pod"], *(one for one in case.get("objects", ()) if one["kind"] == "Pod")]
    if any(pod["spec"].get("resourceClaims") for pod in pods):
        yield WHOLE_CASE
        return
    for field in ("filters", "scores", "skipped", "scoreSkipped", "prefilter"):
        yield (field, DYNAMIC_RESOURCES)
    scores = theirs.get("scores", {}).get(DYNAMIC_RESOURCES, {})
    shares = {score["normalized"] * DYNAMIC_RESOURCES_WEIGHT for score in scores.values()}
    if len(shares) == 1:
        share = shares.pop()
        for node, total in theirs.get("total", {}).items():
            if ours.get("total", {}).get(node) == total - share:
                yield ("total", node)


def _early_refusal(_case: Object, ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives what upstream says after "not found", where its DynamicResources missed what its PreFilter never wrote."""
    said = theirs.get("preemption", {}).get("postFilter", {})
    if said.get("code") == "Error" and said.get("reasons") == ["not found"]:
        yield ("preemption",)
        text, ending = theirs.get("fitError", ""), " not found"
        if text.endswith(ending) and ours.get("fitError", "").startswith(text.removesuffix(ending)):
            yield ("fitError",)


def _score_panic(_case: Object, _ours: Object, theirs: Object) -> Iterator[Leaf]:
    """Forgives scores that upstream never made, because its VolumeBinding panicked; it leaves nodes without a name."""
    if "" in theirs.get("total", {}):
        yield from (("scores",), ("total",), ("best",))


DIFFERENCES = (
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
    Difference(
        "dynamic-resources",
        "There is no DynamicResources plugin yet: pods with resource claims are left out.",
        _dynamic_resources,
    ),
)


@dataclass(frozen=True)
class Explained:
    """The differences of a case, parted into those that an entry of the table accounts for and the rest."""

    by_name: dict[str, list[Mismatch]]
    rest: list[Mismatch]
    left_out_by: str | None


def explain(case: Object, ours: Object, theirs: Object, found: list[Mismatch]) -> Explained:
    """Parts the differences of a case; a case that an entry leaves out has no rest."""
    by_name: dict[str, list[Mismatch]] = {}
    rest = found
    for difference in DIFFERENCES:
        paths = list(difference.explains(case, ours, theirs))
        if WHOLE_CASE in paths:
            return Explained({difference.name: found}, [], difference.name)
        explained = [one for one in rest if any(one.path[: len(path)] == path for path in paths)]
        if explained:
            by_name[difference.name] = explained
            rest = [one for one in rest if one not in explained]
    return Explained(by_name, rest, None)
