"""Whatever stands in annotations, labels and specs, the adapters of group objects return problems, and raise nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dialects.kai import KAI
from scheduler.model.dialects.koordinator import KOORDINATOR
from scheduler.model.dialects.native import NATIVE
from scheduler.model.dialects.volcano import VOLCANO
from scheduler.model.gang import Gang, Membership
from tests.builders import a_pod

DIALECTS = (NATIVE, VOLCANO, KAI, KOORDINATOR)
SOURCES = [source for dialect in DIALECTS for source in dialect.sources]
KOORDINATOR_KEYS = (
    "name", "min-available", "total-number", "waiting-time", "timeout", "mode", "groups", "match-policy",
    "network-topology-spec", "network-topology-index",
)  # fmt: skip
#: Every key that an adapter reads, and some that it does not.
KEYS = (
    *(f"gang.scheduling.koordinator.sh/{key}" for key in KOORDINATOR_KEYS),
    "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io/min-available", "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name", "scheduling.volcano.sh/group-min-member", "volcano.sh/task-spec",
    "volcano.sh/task-index", "pod-group-name", "kai.scheduler/subgroup-name",
)  # fmt: skip
#: Every field that an adapter reads, in all specs.
FIELDS = (
    "minMember", "minTaskMember", "networkTopology", "subGroupPolicy", "topologyAffinity", "priorityClassName", "mode",
    "highestTierAllowed", "highestTierName", "name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups",
    "matchLabels", "volcano.sh/task-spec", "minSubGroup", "subGroups", "parent", "topologyConstraint", "topology",
    "requiredTopologyLevel", "preferredTopologyLevel", "preemptibility", "stalenessGracePeriod", "schedulingPolicy",
    "basic", "gang", "minCount", "minGroupCount", "schedulingConstraints", "key", "disruptionMode", "priority",
    "preemptionPolicy", "parentCompositePodGroupName", "scheduleTimeoutSeconds", "gatherStrategy", "layer", "strategy",
    "podCountMultiple", "single", "all", "required",
)  # fmt: skip
WORDS = (
    "", "3", "-1", "hard", "soft", "all", "Pod", "rack", "tier-1", "1h", "-1s", "Strict", "MustGather", "a", "b",
    "default/a", "volcano.sh/partition-id", "x" * 300,
)  # fmt: skip

texts = st.sampled_from(WORDS) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
)
#: Numbers where numbers belong, so that more of the specs can be decoded.
numbers = st.integers(-3, 5) | st.integers(2**31 - 2, 2**31 + 2)
tiers = st.fixed_dictionaries({}, optional={"mode": texts, "highestTierAllowed": numbers, "highestTierName": texts})
parts = st.fixed_dictionaries(
    {},
    optional={
        "name": texts, "parent": texts, "minMember": numbers, "minSubGroup": numbers, "subGroupSize": numbers,
        "minSubGroups": numbers, "networkTopology": tiers, "matchLabelKeys": st.lists(texts, max_size=2),
        "labelSelector": st.fixed_dictionaries({"matchLabels": st.dictionaries(texts, texts, max_size=2)}),
    },
)  # fmt: skip
sensible = st.fixed_dictionaries(
    {},
    optional={
        "minMember": numbers, "minSubGroup": numbers, "minTaskMember": st.dictionaries(texts, numbers, max_size=3),
        "subGroups": st.lists(parts, max_size=5), "subGroupPolicy": st.lists(parts, max_size=4),
        "networkTopology": tiers, "stalenessGracePeriod": texts, "scheduleTimeoutSeconds": numbers,
        "disruptionMode": texts | st.dictionaries(texts, scalars, max_size=2), "priority": numbers,
        "schedulingPolicy": st.fixed_dictionaries({}, optional={"gang": st.just({}), "basic": st.just({})}),
    },
)  # fmt: skip
annotations = st.dictionaries(st.sampled_from(KEYS), texts | values.map(json.dumps), max_size=len(KEYS))


@given(annotations, annotations)
def test_pods_are_read_whatever_they_carry(labels, notes):
    """A label or annotation is any text."""
    pod = a_pod()
    for key, value in labels.items():
        pod.label(key, value)
    for key, value in notes.items():
        pod.annotation(key, value)
    for dialect in DIALECTS:
        found = dialect.member(pod.api())
        assert found is None or isinstance(found, Membership)
        if found is not None and found.implied is not None:
            assert found.implied.key == found.key
            assert found.problems == ()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.group}-{source.kind}")
@given(spec=sensible | values, status=values, notes=annotations)
def test_objects_are_read_or_refused_by_the_decoder(source, spec, status, notes):
    """What can be decoded becomes gangs; nothing but decoding fails."""
    manifest = {"metadata": {"name": "g", "annotations": notes}, "spec": spec, "status": status}
    try:
        decoded = msgspec.convert(manifest, source.api_type)
    except msgspec.ValidationError:
        return
    for gang in source.read(decoded):
        assert isinstance(gang, Gang)
        assert gang.key.name == "g"
        assert gang.min_member >= 0
        known = {""}
        for subgroup in gang.subgroups:
            assert subgroup.parent in known
            assert subgroup.name not in known
            known.add(subgroup.name)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.group}-{source.kind}")
def test_an_object_without_a_spec_is_read(source):
    """Its defaults may be a problem, never an exception."""
    (gang,) = source.read(msgspec.convert({"metadata": {"name": "g"}}, source.api_type))
    assert str(gang.key) == "default/g"
