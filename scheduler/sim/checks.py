"""What the API server would refuse: rules about values, beyond their types.

For the loader.  Each check yields (path, sentence); the rules are those of Kubernetes' own validation, as far as a field
that scheduling reads is concerned.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scheduler.model.quantity import QuantityError, amount, parse_quantity
from scheduler.model.times import parse_time

from .annotations import annotation_problems, key_problems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from scheduler.model.api import (
        Container,
        LabelSelector,
        ObjectMeta,
        PodAffinity,
        PodAffinityTerm,
        PodSpec,
        Requirement,
        ResourceList,
        Resources,
        SpreadConstraint,
        Taint,
        Toleration,
    )  # fmt: skip

Found = tuple[str, str]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_NAME = 253
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = NODE_OPERATORS[:4]
_VALUE_OPERATORS = ("Equal", "Lt", "Gt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LONGEST_LABEL_VALUE = 63
_HIGHEST_WEIGHT = 100


def one_of(value: str, allowed: Collection[str], path: str) -> Iterator[Found]:
    """Check a word against the allowed ones."""
    if value not in allowed:
        yield path, f"{value!r} is unknown; allowed: {', '.join(allowed)}"


def meta_problems(meta: ObjectMeta, path: str, *, needs_name: bool = True) -> Iterator[Found]:
    """Check a name, times, label values and the simulation's own annotations."""
    if needs_name and not meta.name:
        yield f"{path}.name", "is missing; allowed: a DNS name"
    if meta.name and not (len(meta.name) <= _LONGEST_NAME and _NAME.fullmatch(meta.name)):
        yield f"{path}.name", f"{meta.name!r} is no DNS name; allowed: lower-case letters, digits, '-' and '.'"
    for key, text in (("creationTimestamp", meta.creation_timestamp), ("deletionTimestamp", meta.deletion_timestamp)):
        yield from time_problems(text, f"{path}.{key}")
    for key, value in (meta.labels or {}).items():
        if len(value) > _LONGEST_LABEL_VALUE or not _LABEL_VALUE.fullmatch(value):
            allowed = f"up to {_LONGEST_LABEL_VALUE} letters, digits, '-', '_' and '.'"
            yield f"{path}.labels[{key}]", f"{value!r} is no label value; allowed: {allowed}"
    for key, text in annotation_problems(meta.annotations):
        yield f"{path}.annotations[{key}]", text
    for place, text in key_problems(meta.labels, meta.annotations):
        yield f"{path}.{place}", text


def time_problems(text: str | None, path: str) -> Iterator[Found]:
    """Check a time."""
    try:
        parse_time(text)
    except ValueError:
        yield path, f"{text!r} is no time; allowed: RFC 3339, such as '2026-01-31T12:00:00Z'"


def quantity_problems(resources: ResourceList | None, path: str) -> Iterator[Found]:
    """Check the amounts of a resource list."""
    for name, text in (resources or {}).items():
        try:
            count = amount(name, text)
        except QuantityError as error:
            yield f"{path}[{name}]", str(error).replace("quantity: ", "quantity; allowed: ")
        else:
            if count < 0:
                yield f"{path}[{name}]", f"{text!r} is negative; allowed: amounts from 0"
            elif _is_extended(name) and parse_quantity(text).denominator != 1:
                yield f"{path}[{name}]", f"{text!r} is not whole; allowed: whole numbers, as {name} cannot be divided"


def resources_problems(resources: Resources | None, path: str) -> Iterator[Found]:
    """Check requests against limits; what cannot be over-committed needs a limit, and the request equals it."""
    if resources is None:
        return
    wrong = [
        *quantity_problems(resources.requests, f"{path}.requests"),
        *quantity_problems(resources.limits, f"{path}.limits"),
    ]
    yield from wrong
    if wrong:
        return
    limits = resources.limits or {}
    for name, text in (resources.requests or {}).items():
        limit = limits.get(name)
        if limit is None:
            if _is_extended(name):
                yield f"{path}.limits[{name}]", f"is missing; allowed: {text}, as {name} cannot be over-committed"
        elif _is_extended(name) and amount(name, text) != amount(name, limit):
            yield f"{path}.requests[{name}]", f"{text} differs from the limit; allowed: {limit}"
        elif amount(name, text) > amount(name, limit):
            yield f"{path}.requests[{name}]", f"{text} is more than the limit; allowed: at most {limit}"


def _is_extended(resource: str) -> bool:
    """Tell whether a resource is one of a device plugin."""
    return "/" in resource and "kubernetes.io/" not in resource


def pod_problems(spec: PodSpec, path: str) -> Iterator[Found]:
    """Check the spec of a pod or of a template."""
    if not spec.containers:
        yield f"{path}.containers", "is missing; allowed: at least one container"
    containers: Sequence[tuple[str, Iterable[Container]]] = (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers or ()),
    )
    for key, group in containers:
        for index, container in enumerate(group):
            yield from resources_problems(container.resources, f"{path}.{key}[{index}].resources")
    yield from resources_problems(spec.resources, f"{path}.resources")
    yield from quantity_problems(spec.overhead, f"{path}.overhead")
    if spec.preemption_policy is not None:
        yield from one_of(spec.preemption_policy, ("PreemptLowerPriority", "Never"), f"{path}.preemptionPolicy")
    for index, toleration in enumerate(spec.tolerations or ()):
        yield from _toleration_problems(toleration, f"{path}.tolerations[{index}]")
    yield from _affinity_problems(spec, f"{path}.affinity.nodeAffinity")
    if spec.affinity is not None:
        yield from _neighbour_problems(spec.affinity.pod_affinity, f"{path}.affinity.podAffinity")
        yield from _neighbour_problems(spec.affinity.pod_anti_affinity, f"{path}.affinity.podAntiAffinity")
    for index, constraint in enumerate(spec.topology_spread_constraints or ()):
        yield from _spread_problems(constraint, f"{path}.topologySpreadConstraints[{index}]")


def _neighbour_problems(affinity: PodAffinity | None, path: str) -> Iterator[Found]:
    """Check the terms of an affinity to pods."""
    if affinity is None:
        return
    where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        yield from _term_problems(term, f"{where}[{index}]")
    where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        if not 1 <= preferred.weight <= _HIGHEST_WEIGHT:
            yield f"{where}[{index}].weight", f"{preferred.weight} is out of range; allowed: 1 to {_HIGHEST_WEIGHT}"
        yield from _term_problems(preferred.pod_affinity_term, f"{where}[{index}].podAffinityTerm")


def _term_problems(term: PodAffinityTerm, path: str) -> Iterator[Found]:
    if not term.topology_key:
        yield f"{path}.topologyKey", "is missing; allowed: a node label"
    yield from selector_problems(term.label_selector, f"{path}.labelSelector")
    yield from selector_problems(term.namespace_selector, f"{path}.namespaceSelector")


def _spread_problems(constraint: SpreadConstraint, path: str) -> Iterator[Found]:
    """Check a topology spread constraint."""
    if constraint.max_skew < 1:
        yield f"{path}.maxSkew", f"{constraint.max_skew} is out of range; allowed: numbers from 1"
    if not constraint.topology_key:
        yield f"{path}.topologyKey", "is missing; allowed: a node label"
    hard, soft = "DoNotSchedule", "ScheduleAnyway"
    yield from one_of(constraint.when_unsatisfiable, (hard, soft), f"{path}.whenUnsatisfiable")
    if constraint.min_domains is not None and (constraint.min_domains < 1 or constraint.when_unsatisfiable != hard):
        text = f"{constraint.min_domains} is not allowed; allowed: numbers from 1, with {hard}"
        yield f"{path}.minDomains", text
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None:
            yield from one_of(policy, ("Honor", "Ignore"), f"{path}.{field}")
    yield from selector_problems(constraint.label_selector, f"{path}.labelSelector")


def _affinity_problems(spec: PodSpec, path: str) -> Iterator[Found]:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not required.node_selector_terms:
            yield where, "is empty; allowed: at least one term"
        for index, term in enumerate(required.node_selector_terms):
            yield from requirement_problems(
                term.match_expressions, NODE_OPERATORS, f"{where}[{index}].matchExpressions"
            )
            yield from requirement_problems(term.match_fields, ("In", "NotIn"), f"{where}[{index}].matchFields")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if not 1 <= preferred.weight <= _HIGHEST_WEIGHT:
            yield f"{where}.weight", f"{preferred.weight} is out of range; allowed: 1 to {_HIGHEST_WEIGHT}"
        expressions = preferred.preference.match_expressions
        yield from requirement_problems(expressions, NODE_OPERATORS, f"{where}.preference.matchExpressions")


def requirement_problems(
    requirements: Sequence[Requirement] | None, operators: Collection[str], path: str
) -> Iterator[Found]:
    """Check the lines of a selector: key, operator, and the values that the operator takes."""
    for index, requirement in enumerate(requirements or ()):
        where, values = f"{path}[{index}]", requirement.values or []
        if not requirement.key:
            yield f"{where}.key", "is missing; allowed: a label key"
        yield from one_of(requirement.operator, operators, f"{where}.operator")
        match requirement.operator:
            case "In" | "NotIn" if not values:
                yield f"{where}.values", f"is empty; allowed: at least one value with {requirement.operator}"
            case "Exists" | "DoesNotExist" if values:
                yield f"{where}.values", f"{values} is not allowed with {requirement.operator}; allowed: none"
            case "Gt" | "Lt" if len(values) != 1 or not values[0].lstrip("-").isdigit():
                yield (
                    f"{where}.values",
                    f"{values} is not allowed with {requirement.operator}; allowed: one whole number",
                )


def selector_problems(selector: LabelSelector | None, path: str) -> Iterator[Found]:
    """Check a label selector."""
    if selector is not None:
        yield from requirement_problems(selector.match_expressions, _LABEL_OPERATORS, f"{path}.matchExpressions")


def taint_problems(taints: Sequence[Taint] | None, path: str) -> Iterator[Found]:
    """Check the taints of a node."""
    for index, taint in enumerate(taints or ()):
        if not taint.key:
            yield f"{path}[{index}].key", "is missing; allowed: a label key"
        yield from one_of(taint.effect, _EFFECTS, f"{path}[{index}].effect")


def _toleration_problems(toleration: Toleration, path: str) -> Iterator[Found]:
    operator = toleration.operator or "Equal"
    yield from one_of(operator, ("Exists", *_VALUE_OPERATORS), f"{path}.operator")
    if toleration.effect:
        yield from one_of(toleration.effect, _EFFECTS, f"{path}.effect")
    if operator == "Exists" and toleration.value:
        yield f"{path}.value", f"{toleration.value!r} is not allowed with Exists; allowed: none"
    if operator in _VALUE_OPERATORS and not toleration.key:
        yield f"{path}.key", f"is missing; allowed: a taint key with operator {operator}"
