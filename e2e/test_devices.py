"""Devices on a real API server, with the real resourceclaim controller: claims are made from templates, allocated, and given back."""

from typing import Any

from e2e.objects import World
from e2e.waiting import wait_until

DRIVER = "gpu.example.com"
DRA = "/apis/resource.k8s.io/v1"


def device_class(world: World, **spec: Any) -> str:
    """Makes a class of all devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return world.make_shared(DRA, "deviceclasses", "gpu", {"spec": {"selectors": selectors, **spec}})


def publish(world: World, node: str, *devices: dict[str, Any]) -> None:
    """Publishes a node's devices."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
    world.make_shared(DRA, "resourceslices", f"slice-{node[-1]}", {"spec": spec})


def gpus(count: int, **more: Any) -> list[dict[str, Any]]:
    """Returns so many devices that differ in their index."""
    return [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}, **more} for i in range(count)]


def wish(device_class: str, **exactly: Any) -> dict[str, Any]:
    """Returns the spec of a claim with one request."""
    request = {"deviceClassName": device_class, **exactly}
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def template(world: World, name: str, spec: dict[str, Any]) -> None:
    """Makes a template of claims."""
    world.make(DRA, "resourceclaimtemplates", {"metadata": {"name": name}, "spec": {"spec": spec}})


def claim(world: World, name: str, spec: dict[str, Any]) -> None:
    """Makes a claim."""
    world.make(DRA, "resourceclaims", {"metadata": {"name": name}, "spec": spec})


def from_template(name: str) -> dict[str, Any]:
    """Returns the part of a pod's spec that uses a claim made for it."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}


def sharing(name: str) -> dict[str, Any]:
    """Returns the part of a pod's spec that uses a claim by name."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}


def claims_of(world: World) -> list[dict[str, Any]]:
    """Returns all claims of the namespace."""
    items: list[dict[str, Any]] = world.plane.request("GET", f"{DRA}/namespaces/{world.namespace}/resourceclaims")[
        "items"
    ]
    return items


def given(world: World) -> dict[str, list[str]]:
    """Returns the devices of each pod that a claim is reserved for, as node/device."""
    found: dict[str, list[str]] = {}
    for each in claims_of(world):
        status = each.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        for consumer in status.get("reservedFor") or []:
            found.setdefault(consumer["name"], []).extend(f"{r['pool']}/{r['device']}" for r in results)
    return found


def test_claims_from_templates_are_allocated_and_given_back(world: World) -> None:
    """The third pod waits for a device, and gets it when the first one is deleted and its claim with it."""
    name = device_class(world)
    nodes = [world.node(n) for n in ("a", "b")]
    for node in nodes:
        publish(world, node, *gpus(1))
    template(world, "one", wish(name))
    for pod in ("p", "q"):
        world.pod(pod, **from_template("one"))
    placed = world.wait_placed("p", "q")
    assert sorted(placed.values()) == sorted(nodes)
    assert given(world) == {pod: [f"{node}/gpu-0"] for pod, node in placed.items()}
    for each in claims_of(world):
        assert "resource.kubernetes.io/delete-protection" in each["metadata"]["finalizers"]
        assert (
            each["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["key"]
            == "metadata.name"
        )
    world.pod("late", **from_template("one"))
    wait_until(lambda: "cannot allocate all claims" in world.condition("late").get("message", ""), what="the refusal")
    world.delete_pod("p")
    assert world.wait_placed("late")["late"] == placed["p"]


def test_a_gang_gets_its_devices_together(world: World) -> None:
    """Four members on four devices, none given twice; one more member than devices, and nobody gets any."""
    name = device_class(world)
    for node in ("a", "b"):
        publish(world, world.node(node), *gpus(2))
    template(world, "one", wish(name))
    world.gang("large", 5, gpus=0, **from_template("one"))
    placed = world.wait_placed(*world.gang("job", 4, gpus=0, **from_template("one")))
    devices = given(world)
    assert devices.keys() == placed.keys()
    assert len({device for each in devices.values() for device in each}) == 4
    assert all(device.startswith(f"{placed[pod]}/") for pod, each in devices.items() for device in each)


def test_a_shared_claim_keeps_its_pods_together(world: World) -> None:
    """It is allocated once and reserved for both."""
    name = device_class(world)
    for node in ("a", "b"):
        publish(world, world.node(node), *gpus(2))
    claim(world, "both", wish(name, count=2))
    for pod in ("p", "q"):
        world.pod(pod, **sharing("both"))
    placed = world.wait_placed("p", "q")
    assert len(set(placed.values())) == 1
    wait_until(lambda: given(world).keys() == {"p", "q"}, what="both reservations")
    assert given(world)["p"] == [f"{placed['p']}/gpu-0", f"{placed['p']}/gpu-1"]


def test_pods_share_a_device_as_far_as_its_memory_goes(world: World) -> None:
    """Each claim says how much; the third has no room."""
    name = device_class(world)
    node = world.node("a")
    publish(world, node, *gpus(1, allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}}))
    template(world, "half", wish(name, capacity={"requests": {"memory": "40Gi"}}))
    for pod in ("p", "q"):
        world.pod(pod, **from_template("half"))
    world.wait_placed("p", "q")
    results = [each["status"]["allocation"]["devices"]["results"][0] for each in claims_of(world)]
    assert len({result["shareID"] for result in results}) == 2
    assert {result["consumedCapacity"]["memory"] for result in results} == {"40Gi"}
    world.pod("r", **from_template("half"))
    wait_until(lambda: "cannot allocate all claims" in world.condition("r").get("message", ""), what="the refusal")


def test_a_selector_that_fails_is_told_at_the_pod(world: World) -> None:
    """With the claim and the device, and it is never taken for "no match"."""
    name = device_class(world)
    publish(world, world.node("a"), *gpus(1))
    broken = {"cel": {"expression": f'device.attributes["{DRIVER}"].speed > 3'}}
    claim(world, "broken", wish(name, selectors=[broken]))
    world.pod("p", **sharing("broken"))
    wait_until(
        lambda: "CEL runtime error: no such key: speed" in world.condition("p").get("message", ""), what="the error"
    )


def test_an_extended_resource_is_served_by_devices_where_no_device_plugin_offers_it(world: World) -> None:
    """By both names of the class; the claims are made, named at their pods, and go with them. A device plugin serves as before."""
    resource = f"example.com/{world.namespace}"
    name = device_class(world, extendedResourceName=resource)
    devices = world.node("a", gpus=0)
    publish(world, devices, *gpus(3))
    world.pod("p", requests={resource: "2"})
    world.pod("q", requests={f"deviceclass.resource.kubernetes.io/{name}": "1"})
    assert set(world.wait_placed("p", "q").values()) == {devices}
    assert sorted(given(world)["p"] + given(world)["q"]) == [f"{devices}/gpu-{i}" for i in range(3)]
    for each in claims_of(world):
        meta, (owner,) = each["metadata"], each["metadata"]["ownerReferences"]
        assert meta["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
        assert meta["generateName"] == f"{owner['name']}-extended-resources-"
        told = world.get(owner["name"])["status"]["extendedResourceClaimStatus"]
        assert told["resourceClaimName"] == meta["name"]
        assert [m["requestName"] for m in told["requestMappings"]] == ["container-0-request-1"]
    world.pod("late", requests={resource: "2"})
    wait_until(lambda: "cannot allocate all claims" in world.condition("late").get("message", ""), what="the refusal")
    world.delete_pod("p")
    assert world.wait_placed("late")["late"] == devices
    plugin = world.node("b", gpus=0, resources={resource: "1"})
    world.pod("plain", requests={resource: "1"})
    assert world.wait_placed("plain")["plain"] == plugin
    assert "plain" not in given(world)
    assert "extendedResourceClaimStatus" not in world.get("plain")["status"]
