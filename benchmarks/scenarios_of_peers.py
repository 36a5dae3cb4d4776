"""The shapes of kube-scheduler's performance suite, for the engine alone: pods a second, without any API server.

    python -m benchmarks.scenarios_of_peers [--nodes 5000] [--pods 500] [--sizes 100,1000,5000,15000] [--base ai-scheduler]

Each scenario has the name that kube-scheduler's `test/integration/scheduler_perf` gives it, in small: nodes of 4 cores and 32 GiB
with room for 110 pods, in three zones, ten pods on each, and then pods of 100 millicores and 500 MB, all waiting at once.  Beside
it stand the floor that kube-scheduler's CI holds (with its API server, at 5,000 nodes) and the goal here: ten times that, at most
5,000 a second.  `--sizes` measures plain pods, one after the other, at several sizes: what the growth of the cluster costs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from scheduler.config import SchedulerConfiguration
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import BindPod, EvictPod
from tests.builders import a_gang, a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.framework.effects import Effect
    from scheduler.model import Pod
    from tests.builders import PodBuilder

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
FOREIGN = "example.com/foo"
#: Ten times the floor is asked for, but no more than this many pods a second.
MOST_WANTED = 5000
PODS_PER_NODE = 10


class Suite:
    """An engine and its nodes, with ten pods on each."""

    def __init__(self, size: int, *, cores: int = 4, priority: int = 0, base: str = "kube-default") -> None:
        """Fill the engine, whose profile has a base."""
        profile = {"schedulerName": "ai-scheduler", "base": base}
        configuration = SchedulerConfiguration.model_validate({"profiles": [profile]})
        self.engine = Engine(configuration, lambda: 1_000_000.0, 0, lambda _: None)
        for k in range(size):
            node = a_node(f"n{k:05}").cpu(cores).memory("32Gi").pods(110).offer(FOREIGN, 100)
            self.engine.handle(i.NodeChanged(node.label(ZONE, f"z{k % 3}").label(HOST, f"n{k:05}").build()))
        model = a_pod("init").cpu("100m").memory("500M").priority(priority).on("n00000").build()
        for k in range(size * PODS_PER_NODE):
            name = f"init-{k}"
            pod = msgspec.structs.replace(model, uid=name, name=name, node_name=f"n{k % size:05}", shape=b"")
            self.engine.handle(i.PodChanged(pod))
        self.work()

    def put(self, pods: Iterable[Pod]) -> None:
        """Let pods be seen."""
        for pod in pods:
            self.engine.handle(i.PodChanged(pod))

    def work(self) -> list[Effect]:
        """Work to the end; return the effects."""
        while self.engine.step():
            pass
        return self.engine.take_effects()


@dataclass(frozen=True)
class Scenario:
    """A shape of pod, and the floor of kube-scheduler's suite in pods a second; None if it has none."""

    name: str
    floor: int | None
    shape: Callable[[int], PodBuilder]
    gang: int = 0
    #: What counts as success for a pod: a binding, an eviction for its sake, or a refusal.
    counts: type[Effect] | None = BindPod
    #: Before each tenth pod something else happens in the cluster.
    has_churn: bool = False
    cores: int = 4
    priority: int = 0


def plain(k: int) -> PodBuilder:
    """Return the suite's default pod."""
    return a_pod(f"measured-{k}").cpu("100m").memory("500M").labels(color="blue")


SCENARIOS = (
    Scenario("SchedulingBasic", 680, plain),
    Scenario("ExtendedResource", 180, lambda k: plain(k).request(FOREIGN, 1)),
    Scenario(
        "NodeAffinity",
        220,
        lambda k: plain(k).require(
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z0", "z1"]}], "matchFields": []}
        ),
    ),
    Scenario("TopologySpreading", 460, lambda k: plain(k).spread(ZONE, 5, color="blue")),
    Scenario("PreferredTopologySpreading", 340, lambda k: plain(k).spread(ZONE, 5, soft=True, color="blue")),
    Scenario("PodAffinity", 35, lambda k: plain(k).affinity(ZONE, color="blue")),
    Scenario("PodAntiAffinity", 60, lambda k: plain(k).labels(color="green").anti_affinity(HOST, color="green")),
    Scenario("PreferredPodAffinity", 90, lambda k: plain(k).prefers_near(1, HOST, color="blue")),
    Scenario("PreferredPodAntiAffinity", 90, lambda k: plain(k).prefers_near(-1, HOST, color="blue")),
    Scenario("MixedChurn", 710, plain, has_churn=True),
    Scenario("Unschedulable", 590, lambda k: plain(k).cpu(100), counts=None),
    Scenario("GangScheduling (of 3)", 525, plain, gang=3),
    Scenario("PreemptionBasic", None, lambda k: plain(k).cpu("500m").priority(10), counts=EvictPod, cores=1),
)


def rate(scenario: Scenario, size: int, count: int, base: str = "kube-default") -> float:
    """Return pods a second of processor time, from the first input to the last effect."""
    suite = Suite(size, cores=scenario.cores, priority=scenario.priority, base=base)
    pods, gangs = [], []
    if scenario.gang:
        for k in range(count // scenario.gang):
            name = f"gang-{k}"
            gangs.append(a_gang(name, scenario.gang).build())
            pods += [scenario.shape(k * scenario.gang + m).gang(name).build() for m in range(scenario.gang)]
    else:
        pods = [scenario.shape(k).build() for k in range(count)]
    warm = scenario.shape(count + 1).build()
    suite.put([warm])
    suite.work()
    gc.collect()
    effects: list[Effect] = []
    began = time.process_time()
    for gang in gangs:
        suite.engine.handle(i.GangChanged(gang))
    if scenario.has_churn:
        for k, pod in enumerate(pods):
            if k % 10 == 0:
                suite.engine.handle(i.PodRemoved(f"init-{k}"))
                suite.engine.handle(i.NodeChanged(a_node(f"churn-{k}").cpu(1).pods(1).cordoned().build()))
            suite.put([pod])
            effects += suite.work()
    else:
        suite.put(pods)
        effects += suite.work()
    seconds = time.process_time() - began
    wanted = scenario.counts
    done = len({e.pod.uid for e in effects if isinstance(e, wanted)}) if wanted is not None else len(pods)  # type: ignore[attr-defined]
    assert done >= len(pods) * 0.9, f"{scenario.name}: {done} of {len(pods)}"
    return len(pods) / seconds


def microseconds_per_pod(sizes: list[int], rounds: int) -> dict[int, float]:
    """Return the medians, by size, for one plain pod after the other, each bound before the next comes.

    Sizes take turns, so that a machine that changes its speed changes it for all of them.
    """
    suites = {size: Suite(size) for size in sizes}
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for k in range(rounds):
        for size, suite in suites.items():
            suite.put([plain(k).build()])
            began = time.process_time()
            effects = suite.work()
            times[size].append(time.process_time() - began)
            assert any(isinstance(effect, BindPod) for effect in effects)
    return {size: statistics.median(found) * 1e6 for size, found in times.items()}


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--sizes", default="100,1000,5000,15000", help="numbers of nodes for the growth per pod")
    parser.add_argument("--only", default="", help="part of the names of the scenarios to run")
    parser.add_argument(
        "--base", default="kube-default", choices=("kube-default", "ai-scheduler"), help="of the profile"
    )
    options = parser.parse_args(arguments)
    print(
        f"\nEngine alone, {options.nodes} nodes, {options.pods} pods after ten on each node, base {options.base}; pods a second"
    )
    print(f"{'scenario':28} {'engine':>8} {'floor':>8} {'goal':>8}")
    for scenario in SCENARIOS:
        if options.only in scenario.name:
            done = rate(scenario, options.nodes, options.pods, options.base)
            goal = min(10 * scenario.floor, MOST_WANTED) if scenario.floor is not None else 1000
            print(f"{scenario.name:28} {done:8.0f} {scenario.floor or '-':>8} {goal:8}", flush=True)
    print("\nOne plain pod after the other, ten pods on each node; microseconds, median")
    found = microseconds_per_pod([int(text) for text in options.sizes.split(",") if text], 100)
    for size, microseconds in found.items():
        print(f"{size:6} nodes {microseconds:8.0f}", flush=True)


if __name__ == "__main__":
    main()
