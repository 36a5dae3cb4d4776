"""Storage in a simulation: what is checked, who is bound to what when, and what the scheduler asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.effects import BindVolume, EvictPod, PodRef, PrepareBinding, SelectNode
from scheduler.model import Namespace, Owner
from scheduler.model.label_tests import LabelTest
from scheduler.model.storage import (
    Claim,
    CSIDriver,
    CSINode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)

from .test_loading import problems_of
from .worlds import (
    PREFIX,
    ZONE,
    a_claim,
    a_pod,
    a_storage_class,
    a_volume,
    a_world,
    nodes,
    replicas,
    run,
    run_checked,
    start,
    using,
    workload,
)

if TYPE_CHECKING:
    from scheduler.sim.run import Simulation


def begun(*manifests: Any, seconds: float = 0.0) -> Simulation:
    """Return a simulation in which everything of its first moments has happened."""
    simulation = start(a_world(*manifests))
    while (
        moment := simulation.cluster.agenda.next_moment()
    ) is not None and moment <= simulation.world.start + seconds:
        simulation.advance()
    return simulation


def claim_in(simulation: Simulation, name: str = "c") -> Claim:
    """Return a claim as the engine knows it."""
    found = simulation.engine.state.objects.get(Claim, "default", name)  # type: ignore[attr-defined]
    assert found is not None
    return found


def volume_in(simulation: Simulation, name: str) -> PersistentVolume | None:
    """Return a volume as the engine knows it."""
    return simulation.engine.state.objects.get(PersistentVolume, "", name)  # type: ignore[attr-defined, no-any-return]


def prepare(simulation: Simulation, *effects: Any) -> str:
    """Carry out what a pod needs before its binding; return why it failed, or nothing."""
    simulation.cluster.apply(PrepareBinding(PodRef("default", "p", "uid"), "volumes", effects))
    return simulation.cluster.take_inputs()[-1].failure  # type: ignore[attr-defined, no-any-return]


# What reaches the engine.


def test_every_kind_that_is_only_read_reaches_the_engine() -> None:
    """With its key; namespaces that are only used are there, too, with the label of their name."""
    csi = {"apiVersion": "storage.k8s.io/v1"}
    others = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}}},
        {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"}, "spec": {}},
        csi | {"kind": "CSINode", "metadata": {"name": "node-0"}, "spec": {"drivers": [{"name": "d"}]}},
        csi | {"kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {}},
        csi | {"kind": "CSIStorageCapacity", "metadata": {"name": "k"}, "storageClassName": "fast", "capacity": "1Gi"},
        csi
        | {
            "kind": "VolumeAttachment",
            "metadata": {"name": "va"},
            "spec": {"attacher": "d", "nodeName": "node-0", "source": {"persistentVolumeName": "v"}},
        },
    ]
    sets = [replicas("ReplicaSet", "rs", 0), replicas("StatefulSet", "sts", 0)]
    stored = [a_claim("c", class_name="fast"), a_volume("v"), a_storage_class("fast")]
    simulation = begun(*nodes(1, 0), *others, *sets, *stored)
    objects = simulation.engine.state.objects  # type: ignore[attr-defined]
    assert {kind.__name__: sorted(objects.all(kind)) for kind in (
        Namespace, Owner, Claim, PersistentVolume, StorageClass, CSINode, CSIDriver, StorageCapacity, VolumeAttachment
    )} == {
        "Namespace": [("", "default"), ("", "team")],
        "Owner": [("default", f"{kind}/{name}") for kind, name in (
            ("ReplicaSet", "rs"), ("ReplicationController", "r"), ("Service", "s"), ("StatefulSet", "sts"))],
        "Claim": [("default", "c")], "PersistentVolume": [("", "v")], "StorageClass": [("", "fast")],
        "CSINode": [("", "node-0")], "CSIDriver": [("", "d")], "StorageCapacity": [("default", "k")],
        "VolumeAttachment": [("", "va")],
    }  # fmt: skip
    assert objects.get(Namespace, "", "team").labels == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert objects.get(Owner, "default", "ReplicaSet/rs").selector == (LabelTest("app", "In", ("rs",)),)


def test_a_deployment_has_a_replica_set_to_which_its_pods_belong() -> None:
    """Its selector has the hash that the pods' label has."""
    simulation = begun(*nodes(1, 0), replicas("Deployment", "web", 1))
    (sim,) = simulation.cluster.pods.values()
    (owner,) = sim.pod.owners
    template_hash = sim.pod.labels["pod-template-hash"]
    assert (owner.kind, owner.name) == ("ReplicaSet", f"web-{template_hash}")
    found = simulation.engine.state.objects.get(Owner, "default", f"ReplicaSet/{owner.name}")  # type: ignore[attr-defined]
    assert found.selector == (LabelTest("app", "In", ("web",)), LabelTest("pod-template-hash", "In", (template_hash,)))


# Checks.


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (a_claim("c", accessModes=[]), "spec.accessModes: is missing; allowed: ReadWriteOnce, ReadOnlyMany,"),
        (a_claim("c", accessModes=["RWO"]), "spec.accessModes[0]: 'RWO' is unknown; allowed: ReadWriteOnce,"),
        (a_claim("c", "10 gigs"), "spec.resources.requests[storage]: '10 gigs' is not a quantity"),
        (a_claim("c", resources={}), "spec.resources.requests[storage]: is missing; allowed: an amount, such as 10Gi"),
        (a_claim("c", volumeMode="block"), "spec.volumeMode: 'block' is unknown; allowed: Filesystem, Block"),
        (a_claim("c", storageClassName=1), 'spec.storageClassName: 1 is a number; allowed: text, such as "1" in quotes'),
        (a_volume("v", capacity={}), "spec.capacity[storage]: is missing"),
        (a_volume("v", claimRef={"name": "c"}), "spec.claimRef: names no claim; allowed: namespace and name"),
        (a_storage_class("s", ""), "provisioner: is missing; allowed: the name of a provisioner"),
        (a_storage_class("s", volumeBindingMode="Later"), "volumeBindingMode: 'Later' is unknown; allowed: Immediate, WaitFor"),
        (a_pod("p", **using("")), "spec.volumes[0].persistentVolumeClaim.claimName: is missing"),
        (a_pod("p", volumes=[{"name": "v", "ephemeral": {}}]), "spec.volumes[0].ephemeral.volumeClaimTemplate: is missing"),
        (a_pod("p", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": a_claim("c", "x")["spec"]}}}]),
         "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: 'x' is not a quantity"),
        (replicas("StatefulSet", "s", 1, spec={"volumeClaimTemplates": [a_claim("D")]}),
         "spec.volumeClaimTemplates[0].metadata.name: 'D' is no DNS name"),
        (replicas("StatefulSet", "s", 1, spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
         "spec.selector.matchExpressions[0].operator: 'Is' is unknown"),
    ],
)  # fmt: skip
def test_what_the_api_server_would_refuse_is_a_problem(manifest: Any, expected: str) -> None:
    """With the field, and what is allowed there."""
    (problem,) = problems_of(manifest)
    assert expected in problem


def test_claims_that_the_input_lacks_are_noted() -> None:
    """A dump without claims leaves every pod that has one waiting."""
    notes = a_world(*nodes(1, 0), a_pod("p", **using("gone", "here")), a_claim("here")).notes
    (note,) = notes
    assert note.startswith("pods name PersistentVolumeClaim default/gone, which the input does not hold, so they wait")
    assert ",pvc,pv,sc," in note


def test_pods_of_replication_controllers_are_not_made() -> None:
    """A note says so."""
    controller = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"}, "spec": {}}
    assert a_world(*nodes(1, 0), controller).notes == (
        "no pods are made for 1 ReplicationController; those that the input holds count",
    )


# Controllers.


def test_a_claim_that_does_not_wait_gets_the_smallest_volume_that_fits() -> None:
    """At its creation, by size, class, access mode, mode and labels."""
    volumes = [
        a_volume("small", "5Gi"),
        a_volume("big", "50Gi"),
        a_volume("fits", "20Gi"),
        a_volume("block", "11Gi", volumeMode="Block"),
        a_volume("many", "11Gi", accessModes=["ReadOnlyMany"]),
        a_volume("other", "11Gi", "other"),
        a_volume("taken", "11Gi", claimRef={"namespace": "default", "name": "x"}),
    ]
    simulation = begun(*nodes(1, 0), *volumes, a_claim("c", class_name=""))
    claim, volume = claim_in(simulation), volume_in(simulation, "fits")
    assert (claim.volume_name, claim.phase, claim.is_bound) == ("fits", "Bound", True)
    assert volume is not None
    assert volume.is_for(claim)
    assert volume.phase == "Bound"


def test_a_volume_that_names_a_claim_is_bound_to_it_even_if_its_class_waits() -> None:
    """And a claim that names a volume."""
    named = a_volume("v", "20Gi", "waits", claimRef={"namespace": "default", "name": "c"})
    simulation = begun(
        *nodes(1, 0), a_storage_class("waits"), named, a_claim("c", class_name="waits"),
        a_volume("w"), a_claim("d", class_name="", volumeName="w"),
    )  # fmt: skip
    assert (claim_in(simulation).volume_name, claim_in(simulation, "d").is_bound) == ("v", True)


def test_a_claim_of_the_default_class_gets_a_new_volume_after_a_second() -> None:
    """If its provisioner can make one; in a zone, since no node was chosen."""
    default = {"metadata": {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}
    world = (*nodes(1, 0, **{ZONE: "a"}), a_storage_class("std", waits=False) | default, a_claim("c"))
    assert claim_in(begun(*world, seconds=0.9)).phase == "Pending"
    simulation = begun(*world, seconds=1.0)
    claim = claim_in(simulation)
    volume = volume_in(simulation, claim.volume_name)
    assert volume is not None
    assert (claim.class_name, claim.is_bound, volume.driver, volume.capacity_bytes) == (
        "std", True, "csi.example.com", 10 * 2**30,
    )  # fmt: skip
    assert volume.reach is not None
    assert (volume.reach.covers({ZONE: "a"}), volume.reach.covers({ZONE: "b"})) == (True, False)


@pytest.mark.parametrize("provisioner", ["kubernetes.io/no-provisioner", "csi.example.com"])
def test_a_claim_that_waits_for_its_consumer_gets_nothing_by_itself(provisioner: str) -> None:
    """Neither a volume that is there nor a new one."""
    simulation = begun(
        *nodes(1, 0), a_storage_class("waits", provisioner), a_volume("v", "20Gi", "waits"),
        a_claim("c", class_name="waits"), seconds=100,
    )  # fmt: skip
    assert (claim_in(simulation).volume_name, claim_in(simulation).phase) == ("", "Pending")


def test_a_chosen_node_gets_a_volume_in_its_zone_after_a_second() -> None:
    """As a provisioner makes it."""
    simulation = begun(
        *nodes(1, 0, prefix="a", **{ZONE: "a"}), *nodes(1, 0, prefix="b", **{ZONE: "b"}),
        a_storage_class("waits"), a_claim("c", class_name="waits"),
    )  # fmt: skip
    claim = claim_in(simulation)
    assert prepare(simulation, SelectNode("default", "c", claim.resource_version, "b-0")) == ""
    while simulation.advance():
        pass
    claim = claim_in(simulation)
    volume = volume_in(simulation, claim.volume_name)
    assert volume is not None
    assert volume.reach is not None
    assert (simulation.elapsed, claim.selected_node, claim.is_bound) == (1.0, "b-0", True)
    assert (volume.reach.covers({ZONE: "a"}), volume.reach.covers({ZONE: "b"})) == (False, True)


def test_a_volume_that_the_scheduler_chose_is_bound_at_once() -> None:
    """The claim, too."""
    simulation = begun(
        *nodes(1, 0), a_storage_class("local", "kubernetes.io/no-provisioner"), a_volume("v", "20Gi", "local"),
        a_claim("c", class_name="local"),
    )  # fmt: skip
    claim, volume = claim_in(simulation), volume_in(simulation, "v")
    assert volume is not None
    effect = BindVolume("v", volume.resource_version, "default", "c", claim.uid)
    assert prepare(simulation, effect) == ""
    while simulation.advance():
        pass
    assert (claim_in(simulation).volume_name, claim_in(simulation).is_bound, simulation.elapsed) == ("v", True, 0.0)


def test_what_has_changed_meanwhile_is_a_failure_and_ends_the_preparation() -> None:
    """The resource version is a precondition."""
    simulation = begun(
        *nodes(1, 0), a_storage_class("waits"), a_volume("v", "20Gi", "waits"), a_claim("c", class_name="waits")
    )
    chosen = SelectNode("default", "c", claim_in(simulation).resource_version, "node-0")
    failure = prepare(simulation, BindVolume("v", "0", "default", "c", "uid"), chosen)
    assert failure == "PersistentVolume v has changed meanwhile, or is gone"
    assert prepare(simulation, SelectNode("default", "c", "0", "node-0")).startswith(
        "PersistentVolumeClaim default/c has"
    )
    assert claim_in(simulation).selected_node is None


def test_room_that_a_driver_publishes_shrinks_with_each_volume_and_says_where_it_is() -> None:
    """A capacity belongs to the nodes that its labels match."""
    capacity = {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "k"},
        "storageClassName": "waits", "capacity": "15Gi", "nodeTopology": {"matchLabels": {"host": "node-0"}},
    }  # fmt: skip
    simulation = begun(
        *nodes(1, 0, host="node-0"), a_storage_class("waits"), a_claim("c", class_name="waits"), capacity
    )
    prepare(simulation, SelectNode("default", "c", claim_in(simulation).resource_version, "node-0"))
    while simulation.advance():
        pass
    objects = simulation.engine.state.objects  # type: ignore[attr-defined]
    assert objects.get(StorageCapacity, "default", "k").capacity_bytes == 5 * 2**30
    volume = volume_in(simulation, claim_in(simulation).volume_name)
    assert volume is not None
    assert volume.reach is not None
    assert (volume.reach.covers({"host": "node-0"}), volume.reach.covers({"host": "node-1"})) == (True, False)


def test_the_claim_of_an_ephemeral_volume_comes_and_goes_with_its_pod() -> None:
    """So does the volume that was made for it."""
    template = {"volumeClaimTemplate": {"spec": a_claim("", class_name="now")["spec"]}}
    pod = a_pod("p", volumes=[{"name": "scratch", "ephemeral": template}])
    simulation = begun(*nodes(1, 0), a_storage_class("now", waits=False), pod, seconds=1.0)
    claim = claim_in(simulation, "p-scratch")
    (sim,) = simulation.cluster.pods.values()
    assert (claim.controller_uid, claim.is_bound) == (sim.pod.uid, True)
    simulation.cluster.remove_pod(sim)
    objects = simulation.cluster.storage.objects
    assert (dict(objects.all(Claim)), dict(objects.all(PersistentVolume))) == ({}, {})


def test_a_stateful_pod_has_claims_of_its_own_which_stay() -> None:
    """One for each template and pod, named after both; the pod's volumes point there."""
    spec = {"volumeClaimTemplates": [a_claim("data", class_name="now")], "podManagementPolicy": "Parallel"}
    simulation = begun(
        *nodes(1, 0), a_storage_class("now", waits=False), replicas("StatefulSet", "web", 2, spec=spec), seconds=5.0
    )
    objects = simulation.engine.state.objects  # type: ignore[attr-defined]
    assert sorted(objects.all(Claim)) == [("default", "data-web-0"), ("default", "data-web-1")]
    first = next(sim for sim in simulation.cluster.pods.values() if sim.pod.name == "web-0")
    (volume,) = first.pod.volumes
    assert volume.persistent_volume_claim is not None
    assert (volume.name, volume.persistent_volume_claim.claim_name) == ("data", "data-web-0")
    before = claim_in(simulation, "data-web-0")
    simulation.cluster.delete_pod(first, 0)
    while simulation.advance():
        pass
    assert claim_in(simulation, "data-web-0") == before


def test_an_attachment_goes_with_the_last_pod_of_its_node_that_uses_the_volume() -> None:
    """Or a node of a dump would have no room for volumes for ever."""
    bound = {"metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    volume = a_volume("v", claimRef={"namespace": "default", "name": "c"})
    attachment = {
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
        "spec": {"attacher": "d", "nodeName": "node-0", "source": {"persistentVolumeName": "v"}},
    }  # fmt: skip
    pods = [a_pod("first", node="node-0", run=10, **using("c")), a_pod("last", node="node-0", run=20, **using("c"))]
    world = (*nodes(1, 0), a_claim("c", class_name="", volumeName="v") | bound, volume, attachment, *pods)
    for seconds, expected in ((15.0, [("", "va")]), (20.0, [])):
        simulation = begun(*world, seconds=seconds)
        objects = simulation.engine.state.objects  # type: ignore[attr-defined]
        assert list(objects.all(VolumeAttachment)) == expected


# With the scheduler's plugins.


def placed(simulation: Simulation) -> dict[str, str]:
    """Return the node of each pod that has one."""
    return {sim.pod.name: sim.pod.node_name for sim in simulation.cluster.pods.values() if sim.pod.node_name}


def test_a_stateful_set_gets_its_volumes_where_its_pods_are() -> None:
    """On two zones: each pod waits a second for its volume, and each claim is bound to one in the zone of the pod."""
    zones = [*nodes(1, 0, prefix="a", **{ZONE: "a"}), *nodes(1, 0, prefix="b", **{ZONE: "b"})]
    spread = {"labelSelector": {"matchLabels": {"app": "web"}}, "maxSkew": 1, "topologyKey": ZONE}
    spec = {"volumeClaimTemplates": [a_claim("data", class_name="waits")], "podManagementPolicy": "Parallel"}
    web = replicas(
        "StatefulSet", "web", 4, spec=spec,
        topologySpreadConstraints=[spread | {"whenUnsatisfiable": "DoNotSchedule"}],
    )  # fmt: skip
    simulation = run_checked(start(a_world(*zones, a_storage_class("waits"), web)))
    where = placed(simulation)
    assert sorted(where) == ["web-0", "web-1", "web-2", "web-3"]
    assert sorted(where.values()) == ["a-0", "a-0", "b-0", "b-0"]
    for pod, node in where.items():
        claim = claim_in(simulation, f"data-{pod}")
        volume = volume_in(simulation, claim.volume_name)
        assert claim.is_bound
        assert claim.selected_node == node
        assert volume is not None
        assert volume.reach is not None
        assert volume.reach.covers({ZONE: node[0]})
        assert not volume.reach.covers({ZONE: "b" if node[0] == "a" else "a"})
    assert workload(simulation.outcome(), "web").started == 1.0


def test_a_stateful_pod_comes_back_to_the_zone_of_its_volume() -> None:
    """Its claim stays when it goes, and with it the volume, however empty the other zone is."""
    zones = [*nodes(1, 0, prefix="a", cpu="2", **{ZONE: "a"}), *nodes(1, 0, prefix="b", cpu="64", **{ZONE: "b"})]
    volume = a_volume("v", class_name="local", zone="a")
    classes = a_storage_class("local", "kubernetes.io/no-provisioner")
    spec = {"volumeClaimTemplates": [a_claim("data", class_name="local")]}
    simulation = begun(*zones, classes, volume, replicas("StatefulSet", "web", 1, spec=spec), seconds=10.0)
    (sim,) = simulation.cluster.pods.values()
    first = sim.pod.uid
    assert placed(simulation) == {"web-0": "a-0"}
    simulation.cluster.apply(EvictPod(PodRef("default", "web-0", first), "PreemptionByScheduler", "to make room"))
    while simulation.advance():
        pass
    (sim,) = simulation.cluster.pods.values()
    assert sim.pod.uid != first
    assert placed(simulation) == {"web-0": "a-0"}
    assert claim_in(simulation, "data-web-0").volume_name == "v"


def test_a_pod_whose_claim_nobody_can_serve_waits_and_says_why() -> None:
    """No volume is there, and none is made."""
    pods = (a_claim("c", class_name="local"), a_pod("p", **using("c")))
    outcome = run(*nodes(1, 0), a_storage_class("local", "kubernetes.io/no-provisioner"), *pods)
    found = workload(outcome, "p")
    assert found.phase == "Pending"
    assert "didn't find available persistent volumes to bind" in found.reason


def test_a_volume_that_comes_later_lets_its_pod_go() -> None:
    """Without a wait for the next flush."""
    late = a_volume("v", class_name="local")
    late["metadata"]["annotations"] = {f"{PREFIX}/submit-seconds": "30"}
    pods = (a_claim("c", class_name="local"), a_pod("p", run=10, **using("c")))
    outcome = run(*nodes(1, 0), a_storage_class("local", "kubernetes.io/no-provisioner"), late, *pods)
    assert workload(outcome, "p").started == 30


def test_a_pod_with_an_ephemeral_volume_is_placed_with_the_volume_made_for_it() -> None:
    """Its claim is made with it, waits for it, and is bound a second later."""
    template = {"volumeClaimTemplate": {"spec": a_claim("", class_name="waits")["spec"]}}
    pod = a_pod("p", run=10, volumes=[{"name": "scratch", "ephemeral": template}])
    found = workload(run(*nodes(1, 0), a_storage_class("waits"), pod), "p")
    assert (found.phase, found.started) == ("Succeeded", 1.0)


CLAIMS = st.lists(
    st.tuples(st.sampled_from(["waits", "now", "local"]), st.sampled_from(["1Gi", "10Gi", "30Gi"])), max_size=6
)
VOLUMES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["5Gi", "20Gi"])), max_size=5)
PODS = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3, unique=True), st.integers(0, 3)), max_size=8)


@settings(max_examples=40)
@given(CLAIMS, VOLUMES, PODS)
def test_no_pod_is_ever_where_its_volumes_are_not(claims: Any, volumes: Any, pods: Any) -> None:
    """Whatever claims, volumes and pods there are, shared or not, and whenever they come; looked at after every moment."""
    zones = [*nodes(2, 0, prefix="a", **{ZONE: "a"}), *nodes(2, 0, prefix="b", **{ZONE: "b"})]
    classes = [
        a_storage_class("waits"), a_storage_class("now", waits=False), a_storage_class("local", "kubernetes.io/no-provisioner"),
    ]  # fmt: skip
    world = [a_claim(f"c{i}", size, name) for i, (name, size) in enumerate(claims)]
    world += [a_volume(f"v{i}", size, "local", zone=zone) for i, (zone, size) in enumerate(volumes)]
    world += [
        a_pod(f"p{i}", submit=moment, run=2, cpu="20", **using(*(f"c{c}" for c in mine if c < len(claims))))
        for i, (mine, moment) in enumerate(pods)
    ]
    simulation = run_checked(start(a_world(*zones, *classes, *world)))
    volumes_in_use = [c.volume_name for c in simulation.cluster.storage.objects.all(Claim).values() if c.volume_name]
    assert len(volumes_in_use) == len(set(volumes_in_use))
