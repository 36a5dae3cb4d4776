"""Which nodes NodeResourceTopologyMatch refuses.

The tables are those of kubernetes-sigs/scheduler-plugins (Apache-2.0), pkg/noderesourcetopology/filter_test.go:
TestNodeResourceTopology, TestNodeResourceTopologyMultiContainerPodScope and ...MultiContainerContainerScope.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import PodBuilder, a_node, a_pod
from tests.plugins.numa import Desk, a_machine, guaranteed, report

NIC, EXTENDED, OLD_NIC, NO_NIC, PAGES = (
    "vendor/nic1",
    "namespace/extended",
    "vendor.com/old-nic-model",
    "vendor/notexistingnic",
    "hugepages-2Mi",
)
POD, CONTAINER, INIT = "cannot align pod", "cannot align container", "cannot align init container"

BIG = ({"cpu": 4, "memory": "8Gi", NIC: 10}, {"cpu": 8, "memory": "8Gi", NIC: 10})
PAGED = ({"cpu": 2, "memory": "4Gi", PAGES: "128Mi", NIC: 5}, {"cpu": 4, "memory": "4Gi", PAGES: "128Mi", NIC: 2})
SMALL = ({"cpu": 2, "memory": "4Gi", NIC: 5}, {"cpu": 4, "memory": "4Gi", NIC: 2})
REPORTS = {
    "node1": report("node1", *BIG),
    "node2": report("node2", *PAGED),
    "node3": report("node3", *SMALL, scope="pod"),
    "broken": report("broken", SMALL[0], scope="pod"),  # upstream: the other zone is called node-75, which is none
    "extended": report("extended", *BIG),
}
MORE: dict[str, dict[str, str]] = {"node2": {OLD_NIC: "4"}, "extended": {EXTENDED: "1"}}


def asking(limits: dict[str, Any] | None = None, **requests: Any) -> PodBuilder:
    """Start a pod of one container with requests, and limits equal to them or others."""
    names = {"nic": NIC, "pages": PAGES, "extended": EXTENDED, "old_nic": OLD_NIC, "no_nic": NO_NIC, "storage": "ephemeral-storage"}  # fmt: skip
    asked = {names.get(key, key): str(value) for key, value in requests.items()}
    most = asked if limits is None else {names.get(key, key): str(value) for key, value in limits.items()}
    return a_pod().patch_spec(containers=[{"name": "c", "resources": {"requests": asked, "limits": most}}])


def three(**requests: Any) -> PodBuilder:
    """Start a pod of three equal containers."""
    return guaranteed(*[requests] * 3)


FITS: list[tuple[str, PodBuilder, str, str | None]] = [
    ("guaranteed with an extended resource", asking(cpu=2, memory="2Gi", extended=1, nic=3), "extended", None),
    ("guaranteed, extended resource, no devices", asking(cpu=2, memory="2Gi", extended=1), "extended", None),
    ("best effort", a_pod().patch_spec(containers=[{"name": "c"}]), "node1", None),
    ("best effort with devices, pod scope, fits", asking(nic=5), "node3", None),
    ("best effort with devices, pod scope, too many", asking(nic=20), "node3", POD),
    ("best effort with devices, container scope, fits", asking(nic=5), "node2", None),
    ("best effort with devices, container scope, too many", asking(nic=20), "node1", CONTAINER),
    ("best effort with devices and extended", asking(extended=1, nic=10), "extended", None),
    ("burstable by limits, devices lack", asking({"cpu": 4, "memory": "4Gi", "nic": 11}, cpu=3, memory="3Gi", nic=11), "node2", CONTAINER),
    ("burstable by limits, devices lack, pod scope", asking({"cpu": 2, "memory": "2Gi", "nic": 6}, cpu=1, memory="1Gi", nic=6), "node3", POD),
    ("burstable by limits, fits, pod scope", asking({"cpu": 2, "memory": "2Gi", "nic": 5}, cpu=1, memory="1Gi", nic=5), "node3", None),
    ("burstable, cpu and memory lack, pod scope", asking({"cpu": 20, "memory": "6Gi", "nic": 5}, cpu=19, memory="5Gi", nic=5), "node3", None),
    ("burstable by limits, fits", asking({"cpu": 4, "memory": "4Gi", "nic": 5}, cpu=3, memory="3Gi", nic=5), "node2", None),
    ("burstable, cpu and memory lack", asking({"cpu": 6, "memory": "6Gi", "nic": 5}, cpu=5, memory="5Gi", nic=5), "node2", None),
    ("guaranteed, minimal", asking(cpu=2, memory="2Gi"), "node1", None),
    ("guaranteed, a whole zone", asking(cpu=8, memory="8Gi"), "node1", None),
    ("guaranteed, nothing of what is not there", asking(cpu=2, memory="2Gi", pages=0, nic=3), "node1", None),
    ("guaranteed, fits", asking(cpu=2, memory="2Gi", nic=3), "node2", None),
    ("guaranteed, huge pages", asking(cpu=2, memory="2Gi", pages="64Mi", nic=3), "node2", None),
    ("burstable, fits", asking(cpu=4, nic=3), "node2", None),
    ("burstable, devices lack", asking(cpu=4, nic=11), "node2", CONTAINER),
    ("burstable, devices lack, pod scope", asking(cpu=2, nic=6), "node3", POD),
    ("burstable, fits, pod scope", asking(cpu=2, nic=5), "node3", None),
    ("burstable, cpu lacks, pod scope", asking(cpu=20, nic=5), "node3", None),
    ("burstable with memory, devices lack", asking(memory="2Gi", nic=11), "node2", CONTAINER),
    ("burstable with memory, devices lack, pod scope", asking(memory="2Gi", nic=6), "node3", POD),
    ("burstable, memory lacks, pod scope", asking(memory="5Gi", nic=5), "node3", None),
    ("burstable, memory lacks", asking(memory="5Gi", nic=5), "node2", None),
    ("burstable without limits, devices lack", asking({}, cpu=4, memory="4Gi", nic=11), "node2", CONTAINER),
    ("burstable without limits, all lack but devices", asking({}, cpu=20, memory="5Gi", nic=5), "node3", None),
    ("burstable with extended resources", asking(extended=1, cpu=4, nic=3), "extended", None),
    ("guaranteed, huge pages lack", asking(cpu=2, memory="2Gi", pages="256Mi", nic=3), "node2", CONTAINER),
    ("guaranteed, cpu lacks", asking(cpu=9, memory="1Gi", nic=3), "node1", CONTAINER),
    ("guaranteed, none of an unknown device", asking(cpu=2, memory="1Gi", no_nic=0), "node1", None),
    ("guaranteed, pod scope, three containers lack", three(cpu=3, memory="1Gi"), "node3", POD),
    ("guaranteed, pod scope, minimal", asking(cpu=1, memory="1Gi"), "node3", None),
    ("guaranteed, pod scope, a whole zone", asking(cpu=2, memory="4Gi"), "broken", None),
    ("guaranteed, pod scope, three containers fit", three(cpu=1, memory="1Gi"), "node3", None),
    ("guaranteed, pod scope, zone that is none", three(cpu=1, memory="1Gi"), "broken", POD),
    ("guaranteed, device of no zone", asking(cpu=2, memory="2Gi", pages="64Mi", old_nic=3), "node2", None),
    ("guaranteed, storage", asking(cpu=2, memory="2Gi", storage="100Mi"), "node2", None),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "node", "why"), [case[1:] for case in FITS], ids=[case[0] for case in FITS])
def test_one_container(pod: PodBuilder, node: str, why: str | None) -> None:
    """TestNodeResourceTopology; our nodes offer ephemeral storage, which upstream's fake node of that case has as well."""
    view = REPORTS[node]
    machine = a_machine(view, **{"ephemeral-storage": "1Gi"}, **MORE.get(node, {}))
    assert Desk(view, nodes=[machine]).refusals(pod) == ({} if why is None else {node: why})


HOST = (
    {"cpu": 30, "memory": "60Gi", PAGES: "384Mi", NIC: 16},
    {"cpu": 32, "memory": "64Gi", PAGES: "512Mi", NIC: 32},
)
TWO = [{"cpu": 2, "memory": "2Gi"}, {"cpu": 4, "memory": "8Gi"}]
POD_SCOPE: list[tuple[str, list[dict[str, Any]], str | None]] = [
    ("fits one zone only", [*TWO, {"cpu": 26, "memory": "32Gi", PAGES: "512Mi", NIC: 26}], None),
    ("cpu lacks", [TWO[0], {"cpu": 8, "memory": "8Gi"}, {"cpu": 26, "memory": "26Gi", PAGES: "52Mi", NIC: 26}], POD),
    ("memory lacks", [{"cpu": 2, "memory": "4Gi"}, {"cpu": 4, "memory": "16Gi"}, {"cpu": 26, "memory": "52Gi"}], POD),
    ("huge pages lack", [*TWO, {"cpu": 26, "memory": "32Gi", PAGES: "3328Mi", NIC: 26}], POD),
    ("devices lack", [*TWO, {"cpu": 26, "memory": "26Gi", PAGES: "52Mi", NIC: 52}], POD),
]


@pytest.mark.parametrize(("containers", "why"), [c[1:] for c in POD_SCOPE], ids=[c[0] for c in POD_SCOPE])
def test_many_containers_in_pod_scope(containers: list[dict[str, Any]], why: str | None) -> None:
    """All containers go to one zone together."""
    desk = Desk(report("host", *HOST, scope="pod"))
    assert desk.refusals(guaranteed(*containers)) == ({} if why is None else {"host": why})


def small(cpu: int, memory: str) -> dict[str, Any]:
    """Return what a container asks."""
    return {"cpu": cpu, "memory": memory}


HALF = [small(20, "40G"), small(20, "40G")]
CONTAINER_SCOPE: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], str | None]] = [
    ("one", [], [small(2, "4G")], None),
    ("one, cpu lacks", [], [small(40, "4G")], CONTAINER),
    ("one, memory lacks", [], [small(2, "100G")], CONTAINER),
    ("one, both lack", [], [small(40, "100G")], CONTAINER),
    ("two, over zones", [], HALF, None),
    ("two with devices and pages", [], [small(2, "6G") | {PAGES: "500Mi", NIC: 16}, small(2, "6G") | {PAGES: "50Mi", NIC: 8}], None),
    ("init lacks cpu", [small(40, "40G")], [small(1, "4G")] * 2, INIT),
    ("init lacks memory", [small(4, "70G")], [small(1, "4G")] * 2, INIT),
    ("init fits", [small(4, "10G")], HALF, None),
    ("three inits", [small(4, "10G")] * 3, [*HALF, small(6, "10G")], None),
    ("third container lacks cpu", [small(30, "10G")] * 2, [*HALF, small(20, "6G")], CONTAINER),
    ("container lacks cpu after inits", [small(30, "10G")] * 2, [small(35, "40G")], CONTAINER),
    ("inits give back", [small(30, "10G")] * 2, HALF, None),
    ("inits together would lack cpu", [small(30, "10G")] * 3, [*HALF, small(2, "6G")], None),
    ("inits together would lack memory", [small(3, "50G")] * 3, [*HALF, small(2, "6G")], None),
    ("one of three inits lacks cpu", [small(40, "50G"), *[small(3, "50G")] * 2], [HALF[0], small(2, "6G")], INIT),
    ("second init lacks cpu", [small(20, "50G"), small(40, "50G"), small(3, "50G")], [HALF[0], small(2, "6G")], INIT),
]  # fmt: skip


@pytest.mark.parametrize(
    ("inits", "containers", "why"), [c[1:] for c in CONTAINER_SCOPE], ids=[c[0] for c in CONTAINER_SCOPE]
)
def test_many_containers_in_container_scope(inits: Any, containers: Any, why: str | None) -> None:
    """Each container goes to the first zone with room; init containers give everything back."""
    desk = Desk(report("host", *HOST))
    assert desk.refusals(guaranteed(*containers, inits=inits)) == ({} if why is None else {"host": why})


def test_sidecar_keeps_what_it_takes() -> None:
    """The kubelet gives CPUs of init containers back, but not those of restartable ones (cpumanager, policy_static.go)."""
    desk = Desk(report("n", {"cpu": 4, "memory": "8Gi"}))
    need = {"cpu": 3, "memory": "1Gi"}
    assert desk.refusals(guaranteed(need, inits=[need])) == {}
    assert desk.refusals(guaranteed(need, sidecars=[need])) == {"n": CONTAINER}


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies_refuse_nobody_here(policy: str) -> None:
    """As upstream: only single-numa-node is simulated."""
    assert Desk(report("n", {"cpu": 1, "memory": "1Gi"}, policy=policy)).refusals(asking(cpu=9, memory="9Gi")) == {}


def test_nodes_without_a_report_pass_and_nothing_is_asked_without_any() -> None:
    """The plugin costs nothing where no exporter runs."""
    desk = Desk(nodes=[a_node("bare").build()])
    assert desk.plugin.pre_filter(None, asking(cpu=9, memory="1Gi").build(), None) is not None  # type: ignore[arg-type]
    desk = Desk(report("n", {"cpu": 1, "memory": "1Gi"}), nodes=[a_node("bare").build()])
    assert desk.refusals(asking(cpu=9, memory="1Gi")) == {"n": CONTAINER}


def test_machine_without_numa_nodes_takes_nothing_that_needs_one() -> None:
    """CPUs always have a NUMA node; a device that none tells of need not."""
    machine = a_node("n").offer(OLD_NIC, 4).build()
    desk = Desk(report("n"), nodes=[machine])
    assert desk.refusals(asking(cpu=1, memory="1Gi")) == {"n": CONTAINER}
    assert desk.refusals(asking(old_nic=2)) == {}
