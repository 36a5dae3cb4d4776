"""What each plugin of kube-scheduler costs over a whole cluster, by itself: medians, in one process, without any I/O.

    python -m benchmarks.plugins [--nodes 5000] [--pods 50000] [--rounds 100]

"new" is PreFilter, Filter, PreScore, Score and normalisation for a pod of a shape and with selectors that were never seen,
over the label keys that the cluster's workloads use; "again" is the next pod of that shape, after the one before was placed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from scheduler.model.label_tests import selector_of_labels
from scheduler.model.owners import Owner
from tests.builders import a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.plugin import Plugin
    from scheduler.model import Pod
    from tests.builders import PodBuilder

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = 500


def cluster(nodes: int, pods: int) -> Core:
    """Return a core with nodes in three zones and pods of 500 apps, one in ten with an anti-affinity to its own app."""
    profile = {"schedulerName": "ai-scheduler", "base": "kube-default"}
    core = Core(SchedulerConfiguration.model_validate({"profiles": [profile]}), lambda: 1e6, 0)
    for k in range(nodes):
        node = a_node(f"n{k:05}").cpu(64).memory("256Gi").label(ZONE, f"z{k % 3}").label(HOST, f"n{k:05}")
        core.cluster.set_node(node.build())
    for k in range(pods):
        app = k % APPS
        pod = a_pod(f"p{k}").cpu("100m").memory("64Mi").labels(app=f"app{app}", hash=f"h{app % 7}")
        if app % 10 == 0:
            pod.anti_affinity(HOST, app=f"app{app}", hash="none")
        core.cluster.set_pod(pod.on(f"n{(k * 7919) % nodes:05}").build())
    core.access.snapshot = core.cluster.snapshot()
    return core


def ask(plugin: Plugin, core: Core, pod: Pod) -> float:
    """Let a plugin go through one cycle; return the seconds of processor time."""
    nodes = core.access.snapshot.nodes
    began = time.process_time()
    state = CycleState()
    said = plugin.pre_filter(state, pod, nodes) if hasattr(plugin, "pre_filter") else None
    if not is_skip(said) and hasattr(plugin, "filter_all"):
        plugin.filter_all(state, pod, nodes).passes()
    if hasattr(plugin, "score_all"):
        said = plugin.pre_score(state, pod, nodes) if hasattr(plugin, "pre_score") else None
        if not is_skip(said):
            scores = plugin.score_all(state, pod, nodes)
            if hasattr(plugin, "normalize"):
                plugin.normalize(state, pod, scores)
    return time.process_time() - began


def is_skip(said: object) -> bool:
    """Tell whether a plugin leaves itself out."""
    return isinstance(said, Status) and said.code is Code.SKIP


def measure(plugin: Plugin, core: Core, rounds: int, shape: Callable[[int], PodBuilder]) -> tuple[float, float]:
    """Return the medians for new and for repeated shapes, in milliseconds."""
    snapshot = core.access.snapshot
    new, again = [], []
    for k in range(rounds):
        pods = [shape(k).uid(f"bench-{k}-{j}").build() for j in range(4)]
        new.append(ask(plugin, core, pods[0]))
        undo = [snapshot.place(pods[0], k)]
        for j in (1, 2, 3):
            again.append(ask(plugin, core, pods[j]))
            undo.append(snapshot.place(pods[j], k + j))
        for step in reversed(undo):
            step()
    return statistics.median(new) * 1000, statistics.median(again) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    core = cluster(options.nodes, options.pods)
    plugins = core.runtimes["ai-scheduler"].profile.plugins
    for k in range(APPS):
        owner = Owner(
            kind="Service", namespace="default", name=f"app{k}", selector=selector_of_labels({"app": f"app{k}"})
        )
        core.cluster.objects.put(owner)
    gc.collect()
    gc.freeze()

    def plain(k: int) -> PodBuilder:
        return a_pod(f"bench{k}").cpu(f"{100 + k}m").memory("64Mi").labels(app=f"app{k % APPS}", hash=f"h{k}")

    shapes: dict[str, Callable[[int], PodBuilder]] = {
        "plain": plain,
        "required affinity and anti-affinity": lambda k: (
            plain(k)
            .affinity(ZONE, app=f"app{k % APPS}", hash=f"h{k % 7}")
            .anti_affinity(HOST, app=f"app{(k + 1) % APPS}", hash=f"h{k % 7}")
        ),
        "preferred affinity": lambda k: plain(k).prefers_near(50, ZONE, app=f"app{k % APPS}"),
        "spread over zones and hosts": lambda k: (
            plain(k)
            .spread(ZONE, 1, app=f"app{k % APPS}", hash=f"h{k % 7}")
            .spread(HOST, 5, soft=True, app=f"app{k % APPS}")
        ),
    }
    print(f"{options.nodes} nodes, {options.pods} pods, {options.rounds} rounds; milliseconds, median")
    print(f"{'plugin':34} {'pod':38} {'new':>8} {'again':>8}   budgets")
    for name, plugin in plugins.items():
        if not any(hasattr(plugin, method) for method in ("filter_all", "score_all")):
            continue
        is_far = name in ("InterPodAffinity", "PodTopologySpread")
        for label, shape in shapes.items():
            if label == "plain" or is_far:
                ask(plugin, core, shape(options.rounds).build())
                new, again = measure(plugin, core, options.rounds, shape)
                budget = "0.50  0.15" if is_far else "0.05  0.05"
                print(f"{name:34} {label:38} {new:8.3f} {again:8.3f}   {budget}")


if __name__ == "__main__":
    main()
