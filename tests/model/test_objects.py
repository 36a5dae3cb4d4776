"""Pods, nodes, gangs and budgets as read from the API: defaults, impossible values, shapes."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import (
    HostPort,
    budget_from_api,
    gang_from_api,
    gang_key_of,
    node_from_api,
    pod_from_api,
    priority_class_from_api,
)
from scheduler.model.api import ApiBudget, ApiNode, ApiPod, ApiPodGroup, ApiPriorityClass
from scheduler.model.gang import DEFAULT_SCHEDULE_TIMEOUT_SECONDS
from scheduler.model.pod import shape_of
from scheduler.model.times import parse_time
from tests.builders import EPOCH, a_gang, a_node, a_pod, gangs_of, term


def test_an_empty_pod_gets_the_defaults_of_the_api() -> None:
    """A manifest from a file may leave out what the API server would fill in."""
    pod = pod_from_api(msgspec.convert({"metadata": {"name": "p"}}, ApiPod))
    assert (pod.namespace, pod.uid, pod.key) == ("default", "default/p", "default/p")
    assert (pod.grace_period_seconds, pod.phase, pod.preemption_policy) == (30, "Pending", "PreemptLowerPriority")
    assert (pod.requests, pod.ports, pod.tolerations, pod.gates, pod.images) == ({}, (), (), (), ())
    assert pod.started is None


def test_a_pod_keeps_what_scheduling_reads() -> None:
    """Fields travel from the API object to the view."""
    pod = a_pod("p").priority(7, "high").grace(0).gate("wait").terminating().created(5).on("n", started=9).build()
    assert (pod.priority, pod.priority_class_name, pod.grace_period_seconds, pod.gates) == (7, "high", 0, ("wait",))
    assert (pod.created, pod.started, pod.is_terminating, pod.node_name) == (EPOCH + 5, EPOCH + 9, True, "n")
    assert a_pod().phase("Succeeded").build().is_terminal
    assert a_pod().phase("Failed").build().is_terminal
    assert not a_pod().on("n").build().is_terminal


def test_host_ports_of_apps_and_sidecars_count() -> None:
    """Protocol and address have defaults; ports of ordinary init containers and port 0 do not count."""
    pod = a_pod().port(80).port(53, protocol="UDP", ip="10.0.0.1").port(0).init("side", sidecar=True).init("init")
    manifest = pod.manifest()
    for container, port in zip(manifest["spec"]["initContainers"], (81, 82), strict=True):
        container["ports"] = [{"hostPort": port, "protocol": ""}]
    built = pod_from_api(msgspec.convert(manifest, ApiPod))
    assert built.ports == (
        HostPort("TCP", "0.0.0.0", 80),
        HostPort("UDP", "10.0.0.1", 53),
        HostPort("TCP", "0.0.0.0", 81),
    )


def test_images_of_every_kind_are_listed() -> None:
    """Init containers, containers and image volumes, with repetitions."""
    pod = a_pod().image("a").container("b", image="a").init("i", image="c")
    pod.patch_spec(volumes=[{"name": "v", "image": {"reference": "d"}}, {"name": "w"}])
    assert pod.build().images == ("c", "a", "a", "d")


def test_equal_specs_have_one_shape() -> None:
    """Names, labels, times and gangs do not matter to Filter and Score; assigned pods have no shape."""
    one = a_pod("a").gpus(8).label("x", "1").gang("job", 4).select("pool", "gpu").build()
    other = a_pod("b").gpus(8).label("x", "2").created(9).gang("other", 2).select("pool", "gpu").build()
    assert one.shape == other.shape == shape_of(one)
    assert a_pod().gpus(8).on("n").build().shape == b""


@pytest.mark.parametrize(
    "changed",
    [
        a_pod().cpu(2), a_pod().cpu(1).priority(1), a_pod().cpu(1).namespace("x"), a_pod().cpu(1).port(80),
        a_pod().cpu(1).select("a", "b"), a_pod().cpu(1).tolerate(), a_pod().cpu(1).image("other"), a_pod().cpu(1).memory(1),
        a_pod().cpu(1).require(term(("a", "Exists"))), a_pod().cpu(1).prefer(1, term(("a", "Exists"))),
        a_pod().cpu(1).preemption_policy("Never"), a_pod().cpu("500m").container("b", cpu="500m"),
    ],
)  # fmt: skip
def test_what_filters_or_scores_read_changes_the_shape(changed: object) -> None:
    """Whatever a built-in plugin reads of a pod is in its shape."""
    assert changed.build().shape != a_pod().cpu(1).build().shape  # type: ignore[attr-defined]


def test_the_order_of_keys_does_not_change_the_shape() -> None:
    """Two writers of one spec may order maps differently."""
    assert a_pod().cpu(1).memory(2).build().shape == a_pod().memory(2).cpu(1).build().shape


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10+01:00", 10.0),
        ("1970-01-01T00:00:10.5Z", 10.5),
    ],
)
def test_times(text: str | None, seconds: float | None) -> None:
    """Times are seconds since the epoch, with any offset."""
    assert parse_time(text) == seconds


def test_nonsense_times_are_errors() -> None:
    """A time that is none raises ValueError."""
    with pytest.raises(ValueError, match="yesterday"):
        parse_time("yesterday")


def test_a_node_offers_what_its_status_says() -> None:
    """Amounts are integers; capacity stands in while there is no allocatable."""
    node = a_node("n").cpu("31500m").memory("1Gi").gpus(8).label("a", "b").taint("t").cordoned().image("i", 7).build()
    assert node.allocatable == {"cpu": 31500, "memory": 2**30, "nvidia.com/gpu": 8, "pods": 110}
    assert (node.labels["a"], node.taints[0].key, node.is_unschedulable, node.images) == ("b", "t", True, {"i": 7})
    only = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}
    assert node_from_api(msgspec.convert(only, ApiNode)).allocatable == {"cpu": 2000}
    assert node_from_api(msgspec.convert({"metadata": {"name": "n"}}, ApiNode)).allocatable == {}


@pytest.mark.parametrize("quantity", ["-1", "lots", "", "1GiB"])
def test_impossible_values_of_a_node_count_as_zero(quantity: str) -> None:
    """The node stays usable for everything else, and says what is wrong."""
    node = a_node().offer("nvidia.com/gpu", quantity).build()
    assert node.allocatable["nvidia.com/gpu"] == 0
    assert node.allocatable["cpu"] == 64_000
    assert [p for p in node.problems if p.startswith("status.allocatable[nvidia.com/gpu]")] == list(node.problems)
    assert len(node.problems) == 1
    assert a_node().build().problems == ()


def test_a_pod_names_its_gang() -> None:
    """Our label comes before Coscheduling's; the gang is in the pod's namespace."""
    ours, theirs = a_pod().gang("a"), a_pod().gang("b", dialect="coscheduling").namespace("x")
    assert gang_key_of(ours.build()) == ("ai-scheduler", "default", "a")
    assert gang_key_of(theirs.build()) == ("coscheduling", "x", "b")
    assert gang_key_of(theirs.gang("a").build()) == ("ai-scheduler", "x", "a")
    assert gang_key_of(a_pod().build()) is None
    assert gang_key_of(a_pod().label("scheduling.x-k8s.io/pod-group", "").build()) is None


def test_a_gang_is_read_from_its_group() -> None:
    """Fields travel, defaults are filled in."""
    gang = a_gang("job", 4).namespace("x").timeout(30).priority_class("high").created(7).build()
    assert (str(gang.key), gang.min_member, gang.schedule_timeout_seconds) == ("x/job", 4, 30)
    assert (gang.priority_class_name, gang.created, gang.problems) == ("high", EPOCH + 7, ())
    assert a_gang("job", 4).build().schedule_timeout_seconds == DEFAULT_SCHEDULE_TIMEOUT_SECONDS
    assert gang_from_api(ApiPodGroup(), "coscheduling").min_member == 1


@pytest.mark.parametrize("minimum", [0, -1])
def test_an_impossible_gang_says_so(minimum: int) -> None:
    """A value out of range is a problem of the object, not an exception."""
    gang = a_gang("job", minimum).timeout(0).build()
    assert [problem.partition(":")[0] for problem in gang.problems] == ["spec.minMember", "spec.scheduleTimeoutSeconds"]
    assert gang.schedule_timeout_seconds == DEFAULT_SCHEDULE_TIMEOUT_SECONDS


def test_builders_make_gangs_of_pods() -> None:
    """A test names the minimum once."""
    pods = a_pod("worker").gpus(8).gang("job", 4).times(4)
    (gang,) = gangs_of(pods)
    assert (gang.min_member, str(gang.key)) == (4, "default/job")
    assert [pod.build().name for pod in pods] == ["worker-0", "worker-1", "worker-2", "worker-3"]


def test_priority_classes_and_budgets() -> None:
    """The two small objects."""
    cls = priority_class_from_api(
        msgspec.convert({"metadata": {"name": "c"}, "value": 5, "globalDefault": True}, ApiPriorityClass)
    )
    assert (cls.name, cls.value, cls.is_default, cls.preemption_policy) == ("c", 5, True, "PreemptLowerPriority")
    status = {"disruptionsAllowed": 2, "disruptedPods": {"a": "2025-01-01T00:00:00Z"}}
    budget = budget_from_api(msgspec.convert({"metadata": {"name": "b"}, "status": status}, ApiBudget))
    assert (budget.namespace, budget.disruptions_allowed, budget.disrupted_pods) == ("default", 2, frozenset({"a"}))
