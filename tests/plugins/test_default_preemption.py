"""DefaultPreemption in parity mode: who may preempt, whom budgets count, who is chosen, and the sentences.

Expected values follow kube-scheduler's `defaultpreemption` and `preemption` packages (1.37.2).
"""

from __future__ import annotations

import msgspec
import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import Failure, PostFilterResult
from scheduler.framework.status import Code, Reason, Status
from scheduler.model import Budget
from scheduler.model.api import Condition, LabelSelector
from scheduler.plugins.preemption.candidate import best_of
from scheduler.plugins.preemption.default import conclusion, ineligible
from scheduler.plugins.preemption.runs import dry_runs
from scheduler.plugins.preemption.victims import split_by_budget
from tests.builders import EPOCH, a_node, a_pod

NOW = EPOCH + 1000.0
PREEMPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
REFUSED = Status.unschedulable(Reason("Full", "Insufficient cpu"))
HOPELESS = Status.unresolvable(Reason("Never", "Insufficient gpu"))


def a_core(*pods, nodes=1):
    """Return a core with nodes of two CPUs and pods on them."""
    configuration = SchedulerConfiguration.model_validate({"profiles": [{"base": "kube-default"}]})
    core = Core(configuration, lambda: NOW, 0)
    for k in range(nodes):
        core.cluster.set_node(a_node(f"n{k}").cpu("2").build())
    for pod in pods:
        core.cluster.set_pod(pod)
    core.access.snapshot = core.cluster.snapshot()
    return core


def placed(name, node="n0", cpu="1", priority=0, started=0.0, **labels):
    """Return a pod on a node."""
    builder = a_pod(name).cpu(cpu).priority(priority)
    for key, value in labels.items():
        builder.label(key, value)
    return builder.on(node, started=started).build()


def preemptor(cpu="1", nominated=""):
    """Return an important pod that waits."""
    pod = a_pod("waits").cpu(cpu).priority(10).build()
    return msgspec.structs.replace(pod, nominated_node_name=nominated)


def leaving(pod, *conditions, is_terminating=True):
    """Return a pod whose deletion was asked for."""
    return msgspec.structs.replace(pod, is_terminating=is_terminating, conditions=conditions)


def budget(name, allowed, disrupted=(), **labels):
    """Return a budget."""
    selector = LabelSelector(match_labels=labels)
    return Budget(
        namespace="default", name=name, selector=selector, disruptions_allowed=allowed,
        disrupted_pods=frozenset(disrupted),
    )  # fmt: skip


def tried(core, pod, budgets=None):
    """Return what the dry runs say, by node."""
    access, names = core.access, core.access.snapshot.nodes.names

    def look(row):
        nodes = access.snapshot.nodes.select(access.snapshot.nodes.rows[row : row + 1])
        return core.runtimes["ai-scheduler"].filter(CycleState(), pod, nodes).status_at(0)

    runs = dry_runs(access, pod, range(len(names)), look, budgets=budgets)
    return {names[row]: outcome for row, outcome in runs}


@pytest.mark.parametrize(
    ("victim", "status", "is_eligible"),
    [
        (leaving(placed("low"), PREEMPTED), REFUSED, False),
        (leaving(placed("low"), PREEMPTED), HOPELESS, True),
        (leaving(placed("low")), REFUSED, True),
        (leaving(placed("low"), PREEMPTED, is_terminating=False), REFUSED, True),
        (leaving(placed("equal", priority=10), PREEMPTED), REFUSED, True),
        (leaving(placed("low"), msgspec.structs.replace(PREEMPTED, status="False")), REFUSED, True),
        (leaving(placed("low"), msgspec.structs.replace(PREEMPTED, reason="EvictionByEvictionAPI"), PREEMPTED), REFUSED, True),
    ],
)  # fmt: skip
def test_who_waits_for_victims_on_its_nominated_node_may_not_preempt_again(victim, status, is_eligible):
    """Unless evictions cannot help there any more; the first DisruptionTarget condition counts."""
    pod = preemptor(nominated="n0")
    core = a_core(victim, pod)
    why = ineligible(core.access, pod, status)
    assert why == ("" if is_eligible else "not eligible due to a terminating pod on the nominated node.")


def test_preemption_policy_never_is_told_first():
    """Whatever the nomination is."""
    pod = msgspec.structs.replace(preemptor(nominated="n0"), preemption_policy="Never")
    core = a_core(leaving(placed("low"), PREEMPTED), pod)
    assert ineligible(core.access, pod, REFUSED) == "not eligible due to preemptionPolicy=Never."


def test_a_pod_that_breaks_two_budgets_counts_once_and_charges_none_after_the_first():
    """Checking stops at the first broken budget, so the order of budgets decides what the next pod breaks."""
    first, second = placed("a", app="x", tier="y"), placed("b", tier="y")
    closed, one = budget("closed", 0, app="x"), budget("one", 1, tier="y")
    assert split_by_budget([first, second], [closed, one]) == ([first], [second])
    assert split_by_budget([first, second], [one, closed]) == ([first, second], [])


def test_a_budget_that_counted_the_pod_already_or_selects_nothing_is_not_charged():
    """disruptedPods, an empty selector, and pods without labels."""
    pod = placed("a", app="x")
    assert split_by_budget([pod], [budget("done", 0, disrupted=("a",), app="x")]) == ([], [pod])
    assert split_by_budget([pod], [budget("empty", 0)]) == ([], [pod])
    plain = msgspec.structs.replace(pod, labels={})
    assert split_by_budget([plain], [budget("none", 0, app="x")]) == ([], [plain])


def test_equally_important_victims_keep_the_order_of_their_node():
    """Not that of their names."""
    core = a_core(placed("b"), placed("a"))
    victims = tried(core, preemptor(cpu="2"))["n0"].victims
    assert [pod.name for pod in victims] == ["b", "a"]


def test_pods_that_break_budgets_are_reprieved_first_and_told_by_importance():
    """The younger pod breaks a budget, so the older one goes."""
    guarded, other = placed("guarded", started=50.0, app="x"), placed("other", started=10.0)
    core = a_core(guarded, other)
    found = tried(core, preemptor(cpu="1"), [budget("closed", 0, app="x")])["n0"]
    assert ([pod.name for pod in found.victims], found.violations) == (["other"], 0)
    found = tried(core, preemptor(cpu="2"), [budget("closed", 0, app="x")])["n0"]
    assert ([pod.name for pod in found.victims], found.violations) == (["other", "guarded"], 1)


def test_dry_runs_leave_the_snapshot_as_it_was():
    """Also where they found victims."""
    core = a_core(placed("b"), placed("a"))
    before = [(list(row.pods), dict(row.requested)) for row in core.access.snapshot.all_rows]
    tried(core, preemptor(cpu="2"))
    assert [(list(row.pods), dict(row.requested)) for row in core.access.snapshot.all_rows] == before


def test_all_candidates_that_tie_are_told_and_the_first_by_name_is_taken():
    """kube-scheduler draws one."""
    core = a_core(placed("a", "n1", "2"), placed("b", "n0", "2"), placed("c", "n2", "2", priority=5), nodes=3)
    candidates = list(tried(core, preemptor()).values())
    assert [candidate.node_name for candidate in best_of(candidates, NOW)] == ["n0", "n1"]
    plan = conclusion(preemptor(), 3, candidates, [], NOW)
    assert isinstance(plan, PostFilterResult)
    assert plan.message == "preemption: found a potential placement for pod on node n0, preempting 1 victims"


def test_the_sentence_counts_what_was_said_of_every_node():
    """Nodes without victims, nodes that stay too small, and those that were not tried."""
    core = a_core(placed("equal", "n0", "2", priority=10), placed("low", "n1", "1"), nodes=2)
    refused = tried(core, preemptor(cpu="3"))
    assert {node: status.code for node, status in refused.items()} == {
        "n0": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "n1": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    }
    status = conclusion(preemptor(), 5, [], refused.values(), NOW)
    assert isinstance(status, Status)
    assert status.message == (
        "preemption: 0/5 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_fits_beside_all_victims_is_an_error():
    """The dry run contradicts the refusal; kube-scheduler says so, once for each node."""
    core = a_core(placed("low", cpu="1"), placed("other", "n1", cpu="1"), nodes=2)
    refused = tried(core, preemptor())
    status = conclusion(preemptor(), 2, [], refused.values(), NOW)
    assert isinstance(status, Status)
    assert status.code is Code.ERROR
    said = [f'expected at least one victim pod on node "n{k}"' for k in range(2)]
    assert status.message == f"preemption: [{', '.join(said)}]"


def test_post_filter_tells_why_nobody_is_evicted():
    """Not eligible, no node at all, and nothing that helps."""
    pod = preemptor(nominated="n0")
    core = a_core(leaving(placed("low", cpu="2"), PREEMPTED), pod)
    plugin = core.runtimes["ai-scheduler"].profile.plugins["DefaultPreemption"]
    nodes = core.access.snapshot.nodes
    failure = Failure(nodes, [REFUSED])
    assert plugin.post_filter(CycleState(), pod, failure).message == (
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    core.cluster.nominate(pod.uid, "")
    assert isinstance(plugin.post_filter(CycleState(), pod, failure), PostFilterResult)
    assert plugin.post_filter(CycleState(), pod, Failure(nodes, [HOPELESS])).message == (
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    empty = a_core(nodes=0)
    plugin = empty.runtimes["ai-scheduler"].profile.plugins["DefaultPreemption"]
    assert plugin.post_filter(CycleState(), pod, Failure(empty.access.snapshot.nodes)).message == ""
