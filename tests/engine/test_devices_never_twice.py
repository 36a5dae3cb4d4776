"""Whatever happens, and in whatever order it is seen, no device is given twice, and what was given up comes back."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.builders import a_gang, a_node, a_pod
from tests.devices.cases import gpus, request

from .device_world import DeviceWorld, claim_of, claiming, node_slice, shared_claim

NODES = ("a", "b", "c")
EXTENDED = "example.com/gpu"


class Machine(RuleBasedStateMachine):
    """Pods, gangs and claims come and go; nodes and slices too; writes fail, and the watch of claims is late."""

    @initialize(count=st.integers(1, 3))
    def start(self, count: int) -> None:
        self.count = count
        self.made = 0
        classes = [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": EXTENDED}}]
        self.world = DeviceWorld(classes=classes)
        for node in NODES:
            self.world.add(a_node(node).cpu(64))
            self.publish(node, 1, is_shared=node == "c")

    def publish(self, node: str, generation: int, *, is_shared: bool) -> None:
        devices = gpus(self.count, **({"allowMultipleAllocations": True} if is_shared else {}))
        for each in devices if is_shared else ():
            each["capacity"] = {"memory": {"value": "4"}}
        self.world.publish(node_slice(node, *devices, generation=generation))

    def wish(self, kind: str) -> dict[str, Any]:
        wishes = {
            "one": request(),
            "two": request(count=2),
            "all": request(allocationMode="All"),
            "part": request(capacity={"requests": {"memory": "3"}}),
            "admin": request(adminAccess=True),
        }
        return wishes[kind]

    @rule(kind=st.sampled_from(["one", "one", "two", "part", "all", "admin"]), priority=st.integers(0, 1))
    def pod(self, kind: str, priority: int) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.world.claim(claim_of(name, self.wish(kind)))
        self.world.add(claiming(a_pod(name).cpu(1).priority(priority)))

    @rule(size=st.integers(2, 4), kind=st.sampled_from(["one", "part"]))
    def gang(self, size: int, kind: str) -> None:
        self.made += 1
        name = f"g{self.made}"
        self.world.add(a_gang(name, size))
        for i in range(size):
            pod = f"{name}x{i}"
            self.world.claim(claim_of(pod, self.wish(kind)))
            self.world.add(claiming(a_pod(pod).cpu(1).gang(name, size)))

    @rule(size=st.integers(1, 3), count=st.integers(1, 2), priority=st.integers(0, 1))
    def extended(self, size: int, count: int, priority: int) -> None:
        self.made += 1
        name = f"e{self.made}"
        if size > 1:
            self.world.add(a_gang(name, size))
        for i in range(size):
            pod = a_pod(f"{name}x{i}").cpu(1).priority(priority).request(EXTENDED, count)
            self.world.add(pod.gang(name, size) if size > 1 else pod)

    @rule(count=st.integers(2, 3))
    def sharers(self, count: int) -> None:
        self.made += 1
        self.world.claim(shared_claim(f"s{self.made}"))
        for i in range(count):
            self.world.add(claiming(a_pod(f"s{self.made}x{i}").cpu(1), f"s{self.made}"))

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        names = sorted(pod.name for pod in self.world.pods.values())
        if names:
            name = data.draw(st.sampled_from(names))
            self.world.remove(name)
            if f"default/{name}-gpu" in self.world.server.claims:
                self.world.delete_claim(f"{name}-gpu")
            self.world.collect_garbage()

    @rule(node=st.sampled_from(NODES), is_gone=st.booleans())
    def node_or_devices_go(self, node: str, *, is_gone: bool) -> None:
        if is_gone and node in self.world.nodes:
            self.world.remove_node(node)
        else:
            self.world.withdraw(f"slice-{node}")

    @rule(node=st.sampled_from(NODES), generation=st.integers(1, 3))
    def node_and_devices_come(self, node: str, generation: int) -> None:
        self.world.add(a_node(node).cpu(64))
        self.publish(node, generation, is_shared=node == "c")

    @rule(conflicts=st.integers(0, 7))
    def others_write(self, conflicts: int) -> None:
        self.world.server.conflicts = conflicts

    @rule(data=st.data())
    def writes_fail(self, data: st.DataObject) -> None:
        names = sorted(claim["metadata"]["name"] for claim in self.world.server.claims.values())
        self.world.broken = {data.draw(st.sampled_from(names))} if names else set()

    @rule(data=st.data())
    def bindings_fail(self, data: st.DataObject) -> None:
        waiting = sorted(self.world.waiting)
        if waiting:
            self.world.failing[data.draw(st.sampled_from(waiting))] = ["no"]

    @rule()
    def undoing_is_late(self) -> None:
        self.world.holds_releases = True

    @rule()
    def undoing_catches_up(self) -> None:
        self.world.let_release()

    @rule()
    def watch_is_late(self) -> None:
        self.world.is_blind = True

    @rule()
    def watch_catches_up(self) -> None:
        self.world.is_blind = False
        self.world.watch()

    @rule(seconds=st.sampled_from([0, 1, 30, 300]))
    def time_passes(self, seconds: int) -> None:
        self.world.wait(seconds)
        self.world.check_devices()

    @precondition(lambda self: hasattr(self, "world"))
    @rule()
    def everything_in_order(self) -> None:
        """With nothing in the way, whoever is placed has devices, and nobody else has any."""
        self.world.is_blind, self.world.broken, self.world.server.conflicts = False, set(), 0
        self.world.watch()
        self.world.let_release()
        self.world.wait(600)
        self.world.check_devices()
        placed = {pod.uid for pod in self.world.pods.values() if pod.node_name}
        for key, claim in self.world.server.claims.items():
            users = {each["uid"] for each in claim.get("status", {}).get("reservedFor", [])}
            known = {pod.uid for pod in self.world.pods.values()}
            assert users & known <= placed, (key, users - placed)
        for pod in self.world.pods.values():
            if pod.node_name:
                assert all(self.world.devices(use.claim_name or "") for use in pod.claims), pod.name
                claim = self.world.extended(pod.name)
                assert (EXTENDED in pod.requests) is (claim is not None), pod.name
                assert claim is None or self.world.devices(claim["metadata"]["name"]), pod.name


Machine.TestCase.settings = settings(
    max_examples=8, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDevicesAreNeverGivenTwice = Machine.TestCase
