"""VolumeBinding at Reserve and PreBind: volumes are promised to one pod, written, and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.effects import BindVolume, SelectNode
from scheduler.framework.status import Code, Status
from scheduler.model import Claim, PersistentVolume
from scheduler.model.storage import ClaimReference
from scheduler.plugins.volume_binding import VolumeBinding
from tests.builders import a_node, a_pod

from .storage_world import StorageWorld, bound, claim, csi_node, mounts, storage_class, volume

if TYPE_CHECKING:
    from scheduler.framework.plugin import AwaitEffects

MANUAL = storage_class(provisioner="kubernetes.io/no-provisioner")
POD = mounts(a_pod("pod"), "c").build()
OTHER = mounts(a_pod("other"), "d").build()


def world(*things: Any) -> StorageWorld:
    """Return the nodes `a` and `b`, with storage and two pending pods that use the claims `c` and `d`."""
    made = StorageWorld([a_node("a"), a_node("b")], things)
    for pod in (POD, OTHER):
        made.cluster.set_pod(pod)
    return made


def reserved(made: StorageWorld, node_name: str = "a") -> tuple[Any, CycleState, AwaitEffects]:
    """Return the plugin, the state, and what PreBind answers once the pod has a place."""
    plugin, state = made.make(VolumeBinding), CycleState()
    assert plugin.reserve(state, POD, node_name) is None
    answer: AwaitEffects = plugin.pre_bind(state, POD, node_name)
    return plugin, state, answer


def change(made: StorageWorld, thing: Any, **fields: Any) -> None:
    """Let the API server report an object with other fields."""
    known = made.cluster.objects.get(type(thing), *thing.key) or thing
    made.put(msgspec.structs.replace(known, resource_version=known.resource_version + "1", **fields))


def says(answer: AwaitEffects) -> tuple[Code, str] | None:
    """Return what the check says now."""
    assert answer.check is not None
    status = answer.check()
    return None if status is None else (status.code, status.message)


def waits(answer: AwaitEffects) -> bool:
    """Tell whether the check says to go on waiting."""
    found = says(answer)
    return found is not None and found[0] is Code.WAIT


def test_bound_claims_need_nothing() -> None:
    """Nor do pods without claims."""
    made = world(bound("c", "v"), volume("v"))
    plugin, state = made.make(VolumeBinding), CycleState()
    for pod in (POD, a_pod("plain").build()):
        assert plugin.reserve(state, pod, "a") is None
        assert plugin.pre_bind(state, pod, "a") is None
        plugin.unreserve(state, pod, "a")


def test_a_volume_is_promised_to_one_pod() -> None:
    """The next pod does not find it any more, until the promise is taken back."""
    made = world(claim("c"), claim("d"), MANUAL, volume("v"))
    plugin, state = made.make(VolumeBinding), CycleState()
    signs = [plugin.sign(OTHER)]
    assert plugin.reserve(state, POD, "a") is None
    signs.append(plugin.sign(OTHER))
    assert len(made.refusals(plugin, CycleState(), OTHER)) == len(made.cluster.nodes)
    late = plugin.reserve(CycleState(), OTHER, "a")
    assert isinstance(late, Status)
    assert late.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    plugin.unreserve(state, POD, "a")
    plugin.unreserve(state, POD, "a")
    signs.append(plugin.sign(OTHER))
    assert made.refusals(plugin, CycleState(), OTHER) == {}
    assert len(set(signs)) == len(signs)


def test_a_place_that_was_found_before_the_promise_takes_another_volume() -> None:
    """Two pods that were placed together do not get the same one."""
    made = world(claim("c"), claim("d"), MANUAL, volume("v"), volume("w", size="20Gi"))
    plugin, states = made.make(VolumeBinding), (CycleState(), CycleState())
    for state, pod in zip(states, (POD, OTHER), strict=True):
        plugin.filter_all(state, pod, made.snapshot.nodes)
    effects = []
    for state, pod in zip(states, (POD, OTHER), strict=True):
        assert plugin.reserve(state, pod, "a") is None
        effects += plugin.pre_bind(state, pod, "a").effects
    assert [effect.volume_name for effect in effects] == ["v", "w"]


def test_a_promise_ends_when_the_object_changes() -> None:
    """What the API server says counts."""
    made = world(claim("c"), claim("d"), MANUAL, volume("v"))
    plugin, state = made.make(VolumeBinding), CycleState()
    plugin.reserve(state, POD, "a")
    change(made, volume("v"))
    assert made.refusals(plugin, CycleState(), OTHER) == {}
    plugin.unreserve(state, POD, "a")


def test_a_node_is_promised_to_a_claim() -> None:
    """Another pod with the claim can only go there."""
    made = world(claim("c"), storage_class())
    plugin, state = made.make(VolumeBinding), CycleState()
    sibling = mounts(a_pod("sibling"), "c").build()
    assert made.refusals(plugin, CycleState(), sibling) == {}
    plugin.reserve(state, POD, "a")
    assert made.refusals(plugin, CycleState(), sibling).keys() == {"b"}
    plugin.unreserve(state, POD, "a")
    assert made.refusals(plugin, CycleState(), sibling) == {}


def test_what_is_written() -> None:
    """Volumes that are there are bound, nodes are selected for the others; versions are preconditions."""
    static = reserved(world(claim("c"), MANUAL, volume("v", meta={"resourceVersion": "7"})))[2]
    assert static.effects == (BindVolume("v", "7", "default", "c", "uid-c"),)
    dynamic = reserved(world(claim("c", meta={"resourceVersion": "8"}), storage_class()))[2]
    assert dynamic.effects == (SelectNode("default", "c", "8", "a"),)
    assert (dynamic.until_key, dynamic.timeout_seconds) == ("VolumeBinding", 600)


def test_what_is_so_already_is_not_written() -> None:
    """It is waited for all the same."""
    reference = {"namespace": "default", "name": "c", "uid": "uid-c"}
    answer = reserved(world(claim("c"), MANUAL, volume("v", claimRef=reference)))[2]
    assert answer.effects == ()
    assert waits(answer)
    named = reserved(world(claim("c"), MANUAL, volume("v", claimRef={"namespace": "default", "name": "c"})))[2]
    assert named.effects == (BindVolume("v", "1", "default", "c", "uid-c"),)


def test_a_volume_that_is_there_is_waited_for() -> None:
    """Until the write has come back and the controller has completed the binding."""
    made = world(claim("c"), MANUAL, volume("v"))
    answer = reserved(made)[2]
    assert waits(answer)
    change(made, claim("c"), volume_name="v", is_bind_completed=True)
    assert waits(answer)
    change(made, volume("v"), claim=ClaimReference("default", "c", "uid-c"))
    assert says(answer) is None


def test_a_volume_to_be_made_is_waited_for() -> None:
    """The volume may come after the claim says its name."""
    made = world(claim("c"), storage_class())
    answer = reserved(made)[2]
    assert waits(answer)
    change(made, claim("c"), selected_node="a")
    assert waits(answer)
    change(made, claim("c"), volume_name="new", is_bind_completed=True)
    assert waits(answer)
    made.put(volume("new", on="a"))
    assert says(answer) is None


@pytest.mark.parametrize(
    ("happening", "text"),
    [
        (lambda w: w.cluster.objects.drop(Claim, ("default", "c")), 'persistentvolumeclaim "c" not found'),
        (lambda w: change(w, claim("c"), uid="another"), 'persistentvolumeclaim "c" not found'),
        (lambda w: w.cluster.objects.drop(PersistentVolume, ("", "v")), 'persistentvolume "v" not found'),
        (lambda w: change(w, volume("v"), claim=None), 'ClaimRef got reset for pv "v"'),
        (lambda w: change(w, volume("v", on="b")), 'ClaimRef got reset for pv "v"'),
        (lambda w: w.cluster.remove_node("a"), 'failed to get node "a"'),
        (lambda w: w.cluster.remove_pod("uid-pod"), "pod does not exist any more"),
    ],
)
def test_waiting_for_a_volume_ends_when_there_is_no_hope(happening: Any, text: str) -> None:
    """Then everything is given back and the pod is placed anew."""
    made = world(claim("c"), MANUAL, volume("v"))
    answer = reserved(made)[2]
    happening(made)
    found = says(answer)
    assert found is not None
    assert found[0] is Code.ERROR
    assert text in found[1]


@pytest.mark.parametrize(
    ("happening", "text"),
    [
        (lambda w: change(w, claim("c"), selected_node=None), 'provisioning failed for PVC "c"'),
        (lambda w: change(w, claim("c"), selected_node="b"), 'provisioning failed for PVC "c"'),
        (
            lambda w: (change(w, claim("c"), selected_node="a", volume_name="new"), w.put(volume("new", on="b"))),
            'pv "new" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
    ],
)
def test_waiting_for_a_new_volume_ends_when_there_is_no_hope(happening: Any, text: str) -> None:
    """A provisioner that fails takes the node's name away again."""
    made = world(claim("c"), storage_class())
    answer = reserved(made)[2]
    happening(made)
    assert says(answer) == (Code.ERROR, f"binding volumes: {text}")


def test_labels_of_the_node_may_change_meanwhile() -> None:
    """A volume that has gone out of reach is given back; an in-tree one is judged as its driver's."""
    made = world(claim("c"), MANUAL, volume("v", on="a"))
    answer = reserved(made)[2]
    change(made, volume("v", on="a"), claim=ClaimReference("default", "c", "uid-c"))
    made.cluster.set_node(a_node("a").label("kubernetes.io/hostname", "renamed").build())
    found = says(answer)
    assert found is not None
    assert "node affinity doesn't match" in found[1]
    disk = volume("v", on="a", awsElasticBlockStore={"volumeID": "aws://z/odd"})
    other = world(claim("c"), MANUAL, disk)
    answer = reserved(other)[2]
    change(other, disk, claim=ClaimReference("default", "c", "uid-c"))
    assert waits(answer)
    other.put(csi_node("a", {}, "kubernetes.io/aws-ebs"))
    found = says(answer)
    assert found is not None
    assert "failed to translate pv to csi" in found[1]


def test_pods_that_share_a_state_have_their_own_promises() -> None:
    """Pods of one shape are placed with one state."""
    made = world(claim("c"), storage_class())
    plugin, state = made.make(VolumeBinding), CycleState()
    sibling = mounts(a_pod("sibling"), "c").build()
    assert plugin.reserve(state, POD, "a") is None
    assert plugin.pre_bind(state, sibling, "a") is None
    assert plugin.pre_bind(state, POD, "a") is not None
