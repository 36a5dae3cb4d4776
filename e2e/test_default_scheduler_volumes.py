"""In kube-scheduler's place on a real API server: pods with volumes, which the volume controller and this scheduler bind."""

from typing import Any

from e2e.objects import HOSTNAME, ZONE, DefaultWorld, is_in
from e2e.waiting import wait_until

STORAGE = "/apis/storage.k8s.io/v1"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def storage_class(world: DefaultWorld, mode: str, provisioner: str = "kubernetes.io/no-provisioner") -> str:
    """Makes a StorageClass with a mode of binding; returns its name."""
    body = {"provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain"}
    return world.make_shared(STORAGE, "storageclasses", mode.lower(), body)


def volume(world: DefaultWorld, name: str, storage: str, place: dict[str, Any], **spec: Any) -> str:
    """Makes a local volume of 5 Gi that is in reach of the nodes of one label; returns its name."""
    body = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage,
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}},
        **spec,
    }
    full = world.make_shared("/api/v1", "persistentvolumes", name, {"spec": body})
    path = f"/api/v1/persistentvolumes/{full}"
    wait_until(lambda: world.plane.request("GET", path)["status"]["phase"] != "Pending", what=f"volume {full}")
    return full


def claim_spec(storage: str, mode: str = "ReadWriteOnce") -> dict[str, Any]:
    """Returns what a claim asks for."""
    return {"accessModes": [mode], "storageClassName": storage, "resources": {"requests": {"storage": "3Gi"}}}


def claim(world: DefaultWorld, name: str, storage: str, mode: str = "ReadWriteOnce") -> None:
    """Makes a claim."""
    body = {"metadata": {"name": name}, "spec": claim_spec(storage, mode)}
    world.make("/api/v1", "persistentvolumeclaims", body)


def get_claim(world: DefaultWorld, name: str) -> dict[str, Any]:
    """Returns a claim."""
    path = f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims/{name}"
    found: dict[str, Any] = world.plane.request("GET", path)
    return found


def wait_bound(world: DefaultWorld, name: str) -> str:
    """Waits until a claim is bound; returns its volume."""

    def bound() -> str:
        found = get_claim(world, name)
        return str(found["spec"]["volumeName"]) if found["status"]["phase"] == "Bound" else ""

    return wait_until(bound, what=lambda: f"claim {name} to be bound; it is {get_claim(world, name)}")


def meant_for(claim: dict[str, Any]) -> dict[str, str]:
    """Returns the reference to a claim in a volume that is for it alone."""
    found = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **found}


def using(*claims: str) -> list[dict[str, Any]]:
    """Returns the volumes of a pod that uses claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def test_pod_follows_a_bound_claim(default_world: DefaultWorld) -> None:
    """A claim that was bound at once has its volume in one zone; the pod must go there."""
    default_world.node("elsewhere", labels={ZONE: "a"})
    node = default_world.node("there", labels={ZONE: "b"}, cpu="1")
    storage = storage_class(default_world, "Immediate")
    pv = volume(default_world, "pv", storage, is_in(ZONE, "b"))
    claim(default_world, "data", storage)
    assert wait_bound(default_world, "data") == pv
    default_world.pod("one", volumes=using("data"))
    assert default_world.wait_placed("one") == {"one": node}


def test_pod_refuses_nodes_out_of_reach_of_its_volume(default_world: DefaultWorld) -> None:
    """If no node reaches the volume of a bound claim, the pod stays pending and says why."""
    default_world.node("elsewhere", labels={ZONE: "a"})
    storage = storage_class(default_world, "Immediate")
    volume(default_world, "pv", storage, is_in(ZONE, "b"))
    claim(default_world, "data", storage)
    wait_bound(default_world, "data")
    default_world.pod("one", volumes=using("data"))
    default_world.wait_refused("one", "1 node(s) didn't match PersistentVolume's node affinity")


def test_claim_that_waits_is_bound_where_the_pod_goes(default_world: DefaultWorld) -> None:
    """With WaitForFirstConsumer, the pod lands in the only zone with a volume, and the claim is bound to it."""
    default_world.node("elsewhere", labels={ZONE: "a"})
    node = default_world.node("there", labels={ZONE: "b"}, cpu="1")
    storage = storage_class(default_world, "WaitForFirstConsumer")
    pv = volume(default_world, "pv", storage, is_in(ZONE, "b"))
    claim(default_world, "data", storage)
    default_world.pod("one", volumes=using("data"))
    assert default_world.wait_placed("one") == {"one": node}
    assert wait_bound(default_world, "data") == pv


def test_claims_of_one_pod_are_bound_on_one_node(default_world: DefaultWorld) -> None:
    """A pod with two claims gets the node that has volumes for both."""
    a, b = default_world.nodes(2)
    storage = storage_class(default_world, "WaitForFirstConsumer")
    volume(default_world, "a0", storage, is_in(HOSTNAME, a))
    here = {volume(default_world, f"b{i}", storage, is_in(HOSTNAME, b)) for i in range(2)}
    claim(default_world, "data", storage)
    claim(default_world, "log", storage)
    default_world.pod("one", volumes=using("data", "log"))
    assert default_world.wait_placed("one") == {"one": b}
    assert {wait_bound(default_world, "data"), wait_bound(default_world, "log")} == here


def test_pod_waits_for_a_volume(default_world: DefaultWorld) -> None:
    """Without a volume to bind, the pod stays pending and says so; it is placed when there is one."""
    node = default_world.node("only")
    storage = storage_class(default_world, "WaitForFirstConsumer")
    claim(default_world, "data", storage)
    default_world.pod("one", volumes=using("data"))
    default_world.wait_refused("one", "1 node(s) didn't find available persistent volumes to bind")
    volume(default_world, "pv", storage, is_in(HOSTNAME, node))
    assert default_world.wait_placed("one") == {"one": node}


def test_pod_waits_for_its_claim(default_world: DefaultWorld) -> None:
    """A pod whose claim does not exist stays pending with its name, and is placed when it is made."""
    node = default_world.node("only")
    storage = storage_class(default_world, "WaitForFirstConsumer")
    volume(default_world, "pv", storage, is_in(HOSTNAME, node))
    default_world.pod("one", volumes=using("data"))
    default_world.wait_refused("one", 'persistentvolumeclaim "data" not found')
    claim(default_world, "data", storage)
    assert default_world.wait_placed("one") == {"one": node}


def test_pod_waits_until_its_claim_is_bound(default_world: DefaultWorld) -> None:
    """A claim that is to be bound at once but has no volume keeps its pod pending; the pod is placed once it is bound."""
    node = default_world.node("only")
    storage = storage_class(default_world, "Immediate")
    claim(default_world, "data", storage)
    default_world.pod("one", volumes=using("data"))
    default_world.wait_refused("one", "pod has unbound immediate PersistentVolumeClaims")
    meant = meant_for(get_claim(default_world, "data"))
    volume(default_world, "pv", storage, is_in(HOSTNAME, node), claimRef=meant)
    assert default_world.wait_placed("one") == {"one": node}


def test_node_takes_no_more_volumes_than_its_driver_can(default_world: DefaultWorld) -> None:
    """A second volume of a CSI driver that can attach one per node is refused, until the first pod is gone."""
    driver = "played.example.test"
    node = default_world.node("only")
    drivers = {"spec": {"drivers": [{"name": driver, "nodeID": node, "allocatable": {"count": 1}}]}}
    assert default_world.make_shared(STORAGE, "csinodes", "only", drivers) == node
    storage = storage_class(default_world, "Immediate", driver)
    for name in ("first", "second"):
        handle = {"driver": driver, "volumeHandle": name}
        volume(default_world, name, storage, is_in(HOSTNAME, node), local=None, csi=handle)
        claim(default_world, name, storage)
        wait_bound(default_world, name)
    default_world.pod("first", volumes=using("first"))
    default_world.wait_placed("first")
    default_world.pod("second", volumes=using("second"))
    default_world.wait_refused("second", "1 node(s) exceed max volume count")
    default_world.delete_pod("first")
    assert default_world.wait_placed("second") == {"second": node}


def test_claim_for_one_pod_is_not_shared(default_world: DefaultWorld) -> None:
    """With ReadWriteOncePod a second pod stays pending until the first is gone."""
    node = default_world.node("only")
    storage = storage_class(default_world, "WaitForFirstConsumer")
    volume(default_world, "pv", storage, is_in(HOSTNAME, node), accessModes=["ReadWriteOncePod"])
    claim(default_world, "data", storage, "ReadWriteOncePod")
    default_world.pod("first", volumes=using("data"))
    default_world.wait_placed("first")
    default_world.pod("second", volumes=using("data"))
    default_world.wait_refused("second", "PersistentVolumeClaim with ReadWriteOncePod access mode")
    default_world.delete_pod("first")
    assert default_world.wait_placed("second") == {"second": node}


def test_volume_is_made_for_the_chosen_node(default_world: DefaultWorld) -> None:
    """A provisioner, played here, reads the chosen node off the claim; the pod is bound when its volume is."""
    node = default_world.node("only")
    storage = storage_class(default_world, "WaitForFirstConsumer", "example.test/played")
    claim(default_world, "data", storage)
    default_world.pod("one", volumes=using("data"))
    selected = wait_until(
        lambda: get_claim(default_world, "data")["metadata"].get("annotations", {}).get(SELECTED_NODE),
        what="the chosen node",
    )
    assert selected == node
    assert not default_world.placed()
    meant = meant_for(get_claim(default_world, "data"))
    pv = volume(default_world, "made", storage, is_in(HOSTNAME, node), claimRef=meant)
    assert default_world.wait_placed("one") == {"one": node}
    assert wait_bound(default_world, "data") == pv


def test_claim_of_an_ephemeral_volume_is_bound(default_world: DefaultWorld) -> None:
    """The claim that a controller makes from a pod's own template is waited for and bound."""
    node = default_world.node("only")
    storage = storage_class(default_world, "WaitForFirstConsumer")
    pv = volume(default_world, "pv", storage, is_in(HOSTNAME, node))
    template = {"volumeClaimTemplate": {"spec": claim_spec(storage)}}
    default_world.pod("one", volumes=[{"name": "scratch", "ephemeral": template}])
    assert default_world.wait_placed("one") == {"one": node}
    assert wait_bound(default_world, "one-scratch") == pv


def test_stateful_set_gets_its_volumes(default_world: DefaultWorld) -> None:
    """Each pod of a StatefulSet goes where a volume for its own claim is."""
    nodes = default_world.nodes(2)
    storage = storage_class(default_world, "WaitForFirstConsumer")
    for i, node in enumerate(nodes):
        volume(default_world, f"pv{i}", storage, is_in(HOSTNAME, node))
    templates = [{"metadata": {"name": "data"}, "spec": claim_spec(storage)}]
    more = {"serviceName": "db", "volumeClaimTemplates": templates}
    default_world.controller("statefulsets", "db", 2, more)
    found = default_world.wait_placed("db-0", "db-1")
    bound = {name: wait_bound(default_world, f"data-{name}") for name in ("db-0", "db-1")}
    number_of = {f"{default_world.namespace}-pv{i}": node for i, node in enumerate(nodes)}
    assert {name: number_of[pv] for name, pv in bound.items()} == found


def test_pod_of_a_stateful_set_returns_to_its_volume(default_world: DefaultWorld) -> None:
    """A pod of a StatefulSet that was deleted comes back to the node that has its volume, though another is emptier."""
    nodes = default_world.nodes(2)
    storage = storage_class(default_world, "WaitForFirstConsumer")
    volume(default_world, "pv", storage, is_in(HOSTNAME, nodes[0]))
    templates = [{"metadata": {"name": "data"}, "spec": claim_spec(storage)}]
    default_world.controller("statefulsets", "db", 1, {"serviceName": "db", "volumeClaimTemplates": templates})
    default_world.wait_placed("db-0")
    before = default_world.get("db-0")["metadata"]["uid"]
    default_world.pod("filler", cpu="2", nodeName=nodes[0])
    default_world.delete_pod("db-0")
    wait_until(
        lambda: default_world.get("db-0").get("metadata", {}).get("uid") not in (None, before), what="the new pod"
    )
    assert default_world.wait_placed("db-0")["db-0"] == nodes[0]
