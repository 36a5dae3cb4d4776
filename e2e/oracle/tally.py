"""Counts what a comparison has covered: verdicts by filter plugin, score vectors, preemptions, requests, differences.

Coverage is counted on the oracle's results, so it says how much of upstream's behaviour has been looked at.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from .compare import REQUEST_PARTS, Mismatch, compare
from .differences import DIFFERENCES, explain
from .world import Object

FILTERS = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
    "DynamicResources",
)
SCORES = (
    "TaintToleration",
    "NodeAffinity",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "VolumeBinding",
    "DynamicResources",
)
PASSED = "Success"
CODES = (PASSED, "Unschedulable", "UnschedulableAndUnresolvable")
KEPT_MISMATCHES = 2000


@dataclass
class Tally:
    """The counts of one comparison; `add` takes one case after the other."""

    cases: int = 0
    errors: int = 0
    mismatch_count: int = 0
    mismatched_cases: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    fields: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    vectors: Counter[str] = field(default_factory=Counter)
    varied: Counter[str] = field(default_factory=Counter)
    preemptions: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    explained_cases: Counter[str] = field(default_factory=Counter)
    explained_fields: Counter[str] = field(default_factory=Counter)

    def add(self, case: Object, ours: Object, theirs: Object) -> list[Mismatch]:
        """Compares the results of a case, counts it, and returns the mismatches that nothing explains."""
        parts = explain(case, ours, theirs, compare(case["id"], ours, theirs))
        for name, found in parts.by_name.items():
            self.explained_cases[name] += 1
            self.explained_fields[name] += len(found)
        self.cover(theirs)
        if parts.rest:
            self.mismatched_cases += 1
            self.mismatch_count += len(parts.rest)
            self.fields.update({"/".join(one.path[:2] if len(one.path) > 1 else one.path) for one in parts.rest})
            self.mismatches.extend(parts.rest[: max(0, KEPT_MISMATCHES - len(self.mismatches))])
        return parts.rest

    def cover(self, theirs: Object) -> None:
        """Counts what one result of the oracle covers."""
        self.cases += 1
        self.errors += bool(theirs.get("error"))
        self.requests += any(part in theirs for part in REQUEST_PARTS)
        for plugin, by_node in theirs.get("filters", {}).items():
            self.verdicts[plugin].update(by_node.values())
        for plugin, by_node in theirs.get("scores", {}).items():
            self.vectors[plugin] += 1
            self.varied[plugin] += len({score["normalized"] for score in by_node.values()}) > 1
        self._cover_preemption(theirs.get("preemption"))

    def _cover_preemption(self, preemption: Object | None) -> None:
        if not preemption:
            return
        candidates = preemption.get("candidates", {})
        self.preemptions.update(
            {
                "attempted": 1,
                "not eligible": not preemption.get("eligible"),
                "dry runs": bool(preemption.get("potential")),
                "with candidates": bool(candidates),
                "nodes tried": len(preemption.get("potential", ())),
                "candidates": len(candidates),
                "victims": sum(len(one["pods"]) for one in candidates.values()),
                "candidates that break a budget": sum(bool(one["pdbViolations"]) for one in candidates.values()),
                "decided by the order of budgets": bool(preemption.get("pdbOrderMatters")),
            }
        )

    def rejections(self, plugin: str) -> int:
        """Returns how many nodes a filter plugin has refused."""
        return self.verdicts[plugin].total() - self.verdicts[plugin][PASSED]

    def table(self) -> list[str]:
        """Returns the coverage as lines of text."""
        lines = [f"{'filter':34}{'verdicts':>10}{'passed':>10}{'unsched.':>10}{'unresolv.':>10}{'refused':>9}"]
        for plugin in [*FILTERS, *sorted(self.verdicts.keys() - {*FILTERS})]:
            counts = self.verdicts[plugin]
            share = self.rejections(plugin) / (counts.total() or 1)
            columns = "".join(f"{counts[code]:>10}" for code in CODES)
            lines.append(f"{plugin:34}{counts.total():>10}{columns}{share:>9.1%}")
        lines += ["", f"{'score':34}{'vectors':>10}{'varied':>10}"]
        lines += [f"{plugin:34}{self.vectors[plugin]:>10}{self.varied[plugin]:>10}" for plugin in SCORES]
        lines += ["", "preemption: " + ", ".join(f"{name} {count}" for name, count in self.preemptions.items())]
        lines += [f"cases {self.cases}, of which requests {self.requests}, ended with an error {self.errors}"]
        for one in DIFFERENCES:
            cases, fields = self.explained_cases[one.name], self.explained_fields[one.name]
            lines.append(f"difference {one.name}: {fields} fields of {cases} cases explained")
        lines.append(f"mismatches: {self.mismatch_count} fields in {self.mismatched_cases} cases")
        lines += [f"    {count:6} cases  {path}" for path, count in self.fields.most_common(15)]
        known = sum(bool(self.explained_cases[one.name]) for one in DIFFERENCES)
        equal = f"equal in all {self.cases} cases, but for the {known} differences named above (docs/parity.md)"
        lines.append(f"parity: {equal if not self.mismatch_count else 'NOT equal'}")
        return lines
