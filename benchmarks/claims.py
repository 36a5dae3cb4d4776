"""What a decision about devices costs: pods that each claim some of the devices that nodes publish, in one process, without any I/O.

    python -m benchmarks.claims [--nodes 500] [--pods 2000] [--rounds 3] [--profile FILE]

All pods are there at once.  Claims are written as a cluster does it: the finalizer, then the allocation, and the engine hears of
both.  Decisions a second are of the processor time that the engine takes with inputs, decisions and effects; making the objects is not
in it.  The machine is shared as in `benchmarks.peers`: the best round counts.
"""

from __future__ import annotations

import argparse
import cProfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.config import default, parse
from scheduler.engine import inputs as i
from scheduler.engine.engine import Engine
from scheduler.framework.effects import AllocateClaim, BindPod, PrepareBinding
from scheduler.model.device_api import ApiDeviceClaim, ApiDeviceClass, ApiResourceSlice
from scheduler.model.device_claims import FINALIZER, DeviceClaim, device_claim_from_api
from scheduler.model.devices import device_class_from_api, device_slice_from_api
from tests.builders import a_gang, a_node, a_pod
from tests.devices.cases import gpus, request
from tests.engine.device_world import CLASSES, claim_of, claiming, node_slice, shared_claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.effects import Effect
    from scheduler.model import Pod

DEVICES = 8
GANG = 4
KUBE_DEFAULT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: ai-scheduler}]
"""


class Workload(NamedTuple):
    """Pods with claims: how the claims come about, how many `devices` each asks for, and how many pods are a gang."""

    name: str
    is_templated: bool
    devices: int = 1
    gang: int = 0
    configuration: str = ""


WORKLOADS = (
    Workload("claims that pods name", is_templated=False),
    Workload("claims from a template", is_templated=True),
    Workload("the same, kube-default", is_templated=True, configuration=KUBE_DEFAULT),
    Workload("2 devices each, from a template", is_templated=True, devices=2),
    Workload("gangs of 4 × 2 devices", is_templated=True, devices=2, gang=GANG),
)


class Bench:
    """An engine, nodes with devices, and claims that are written as soon as that is asked for."""

    def __init__(self, nodes: int, pods: int, workload: Workload) -> None:
        """Let nodes, devices and claims be seen."""
        configuration = parse(workload.configuration) if workload.configuration else default()
        self.engine = Engine(configuration, lambda: 1_000_000.0, 0, lambda _: None)
        self.seconds = 0.0
        self.profile: cProfile.Profile | None = None
        self.claims: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, Pod] = {}
        self.bound = 0
        inputs: list[i.Input] = [i.ObjectChanged(device_class_from_api(msgspec.convert(CLASSES[0], ApiDeviceClass)))]
        for turn in range(nodes):
            name = f"n{turn:04}"
            inputs.append(i.NodeChanged(a_node(name).cpu(64).memory("256Gi").build()))
            devices = msgspec.convert(node_slice(name, *gpus(DEVICES)), ApiResourceSlice)
            inputs.append(i.ObjectChanged(device_slice_from_api(devices)))
        for turn in range(pods):
            self._add_pod(f"p{turn:05}", turn, workload, inputs)
        for each in inputs:
            self.engine.handle(each)
        while self.engine.step():
            pass
        self.engine.take_effects()

    def _add_pod(self, name: str, turn: int, workload: Workload, inputs: list[i.Input]) -> None:
        wanted = request(count=workload.devices)
        pod = a_pod(name).cpu("100m").memory("128Mi")
        if workload.gang:
            group = f"g{turn // workload.gang}"
            pod.gang(group, workload.gang)
            if turn % workload.gang == 0:
                inputs.append(i.GangChanged(a_gang(group, workload.gang).build()))
        if workload.is_templated:
            manifest, pod = claim_of(name, wanted), claiming(pod)
        else:
            manifest, pod = shared_claim(f"{name}-gpu", wanted), claiming(pod, f"{name}-gpu")
        manifest["metadata"]["resourceVersion"] = "1"
        self.claims[f"default/{name}-gpu"] = manifest
        inputs.append(i.ObjectChanged(_claim(manifest)))
        self.pods[f"uid-{name}"] = pod.build()

    def run(self) -> None:
        """Let all pods be seen, and carry out what comes of it to the end."""
        self._timed([i.PodChanged(pod) for pod in self.pods.values()])
        while effects := self._decide():
            self._timed([each for effect in effects for each in self._said(effect)])

    def _timed(self, inputs: Sequence[i.Input]) -> None:
        began = self._begin()
        for each in inputs:
            self.engine.handle(each)
        self._end(began)

    def _decide(self) -> list[Effect]:
        effects: list[Effect] = []
        began, more = self._begin(), True
        while more and not effects:
            more = self.engine.step(1_000)
            effects = self.engine.take_effects()
        self._end(began)
        return effects

    def _begin(self) -> float:
        if self.profile is not None:
            self.profile.enable()
        return time.process_time()

    def _end(self, began: float) -> None:
        self.seconds += time.process_time() - began
        if self.profile is not None:
            self.profile.disable()

    def _said(self, effect: Effect) -> list[i.Input]:
        """Return what is heard after an effect was carried out."""
        if isinstance(effect, PrepareBinding):
            found: list[i.Input] = []
            for wanted in effect.effects:
                assert isinstance(wanted, AllocateClaim)
                found += [i.ObjectChanged(_claim(each)) for each in self._written(wanted)]
            return [*found, i.AwaitedDone(effect.pod.uid, effect.key, "")]
        if isinstance(effect, BindPod):
            self.bound += 1
            bound = msgspec.structs.replace(self.pods[effect.pod.uid], node_name=effect.node_name, shape=b"")
            return [i.BindingSucceeded(effect.pod.uid), i.PodChanged(bound)]
        return []

    def _written(self, wanted: AllocateClaim) -> list[dict[str, Any]]:
        """Return a claim as it is seen after each of the two writes."""
        known = self.claims[wanted.claim.label]
        with_finalizer = {**known, "metadata": {**known["metadata"], "finalizers": [FINALIZER], "resourceVersion": "2"}}
        given = {"allocation": wanted.allocation, "reservedFor": [wanted.consumer]}
        head = {**with_finalizer["metadata"], "resourceVersion": "3"}
        self.claims[wanted.claim.label] = allocated = {**with_finalizer, "metadata": head, "status": given}
        return [with_finalizer, allocated]


def _claim(manifest: dict[str, Any]) -> DeviceClaim:
    return device_claim_from_api(msgspec.convert(manifest, ApiDeviceClaim))


def measured(nodes: int, pods: int, workload: Workload, profile: cProfile.Profile | None = None) -> float:
    """Return decisions a second; RuntimeError unless all pods that there are devices for were bound, and no device twice."""
    bench = Bench(nodes, pods, workload)
    bench.profile = profile
    bench.run()
    given = [
        (each["pool"], each["device"])
        for claim in bench.claims.values()
        for each in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    if bench.bound != pods or len(set(given)) != len(given) or len(given) != pods * workload.devices:
        raise RuntimeError(f"{bench.bound} of {pods} pods were bound, with {len(set(given))} devices of {len(given)}")
    return pods / bench.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="workloads with this in their name alone")
    parser.add_argument("--profile", help="a file for what cProfile finds; slows down to about half")
    options = parser.parse_args(arguments)
    if options.pods % GANG:
        parser.error(
            f"--pods {options.pods} is not allowed; allowed are multiples of {GANG}, as some pods come in gangs"
        )
    profile = cProfile.Profile() if options.profile else None
    print(
        f"{options.pods} pods with claims, {options.nodes} nodes with {DEVICES} devices: decisions a second, best of rounds"
    )
    for workload in WORKLOADS:
        if options.only in workload.name:
            best = max(measured(options.nodes, options.pods, workload, profile) for _ in range(options.rounds))
            print(f"{workload.name:40} {best:9.0f} /s")
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
