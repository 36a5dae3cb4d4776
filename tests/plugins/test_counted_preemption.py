"""DefaultPreemption by counting: where nothing but resources keeps a pod from a node, sums say what all Filters say."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from functools import partial

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import OVERDUE_SECONDS
from scheduler.framework.plugin import Failure, PostFilterResult
from scheduler.framework.status import Code, Status
from scheduler.model import Budget
from scheduler.model.api import LabelSelector
from scheduler.model.checkpoints import LAST_CHECKPOINT
from scheduler.plugins.preemption.default import conclusion
from scheduler.plugins.preemption.runs import dry_runs
from tests.builders import EPOCH, a_gang, a_node, a_pod

NOW = EPOCH + 1000.0
GANGS = {"a": 2, "b": 3}

nodes = st.lists(
    st.builds(
        lambda cpu, gpus, pods, tainted: (cpu, gpus, pods, tainted),
        st.integers(1, 8), st.sampled_from([0, 0, 4]), st.sampled_from([3, 5, 110]), st.sampled_from([False, False, True]),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
running = st.lists(
    st.fixed_dictionaries(
        {
            "node": st.integers(0, 3),
            "cpu": st.sampled_from([0, 300, 500, 1000, 2500]),
            "gpus": st.sampled_from([0, 0, 1, 2]),
            "priority": st.sampled_from([-5, 0, 0, 3, 10, 20]),
            "started": st.sampled_from([None, EPOCH, EPOCH + 1, NOW + 50]),
            "leaving": st.sampled_from([None, None, None, NOW - 10, NOW - 500]),
            "app": st.sampled_from(["", "x", "y"]),
            "gang": st.sampled_from(["", "", "", "a", "b"]),
            "is_evicted": st.sampled_from([False, False, False, True]),
            "saved": st.sampled_from([None, None, EPOCH + 600, NOW - 1, NOW + 30]),
        }
    ),
    max_size=14,
)
nominees = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([500, 2000]), st.sampled_from([0, 10, 20])), max_size=3
)
budgets = st.lists(st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 2)), max_size=2, unique_by=lambda b: b[0])
preemptors = st.tuples(st.sampled_from([0, 600, 1000, 3000]), st.sampled_from([0, 0, 2]), st.sampled_from([5, 10]))


def a_core(base, nodes_, running_, nominees_=(), budgets_=(), clock=lambda: NOW, is_priced=True):
    """Return a core with a cluster as it was drawn."""
    args = [
        {
            "name": "DefaultPreemption",
            "args": {
                "minCandidateNodesAbsolute": 2,
                "protectGangs": base != "kube-default",
                "minimizeLoss": base == "ai-scheduler" and is_priced,
            },
        }
    ]
    configuration = SchedulerConfiguration.model_validate({"profiles": [{"base": base, "pluginConfig": args}]})
    core = Core(configuration, clock, 0)
    for k, (cpu, gpus, pods, tainted) in enumerate(nodes_):
        node = a_node(f"n{k}").cpu(cpu).gpus(gpus).pods(pods)
        core.cluster.set_node((node.taint("away") if tainted else node).build())
    for name, minimum in GANGS.items():
        core.cluster.groups.put(a_gang(name, minimum).build())
    for k, drawn in enumerate(running_):
        put(core, f"p{k}", drawn)
    for k, (node, cpu, priority) in enumerate(nominees_):
        pod = a_pod(f"nominee-{k}").cpu(f"{cpu}m").priority(priority).nominated(f"n{node}").build()
        core.cluster.set_pod(pod)
    for name, allowed in budgets_:
        put_budget(core, name, allowed)
    core.access.snapshot = core.cluster.snapshot()
    return core


def put(core, name, drawn):
    """Let a pod run as it was drawn."""
    builder = a_pod(name).cpu(f"{drawn['cpu']}m").gpus(drawn["gpus"]).priority(drawn["priority"])
    if drawn["app"]:
        builder.label("app", drawn["app"])
    if drawn["gang"]:
        builder.gang(drawn["gang"])
    if drawn.get("saved") is not None:
        builder.annotation(LAST_CHECKPOINT, datetime.fromtimestamp(drawn["saved"], UTC).isoformat())
    pod = builder.on(f"n{drawn['node']}", started=drawn["started"] or 0.0).build()
    is_leaving = drawn["leaving"] is not None
    core.cluster.set_pod(
        msgspec.structs.replace(
            pod, started=drawn["started"], is_terminating=is_leaving, deletes_at=drawn["leaving"]
        )
    )  # fmt: skip
    if drawn["is_evicted"]:
        core.cluster.expect_leave(pod.uid)


def put_budget(core, name, allowed):
    """Let so many pods of an app be disrupted."""
    core.cluster.budgets["default", name] = Budget(
        namespace="default", name=name, selector=LabelSelector(match_labels={"app": name}), disruptions_allowed=allowed,
        disrupted_pods=frozenset(),
    )  # fmt: skip


def a_preemptor(cpu, gpus, priority):
    """Return a pod that waits."""
    return a_pod("waits").cpu(f"{cpu}m").gpus(gpus).priority(priority).build()


def prefiltered(core, pod):
    """Return what PreFilter leaves behind."""
    state = CycleState()
    status, _ = core.runtimes[pod.scheduler_name].pre_filter(state, pod, core.access.snapshot.nodes)
    assert status is None
    return state


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["kube-default", "ai-scheduler"]), st.booleans(), st.booleans(), nodes, running, nominees, budgets, preemptors
)  # fmt: skip
def test_counting_finds_the_victims_that_all_filters_find(
    base, protects, is_priced, nodes_, running_, nominees_, budgets_, drawn
):
    """The same candidates, victims, budgets and sentences on every node, and the snapshot is as it was."""
    core = a_core(base, nodes_, running_, nominees_, budgets_)
    access, pod = core.access, a_preemptor(*drawn)
    state = prefiltered(core, pod)
    counting = access.counting(state, pod)
    assert counting is not None
    rows = range(len(access.snapshot.all_rows))

    def look(row):
        return access.verdict(state, pod, row)

    told = dict(dry_runs(access, pod, rows, look, protect_gangs=protects, minimize_loss=is_priced))
    before = [row.contents() for row in access.snapshot.all_rows]
    counted = dict(
        dry_runs(access, pod, rows, look, protect_gangs=protects, minimize_loss=is_priced, counting=counting)
    )
    assert counted == told
    assert [row.contents() for row in access.snapshot.all_rows] == before


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5), running.map(lambda drawn: drawn[:1])),
        st.tuples(st.just("remove"), st.integers(0, 13)),
        st.tuples(st.just("evict"), st.integers(0, 13)),
        st.tuples(st.just("stay"), st.integers(0, 13)),
        st.tuples(st.just("get stuck"), st.integers(0, 13)),
        st.tuples(st.just("nominate"), st.integers(0, 2), st.integers(-1, 3)),
        st.tuples(st.just("bind"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("budget"), st.sampled_from(["x", "y"]), st.integers(0, 2)),
        st.tuples(st.just("gang"), st.sampled_from(["a", "b"]), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.sampled_from([1, 40, 105, 700])),
        st.tuples(st.just("resize"), st.integers(0, 3), st.integers(1, 8)),
    ),
    min_size=1,
    max_size=10,
)


def do(core, moment, step):  # noqa: C901 - one branch for each kind of event
    """Let something happen to the cluster."""
    kind, which, *more = step
    cluster, uid = core.cluster, f"uid-p{which}"
    if kind == "put":
        for drawn in more[0]:
            cluster.remove_pod(f"uid-new{which}")
            put(core, f"new{which}", drawn)
    elif kind == "remove":
        cluster.remove_pod(uid)
        core.access.stuck.discard(uid)
    elif kind == "evict" and uid in cluster.pods:
        cluster.expect_leave(uid)
    elif kind == "stay":
        cluster.expect_stay(uid)
    elif kind == "get stuck" and uid in cluster.pods:
        core.access.stuck.add(uid)
        cluster.note_aside(uid)
    elif kind == "nominate" and f"uid-nominee-{which}" in cluster.pods:
        cluster.nominate(f"uid-nominee-{which}", f"n{more[0]}" if more[0] >= 0 else "")
    elif kind == "bind" and f"uid-nominee-{which}" in cluster.pods:
        cluster.assume(f"uid-nominee-{which}", f"n{more[0]}")
    elif kind == "budget":
        put_budget(core, which, more[0])
    elif kind == "gang":
        cluster.groups.put(a_gang(which, more[0]).build())
    elif kind == "wait":
        moment[0] += which
    elif kind == "resize" and f"n{which}" in cluster.nodes:
        cluster.set_node(a_node(f"n{which}").cpu(more[0]).gpus(2).pods(5).build())
    core.access.snapshot = cluster.snapshot()


def told_by_all_filters(core, plugin, state, pod, rows, now):
    """Return how the plugin ends by kube-scheduler's steps, each node asked anew."""
    wanted = max(
        len(rows) * plugin.args.min_candidate_nodes_percentage // 100, plugin.args.min_candidate_nodes_absolute
    )
    offset = zlib.crc32(pod.uid.encode()) % len(rows) if rows else 0
    found, refused = [], []
    look = partial(core.access.verdict, state, pod)
    args = plugin.args
    for _, outcome in dry_runs(
        core.access,
        pod,
        rows[offset:] + rows[:offset],
        look,
        protect_gangs=args.protect_gangs,
        minimize_loss=args.minimize_loss,
    ):
        if isinstance(outcome, Status):
            refused.append(outcome)
            continue
        found.append(outcome)
        has_enough = len(found) >= wanted and any(candidate.violations == 0 for candidate in found)
        if has_enough and not args.minimize_loss:
            break
    return conclusion(pod, len(core.access.snapshot.all_rows), found, refused, now)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["kube-default", "ai-scheduler"]), st.booleans(), nodes, running, nominees, budgets,
    st.lists(preemptors, min_size=1, max_size=2), steps,
)  # fmt: skip
def test_what_is_known_of_rows_is_what_would_be_found_anew(
    base, is_priced, nodes_, running_, nominees_, budgets_, drawn, happened
):
    """After every event, for several kinds of preemptors in turn; a second core tells, as asking anew touches rows."""
    moment = [NOW]
    core, fresh = (a_core(base, nodes_, running_, nominees_, budgets_, lambda: moment[0], is_priced) for _ in range(2))
    plugin = core.runtimes["ai-scheduler"].profile.plugins["DefaultPreemption"]
    for step in [("wait", 0), *happened]:
        do(core, moment, step)
        do(fresh, moment, ("wait", 0) if step[0] == "wait" else step)
        for number, kind in enumerate(drawn):
            pod = msgspec.structs.replace(a_preemptor(*kind), uid=f"uid-waits-{number}")
            state, snapshot = prefiltered(fresh, pod), fresh.access.snapshot
            statuses = [fresh.access.verdict(state, pod, row) for row in range(len(snapshot.all_rows))]
            rows = Failure(snapshot.nodes, statuses=statuses).resolvable_rows().tolist()
            expected = told_by_all_filters(fresh, plugin, state, pod, rows, moment[0])
            found = plugin.post_filter(
                prefiltered(core, pod), pod, Failure(core.access.snapshot.nodes, statuses=statuses)
            )
            if isinstance(expected, Status):
                assert isinstance(found, Status)
                assert found.reasons == expected.reasons
            else:
                assert found == expected


def test_a_pod_that_another_filter_has_something_to_say_of_is_not_only_counted():
    """Host ports, affinity and spread depend on who stands where."""
    core = a_core("kube-default", [(2, 0, 110, False)], [])
    for pod in (
        a_pod("port").cpu(1).port(80),
        a_pod("near").cpu(1).affinity("kubernetes.io/hostname", app="x"),
        a_pod("spread").cpu(1).spread("kubernetes.io/hostname", app="x"),
    ):
        state = CycleState()
        core.runtimes["ai-scheduler"].pre_filter(state, pod.build(), core.access.snapshot.nodes)
        assert core.access.counting(state, pod.build()) is None


def test_what_refuses_by_the_node_alone_is_asked_in_full():
    """A taint that no eviction takes away stays the reason."""
    core = a_core("kube-default", [(1, 0, 110, True)], [])
    pod = a_preemptor(1000, 0, 10)
    counting = core.access.counting(prefiltered(core, pod), pod)
    assert counting is not None
    assert counting.open.tolist() == [False]
    assert core.access.verdict(prefiltered(core, pod), pod, 0).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def a_pair(base="kube-default", **first):
    """Return a core with two nodes that a pod each fills, the one on n0 less important, and how to ask where a preemptor goes."""
    drawn = {"cpu": 1000, "gpus": 0, "started": EPOCH, "leaving": None, "app": "x", "gang": "", "is_evicted": False}
    pods = [drawn | {"node": 0, "priority": -5} | first, drawn | {"node": 1, "priority": 0}]
    moment = [NOW]
    core = a_core(base, [(1, 0, 110, False)] * 2, pods, [(3, 500, 10)], clock=lambda: moment[0])
    plugin = core.runtimes["ai-scheduler"].profile.plugins["DefaultPreemption"]

    def ask():
        pod = a_preemptor(1000, 0, 5)
        core.access.snapshot = core.cluster.snapshot()
        everywhere = np.ones(2, dtype=np.bool_)
        found = plugin.post_filter(
            prefiltered(core, pod), pod, Failure(core.access.snapshot.nodes, resolvable=everywhere)
        )
        return found.nominations.get(pod.uid) if isinstance(found, PostFilterResult) else found.message

    assert ask() == "n0"
    return core, ask, moment


def test_room_that_is_kept_for_somebody_since_counts():
    """The nominated pod is more important, so that both do not fit; when it is nominated no more, all is as before."""
    core, ask, _ = a_pair()
    core.cluster.nominate("uid-nominee-0", "n0")
    assert ask() == "n1"
    core.cluster.nominate("uid-nominee-0", "")
    assert ask() == "n0"


def test_a_victim_that_did_not_go_is_not_counted_on_again():
    """Nobody else may go on that node."""
    core, ask, _ = a_pair()
    core.access.stuck.add("uid-p0")
    core.cluster.note_aside("uid-p0")
    assert ask() == "n1"


def test_a_victim_becomes_overdue_by_time_alone():
    """Two minutes after its grace period has ended."""
    _, ask, moment = a_pair(leaving=NOW - 10)
    moment[0] += OVERDUE_SECONDS - 11
    assert ask() == "n0"
    moment[0] += 2
    assert ask() == "n1"


def test_a_budget_that_closes_since_counts():
    """A violation is worse than a higher priority."""
    core, ask, _ = a_pair(app="y")
    put_budget(core, "y", 0)
    assert ask() == "n1"
    put_budget(core, "y", 1)
    assert ask() == "n0"


def test_who_is_going_costs_nothing_where_gangs_are_protected():
    """The more important pod is going already, so that its node costs nothing."""
    core, ask, _ = a_pair("ai-scheduler")
    core.cluster.expect_leave("uid-p1")
    assert ask() == "n1"
    core.cluster.expect_stay("uid-p1")
    assert ask() == "n0"


def test_a_member_elsewhere_changes_what_a_victim_drags_along():
    """The gang needs both, so that the member with the higher priority, on no node that is asked about, goes as well."""
    core, ask, _ = a_pair("ai-scheduler", gang="a")
    drawn = {
        "node": 7,
        "cpu": 100,
        "gpus": 0,
        "started": EPOCH,
        "leaving": None,
        "app": "",
        "gang": "a",
        "is_evicted": False,
    }
    put(core, "far", drawn | {"priority": 3})
    assert ask() == "n1"
    core.cluster.remove_pod("uid-far")
    assert ask() == "n0"


def test_a_gang_that_needs_its_member_no_more_is_not_dragged_along():
    """The minimum falls to one: one of the two can go alone."""
    drawn = {
        "node": 7,
        "cpu": 100,
        "gpus": 0,
        "started": EPOCH,
        "leaving": None,
        "app": "",
        "gang": "a",
        "is_evicted": False,
    }
    core, ask, _ = a_pair("ai-scheduler", gang="a")
    put(core, "far", drawn | {"priority": 3})
    assert ask() == "n1"
    core.cluster.groups.put(a_gang("a", 1).build())
    assert ask() == "n0"
