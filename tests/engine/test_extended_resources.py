"""Extended resources through a DeviceClass in the engine: who is served by devices, what is written for it, and how it is undone."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.framework.effects import BindPod, DeleteClaim, MakeClaim, PrepareBinding
from scheduler.model.device_claims import FINALIZER
from tests.builders import PodBuilder, a_gang, a_node, a_pod
from tests.devices.cases import gpus, request

from .device_world import DeviceWorld, claim_of, claiming, node_slice

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
CLASSES = [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}]


def world(*nodes: Any, count: int = 2, **options: Any) -> DeviceWorld:
    """Return nodes that offer no GPUs, with so many devices each."""
    made = nodes or (a_node("a").cpu(8), a_node("b").cpu(8))
    slices = [node_slice(node.manifest()["metadata"]["name"], *gpus(count)) for node in made]
    return DeviceWorld([node.copy() for node in made], slices=slices, **{"classes": CLASSES, **options})


def asking(name: str, count: int, resource: str = GPU) -> PodBuilder:
    """Return a pod whose container asks for some of a resource."""
    return a_pod(name).cpu(1).request(resource, count)


def devices_of(made: DeviceWorld, pod: str) -> list[str]:
    """Return the devices of a pod, as pool/device."""
    claim = made.extended(pod)
    return made.devices(claim["metadata"]["name"]) if claim is not None else []


def test_a_limit_without_a_request_counts_as_one() -> None:
    """As the API server defaults it; manifests that no API server has seen have the limit alone."""
    made = world().add(a_pod("p").cpu(1).limit(GPU, 2), a_pod("large").cpu(1).limit(GPU, 3)).run()
    assert devices_of(made, "p") == [f"{made.node_of('p')}/gpu-0", f"{made.node_of('p')}/gpu-1"]
    assert made.node_of("large") == ""


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_a_pod_gets_devices_for_an_extended_resource(resource: str) -> None:
    """By the name that the class gives, or by the one that it has anyway: a claim is made, allocated and reserved, and the pod says so."""
    made = world().add(asking("p", 2, resource)).run()
    node = made.node_of("p")
    claim = made.extended("p")
    assert claim is not None
    meta = claim["metadata"]
    assert meta["generateName"] == "p-extended-resources-"
    assert meta["name"].startswith("p-extended-resources-")
    assert meta["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made.pod("p").uid, "controller": True}
    ]
    assert meta["finalizers"] == [FINALIZER]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert claim["spec"] == {"devices": {"requests": [{"name": "container-0-request-1", "exactly": exactly}]}}
    assert devices_of(made, "p") == [f"{node}/gpu-0", f"{node}/gpu-1"]
    assert made.reserved(meta["name"]) == ["p"]
    mapping = {"containerName": "main", "resourceName": resource, "requestName": "container-0-request-1"}
    told = {"resourceClaimName": meta["name"], "requestMappings": [mapping]}
    assert made.server.pod_statuses["p"] == {"extendedResourceClaimStatus": told}


def test_a_node_with_a_device_plugin_serves_as_before() -> None:
    """No claim is made; what it offers is counted, and the next pod goes where devices are."""
    made = world(a_node("plugin").cpu(64).offer(GPU, 2), a_node("devices").cpu(64), count=0)
    made.publish(node_slice("devices", *gpus(2), generation=2))
    made.add(asking("p", 2), asking("q", 2)).run()
    assert sorted(made.placed.values()) == ["devices", "plugin"]
    served = {made.node_of(name): devices_of(made, name) for name in ("p", "q")}
    assert served == {"plugin": [], "devices": ["devices/gpu-0", "devices/gpu-1"]}
    made.add(asking("r", 1)).wait(5)
    assert "r" not in made.placed


def test_a_node_that_has_one_resource_of_two_needs_devices_for_the_other_only() -> None:
    """What the device plugin offers is asked of it."""
    made = world(a_node("a").cpu(8).offer("example.com/nic", 1))
    made.tell_class("nic", "example.com/nic")
    made.add(asking("p", 1).request("example.com/nic", 1)).run()
    claim = made.extended("p")
    assert claim is not None
    assert [each["exactly"]["deviceClassName"] for each in claim["spec"]["devices"]["requests"]] == ["gpu"]


def test_devices_are_used_up_and_come_back() -> None:
    """The third pod waits until one ends and its claim is collected."""
    made = world(count=1).add(asking("p", 1), asking("q", 1), asking("r", 1)).run()
    assert len(made.placed) == 2
    (left,) = made.waiting
    assert made.pending(left).message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    made.remove(next(iter(made.placed))).collect_garbage().wait(60)
    assert left in made.placed


def test_a_pod_waits_until_a_class_stands_for_its_resource() -> None:
    """Nothing offers it before; then devices do."""
    made = world(classes=[]).add(asking("p", 1)).wait(5)
    assert made.pending("p").message.startswith(f"0/2 nodes are available: 2 Insufficient {GPU}.")
    made.tell_class("gpu", GPU)
    made.wait(60)
    assert "p" in made.placed


def test_a_resource_that_nothing_serves_keeps_a_pod_off_nodes_with_devices() -> None:
    """Both plugins say so."""
    made = world().add(asking("p", 1).request("example.com/fpga", 1)).wait(5)
    assert "Insufficient example.com/fpga" in made.pending("p").message


def test_what_is_not_seen_yet_is_not_given_twice() -> None:
    """Though the watch of claims is late for all of them, and the pods are bound."""
    made = world(count=1)
    made.is_blind = True
    made.add(asking("p", 1), asking("q", 1)).run()
    assert len(made.placed) == 2
    made.add(asking("r", 1)).wait(30)
    assert "r" not in made.placed


def test_a_claim_that_cannot_be_written_is_deleted() -> None:
    """And the pod is placed again, with a claim of another name."""
    made = world()
    made.broken = {"p"}
    made.add(asking("p", 2)).run()
    first = next(e for e in made.effects if isinstance(e, PrepareBinding)).effects[0]
    assert isinstance(first, MakeClaim)
    assert [e.claim for e in made.effects if isinstance(e, DeleteClaim)] == [first.claim]
    assert not made.server.claims
    made.broken = set()
    made.wait(60)
    claim = made.extended("p")
    assert claim is not None
    assert claim["metadata"]["name"] != first.claim.name
    assert devices_of(made, "p")


def test_a_binding_that_fails_deletes_the_claim() -> None:
    """Devices count as taken until that is heard of; then the pod is placed again."""
    made = world(a_node("a").cpu(8), count=1)
    made.failing["p"] = ["no"]
    made.holds_releases = True
    made.add(asking("p", 1)).wait(5)
    assert not made.placed
    made.add(asking("q", 1)).wait(5)
    assert not made.placed
    made.let_release()
    made.wait(120)
    assert len(made.placed) == 1


def left_over() -> dict[str, Any]:
    """Return a claim that an earlier process made for a pod's extended resources."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": a_pod("p").build().uid, "controller": True}
    old = claim_of("p", request(name="container-0-request-1"), name="p-extended-resources-old")
    old["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    taken = {"request": "container-0-request-1", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
    old["status"] = {"allocation": {"devices": {"results": [taken]}}}
    return old


def test_a_claim_of_an_earlier_process_is_deleted_before_its_pod_is_placed() -> None:
    """It may hold devices of a node where the pod cannot be."""
    made = world(a_node("a").cpu(8), count=1)
    made.claim(left_over()).add(asking("p", 1)).wait(60)
    claim = made.extended("p")
    assert claim is not None
    assert claim["metadata"]["name"] != "p-extended-resources-old"
    assert made.node_of("p") == "a"


def test_nothing_is_deleted_for_a_pod_whose_other_claims_cannot_be_served() -> None:
    """As upstream, whose PostFilter knows of no claims after PreFilter has refused: here for a class that is not there."""
    made = world(a_node("a").cpu(8), count=2).claim(left_over())
    made.claim(claim_of("p", request(deviceClassName="nic")))
    made.add(claiming(asking("p", 1))).wait(60)
    assert "device class nic does not exist" in made.pending("p").message
    assert "deletion of ResourceClaim" not in made.pending("p").message
    assert "default/p-extended-resources-old" in made.server.claims
    made.tell_class("nic", "example.com/nic")
    made.wait(60)
    assert made.node_of("p") == "a"
    assert "default/p-extended-resources-old" not in made.server.claims


def test_a_gang_gets_all_its_devices_or_none() -> None:
    """Members that are placed together count, though no claim is made yet."""
    made = world().add(a_gang("job", 5))
    made.add(asking("w", 1).gang("job", 5).times(5)).run()
    assert not made.placed
    made.remove("w-4").add(a_gang("job", 4)).wait(60)
    devices = [device for index in range(4) for device in devices_of(made, f"w-{index}")]
    assert len(set(devices)) == 4


def test_extended_resources_and_claims_are_served_together() -> None:
    """Of the two devices of each node, one is for the claim; nobody gets one twice."""
    made = world(a_node("a").cpu(8)).claim(claim_of("p", request()))
    made.add(claiming(asking("p", 1))).run()
    assert sorted([*made.devices("p-gpu"), *devices_of(made, "p")]) == ["a/gpu-0", "a/gpu-1"]
    made.claim(claim_of("q", request()))
    made.add(claiming(asking("q", 1))).wait(5)
    assert "q" not in made.placed


@pytest.mark.parametrize(("base", "is_evicted"), [("ai-scheduler", True), ("kube-default", False)])
def test_preemption_counts_on_devices_of_victims_in_our_profile_alone(base: str, *, is_evicted: bool) -> None:
    """As with claims that people make."""
    profile = {"schedulerName": "ai-scheduler", "base": base}
    configuration = SchedulerConfiguration.model_validate({"profiles": [profile]})
    made = world(a_node("a").cpu(8), count=1, configuration=configuration)
    made.add(asking("low", 1)).run()
    assert "low" in made.placed
    made.add(asking("high", 1).priority(10)).wait(5)
    assert ("low" not in {pod.name for pod in made.pods.values()}) is is_evicted
    made.collect_garbage().wait(60)
    assert ("high" in made.placed) is is_evicted


def test_every_binding_comes_after_its_claim() -> None:
    """The effects of PreBind stand before the binding."""
    made = world().add(asking("p", 1)).run()
    kinds = [type(effect) for effect in made.effects if isinstance(effect, PrepareBinding | BindPod)]
    assert kinds == [PrepareBinding, BindPod]
