"""Compares the allocator of devices with the real one, claim by claim and device by device, over seeded cases.

A case is a node and the claims of a pod, in the form of `scheduler.devices.case`; `allocation-SEED-INDEX` names it.  Both
must find the same case feasible, infeasible or in error, and where there is a solution give the same devices.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler.model.quantity import parse_quantity

from . import streams
from .compare import Mismatch
from .device_claims import claim, holders
from .device_slices import publish, style
from .world import ZONE, Object, World

CHUNK_CASES = 2000
NODES = ("n1", "n2")
NAMESPACE = "default"
FRACTIONAL = "DRAFractionalCapacityRange"
"""On in 1.37 only where all of a cluster is at least that new; kube-scheduler has it off unless it is told so."""

MOST_STEPS = 2_000_000
"""The real allocator's search is bounded by 10 seconds; ours, in steps, is not to end before."""

GAVE_UP = "gave-up"
CASES_PER_RARER_VERDICT = 400
"""Each feature must have been in one case of so many, at least, that is feasible, and in one that is not."""

FEATURES = {
    "selectors of requests": ('"selectors":[{"cel"', "claims"),
    "all devices": ('"allocationMode":"All"', "claims"),
    "first available": ('"firstAvailable"', "claims"),
    "match attribute": ('"matchAttribute"', "claims"),
    "distinct attribute": ('"distinctAttribute"', "claims"),
    "admin access": ('"adminAccess"', "claims"),
    "tolerations": ('"tolerations"', "claims"),
    "capacity asked for": ('"capacity":{"requests"', "claims"),
    "taints": ('"taints"', "slices"),
    "taint rules": ('"taint"', "taintRules"),
    "shared counters": ('"consumesCounters"', "slices"),
    "shared devices": ('"allowMultipleAllocations"', "slices"),
    "binding conditions": ('"bindingConditions"', "slices"),
    "pools with a node selector": ('"nodeSelector"', "slices"),
    "nodes by device": ('"perDeviceNodeSelection"', "slices"),
    "outdated slices": ('"generation":2', "slices"),
    "several claims": ('","default/', "allocate"),
    "devices in use": ('"status":{"allocation"', "claims"),
}


def case(seed: int, index: int) -> Object:
    """Returns one case; the same arguments always give the same."""
    name = f"allocation-{seed}-{index}"
    world = World(random.Random(name), name)
    publish(world, NODES, style(world))
    holders(world, NAMESPACE)
    wanted = [claim(world, f"c{turn}", NAMESPACE) for turn in range(world.pick((1, 1, 1, 2, 2, 3)))]
    labels = {ZONE: world.pick(("z0", "z1"))}
    kinds = {
        "ResourceSlice": "slices",
        "DeviceClass": "classes",
        "DeviceTaintRule": "taintRules",
        "ResourceClaim": "claims",
    }
    made: Object = {
        "id": name,
        "node": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODES[0], "labels": labels}},
        **{key: [] for key in kinds.values()},
        "maxSteps": MOST_STEPS,
        "allocate": [f"{NAMESPACE}/{one['metadata']['name']}" for one in wanted],
    }
    if world.maybe(0.3):
        made["gates"] = {FRACTIONAL: True}
    for one in world.others:
        made[kinds[one["kind"]]].append(one)
    return made


def case_of(identity: str) -> Object:
    """Returns the case of an id."""
    _, seed, index = identity.split("-")
    return case(int(seed), int(index))


def verdict(answer: Object) -> str:
    """Returns the answer in one word: feasible, infeasible, or the kind of its error."""
    return answer.get("errorKind") or ("feasible" if answer.get("feasible") else "infeasible")


def compare(identity: str, ours: Object, theirs: Object) -> list[Mismatch]:
    """Returns how two answers differ; texts of errors and ids of shares are not compared."""
    if verdict(ours) != verdict(theirs):
        shown = [f"{verdict(one)} {one.get('error', '')}".strip() for one in (ours, theirs)]
        return [Mismatch(identity, ("verdict",), *shown)]
    left, right = (given(one) for one in (ours, theirs))
    return [Mismatch(identity, ("allocations",), left, right)] if left != right else []


def given(answer: Object) -> list[Object]:
    """Returns what the claims are given, in a form in which equal things are equal."""
    return [_allocation(one) for one in answer.get("allocations", ())]


def _allocation(one: Object) -> Object:
    devices = one.get("devices", {})
    selector = one.get("nodeSelector") or {}
    return {
        "results": [_result(each) for each in devices.get("results", ())],
        "config": devices.get("config", []),
        "nodes": [
            {key: sorted(map(_requirement, listed)) for key, listed in term.items() if listed}
            for term in selector.get("nodeSelectorTerms", ())
        ],
    }


def _result(each: Object) -> Object:
    consumed = {name: str(parse_quantity(text)) for name, text in (each.get("consumedCapacity") or {}).items()}
    kept = {key: value for key, value in each.items() if key not in {"shareID", "consumedCapacity"} and value}
    return {**kept, "isShare": "shareID" in each, "consumed": consumed}


def _requirement(each: Object) -> tuple[Any, ...]:
    return each["key"], each["operator"], *sorted(each.get("values", ()))


def reproduction(identity: str) -> str:
    """Returns the commands that show a case and both answers again."""
    return (
        f"python -m e2e.oracle.allocations {identity} > case.jsonl; "
        '"$(python -m e2e.oracle.build)" -allocate < case.jsonl; python -m scheduler.devices.case < case.jsonl'
    )


@dataclass
class AllocationTally:
    """What was compared: cases by verdict, by feature, and the mismatches."""

    verdicts: Counter[str] = field(default_factory=Counter)
    by_feature: Counter[tuple[str, str]] = field(default_factory=Counter)
    devices: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    def add(self, one: Object, ours: Object, theirs: Object) -> list[Mismatch]:
        """Compares the answers to a case and counts it by what the real allocator said."""
        said = verdict(theirs)
        self.verdicts[said] += 1
        self.by_feature.update((feature, said) for feature in features_of(one))
        self.devices += sum(len(each["results"]) for each in given(theirs))
        found = [] if said == GAVE_UP else compare(one["id"], ours, theirs)
        self.mismatches.extend(found)
        return found

    def table(self) -> list[str]:
        """Returns the counts as lines of text."""
        columns = ("feasible", "infeasible", "fatal", "node", GAVE_UP)
        lines = [f"{'allocation':34}" + "".join(f"{name:>12}" for name in columns)]
        lines += [
            f"{feature:34}" + "".join(f"{self.by_feature[feature, name]:>12}" for name in columns)
            for feature in FEATURES
        ]
        lines.append(f"{'all cases':34}" + "".join(f"{self.verdicts[name]:>12}" for name in columns))
        count = self.verdicts.total()
        lines.append(f"allocations: {count} cases, {self.devices} devices given, {len(self.mismatches)} mismatches")
        return lines

    def shortcomings(self) -> list[str]:
        """Returns the features that were in too few cases of one verdict to mean anything."""
        least = self.verdicts.total() // CASES_PER_RARER_VERDICT
        return [
            f"{feature}: only {self.by_feature[feature, name]} {name} allocations"
            for feature in FEATURES
            for name in ("feasible", "infeasible")
            if self.by_feature[feature, name] < least
        ]


def features_of(one: Object) -> Iterator[str]:
    """Yields what a case is about, by what stands in its objects."""
    texts = {key: streams.to_line(one[key]) for key in ("claims", "slices", "taintRules", "allocate")}
    yield from (feature for feature, (text, key) in FEATURES.items() if text in texts[key])


def run(count: int, seed: int, folder: Path, oracle: Path) -> AllocationTally:
    """Compares so many cases, chunk by chunk; the files of chunks with mismatches stay in the folder."""
    tally = AllocationTally()
    for first in range(0, count, CHUNK_CASES):
        made = [case(seed, index) for index in range(first, min(first + CHUNK_CASES, count))]
        files = streams.allocate(folder / f"allocations-{first:06d}", made, oracle)
        mismatches = [tally.add(*triple) for triple in files.triples()]
        if not any(mismatches):
            files.forget()
        print(f"{first + len(made)} allocations, {len(tally.mismatches)} mismatches", file=sys.stderr, flush=True)
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Writes the cases of some ids to standard output, one a line."""
    parser = argparse.ArgumentParser(prog="python -m e2e.oracle.allocations", description=__doc__)
    parser.add_argument("ids", nargs="+", metavar="allocation-SEED-INDEX")
    for identity in parser.parse_args(arguments).ids:
        sys.stdout.write(streams.to_line(case_of(identity)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
