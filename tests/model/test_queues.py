"""Readers of queues: ours, with everything that may be wrong, and those of other projects; expected values from their documents."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from scheduler.model.queue import Queue, QueueKey, QueueUse, Quota
from scheduler.model.queue_dialects import QUEUE_KINDS

GPU = "nvidia.com/gpu"


def read(kind: str, dialect: str, spec: dict, status: dict | None = None, namespace: str = ""):
    """Return the view of an object named q."""
    known = next(one for one in QUEUE_KINDS if (one.kind, one.dialect) == (kind, dialect))
    body = {"metadata": {"name": "q", "uid": "u", "namespace": namespace}, "spec": spec, "status": status or {}}
    view = known.read(msgspec.convert(body, known.api_type))
    assert view.key == known.key(namespace, "q")
    return view


def test_ours_is_read_in_all_its_parts():
    """Quantities become whole numbers of the resource's unit, durations seconds."""
    queue = read(
        "Queue",
        "ai-scheduler",
        {
            "parent": "org",
            "resources": [
                {"name": GPU, "guaranteed": 8, "limit": "16", "weight": 3},
                {"name": "cpu", "guaranteed": "1500m"},
                {"name": "memory", "limit": "1Ti"},
            ],
            "priority": 5,
            "reclaimable": False,
            "preemptMinRuntime": "10m",
            "reclaimMinRuntime": "1h30m",
            "ordering": "Fair",
            "namespaceSelector": {"matchLabels": {"team": "a"}},
        },
    )
    assert queue.quotas == {GPU: Quota(8, 16, Fraction(3)), "cpu": Quota(1500), "memory": Quota(0, 2**40)}
    assert (queue.parent, queue.priority, queue.is_reclaimable, queue.ordering) == ("org", 5, False, "Fair")
    assert (queue.preempt_min_seconds, queue.reclaim_min_seconds) == (600, 5400)
    assert queue.namespaces is not None
    assert queue.problems == ()


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"resources": [{"name": GPU, "guaranteed": "-1"}]}, f"spec.resources[{GPU}].guaranteed: -1 is negative"),
        ({"resources": [{"name": GPU, "limit": "many"}]}, f"spec.resources[{GPU}].limit: 'many' is not a quantity"),
        ({"resources": [{"name": GPU, "guaranteed": 9, "limit": 8}]}, "9 is above the limit; allowed is 8 at most"),
        ({"resources": [{"name": GPU}, {"name": GPU}]}, f"{GPU} stands twice"),
        ({"resources": [{"name": GPU, "weight": -1}]}, "weight: -1 is negative"),
        ({"resources": [{"name": ""}]}, "spec.resources[0].name: it is empty"),
        ({"parent": "q"}, "spec.parent: it is the queue itself"),
        ({"ordering": "Random"}, "spec.ordering: 'Random' is unknown; allowed are Priority, Fair, FIFO"),
        ({"reclaimMinRuntime": "soon"}, "spec.reclaimMinRuntime: 'soon' is no duration"),
        ({"preemptMinRuntime": "-5m"}, "spec.preemptMinRuntime: -5m is negative"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            'spec.namespaceSelector: "Like" is not a valid label selector operator',
        ),
    ],
)
def test_bad_input_is_told_with_field_and_what_is_allowed(spec, problem):
    """Nothing is raised: the rest of the cluster goes on."""
    (found,) = read("Queue", "ai-scheduler", spec).problems
    assert problem in found


def test_kai_counts_gpus_millicores_and_megabytes_and_minus_one_is_unlimited():
    """As its reference says (scheduling.run.ai/v2)."""
    queue = read(
        "Queue",
        "kai",
        {
            "parentQueue": "dept",
            "resources": {
                "gpu": {"quota": 4, "overQuotaWeight": 2, "limit": -1},
                "cpu": {"quota": -1, "limit": 8000},
                "memory": {"quota": 1000, "limit": 2000},
            },
            "priority": 200,
            "reclaimMinRuntime": "5m",
        },
    )
    assert queue.quotas == {
        GPU: Quota(4, None, Fraction(2)),
        "cpu": Quota(None, 8000),
        "memory": Quota(10**9, 2 * 10**9),
    }
    assert (queue.parent, queue.priority, queue.reclaim_min_seconds) == ("dept", 200, 300)


def test_volcano_has_deserved_before_guarantee_and_root_is_no_parent():
    """A closed queue takes nobody."""
    spec = {
        "weight": 3, "parent": "root", "capability": {GPU: "8"}, "deserved": {GPU: "4", "cpu": "2"},
        "guarantee": {"resource": {GPU: 1, "memory": "1Gi"}}, "reclaimable": False,
    }  # fmt: skip
    queue = read("Queue", "volcano", spec, {"state": "Closing"})
    weight = Fraction(3)
    assert queue.quotas == {
        GPU: Quota(4, 8, weight),
        "cpu": Quota(2000, None, weight),
        "memory": Quota(2**30, None, weight),
    }
    assert (queue.parent, queue.is_reclaimable, queue.is_closed) == ("", False, True)


def test_kueue_adds_flavors_up_and_borrows_within_a_cohort_only():
    """Without a cohort the quota is the limit; with one, up to the borrowing limit."""
    flavors = [
        {"resources": [{"name": GPU, "nominalQuota": 4, "borrowingLimit": 2}]},
        {"resources": [{"name": GPU, "nominalQuota": "6", "borrowingLimit": "1"}]},
    ]
    groups = {"resourceGroups": [{"flavors": flavors}]}
    alone = read("ClusterQueue", "kueue", groups)
    member = read("ClusterQueue", "kueue", {**groups, "cohortName": "all", "fairSharing": {"weight": "500m"}})
    assert alone.quotas[GPU] == Quota(10, 10)
    assert member.quotas[GPU] == Quota(10, 13, Fraction(1, 2))
    assert member.parent == "cohort:all"
    assert read("Cohort", "kueue", {"parentName": "root"}).parent == "cohort:root"
    use = read("LocalQueue", "kueue", {"clusterQueue": "cq"}, namespace="ns")
    assert use == QueueUse(namespace="ns", name="q", queue=QueueKey("kueue", "cq"))


def test_kueue_lends_no_more_than_its_lending_limits():
    """Summed over flavors, one without a limit lends all of its quota; without a cohort there is nobody to lend to."""
    flavors = [
        {"resources": [{"name": GPU, "nominalQuota": 4, "lendingLimit": 1}, {"name": "cpu", "nominalQuota": 2}]},
        {"resources": [{"name": GPU, "nominalQuota": 6}]},
    ]
    groups = {"resourceGroups": [{"flavors": flavors}]}
    member = read("ClusterQueue", "kueue", {**groups, "cohortName": "all"})
    assert (member.quotas[GPU].lending, member.quotas["cpu"].lending) == (7, None)
    assert read("ClusterQueue", "kueue", groups).quotas[GPU].lending is None
    bad = read("ClusterQueue", "kueue", {"resourceGroups": [{"flavors": [{"resources": [
        {"name": GPU, "nominalQuota": 4, "lendingLimit": "-1"}]}]}], "cohortName": "all"})  # fmt: skip
    assert any("lendingLimit" in problem for problem in bad.problems)


def test_an_elastic_quota_is_the_queue_of_its_namespace():
    """`min` is guaranteed, `max` the limit."""
    queue = read("ElasticQuota", "elasticquota", {"min": {GPU: 2}, "max": {GPU: 8, "cpu": "4"}}, namespace="ns")
    assert isinstance(queue, Queue)
    assert (queue.name, queue.namespace_names) == ("ns/q", ("ns",))
    assert queue.quotas == {GPU: Quota(2, 8), "cpu": Quota(0, 4000)}
