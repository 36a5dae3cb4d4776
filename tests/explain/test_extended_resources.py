"""A pod that devices serve for an extended resource, explained where it is."""

from __future__ import annotations

import msgspec

from scheduler.config import default
from scheduler.explain.objects import KINDS
from scheduler.explain.snapshot import explain_in
from scheduler.model.device_claims import EXTENDED_RESOURCE_ANNOTATION
from tests.builders import a_node, a_pod
from tests.devices.cases import claim, gpus, request, result, slice_of

GPU = "example.com/gpu"


def test_a_bound_pod_is_explained_without_the_claim_that_was_made_for_it() -> None:
    """Were it not on its node, there would be none, and its device would be free."""
    pod = a_pod("p").cpu(1).request(GPU, 1).on("n1")
    made = claim("p-extended-resources-x", request("container-0-request-1"), has=[result("gpu-0")])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.build().uid, "controller": True}
    annotations = {EXTENDED_RESOURCE_ANNOTATION: "true"}
    made["metadata"] |= {"namespace": "default", "annotations": annotations, "ownerReferences": [owner]}
    manifests = [
        (("", "Node"), a_node("n1").cpu(8).manifest()),
        (("resource.k8s.io", "DeviceClass"), {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}),
        (("resource.k8s.io", "ResourceSlice"), slice_of(*gpus(1))),
        (("resource.k8s.io", "ResourceClaim"), made),
        (("", "Pod"), pod.manifest()),
    ]
    objects = [(kind, msgspec.convert(each, KINDS[kind].wire_type)) for kind, each in manifests]
    configuration = default()
    found = explain_in(configuration, configuration.profiles[0], objects, pod.api())
    assert (found.error, found.feasible) == ("", [0])
