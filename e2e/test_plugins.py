"""The tutorial's plugin in the running scheduler: the classic gang at Permit, beside the built-in whole-gang decision."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ControlPlane
from e2e.deployment import Replica, apply_manifests
from e2e.objects import World
from e2e.test_operations import namespaced

LABELS = {"classic-gang/name": "old-style", "classic-gang/size": "3"}


@pytest.fixture
def own(assets: Path, tmp_path: Path) -> Iterator[World]:
    """A control plane whose scheduler has the tutorial's plugin enabled."""
    with ControlPlane(controller_manager=True, kwok=True, programs=assets) as plane:
        apply_manifests(plane)
        profile = {
            "schedulerName": "ai-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "classic_gang:ClassicGang"}]}},
        }
        replica = Replica(plane, tmp_path, profiles=[profile]).wait_ready().wait_leading()
        yield namespaced(plane)
        replica.kill()


def test_classic_gang_waits_at_permit_beside_whole_gangs(own: World) -> None:
    """Two of three labelled pods wait with their places reserved and say so; the third lets all go; whole gangs go on meanwhile."""
    own.nodes(3)
    for i in range(2):
        own.pod(f"classic-{i}", gpus=8, labels=LABELS)
    message = own.wait_condition("classic-0", "SchedulingGated")["message"]
    assert "Permit" in message
    names = own.gang("whole", 2, gpus=4)
    found = own.wait_placed(*names)
    assert not any(name.startswith("classic") for name in found)
    for name in names:
        own.delete_pod(name)
    own.pod("classic-2", gpus=8, labels=LABELS)
    found = own.wait_placed("classic-0", "classic-1", "classic-2")
    assert len({found[f"classic-{i}"] for i in range(3)}) == 3
