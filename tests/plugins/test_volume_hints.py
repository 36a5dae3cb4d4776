"""What wakes a pod that a volume plugin refused: its own claims, and pods that give up what it wants."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.change import Change
from scheduler.framework.status import ClusterEvent, Reason
from tests.builders import PodBuilder, a_node, a_pod
from tests.plugins.asking import Cluster

ANY = Reason("Any", "anything")


def with_claim(name: str, claim: str) -> PodBuilder:
    """Return a pod with a claim."""
    return a_pod(name).patch_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def is_hope(plugin: str, pod: PodBuilder, change: Change) -> bool:
    """Ask a hint."""
    asked: Any = Cluster([a_node("n")]).plugin(plugin)
    return asked.queueing_hint(change.event, change, pod.build(), ANY)


@pytest.mark.parametrize("plugin", ["VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"])
@pytest.mark.parametrize(
    ("key", "hope"), [(("default", "data"), True), (("default", "other"), False), (("elsewhere", "data"), False)]
)
def test_only_own_claims_wake_a_pod(plugin: str, key: tuple[str, str], hope: bool) -> None:
    """By namespace and name."""
    assert is_hope(plugin, with_claim("p", "data"), Change(ClusterEvent.CLAIM_CHANGED, key=key)) is hope


def test_claims_of_ephemeral_volumes_are_own() -> None:
    """They bear the names of pod and volume."""
    pod = a_pod("p").patch_spec(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert is_hope("VolumeBinding", pod, Change(ClusterEvent.CLAIM_CHANGED, key=("default", "p-v")))


@pytest.mark.parametrize(("gone", "hope"), [("data", True), ("other", False)])
def test_exclusive_claim_is_free_when_its_user_goes(gone: str, hope: bool) -> None:
    """A pod with other claims frees nothing."""
    former = with_claim("gone", gone).on("n").build()
    change = Change(ClusterEvent.POD_REMOVED, "n", former.uid, former_pod=former)
    assert is_hope("VolumeRestrictions", with_claim("p", "data"), change) is hope


@pytest.mark.parametrize(("former", "hope"), [(with_claim("gone", "x"), True), (a_pod("gone"), False)])
def test_room_for_volumes_comes_from_pods_with_volumes(former: PodBuilder, hope: bool) -> None:
    """Whatever they are."""
    pod = former.on("n").build()
    change = Change(ClusterEvent.POD_REMOVED, "n", pod.uid, former_pod=pod)
    assert is_hope("NodeVolumeLimits", with_claim("p", "data"), change) is hope
