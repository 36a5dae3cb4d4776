"""The allocator: what claims get, by the rules of `k8s.io/dynamic-resource-allocation/structured` (Kubernetes 1.37)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.devices.case import CaseError, allocate, answer_to

from .cases import DRIVER, NODE, case, claim, device, either, given, gpus, request, result, slice_of, trouble

PCIE = "resource.kubernetes.io/pcieRoot"
ONE = [slice_of(*gpus(4))]


def test_the_first_free_devices_are_taken_in_the_order_of_slices() -> None:
    """Pools by name, slices by name, devices as listed; those in use are passed over."""
    slices = [
        slice_of(device("b0"), name="s2", pool="b"),
        slice_of(device("a1"), name="s9", pool="a", count=2),
        slice_of(device("a0"), name="s3", pool="a", count=2),
    ]
    assert given(claim("c", request(count=3)), slices=slices) == [["a0", "a1", "b0"]]
    taken = [claim("o", has=[result("a0", pool="a")])]
    assert given(claim("c", request(count=2)), slices=slices, others=taken) == [["a1", "b0"]]
    assert given(claim("c", request(count=3)), slices=slices, others=taken) is None


def test_devices_of_one_name_in_two_pools_are_two() -> None:
    """What is in use of one hides nothing of the other (KAI#1673: groups of GPUs with the same name hid each other's room)."""
    slices = [slice_of(device("gpu-0"), name="s1", pool="a"), slice_of(device("gpu-0"), name="s2", pool="b")]
    in_use = [claim("o", has=[result("gpu-0", pool="a")])]
    answer = allocate(case(claim("c"), slices=slices, others=in_use))
    (taken,) = answer["allocations"][0]["devices"]["results"]
    assert (taken["pool"], taken["device"]) == ("b", "gpu-0")
    assert given(claim("c"), claim("d"), slices=slices) == [["gpu-0"], ["gpu-0"]]
    assert given(claim("c"), claim("d"), slices=slices, others=in_use) is None


def test_claims_and_requests_share_the_devices() -> None:
    """No device is given twice, within a claim or among claims."""
    assert given(claim("c", request("a", count=2), request("b")), claim("d"), slices=ONE) == [
        ["gpu-0", "gpu-1", "gpu-2"],
        ["gpu-3"],
    ]
    assert given(claim("c", request(count=3)), claim("d", request(count=2)), slices=ONE) is None


def test_an_early_choice_is_taken_back_if_a_later_request_needs_it() -> None:
    """The only H100 goes to the request that wants one, though the first request would take it first."""
    slices = [slice_of(device("x", model="H100"), device("y", model="A100"))]
    picky = request("b", where=f'device.attributes["{DRIVER}"].model == "H100"')
    assert given(claim("c", request("a"), picky), slices=slices) == [["y", "x"]]
    assert given(claim("c", request("a")), claim("d", picky), slices=slices) == [["y"], ["x"]]


def test_all_takes_every_device_that_is_selected_or_nothing() -> None:
    """One that is in use, or none at all, is a no; a pool that is not whole is an error, as one cannot know."""
    everything = claim("c", request(allocationMode="All"))
    assert given(everything, slices=ONE) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]
    assert given(everything, slices=ONE, others=[claim("o", has=[result("gpu-2")])]) is None
    nowhere = claim("c", request(allocationMode="All", where="false"))
    assert given(nowhere, slices=ONE) is None
    kind, text = trouble(everything, slices=[slice_of(*gpus(2), count=2)])
    assert kind == "fatal"
    assert text.endswith(f"asks for all devices, but resource pool {DRIVER}/n1 is currently being updated")


def test_the_first_alternative_that_is_available_is_taken() -> None:
    """The result and the configuration name the alternative."""
    big = request("big", where=f'device.attributes["{DRIVER}"].model == "H100"')
    small = request("small", count=2)
    wanted = claim("c", either(big, small), config=[{"requests": ["r/small"], "opaque": {"driver": DRIVER}}])
    answer = allocate(case(wanted, slices=[slice_of(*gpus(2, model="A100"))]))
    devices = answer["allocations"][0]["devices"]
    assert [each["request"] for each in devices["results"]] == ["r/small", "r/small"]
    assert devices["config"] == [{"source": "FromClaim", "opaque": {"driver": DRIVER}}]
    assert given(wanted, slices=[slice_of(device("h", model="H100"))]) == [["h"]]


def test_a_constraint_against_all_devices_is_an_error_also_where_another_claim_is_hopeless() -> None:
    """Found by comparison with the real allocator: it comes to the error before it knows that the last claim is in vain."""
    alike = [device(f"z{turn}", model="z", root="same") for turn in range(3)]
    odd = [device(f"a{turn}", model="a", root=f"r{turn}") for turn in range(28)]
    same = [{"matchAttribute": PCIE}]
    slow = claim("c", request(count=3), constraints=same)
    wrong = claim(
        "d", request(allocationMode="All", where=f'device.attributes["{DRIVER}"].model == "a"'), constraints=same
    )
    hopeless = claim("e", request(where="false"))
    assert trouble(slow, wrong, hopeless, slices=[slice_of(*odd, *alike)])[0] == "fatal"


def test_what_stands_before_all_devices_may_be_hopeless_without_a_long_search() -> None:
    """A request that nothing can serve is found out, also where "all devices" and a constraint follow it."""
    slices = [slice_of(*(device(f"g{turn}", index=turn) for turn in range(20)))]
    same = [{"matchAttribute": f"{DRIVER}/index"}]
    first, alike = (
        claim("c", request(count=4)),
        claim("d", request("x", count=2), request("y", allocationMode="All"), constraints=same),
    )
    assert given(first, alike, slices=slices, maxSteps=5000) is None


def test_which_of_two_devices_that_are_alike_is_taken_may_decide_about_an_error() -> None:
    """Found by comparison: with b taken, "all" ends at b; with its twin d taken, it comes to c, which the constraint refuses."""
    slices = [slice_of(*(device(name, model=name if name == "c" else "x", root="r") for name in "abcd"))]
    not_c = f'device.attributes["{DRIVER}"].model == "x"'
    everything = claim("e", request(allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    assert trouble(claim("o", request(where=not_c)), everything, slices=slices)[0] == "fatal"


def test_devices_share_an_attribute_or_differ_in_it() -> None:
    """Names without a domain are the driver's; a device without the attribute fits neither."""
    slices = [slice_of(device("a", root="r0"), device("b", root="r1"), device("c", root="r1"), device("d"))]
    same = [{"matchAttribute": PCIE}]
    assert given(claim("c", request(count=2), constraints=same), slices=slices) == [["b", "c"]]
    assert given(claim("c", request(count=3), constraints=same), slices=slices) is None
    different = [{"distinctAttribute": PCIE}]
    assert given(claim("c", request(count=2), constraints=different), slices=slices) == [["a", "b"]]
    assert given(claim("c", request(count=3), constraints=different), slices=slices) is None
    only_a = [{"matchAttribute": PCIE, "requests": ["x"]}]
    assert given(claim("c", request("x", count=2), request("y", count=2), constraints=only_a), slices=slices) == [
        ["b", "c", "a", "d"]
    ]


def test_a_constraint_against_all_devices_is_an_error() -> None:
    """It can never be satisfied, so the user should know."""
    slices = [slice_of(device("a", root="r0"), device("b", root="r1"))]
    wanted = claim("c", request(allocationMode="All"), constraints=[{"matchAttribute": PCIE}])
    assert trouble(wanted, slices=slices)[1].endswith("because a claim constraint would not be satisfied")


def test_administrators_look_at_devices_that_others_have() -> None:
    """Once per claim, and it keeps nobody else from them."""
    taken = [claim("o", has=[result("gpu-0")])]
    assert given(claim("c", request(adminAccess=True)), slices=ONE, others=taken) == [["gpu-0"]]
    answer = allocate(case(claim("c", request(adminAccess=True)), slices=ONE))
    assert answer["allocations"][0]["devices"]["results"][0]["adminAccess"] is True
    looking = [claim("o", has=[result("gpu-0", adminAccess=True)])]
    assert given(claim("c"), slices=ONE, others=looking) == [["gpu-0"]]
    assert given(claim("c", request(count=5, adminAccess=True)), slices=ONE) is None


def test_taints_keep_claims_off_unless_tolerated() -> None:
    """NoSchedule and NoExecute do, on the device or by a rule; other effects do not."""
    taint = {"key": "bad", "value": "x", "effect": "NoExecute"}
    slices = [slice_of(device("a", taints=[taint]), device("b", taints=[{"key": "dull", "effect": "None"}]))]
    assert given(claim("c"), slices=slices) == [["b"]]
    for toleration in (
        {"key": "bad", "operator": "Equal", "value": "x"},
        {"operator": "Exists", "effect": "NoExecute"},
    ):
        assert given(claim("c", request(tolerations=[toleration])), slices=slices) == [["a"]]
    for other in ({"key": "bad", "operator": "Equal", "value": "y"}, {"operator": "Exists", "effect": "NoSchedule"}):
        assert given(claim("c", request(tolerations=[other])), slices=slices) == [["b"]]
    rule = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "n1", "device": "b"}, "taint": {"key": "sick", "effect": "NoSchedule"}},
    }
    assert given(claim("c"), slices=slices, taintRules=[rule]) is None
    rule["spec"] = {"taint": {"key": "sick", "effect": "NoSchedule"}}
    assert given(claim("c"), slices=slices, taintRules=[rule]) == [["b"]]


def counting(*devices: dict[str, Any], total: str = "80Gi") -> list[dict[str, Any]]:
    """A pool whose devices share one counter of memory."""
    counters = [{"name": "card", "counters": {"memory": {"value": total}}}]
    return [
        slice_of(*devices, name="s1", count=2),
        slice_of(name="s2", count=2, sharedCounters=counters) | {},
    ]


def part(name: str, memory: str) -> dict[str, Any]:
    """A device that takes some of the counter."""
    return device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": memory}}}])


def test_partitions_share_the_counters_of_their_card() -> None:
    """What is in use counts; the whole card is free only while no part of it is used, and the other way round."""
    slices = counting(part("whole", "80Gi"), part("half-0", "40Gi"), part("half-1", "40Gi"))
    assert given(claim("c", request(count=2)), slices=slices) == [["half-0", "half-1"]]
    assert given(claim("c", request(count=3)), slices=slices) is None
    assert given(claim("c"), slices=slices, others=[claim("o", has=[result("half-1")])]) == [["half-0"]]
    assert given(claim("c"), slices=slices, others=[claim("o", has=[result("whole")])]) is None


@pytest.mark.parametrize(
    "used",
    [
        [{"counterSet": "none", "counters": {}}],
        [{"counterSet": "card", "counters": {"cores": {"value": "1"}}}],
    ],
)
def test_a_pool_that_contradicts_itself_gives_nothing(used: list[dict[str, Any]]) -> None:
    """Other pools do; without any, the node says why."""
    slices = counting(device("x", consumesCounters=used))
    assert trouble(claim("c"), slices=slices) == ("node", "invalid resource pools were encountered")
    assert given(claim("c"), slices=[*slices, slice_of(device("y"), name="s5", pool="z")]) == [["y"]]


def test_a_name_that_stands_twice_makes_a_pool_invalid() -> None:
    """Nobody could tell which is meant."""
    assert trouble(claim("c"), slices=[slice_of(device("x"), device("x"))])[0] == "node"


def sharing(value: str, policy: dict[str, Any] | None = None, name: str = "x") -> dict[str, Any]:
    """A device that several claims may share."""
    capacity = {"memory": {"value": value} | ({"requestPolicy": policy} if policy else {})}
    return device(name, capacity=capacity, allowMultipleAllocations=True)


def asking(memory: str, name: str = "c") -> dict[str, Any]:
    """A claim for some memory."""
    return claim(name, request(capacity={"requests": {"memory": memory}}))


def consumed(wanted: dict[str, Any], slices: Any, **more: Any) -> str | None:
    """Return what one claim takes of the memory."""
    answer = allocate(case(wanted, slices=slices, **more))
    assert "error" not in answer, answer
    return (
        answer["allocations"][0]["devices"]["results"][0]["consumedCapacity"]["memory"] if answer["feasible"] else None
    )


HALVES = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
RANGE = {"default": "1Gi", "validRange": {"min": "2Gi", "max": "10Gi", "step": "2Gi"}}


@pytest.mark.parametrize(
    ("policy", "asked", "takes"),
    [
        (None, "10Gi", "10Gi"),
        (RANGE, "1Gi", "2Gi"),
        (RANGE, "3Gi", str(4 * 2**30)),
        (RANGE, "10Gi", str(10 * 2**30)),
        (RANGE, "11Gi", None),
        ({"default": "10Gi", "validValues": ["5Gi", "10Gi"]}, "6Gi", "10Gi"),
        ({"default": "10Gi", "validValues": ["5Gi", "10Gi"]}, "11Gi", None),
        (HALVES, "600m", "1"),
        ({"default": "5", "validRange": {"min": "2", "step": "3"}}, "6", "8"),
        (None, "41Gi", None),
    ],
)
def test_a_share_is_rounded_up_to_what_the_policy_allows(
    policy: dict[str, Any] | None, asked: str, takes: str | None
) -> None:
    """To the least, the next step from it, or the next value; what is still not allowed is refused."""
    assert consumed(asking(asked), [slice_of(sharing("40Gi", policy))]) == takes


def test_steps_of_a_range_are_fractions_only_with_the_gate() -> None:
    """kube-scheduler 1.37 has it off unless all of the cluster is as new, and then counts in whole numbers."""
    gates = {"DRAFractionalCapacityRange": True}
    assert consumed(asking("600m"), [slice_of(sharing("40Gi", HALVES))], gates=gates) == "750m"
    with pytest.raises(CaseError, match="gates: 'DRA' is not allowed; allowed is DRAFractionalCapacityRange"):
        allocate(case(asking("1"), slices=ONE, gates={"DRA": True}))


def test_a_share_that_says_nothing_takes_the_default_or_everything() -> None:
    """Without a policy there is no default."""
    assert consumed(claim("c"), [slice_of(sharing("40Gi", RANGE))]) == "1Gi"
    assert consumed(claim("c"), [slice_of(sharing("40Gi"))]) == "40Gi"


def test_shares_fit_into_a_device_together_with_those_in_use() -> None:
    """Each has an id of its own; what does not fit goes to another device (KAI#1369: shares of a device counted too low)."""
    slices = [slice_of(sharing("40Gi"), sharing("40Gi", name="y"))]
    answer = allocate(case(asking("30Gi"), asking("10Gi", "d"), asking("1Gi", "e"), slices=slices))
    results = [one["devices"]["results"][0] for one in answer["allocations"]]
    assert [each["device"] for each in results] == ["x", "x", "y"]
    assert len({each["shareID"] for each in results}) == len(results)
    used = claim("o", has=[result("x", shareID="1", consumedCapacity={"memory": "30Gi"})])
    assert given(asking("20Gi"), slices=slices, others=[used]) == [["y"]]
    assert given(asking("10Gi"), slices=slices, others=[used]) == [["x"]]


def test_a_request_for_what_a_device_does_not_have_goes_elsewhere() -> None:
    """A capacity that nobody has is a no."""
    slices = [slice_of(device("x"), device("y", capacity={"memory": "8Gi"}))]
    assert given(asking("1Gi"), slices=slices) == [["y"]]
    assert given(asking("1Gi"), slices=[slice_of(device("x"))]) is None


def test_a_further_share_of_a_partition_costs_no_counters() -> None:
    """They were paid for with the first."""
    parts = [
        sharing("40Gi", name=name) | {"consumesCounters": part(name, "80Gi")["consumesCounters"]} for name in ("x", "y")
    ]
    assert given(asking("10Gi"), asking("10Gi", "d"), slices=counting(*parts)) == [["x"], ["x"]]
    assert given(asking("10Gi"), asking("40Gi", "d"), slices=counting(*parts)) is None


def test_slices_are_for_their_nodes() -> None:
    """By name, by selector, for all, or device by device."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    other = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    slices = [
        slice_of(device("mine"), pool="1"),
        slice_of(device("theirs"), pool="2") | {},
        slice_of(device("zone"), pool="3", nodeSelector=selector),
        slice_of(device("other-zone"), pool="4", nodeSelector=other),
        slice_of(device("all"), pool="5", allNodes=True),
        slice_of(
            device("p0", nodeName="n1"),
            device("p1", nodeName="n2"),
            device("p2", nodeSelector=selector),
            device("p3", allNodes=True),
            pool="6",
            perDeviceNodeSelection=True,
        ),
    ]
    slices[1]["spec"]["nodeName"] = "n2"
    assert given(claim("c", request(count=6)), slices=slices) == [["mine", "zone", "all", "p0", "p2", "p3"]]
    assert given(claim("c", request(count=7)), slices=slices) is None
    answers = [
        allocate(case(claim("c"), slices=[each]))["allocations"][0].get("nodeSelector")
        for each in (slices[0], *slices[2:5:2])
    ]
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert answers == [{"nodeSelectorTerms": [{"matchFields": [name]}]}, selector, None]


def test_only_the_newest_generation_of_a_whole_pool_counts() -> None:
    """A pool of which slices are missing gives nothing, but does not stop others."""
    old, new = slice_of(device("old"), name="s1"), slice_of(device("new"), name="s2", generation=2)
    assert given(claim("c"), slices=[old, new]) == [["new"]]
    missing = slice_of(device("x"), name="s1", count=2)
    assert given(claim("c"), slices=[missing]) is None
    assert given(claim("c"), slices=[missing, slice_of(device("y"), name="s2", pool="z")]) == [["y"]]
    elsewhere = slice_of(device("z"), name="s2", generation=2)
    elsewhere["spec"]["nodeName"] = "n2"
    assert given(claim("c"), slices=[slice_of(device("x"), name="s1", count=2), elsewhere]) is None


def test_pools_with_binding_conditions_come_last() -> None:
    """Their conditions stand in the result."""
    slow = device("a", bindingConditions=["attached"], bindingFailureConditions=["broken"])
    slices = [slice_of(slow, pool="a"), slice_of(device("b"), pool="b", name="s2")]
    assert given(claim("c"), slices=slices) == [["b"]]
    answer = allocate(case(claim("c", request(count=2)), slices=slices))
    last = answer["allocations"][0]["devices"]["results"][1]
    assert (last["device"], last["bindingConditions"], last["bindingFailureConditions"]) == (
        "a",
        ["attached"],
        ["broken"],
    )


def test_a_claim_gets_no_more_than_32_devices() -> None:
    """The status could not hold them; an alternative with fewer still may do."""
    slices = [slice_of(*gpus(40))]
    assert trouble(claim("c", request("a", count=30), request("b", count=3)), slices=slices)[1] == (
        "claim ns/c, request b: adding 3 devices exceeds the claim limit of 32, with 30 already accounted for"
    )
    many, few = request("many", count=4), request("few", count=2)
    got = given(claim("c", request("a", count=30), either(many, few, name="b")), slices=slices)
    assert got is not None
    assert len(got[0]) == 32


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (request(deviceClassName="none"), "could not retrieve device class none"),
        (request(deviceClassName=""), "missing device class name"),
        (request(allocationMode="Some"), "unsupported count mode Some"),
        (request(count=-1), "a count of -1 is not allowed; allowed are whole numbers from 1"),
        (request(selectors=[{}]), "CEL expression empty"),
        ({"name": "r"}, "unknown request type"),
        (request(where="device.nothing"), "CEL compile error: 1:7: undefined field 'nothing'"),
        (request(where=f'device.attributes["{DRIVER}"].nothing == 1'), "CEL runtime error: no such key: nothing"),
        (request(derivedAttributes=[{"name": "x"}]), "derived attributes"),
    ],
)
def test_what_is_wrong_with_a_request_is_an_error_that_names_it(wanted: dict[str, Any], text: str) -> None:
    """Never "does not fit"."""
    kind, said = trouble(claim("c", wanted), slices=ONE)
    assert kind == "fatal"
    assert "ns/c" in said
    assert text in said


def test_the_configuration_of_classes_and_claims_is_handed_on() -> None:
    """That of a class once, for the requests of that class; what is for all requests names none."""
    classes = [
        {"metadata": {"name": "gpu"}, "spec": {"config": [{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}]}},
        {"metadata": {"name": "plain"}, "spec": {}},
    ]
    config = [{"requests": ["b"], "opaque": {"driver": DRIVER}}, {"requests": ["gone"], "opaque": {"driver": "x"}}]
    wanted = claim("c", request("a"), request("b"), request("p", deviceClassName="plain"), config=config)
    devices = allocate(case(wanted, slices=ONE, classes=classes))["allocations"][0]["devices"]
    assert devices["config"] == [
        {"source": "FromClass", "requests": ["a", "b"], "opaque": {"driver": DRIVER, "parameters": {"a": 1}}},
        {"source": "FromClaim", "requests": ["b"], "opaque": {"driver": DRIVER}},
    ]
    alone = allocate(case(claim("c", request("a")), slices=ONE, classes=classes))["allocations"][0]["devices"]
    assert "requests" not in alone["config"][0]


def test_a_search_ends() -> None:
    """What looks alike is no puzzle, nor what cannot be served alone; a real one is given up on, with the node's name."""
    alike = [slice_of(*[device(f"d{i}", root=f"r{i % 2}") for i in range(20)])]
    same = [{"matchAttribute": PCIE}]
    assert given(claim("c", request(count=11), constraints=same), slices=alike) is None
    three = claim(
        "c", request("b", count=12), request("a", count=3), constraints=[{"matchAttribute": PCIE, "requests": ["a"]}]
    )
    pairs = [slice_of(*[device(f"d{i}", numa=i // 2, root=f"r{i}") for i in range(24)])]
    assert given(three, slices=pairs, maxSteps=2000) is None  # not even if it were alone
    numa = f"{DRIVER}/numa"
    one_of_each = [{"distinctAttribute": numa, "requests": ["b"]}, {"matchAttribute": numa, "requests": ["a"]}]
    wanted = claim("c", request("b", count=12), request("a", count=2), constraints=one_of_each)
    kind, text = trouble(wanted, slices=pairs, maxSteps=2000)
    assert (kind, text) == ("gave-up", "node n1: timed out trying to allocate devices (gave up after 2000 steps)")


def test_a_case_that_is_none_says_what_is_wrong() -> None:
    """The key, and what is allowed."""
    with pytest.raises(CaseError, match="allocate: 'ns/x' is not allowed"):
        allocate({"node": NODE, "allocate": ["ns/x"]})
    with pytest.raises(CaseError, match="slices: Expected `object`"):
        allocate({"node": NODE, "slices": [3]})


def test_an_answer_repeats_the_id_of_its_case() -> None:
    """So that answers can be put beside cases; a line that is no case is answered as well."""
    line = msgspec.json.encode({"id": "7", **case(claim("c"), slices=ONE)}).decode()
    answer = answer_to(line)
    assert (answer["id"], answer["feasible"]) == ("7", True)
    assert answer_to('{"id": "8", "allocate": ["ns/none"]}')["id"] == "8"
    assert answer_to("[]")["errorKind"] == "case"
