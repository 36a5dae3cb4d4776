"""DynamicResources in the engine: pods and gangs get devices, writes that fail are undone, and no device is given twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.framework.effects import BindPod, ReleaseClaim
from scheduler.model.dialects.native import NATIVE
from scheduler.topology import GPUS_ANNOTATION
from tests.builders import PodBuilder, a_gang, a_node, a_pod
from tests.devices.cases import either, gpus, request

from .device_world import DeviceWorld, claim_of, claiming, node_slice, shared_claim

if TYPE_CHECKING:
    from scheduler.model.gang import Gang

TWO = [a_node("a").cpu(8), a_node("b").cpu(8)]


def with_profile(base: str) -> SchedulerConfiguration:
    """Return a configuration with one profile."""
    return SchedulerConfiguration.model_validate({"profiles": [{"schedulerName": "ai-scheduler", "base": base}]})


def world(*, count: int = 2, nodes: Any = None, **options: Any) -> DeviceWorld:
    """Return two nodes with some devices each."""
    made = TWO if nodes is None else nodes
    slices = [node_slice(node.manifest()["metadata"]["name"], *gpus(count)) for node in made]
    return DeviceWorld([node.copy() for node in made], slices=slices, **options)


def one_pod(made: DeviceWorld, name: str, *requests: dict[str, Any], **more: Any) -> DeviceWorld:
    """Bring a pod with a claim from a template."""
    made.claim(claim_of(name, *requests, **more))
    made.add(claiming(a_pod(name).cpu(1)))
    return made


def test_a_pod_gets_its_devices_before_it_is_bound() -> None:
    """The claim is allocated for the node, protected, and reserved for the pod."""
    made = one_pod(world(), "p", request(count=2)).run()
    node = made.node_of("p")
    assert made.devices("p-gpu") == [f"{node}/gpu-0", f"{node}/gpu-1"]
    assert made.reserved("p-gpu") == ["p"]
    claim = made.server.claims["default/p-gpu"]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["allocation"]["allocationTimestamp"]


def test_a_pod_waits_until_its_claim_is_made() -> None:
    """Gated, and let in when the claim is there."""
    made = world().add(claiming(a_pod("p").patch_status())).wait(5)
    made.add(claiming("p")).wait(5)
    assert not made.placed
    made.claim(claim_of("p")).run()
    assert made.placed.keys() == {"p"}


def test_a_claim_of_another_pod_is_not_taken() -> None:
    """Though it has the right name."""
    made = world().claim(claim_of("p", owner="uid-of-another")).add(claiming("p")).wait(5)
    assert not made.placed
    assert made.pending("p").message == (
        "ResourceClaim default/p-gpu was not created for Pod default/p (Pod is not owner)"
    )


def test_devices_are_used_up_and_come_back() -> None:
    """The third pod waits until a claim is gone."""
    made = world(count=1)
    for name in "pqr":
        one_pod(made, name)
    made.run()
    assert len(made.placed) == 2
    left = next(iter(made.waiting))
    assert made.pending(left).message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    gone = next(iter(made.placed))
    made.remove(gone).delete_claim(f"{gone}-gpu").wait(60)
    assert left in made.placed


@pytest.mark.parametrize("size", [4, 5])
def test_a_gang_gets_all_its_devices_or_none(size: int) -> None:
    """Its claims are allocated together, also before any of them is written."""
    made = world().add(a_gang("job", size))
    for pod in claiming(a_pod("w").gang("job", size)).times(size):
        name = pod.manifest()["metadata"]["name"]
        made.claim(claim_of(name))
        made.add(claiming(pod))
    made.run()
    assert len(made.placed) == (4 if size == 4 else 0)
    assert sum(len(made.devices(f"w-{i}-gpu")) for i in range(size)) == len(made.placed)


def test_members_of_a_gang_do_not_take_each_others_only_choice() -> None:
    """A member that would do with any device leaves the only H100 to the one that needs it, whoever comes first."""
    devices = [
        {"name": "x", "attributes": {"model": {"string": "H100"}}},
        {"name": "y", "attributes": {"model": {"string": "A100"}}},
    ]
    made = DeviceWorld(a_node("a").cpu(8), slices=[node_slice("a", *devices)]).add(a_gang("job", 2))
    picky = request(where='device.attributes["gpu.example.com"].model == "H100"')
    for name, wanted in (("any", request()), ("picky", picky)):
        made.claim(claim_of(name, wanted))
        made.add(claiming(a_pod(name).gang("job", 2)))
    made.run()
    assert (made.devices("any-gpu"), made.devices("picky-gpu")) == (["a/y"], ["a/x"])


def test_a_shared_claim_keeps_its_pods_on_its_node() -> None:
    """Whoever comes first has it allocated; it is reserved for each, and a gang that shares one stays together."""
    made = world().claim(shared_claim("both", request(count=2))).add(a_gang("job", 2))
    made.add(claiming(a_pod("w").gang("job", 2).cpu(3), "both").times(2)).run()
    assert len(set(made.placed.values())) == 1
    assert sorted(made.reserved("both")) == ["w-0", "w-1"]
    made.add(claiming(a_pod("late").cpu(1), "both")).run()
    assert made.placed["late"] == made.placed["w-0"]
    made.add(claiming(a_pod("large").cpu(7), "both")).run()
    assert "large" not in made.placed


def test_a_claim_that_was_changed_meanwhile_is_read_again() -> None:
    """A conflict is no failure."""
    made = one_pod(world(), "p")
    made.server.conflicts = 2
    made.run()
    assert made.devices("p-gpu")


def test_a_claim_that_somebody_else_allocates_meanwhile_is_left_to_him() -> None:
    """The pod is placed where the claim is then; nothing of the other's is undone."""
    made = one_pod(world(nodes=[a_node("a").cpu(8), a_node("b").cpu(8), a_node("c").cpu(8)]), "p")
    made.is_blind = True
    claim = claim_of("p", has=[{"request": "r", "driver": "gpu.example.com", "pool": "c", "device": "gpu-1"}])
    only_c = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [only_c]}
    made.server.store(claim)
    made.run()
    assert not made.placed
    made.is_blind = False
    made.watch()
    made.wait(60)
    assert made.placed == {"p": "c"}
    assert made.devices("p-gpu") == ["c/gpu-1"]


def test_a_pod_whose_second_claim_cannot_be_written_gives_the_first_one_back() -> None:
    """Allocation and reservation are undone; its devices are free for others at once."""
    made = (
        world(count=1, nodes=[a_node("a").cpu(8)])
        .claim(shared_claim("one"))
        .claim(shared_claim("two", request(count=1, adminAccess=True)))
    )
    made.broken = {"two"}
    made.add(claiming("p", "one", "two")).run()
    assert not made.placed
    assert [effect.claim.name for effect in made.of(ReleaseClaim)] == ["one", "two"]
    assert (made.devices("one"), made.reserved("one")) == ([], [])
    one_pod(made, "q").run()
    assert made.devices("q-gpu") == ["a/gpu-0"]


def test_devices_count_as_taken_until_it_is_seen_that_they_were_given_back() -> None:
    """What was written may still stand: nobody else gets the device before the undoing is done, and seen."""
    made = one_pod(world(count=1, nodes=[a_node("a").cpu(8)]).claim(claim_of("q")), "p")
    made.failing["p"] = ["no"]
    made.holds_releases = made.is_blind = True
    made.run().remove("p")
    made.add(claiming("q"))
    made.wait(20)
    assert not made.placed
    made.let_release()
    made.wait(20)
    assert not made.placed  # it is done, but not seen
    made.is_blind = False
    made.watch()
    made.wait(60)
    assert made.devices("q-gpu") == ["a/gpu-0"]


def test_a_binding_that_fails_gives_the_devices_back() -> None:
    """And the pod is placed again, with devices of another node if need be."""
    made = one_pod(world(), "p")
    made.failing["p"] = ["node is gone"]
    made.wait(60)
    assert made.devices("p-gpu") == [f"{made.placed['p']}/gpu-0"]
    assert made.reserved("p-gpu") == ["p"]


def test_what_is_not_seen_yet_is_not_given_twice() -> None:
    """The watch is late by hours: what was decided counts meanwhile."""
    made = world(count=1)
    made.is_blind = True
    for name in "pqr":
        made.is_blind = False
        one_pod(made, name)
        made.is_blind = True
        made.run()
    assert len(made.placed) == 2
    made.is_blind = False
    made.watch()
    made.run()
    assert len(made.placed) == 2


def test_the_first_choice_decides_between_nodes() -> None:
    """A node that has the first alternative scores more."""
    slices = [
        node_slice("a", {"name": "old", "attributes": {"model": {"string": "A100"}}}),
        node_slice("b", {"name": "new", "attributes": {"model": {"string": "H100"}}}),
    ]
    made = DeviceWorld(a_node("a").cpu(8), a_node("b").cpu(8), slices=slices)
    models = [request(m, where=f'device.attributes["gpu.example.com"].model == "{m}"') for m in ("H100", "A100")]
    one_pod(made, "p", either(*models)).run()
    assert made.placed == {"p": "b"}
    one_pod(made, "q", either(*models)).run()
    assert made.placed["q"] == "a"


def test_devices_that_are_made_ready_first_are_waited_for() -> None:
    """The pod is bound when the driver says so; a failure gives everything back."""
    slow = [
        {"name": f"d{i}", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]} for i in range(2)
    ]
    made = DeviceWorld(a_node("a").cpu(8), slices=[node_slice("a", *slow)])
    for name in "pq":
        one_pod(made, name)
    made.run()
    assert not made.placed
    assert made.devices("p-gpu")
    _say(made, "p", "attached")
    made.run()
    assert made.placed == {"p": "a"}
    _say(made, "q", "broken")
    made.run()
    assert made.devices("q-gpu") == []


def _say(made: DeviceWorld, pod: str, condition: str) -> None:
    claim = made.server.claims[f"default/{pod}-gpu"]
    device = claim["status"]["allocation"]["devices"]["results"][0]
    status = {key: device[key] for key in ("driver", "pool", "device")}
    conditions = [{"type": condition, "status": "True", "reason": "Because", "message": "so"}]
    made.claim({**claim, "status": {**claim["status"], "devices": [{**status, "conditions": conditions}]}})


def test_a_claim_that_is_of_no_use_on_any_node_is_taken_back() -> None:
    """Its node is gone: the allocation is dropped, and the pod gets devices elsewhere."""
    made = world()
    claim = claim_of("p", has=[{"request": "r", "driver": "gpu.example.com", "pool": "z", "device": "gpu-0"}])
    only_z = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [only_z]}
    made.claim(claim).add(claiming("p")).wait(60)
    assert made.placed.keys() == {"p"}
    assert made.devices("p-gpu") == [f"{made.placed['p']}/gpu-0"]


def native_group(minimum: int, *claims: dict[str, str]) -> Gang:
    """Return what a native PodGroup tells that lists claims."""
    (source, *_) = NATIVE.sources
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "resourceClaims": list(claims)}
    manifest = {"metadata": {"name": "job", "namespace": "default", "uid": "uid-of-job"}, "spec": spec}
    (gang,) = source.read(msgspec.convert(manifest, source.api_type))
    return gang


def in_group(pod: PodBuilder) -> PodBuilder:
    """A pod of that group."""
    return pod.patch_spec(schedulingGroup={"podGroupName": "job"})


def test_a_claim_that_a_pod_group_lists_is_reserved_for_the_group() -> None:
    """Once, for all its pods; a claim that the pods alone name is reserved for each."""
    listed = {"name": "both", "resourceClaimName": "both"}
    made = world().claim(shared_claim("both", request(count=1))).claim(shared_claim("own", request(count=1)))
    made.add(native_group(2, listed), in_group(claiming(a_pod("w").cpu(1), "both", "own")).times(2)).run()
    assert len(made.placed) == 2
    assert made.reserved("both") == ["job"]
    assert made.server.claims["default/both"]["status"]["reservedFor"] == [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "job", "uid": "uid-of-job"}
    ]
    assert sorted(made.reserved("own")) == ["w-0", "w-1"]


@pytest.mark.parametrize(
    "listed", [{"name": "other", "resourceClaimName": "both"}, {"name": "both", "resourceClaimTemplateName": "both"}]
)
def test_an_entry_that_is_not_exactly_the_pods_lists_nothing(listed: dict[str, str]) -> None:
    """Name, claim and template have to be equal, as in kube-scheduler's `BindTo`."""
    made = world().claim(shared_claim("both"))
    made.add(native_group(2, listed), in_group(claiming(a_pod("w").cpu(1), "both")).times(2)).run()
    assert sorted(made.reserved("both")) == ["w-0", "w-1"]


def test_a_claim_of_a_group_that_is_of_no_use_is_taken_back_while_no_pod_of_it_runs() -> None:
    """Its node is gone; else the group would wait for ever."""
    claim = shared_claim("both", has=[{"request": "r", "driver": "gpu.example.com", "pool": "z", "device": "gpu-0"}])
    only_z = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [only_z]}
    claim["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "job", "uid": "uid-of-job"}
    ]
    made = world().claim(claim).add(native_group(2, {"name": "both", "resourceClaimName": "both"}))
    made.add(in_group(claiming(a_pod("w").cpu(1), "both")).times(2)).wait(60)
    assert len(made.placed) == 2
    assert made.reserved("both") == ["job"]


def test_a_claim_that_alone_kept_its_pod_off_a_node_is_taken_back() -> None:
    """Though it could be used on another node, where the pod has no room: kube-scheduler does the same."""
    made = world(nodes=[a_node("a").cpu(8), a_node("b").cpu(1)])
    claim = claim_of("p", has=[{"request": "r", "driver": "gpu.example.com", "pool": "b", "device": "gpu-0"}])
    only_b = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [only_b]}
    made.claim(claim).add(claiming(a_pod("p").cpu(2))).wait(60)
    assert (made.placed, made.devices("p-gpu")) == ({"p": "a"}, ["a/gpu-0"])


def test_a_claim_is_kept_where_other_plugins_refuse_its_pod_first() -> None:
    """No node was refused for the claim's sake, so giving it up would help nobody."""
    made = world(nodes=[a_node("a").cpu(1)])
    claim = claim_of("p", has=[{"request": "r", "driver": "gpu.example.com", "pool": "z", "device": "gpu-0"}])
    only_z = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z"]}]}
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [only_z]}
    made.claim(claim).add(claiming(a_pod("p").cpu(2))).wait(60)
    assert made.devices("p-gpu") == ["z/gpu-0"]


def test_an_expression_that_fails_only_where_others_refuse_the_node_costs_nothing() -> None:
    """kube-scheduler asks DynamicResources last, so it never hears of it."""
    nodes = [a_node("a").cpu(8), a_node("small").cpu(1)]
    slices = [node_slice("a", *gpus(1, model="H100")), node_slice("small", *gpus(1))]
    made = DeviceWorld([node.copy() for node in nodes], slices=slices)
    made.claim(claim_of("p", request(where='device.attributes["gpu.example.com"].model == "H100"')))
    made.add(claiming(a_pod("p").cpu(2))).run()
    assert made.placed == {"p": "a"}


def test_slices_that_contradict_each_other_give_nothing_and_lose_no_pod() -> None:
    """The node says so, others serve, and the pod is placed there when its driver has put things right."""
    twice = [{"name": "gpu-0"}, {"name": "gpu-0"}]
    made = one_pod(DeviceWorld(a_node("a").cpu(8), slices=[node_slice("a", *twice)]), "p").run()
    assert "1 invalid resource pools were encountered" in made.pending("p").message
    made.publish(node_slice("a", *gpus(1), generation=2)).wait(60)
    assert (made.placed, made.devices("p-gpu")) == ({"p": "a"}, ["a/gpu-0"])


def test_devices_that_vanish_before_they_are_given_are_not_given() -> None:
    """The pod waits, and gets them when they are back."""
    made = one_pod(world(count=1, nodes=[a_node("a").cpu(8)]), "p", request(count=2)).run()
    made.withdraw("slice-a").wait(60)
    assert made.pending("p").message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    made.publish(node_slice("a", *gpus(2))).wait(60)
    assert made.devices("p-gpu") == ["a/gpu-0", "a/gpu-1"]


def test_an_expression_that_cannot_be_evaluated_is_told() -> None:
    """It is an error of the pod's, and holds up nobody else."""
    made = one_pod(world(), "p", request(where='device.attributes["gpu.example.com"].speed > 3'))
    one_pod(made, "q").run()
    assert made.placed.keys() == {"q"}
    reason, text = made.conditions("p")[-1]
    assert reason == "SchedulerError"
    assert (
        "claim default/p-gpu: selector #0 on device gpu.example.com/a/gpu-0: CEL runtime error: no such key: speed"
        in text
    )


@pytest.mark.parametrize(("profile", "is_evicted"), [("ai-scheduler", True), ("kube-default", False)])
def test_preemption_counts_on_devices_of_victims_in_our_profile_alone(profile: str, *, is_evicted: bool) -> None:
    """kube-scheduler's never does."""
    configuration = with_profile(profile)
    made = world(count=1, nodes=[a_node("a").cpu(8)], configuration=configuration)
    one_pod(made, "low").run()
    made.claim(claim_of("high"))
    made.add(claiming(a_pod("high").priority(10))).run()
    assert made.evicted == (["low"] if is_evicted else [])
    if is_evicted:
        made.delete_claim("low-gpu").wait(60)
        assert made.placed == {"high": "a"}


def test_a_gang_evicts_for_devices() -> None:
    """As many as it needs, and not more."""
    made = world(nodes=[a_node("a").cpu(8), a_node("b").cpu(8)])
    for name in ("l0", "l1", "l2"):
        one_pod(made, name)
    made.run().add(a_gang("job", 3))
    for pod in claiming(a_pod("w").gang("job", 3).priority(5)).times(3):
        made.claim(claim_of(pod.manifest()["metadata"]["name"]))
        made.add(claiming(pod))
    made.run()
    assert len(made.evicted) == 2
    for name in made.evicted:
        made.delete_claim(f"{name}-gpu")
    made.wait(60)
    assert {name for name in made.placed if name.startswith("w")} == {"w-0", "w-1", "w-2"}


def told(made: DeviceWorld) -> dict[str, str]:
    """Return the annotations of the only Binding."""
    (binding,) = made.of(BindPod)
    annotations: dict[str, str] = binding.annotations
    return annotations


def test_the_pod_says_which_gpus_it_was_given() -> None:
    """By their index, as allocated, not as assumed; a pod whose reservation fails says nothing, and other devices are no GPUs."""
    made = one_pod(world(count=2, nodes=[a_node("a").cpu(8)]), "p", request(count=2)).run()
    assert told(made)[GPUS_ANNOTATION] == "0,1;basis=allocated"
    nics = [{"name": "nic-0", "attributes": {"index": {"int": 0}, "type": {"string": "nic"}}}]
    other = DeviceWorld(a_node("a").cpu(8), slices=[node_slice("a", *nics)])
    assert GPUS_ANNOTATION not in told(one_pod(other, "q").run())


def test_slices_that_name_the_product_tell_the_machine_before_labels_do() -> None:
    """A DGX-1 with V100, where eight of all pairs have two NVLinks; the label speaks of a machine without any."""
    product = {"string": "Tesla V100-SXM2-32GB"}
    devices = [{"name": f"g{i}", "attributes": {"index": {"int": i}, "productName": product}} for i in range(8)]
    node = a_node("a").cpu(8).label("nvidia.com/gpu.product", "Tesla-T4").label("nvidia.com/gpu.count", "8")
    made = one_pod(DeviceWorld(node, slices=[node_slice("a", *devices)]), "p", request(count=2)).run()
    pairs = ("03", "04", "12", "15", "23", "47", "56", "67")
    assert sorted(made.devices("p-gpu")) in [[f"a/g{one}", f"a/g{other}"] for one, other in pairs]
    assert told(made)["scheduling.ai-scheduler.io/placement"] == "bandwidth-gbps=50"


def test_the_best_connected_devices_are_taken() -> None:
    """On a machine whose NUMA nodes are told, two GPUs come from one of them; kube-scheduler's profile takes the first two."""
    devices = [
        {"name": f"g{i}", "attributes": {"index": {"int": i}, "numa": {"int": [0, 1, 1, 0][i]}}} for i in range(4)
    ]
    for profile, expected in (("ai-scheduler", ["a/g0", "a/g3"]), ("kube-default", ["a/g0", "a/g1"])):
        configuration = with_profile(profile)
        made = DeviceWorld(a_node("a").cpu(8), slices=[node_slice("a", *devices)], configuration=configuration)
        one_pod(made, "p", request(count=2)).run()
        assert sorted(made.devices("p-gpu")) == expected
