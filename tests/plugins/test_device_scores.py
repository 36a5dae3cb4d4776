"""Scores of nodes for claims: how well the devices are linked that the allocator would take there."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config import SchedulerConfiguration
from tests.builders import a_node, a_pod
from tests.devices.cases import either, request
from tests.engine.device_world import DeviceWorld, claim_of, claiming, node_slice, shared_claim

V100 = "Tesla V100-SXM2-32GB"


def dgx1(name: str, count: int = 8, product: str = V100) -> dict[str, Any]:
    """The slice of a DGX-1 with V100, where 0-3, 0-4, 1-2, 1-5, 2-3, 4-7, 5-6 and 6-7 have two NVLinks, and 0-5 for one has none."""
    devices = [
        {"name": f"g{i}", "attributes": {"index": {"int": i}, "productName": {"string": product}}} for i in range(8)
    ]
    return node_slice(name, *devices[:count])


def world(*slices: dict[str, Any], base: str = "ai-scheduler") -> DeviceWorld:
    """Return a node for each slice, named as its pool, without anything else that tells them apart."""
    profile = {"schedulerName": "ai-scheduler", "base": base}
    nodes = [a_node(each["spec"]["pool"]["name"]).cpu(64).memory("64Gi") for each in slices]
    configuration = SchedulerConfiguration.model_validate({"profiles": [profile]})
    return DeviceWorld(*nodes, slices=slices, configuration=configuration)


def take(made: DeviceWorld, node: str, *devices: str) -> None:
    """Let somebody have devices of a node."""
    has = [{"request": "r", "driver": "gpu.example.com", "pool": node, "device": each} for each in devices]
    made.claim(shared_claim(f"taken-{node}", has=has))


def node_for(made: DeviceWorld, *requests: dict[str, Any]) -> str:
    """Return where a pod goes that asks for devices."""
    made.claim(claim_of("p", *requests))
    made.add(claiming(a_pod("p").cpu(1))).run()
    node: str = made.node_of("p")
    return node


@pytest.mark.parametrize(("good", "bad"), [("a", "b"), ("b", "a")])
def test_a_pod_goes_where_its_devices_are_linked_best(good: str, bad: str) -> None:
    """Of two machines with two free GPUs each, one has them joined by two NVLinks, the other by none."""
    made = world(dgx1("a"), dgx1("b"))
    take(made, good, *(f"g{i}" for i in (1, 2, 4, 5, 6, 7)))
    take(made, bad, *(f"g{i}" for i in (1, 2, 3, 4, 6, 7)))
    assert node_for(made, request(count=2)) == good


def test_a_pod_for_one_device_goes_where_little_is_lost() -> None:
    """An odd GPU is taken before an empty machine is broken, whichever is listed first."""
    for odd in ("a", "b"):
        made = world(dgx1("a"), dgx1("b"))
        take(made, odd, *(f"g{i}" for i in range(1, 8)))
        assert node_for(made, request()) == odd


def test_the_first_choice_comes_before_links() -> None:
    """A machine that has it is taken though its GPUs are not joined."""
    made = world(dgx1("a"), dgx1("b", product="Tesla V100-SXM2-16GB"))
    take(made, "b", *(f"g{i}" for i in (1, 2, 3, 4, 6, 7)))
    wanted = 'device.attributes["gpu.example.com"].productName == "Tesla V100-SXM2-16GB"'
    assert node_for(made, either(request("first", count=2, where=wanted), request("second", count=2))) == "b"


def test_a_machine_that_is_known_comes_before_one_of_which_nothing_is_told() -> None:
    """Whatever is free there: nothing is known of its links."""
    for known, other in (("a", "b"), ("b", "a")):
        made = world(*sorted((dgx1(known), dgx1(other, product="unheard of")), key=lambda s: s["metadata"]["name"]))
        assert node_for(made, request(count=2)) == known


def test_the_profile_of_kube_scheduler_looks_at_alternatives_alone() -> None:
    """Its scores are those of upstream: equal for all nodes, so that the fixed rule for ties decides wherever links are."""
    chosen = set()
    for good, bad in (("a", "b"), ("b", "a")):
        made = world(dgx1("a"), dgx1("b"), base="kube-default")
        take(made, good, *(f"g{i}" for i in (1, 2, 4, 5, 6, 7)))
        take(made, bad, *(f"g{i}" for i in (1, 2, 3, 4, 6, 7)))
        chosen.add(node_for(made, request(count=2)))
    assert len(chosen) == 1
