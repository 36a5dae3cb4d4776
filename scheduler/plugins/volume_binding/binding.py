"""Binding: what was reserved for a pod, how it is written, and whether it has become true.

For the plugin beside it: kube-scheduler's AssumePodVolumes, BindPodVolumes and checkBindings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from scheduler.framework.effects import BindVolume, SelectNode
from scheduler.framework.status import Status
from scheduler.model import Claim, CSINode, PersistentVolume
from scheduler.model.csi_migration import MigrationError, migrated
from scheduler.model.storage import ClaimReference

from .finding import NONE

if TYPE_CHECKING:
    from scheduler.framework.effects import Effect
    from scheduler.model import Node, Pod
    from scheduler.state.cluster import ClusterState
    from scheduler.state.objects import Objects

    from .assumed import Assumed
    from .finding import Found

_WAITING = Status.wait(0, "waits for its volumes")


@dataclass(frozen=True, slots=True)
class Step:
    """One claim that is given a volume, or for which one is made."""

    claim: Claim
    #: The volume that it gets; None if one is made.
    volume: PersistentVolume | None
    #: What was assumed; None if that was so already, and there is nothing to write.
    assumed: Claim | PersistentVolume | None


def steps_at(found: Found, row: int, node_name: str) -> tuple[Step, ...]:
    """Return what has to be done for a pod on a row: volumes that are there first, then those to be made."""
    steps = []
    for binding in found.bindings:
        if (index := int(binding.choice[row])) != NONE:
            claim, volume = binding.claim, binding.volumes[index]
            reference = ClaimReference(claim.namespace, claim.name, claim.uid)
            is_done = volume.claim == reference
            bound = None if is_done else msgspec.structs.replace(volume, claim=reference)
            steps.append(Step(claim, volume, bound))
    for provision in found.provisions:
        if provision.where[row]:
            claim = provision.claim
            is_done = claim.selected_node == node_name
            steps.append(
                Step(claim, None, None if is_done else msgspec.structs.replace(claim, selected_node=node_name))
            )
    return tuple(steps)


def assume(steps: tuple[Step, ...], assumed: Assumed) -> None:
    """Let others see what was decided. `revert` is the inverse."""
    for step in steps:
        if isinstance(step.assumed, PersistentVolume):
            assumed.assume_volume(step.assumed)
        elif step.assumed is not None:
            assumed.assume_claim(step.assumed)


def revert(steps: tuple[Step, ...], assumed: Assumed) -> None:
    """Take back what was assumed."""
    for step in steps:
        if step.assumed is not None:
            assumed.revert(step.assumed)


def effects_of(steps: tuple[Step, ...]) -> tuple[Effect, ...]:
    """Return what has to be written."""
    effects: list[Effect] = []
    for step in steps:
        claim = step.claim
        if isinstance(step.assumed, PersistentVolume):
            volume = step.assumed
            effects.append(BindVolume(volume.name, volume.resource_version, claim.namespace, claim.name, claim.uid))
        elif step.assumed is not None:
            node_name = step.assumed.selected_node or ""
            effects.append(SelectNode(claim.namespace, claim.name, claim.resource_version, node_name))
    return tuple(effects)


def check(pod: Pod, node_name: str, steps: tuple[Step, ...], cluster: ClusterState) -> Status | None:
    """Tell whether all claims are bound: None if they are, a wait, or an error when they will not be."""
    node = cluster.nodes.get(node_name)
    if node is None:
        return _failed(f'failed to get node "{node_name}"')
    if pod.uid not in cluster.pods:
        return _failed("pod does not exist any more")
    for step in steps:
        status = _check_step(step, node, cluster.objects)
        if status is not None:
            return status
    return None


def _check_step(step: Step, node: Node, objects: Objects) -> Status | None:
    claim = objects.get(Claim, *step.claim.key)
    if claim is None or claim.uid != step.claim.uid:
        return _failed(f'failed to check binding: persistentvolumeclaim "{step.claim.name}" not found')
    if step.volume is not None:
        status = _check_volume(step, step.volume, node, objects)
    else:
        status = _check_made(step, claim, node, objects)
    return status if status is not None or claim.is_bound else _WAITING


def _check_volume(step: Step, former: PersistentVolume, node: Node, objects: Objects) -> Status | None:
    """Check a volume that a claim was given."""
    volume = objects.get(PersistentVolume, "", former.name)
    if volume is None:
        return _failed(f'failed to check binding: persistentvolume "{former.name}" not found')
    if step.assumed is not None and volume == former:
        return _WAITING  # our own write has not come back yet
    text = _unreachable(volume, node, objects) or _reset(volume)
    return _failed(text) if text else None


def _check_made(step: Step, claim: Claim, node: Node, objects: Objects) -> Status | None:
    """Check a claim for which a volume is being made."""
    if step.assumed is not None and claim == step.claim:
        return _WAITING
    if claim.selected_node != node.name:
        return _failed(f'provisioning failed for PVC "{claim.name}"')
    volume = objects.get(PersistentVolume, "", claim.volume_name)
    if volume is None:
        return None if not claim.volume_name else _WAITING  # it may be on its way
    text = _unreachable(volume, node, objects)
    return _failed(text) if text else None


def _reset(volume: PersistentVolume) -> str:
    """Return that a volume is meant for nobody any more; empty if it is meant for someone."""
    return "" if volume.claim is not None and volume.claim.uid else f'ClaimRef got reset for pv "{volume.name}"'


def _unreachable(volume: PersistentVolume, node: Node, objects: Objects) -> str:
    """Return why a volume cannot be used on a node; empty if it can."""
    if volume.in_tree is not None:
        csi_node = objects.get(CSINode, "", node.name)
        if csi_node is not None and volume.in_tree.plugin in csi_node.migrated_plugins:
            try:
                volume = migrated(volume)
            except MigrationError as error:
                return f"failed to translate pv to csi: {error}"
    if volume.reach is None or volume.reach.covers(node.labels):
        return ""
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'


def _failed(text: str) -> Status:
    return Status.error(f"binding volumes: {text}")
