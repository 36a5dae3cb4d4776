"""Volumes on a real API server with the real volume controller: bound where the pod is, or made for its node."""

from typing import Any

from e2e.objects import World
from e2e.waiting import wait_until

ZONE = "topology.kubernetes.io/zone"


def storage_class(world: World, provisioner: str) -> str:
    """Makes a class whose volumes wait for their first consumer."""
    name = f"{world.namespace}-class"
    world.plane.request(
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"},
    )
    return name


def claim(world: World, name: str, class_name: str) -> None:
    """Makes a claim of a gibibyte."""
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": class_name,
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    path = f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims"
    world.plane.request("POST", path, {"metadata": {"name": name}, "spec": spec})


def read_claim(world: World, name: str) -> dict[str, Any]:
    """Returns a claim."""
    return world.plane.request("GET", f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims/{name}")


def volume(world: World, name: str, class_name: str, zone: str, **spec: Any) -> str:
    """Makes a volume in a zone; returns its name."""
    full = f"{world.namespace}-{name}"
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    body = {
        "metadata": {"name": full},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": class_name,
            "csi": {"driver": "csi.example.test", "volumeHandle": full},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        } | spec,
    }  # fmt: skip
    world.plane.request("POST", "/api/v1/persistentvolumes", body)
    return full


def using(*claims: str) -> dict[str, Any]:
    """Returns the part of a pod's spec that uses claims."""
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


def test_a_volume_that_is_there_decides_the_node_and_is_bound_before_the_pod(world: World) -> None:
    """The scheduler means it for the claim, the volume controller finishes it, then the pod is bound."""
    world.node("a", labels={ZONE: "a"})
    right = world.node("b", labels={ZONE: "b"})
    name = storage_class(world, "kubernetes.io/no-provisioner")
    wanted = volume(world, "v", name, "b")
    wait_until(
        lambda: world.plane.request("GET", f"/api/v1/persistentvolumes/{wanted}")["status"].get("phase") == "Available",
        what="the volume",
    )
    claim(world, "c", name)
    world.pod("p", **using("c"))
    assert world.wait_placed("p") == {"p": right}
    found = world.plane.request("GET", f"/api/v1/persistentvolumes/{wanted}")
    print(found["spec"]["claimRef"], found["metadata"].get("annotations"))
    bound = read_claim(world, "c")
    print(bound["metadata"].get("annotations"), bound["spec"], bound["status"])
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == (wanted, "Bound")


def test_a_volume_is_made_for_the_node_of_the_pod(world: World) -> None:
    """We play the provisioner: it sees the chosen node, makes the volume there, and the pod follows."""
    node = world.node("a", labels={ZONE: "a"})
    name = storage_class(world, "csi.example.test")
    claim(world, "c", name)
    world.pod("p", **using("c"))

    def chosen() -> str:
        return (read_claim(world, "c")["metadata"].get("annotations") or {}).get(
            "volume.kubernetes.io/selected-node", ""
        )

    assert wait_until(chosen, what="the chosen node") == node
    assert world.placed() == {}
    found = read_claim(world, "c")
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": "c",
        "namespace": world.namespace,
        "uid": found["metadata"]["uid"],
    }
    volume(world, "made", name, "a", claimRef=reference)
    assert world.wait_placed("p") == {"p": node}
    wait_until(lambda: read_claim(world, "c")["status"]["phase"] == "Bound", what="the claim to be said bound")


def test_a_pod_whose_provisioning_failed_is_tried_again(world: World) -> None:
    """A provisioner that cannot makes it known by taking the chosen node away."""
    world.node("a", labels={ZONE: "a"})
    name = storage_class(world, "csi.example.test")
    claim(world, "c", name)
    world.pod("p", **using("c"))
    path = f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims/c"

    def chosen() -> str:
        return (read_claim(world, "c")["metadata"].get("annotations") or {}).get(
            "volume.kubernetes.io/selected-node", ""
        )

    wait_until(chosen, what="the chosen node")
    found = read_claim(world, "c")
    del found["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
    world.plane.request("PUT", path, found)
    wait_until(chosen, what="the node to be chosen again")
