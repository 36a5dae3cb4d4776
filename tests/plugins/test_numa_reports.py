"""Which pods a report counts, and what is deducted for the others: the over-reserve cache of scheduler-plugins, by our rules.

Fingerprints are those of k8stopologyawareschedwg/podfingerprint (Apache-2.0), testdata/compat-*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.plugins.node_resource_topology_match.fingerprint import fingerprint, xxh64
from scheduler.plugins.node_resource_topology_match.reports import PATIENCE_SECONDS
from tests.builders import EPOCH, a_pod
from tests.plugins.numa import Desk, guaranteed, report

if TYPE_CHECKING:
    from scheduler.model.node_resource_topology import NodeResourceTopology
    from tests.builders import PodBuilder

CACHE = {"cacheResyncPeriodSeconds": 5}
HALF = {"cpu": 4, "memory": "8Gi"}
NO = {"n": "cannot align container"}
TEN_PODS = """
analytics/controller-69dkj kube-public/subscriber-tq6v7 kube-public/transformer-hfbng kube-public/validator-c6pn5
kube-system/proxy-wszrd middleware/processor-jkrl4 network/gateway-vsll5 network/importer-kzdfr network/importer-q5vt9
staging/prometheus-bwgbn
"""
WANTED = guaranteed({"cpu": 3, "memory": "1Gi"}, name="wanted")


def print_of(*names: str) -> str:
    """Return the fingerprint of pods in the namespace of builders."""
    return fingerprint(("default", name) for name in names)


def holder(name: str, cpu: Any = 2) -> PodBuilder:
    """Start a Guaranteed pod."""
    return guaranteed({"cpu": cpu, "memory": "1Gi"}, name=name)


def looked_at(*reports: NodeResourceTopology) -> Desk:
    """Return a desk that has seen reports of nodes without pods."""
    desk = Desk(*reports, args=CACHE)
    desk.refusals(WANTED)
    return desk


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ("production/jaeger-dpgjk production/nginx-rt684 production/envoy-g9m22", "pfp0v001607b76a0e9d3aeb4"),
        (TEN_PODS, "pfp0v001567144e4a561bb5a"),
    ],
)
def test_fingerprint_is_that_of_the_exporters(pods: str, expected: str) -> None:
    """compat-tiny-3pods-1ns and compat-small-10pods-3ns, in whatever order."""
    listed = [tuple(pod.split("/")) for pod in pods.split()]
    assert fingerprint(listed) == fingerprint(reversed(listed)) == expected  # type: ignore[arg-type]


def test_hash_is_xxh64() -> None:
    """Values of the algorithm's own specification (doc/xxhash_spec.md has the first) and of its sanity checks."""
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"a") == 0xD24EC4F1A98C6E5B
    assert xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


def test_without_the_cache_a_report_counts_as_it_stands() -> None:
    """The default of upstream's arguments."""
    desk = Desk(report("n", HALF, written=EPOCH)).assume(holder("new"), "n")
    assert desk.refusals(WANTED) == {}


def test_pod_that_was_just_placed_is_deducted_from_every_numa_node() -> None:
    """Nobody knows which it will be in: 4 - 2 cores are left in both."""
    desk = Desk(report("n", HALF, HALF, written=EPOCH), args=CACHE)
    assert desk.refusals(WANTED) == {}
    assert desk.assume(holder("new"), "n").refusals(WANTED) == NO
    desk.cluster.forget("uid-new")
    assert desk.refusals(WANTED) == {}


def test_report_with_the_pods_fingerprint_takes_over() -> None:
    """The pod is in the NUMA node 0; until a report says so, none has room."""
    desk = Desk(report("n", HALF, HALF, fingerprint=print_of()), args=CACHE)
    desk.assume(holder("new"), "n").refusals(WANTED)
    desk.add(holder("new").on("n"))
    after = report("n", {"cpu": 2, "memory": "7Gi"}, HALF, fingerprint=print_of("new"))
    assert desk.refusals(WANTED) == NO
    assert desk.tell(after).refusals(WANTED) == {}


def test_report_of_other_pods_is_not_believed() -> None:
    """It was read before the pod came: what it says is free is not."""
    desk = looked_at(report("n", HALF, fingerprint=print_of())).add(holder("new").on("n"))
    desk.refusals(WANTED)
    stale = report("n", HALF, fingerprint=print_of("gone"), written=desk.now)
    assert desk.tell(stale).refusals(WANTED) == NO
    desk.now += PATIENCE_SECONDS + 1
    started = holder("new").on("n", started=20_000)  # after the report was written, so it is not counted
    assert desk.add(started).refusals(WANTED) == NO


def test_fingerprint_that_fits_nobody_is_not_waited_for_without_end() -> None:
    """An exporter may hash other pods; after two minutes time tells which are counted."""
    desk = Desk(report("n", {"cpu": 0, "memory": "8Gi"}, fingerprint=print_of()), args=CACHE)
    desk.add(holder("old").on("n", started=100.0))
    assert desk.refusals(WANTED) == NO
    desk.tell(report("n", HALF, fingerprint="pfp0v0010000000000000000", written=desk.now))
    assert desk.refusals(WANTED) == NO
    desk.now += PATIENCE_SECONDS + 1
    assert desk.refusals(WANTED) == {}


def test_pods_that_only_run_later_may_complete_the_fingerprint() -> None:
    """The report is there before the pod's status: it takes over when the pod is seen running."""
    desk = looked_at(report("n", HALF, HALF, fingerprint=print_of()))
    desk.add(holder("new").on("n").phase("Pending")).refusals(WANTED)
    other = a_pod("slow").on("n").phase("Pending")
    desk.add(other).tell(report("n", {"cpu": 2, "memory": "7Gi"}, HALF, fingerprint=print_of("new")))
    assert desk.refusals(WANTED) == NO
    assert desk.add(holder("new").on("n")).refusals(WANTED) == {}


def test_ended_pods_may_be_in_the_fingerprint() -> None:
    """Older kubelets list them to exporters until they are deleted."""
    desk = Desk(report("n", HALF, fingerprint=print_of()), args=CACHE)
    desk.refusals(WANTED)
    desk.add(a_pod("done").on("n").phase("Succeeded"), holder("new").on("n"))
    desk.tell(report("n", {"cpu": 3, "memory": "7Gi"}, fingerprint=print_of("new", "done")))
    assert desk.refusals(WANTED) == {}
    desk.cluster.remove_pod("uid-done")
    assert desk.cluster.ended_on("n") == []


def test_fingerprint_may_be_of_exclusive_pods_alone() -> None:
    """Others hold nothing of a NUMA node, so they are neither hashed nor deducted."""
    exclusive = "with-exclusive-resources"
    desk = Desk(report("n", HALF, fingerprint=print_of(), method=exclusive), args=CACHE)
    shared = holder("shared", cpu="1500m").patch_spec(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]
    )
    assert desk.add(shared.on("n")).refusals(WANTED) == {}
    desk.add(holder("new").on("n"))
    assert desk.refusals(WANTED) == NO
    desk.tell(report("n", {"cpu": 3, "memory": "7Gi"}, fingerprint=print_of("new"), method=exclusive))
    assert desk.refusals(WANTED) == {}


def test_without_fingerprint_time_tells() -> None:
    """A report counts the pods that started before it was written, with two seconds of doubt."""
    desk = Desk(report("n", HALF, written=EPOCH + 9_000), args=CACHE)
    desk.add(holder("new").on("n", started=9_950.0))
    assert desk.refusals(WANTED) == NO
    assert desk.tell(report("n", HALF, written=EPOCH + 9_951)).refusals(WANTED) == NO
    assert desk.tell(report("n", HALF, written=EPOCH + 9_953)).refusals(WANTED) == {}


def test_pod_that_changes_no_report_is_believed_after_a_while() -> None:
    """An exporter that writes only what changed says nothing of it; the pod is refused again and again, and then is not."""
    desk = Desk(report("n", HALF, written=EPOCH), args=CACHE).add(holder("new").on("n", started=10_000.0))
    assert desk.refusals(WANTED) == NO
    key = desk.plugin.sign(WANTED.build())
    desk.now = EPOCH + 10_000.0 + PATIENCE_SECONDS
    assert desk.plugin.sign(WANTED.build()) != key
    assert desk.refusals(WANTED) == {}


def test_first_report_counts_the_pods_that_were_there() -> None:
    """After a restart of the scheduler: a report without time and fingerprint is believed, as upstream does."""
    desk = Desk(args=CACHE, nodes=[]).tell(report("n", {"cpu": 3, "memory": "4Gi"}))
    machine = Desk(report("n", HALF)).cluster.nodes["n"]
    desk.cluster.set_node(machine)
    desk.add(holder("old").on("n"))
    assert desk.refusals(WANTED) == {}
    assert desk.add(holder("new").on("n")).refusals(WANTED) == NO


def test_report_that_goes_and_comes_back_is_read_anew() -> None:
    """An exporter that is taken away takes its word with it."""
    view = report("n", {"cpu": 1, "memory": "8Gi"}, written=EPOCH)
    desk = Desk(view, report("other", HALF), args=CACHE)
    assert desk.refusals(WANTED) == NO
    desk.cluster.objects.drop(type(view), view.key)
    desk.cluster.look_again("n")
    assert desk.refusals(WANTED) == {}
    assert desk.tell(view).refusals(WANTED) == NO


@pytest.mark.parametrize(
    ("detect", "qos_pod", "expected"),
    [
        ("All", "exclusive", NO),
        ("None", "exclusive", {}),
        ("OnlyExclusiveResources", "exclusive", NO),
        ("All", "shared", NO),
        ("OnlyExclusiveResources", "shared", {}),
    ],
)
def test_pods_of_other_schedulers(detect: str, qos_pod: str, expected: dict[str, str]) -> None:
    """Upstream closes the node until a report counts them; we know what they ask, and deduct it."""
    desk = Desk(report("n", HALF, written=EPOCH), args=CACHE | {"cache": {"foreignPodsDetect": detect}})
    foreign = holder("foreign")
    if qos_pod == "shared":
        foreign.patch_spec(containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}])
    assert desk.add(foreign.scheduler("default-scheduler").on("n", started=9_999.0)).refusals(WANTED) == expected


@pytest.mark.parametrize(("scope", "expected"), [("All", {}), ("OnlyResources", NO)])
def test_change_of_the_kubelets_policy(scope: str, expected: dict[str, str]) -> None:
    """With OnlyResources it counts when the report's amounts do."""
    desk = Desk(report("n", {"cpu": 1, "memory": "1Gi"}, fingerprint=print_of()), args=CACHE | {"cache": {"resyncScope": scope}})  # fmt: skip
    assert desk.add(holder("new").on("n")).refusals(WANTED) == NO
    news = report("n", {"cpu": 1, "memory": "1Gi"}, policy="none", fingerprint=print_of("else"), written=desk.now)
    assert desk.tell(news).refusals(WANTED) == expected


def test_nodes_with_reserved_pods_may_be_left_alone() -> None:
    """discardReservedNodes: until the binding is done."""
    desk = Desk(report("n", HALF), args={"discardReservedNodes": True}).assume(holder("new", cpu=1), "n")
    assert desk.refusals(WANTED) == {"n": "invalid node topology data"}
    assert desk.add(holder("new", cpu=1).on("n")).refusals(WANTED) == {}


FULL = {"cpu": 0, "memory": "4Gi"}


def gone(desk: Desk, *names: str) -> dict[str, str]:
    """Return the refusals once a what-if takes pods away; it is undone afterwards, and nothing stays of it."""
    before = desk.refusals(WANTED)
    desk.access.snapshot = snapshot = desk.cluster.snapshot()
    undo = [snapshot.remove(f"uid-{name}", snapshot.row_of["n"]) for name in names]
    found = desk.refusals_now(WANTED, snapshot)
    for step in reversed(undo):
        step()
    assert desk.refusals_now(WANTED, snapshot) == before
    return found


def test_preemption_counts_on_room_only_where_it_is_sure() -> None:
    """Two NUMA nodes of 4 cores are full with four pods of 2; nobody knows which are where.

    Two that go may leave 2 free cores in each, so that 3 fit nowhere; three leave 3 or more somewhere: 6 > 2 + 2.
    """
    total = [HALF, HALF]
    names = ("a", "b", "c", "d")
    desk = Desk(report("n", FULL, FULL, totals=total, fingerprint=print_of(*names)), args=CACHE)
    desk.add(*(holder(name).on("n") for name in names))
    assert gone(desk, "a") == NO
    assert gone(desk, "a", "b") == NO
    assert gone(desk, "a", "b", "c") == {}


def test_preemption_of_pods_that_no_report_counts_gives_their_deduction_back() -> None:
    """They are not in the amounts."""
    desk = looked_at(report("n", HALF, fingerprint=print_of())).add(holder("new").on("n"))
    desk.tell(report("n", HALF, fingerprint=print_of("else"), written=desk.now))
    assert desk.refusals(WANTED) == NO
    assert gone(desk, "new") == {}


def test_copy_of_a_report_changes_nothing() -> None:
    """A watch that begins anew brings the same object again."""
    view = report("n", HALF, HALF, fingerprint=print_of())
    desk = Desk(view, args=CACHE).assume(holder("new"), "n")
    assert desk.refusals(WANTED) == NO
    desk.tell(msgspec.structs.replace(view))
    assert desk.refusals(WANTED) == NO
