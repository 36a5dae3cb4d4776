"""DefaultPreemption in the profile kube-default against kube-scheduler's own cases (data/preemption/SOURCE.md)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import msgspec
import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import Failure, PostFilterResult
from scheduler.model import Budget
from scheduler.model.api import LabelSelector
from scheduler.plugins.preemption.candidate import Candidate
from scheduler.plugins.preemption.runs import dry_runs
from tests.builders import EPOCH, a_node, a_pod

CASES = json.loads((Path(__file__).parent.parent / "data/preemption/kube_preemption_vectors.json").read_text())["cases"]
NOW = EPOCH + 1000.0


def plugin_of(case):
    """Return the plugin in a cluster as the case describes it, and the preemptor."""
    configuration = SchedulerConfiguration.model_validate(
        {"profiles": [{"schedulerName": "ai-scheduler", "base": "kube-default"}]}
    )
    core = Core(configuration, lambda: NOW, 0)
    for name, milli in case["nodes"].items():
        core.cluster.set_node(a_node(name).cpu(f"{milli}m").build())
    for entry in case["pods"]:
        builder = a_pod(entry["name"]).cpu(f"{entry['cpu_milli']}m").priority(entry["priority"])
        if "pdb" in entry:
            builder.label("app", entry["pdb"])
        start = entry["start"]
        pod = builder.on(entry["node"], started=start or 0.0).build()
        core.cluster.set_pod(pod if start is not None else msgspec.structs.replace(pod, started=None))
    for name, entry in case.get("pdbs", {}).items():
        core.cluster.budgets["default", name] = Budget(
            namespace="default", name=name, selector=LabelSelector(match_labels={"app": name}),
            disruptions_allowed=entry["allowed"], disrupted_pods=frozenset(entry.get("disrupted", ())),
        )  # fmt: skip
    core.access.snapshot = core.cluster.snapshot()
    asked = case["preemptor"]
    preemptor = a_pod("preemptor").cpu(f"{asked['cpu_milli']}m").priority(asked["priority"]).build()
    return core.runtimes["ai-scheduler"].profile.plugins["DefaultPreemption"], preemptor


def states(plugin, preemptor):
    """Return a state in which every Filter is asked, and one in which resources are counted: both have to say the same."""
    counting = CycleState()
    plugin.handle._runtimes["ai-scheduler"].pre_filter(counting, preemptor, plugin.handle.snapshot.nodes)
    assert plugin.handle.counting(counting, preemptor) is not None
    assert plugin.handle.counting(CycleState(), preemptor) is None
    return CycleState(), counting


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "select_node"], ids=lambda case: case["name"])
def test_node_is_one_that_kube_scheduler_picks(case):
    """The six criteria, in their order."""
    plugin, preemptor = plugin_of(case)
    nodes = plugin.handle.snapshot.nodes
    is_full = nodes.requested("cpu") + preemptor.requests["cpu"] > nodes.allocatable("cpu")
    assert is_full.all()
    for state in states(plugin, preemptor):
        found = plugin.post_filter(state, preemptor, Failure(nodes, resolvable=is_full))
        assert isinstance(found, PostFilterResult)
        assert found.nominations["uid-preemptor"] in case["expect_any_of"]


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "victims_per_node"], ids=lambda case: case["name"])
def test_victims_are_those_of_kube_scheduler(case):
    """Who goes on each node, and how many budgets break."""
    plugin, preemptor = plugin_of(case)
    handle = plugin.handle
    for state in states(plugin, preemptor):
        look = partial(handle.verdict, state, preemptor)
        runs = dry_runs(
            handle, preemptor, range(len(handle.snapshot.nodes)), look, counting=handle.counting(state, preemptor)
        )
        found = [outcome for _, outcome in runs if isinstance(outcome, Candidate)]
        assert {c.node_name: [sorted(v.name for v in c.victims), c.violations] for c in found} == {
            node: [sorted(victims), violations] for node, (victims, violations) in case["expect"].items()
        }
