"""The table of themes: what each one aims at, on what cluster it stands, and which others may join it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from . import affinity, attachments, nodeaffinity, nodes, preemption, resources, spread, volumes
from .claims import claims, claims_broken, claims_choice, claims_held
from .extended_claims import claims_extended
from .images import images
from .ports import host_ports
from .requests import request
from .world import World


class Ground(Enum):
    """What a case stands on before its themes shape it."""

    ROOMY = "nodes with room for everything"
    TIGHT = "nodes that are nearly full"
    FULL = "nodes without room, for preemption"
    NONE = "no cluster: a request case"


@dataclass(frozen=True)
class Theme:
    """One way of making a case adversarial.

    `filters` and `scores` name the plugins that the theme is aimed at; `joins` tells whether it may be added to a case of
    another theme, which a theme that would end most cycles early may not.
    """

    apply: Callable[[World], None]
    filters: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    ground: Ground = Ground.ROOMY
    joins: bool = True

    @property
    def is_soft(self) -> bool:
        """Tells whether the theme rejects no node, or hardly one."""
        return bool(self.scores) and not self.filters


FIT = ("NodeResourcesFit",)
BALANCED = ("NodeResourcesBalancedAllocation",)
NAMED = ("NodeAffinity",)
BETWEEN_PODS = ("InterPodAffinity",)
SPREAD = ("PodTopologySpread",)
BINDING = ("VolumeBinding",)
TAINTED = ("TaintToleration",)
LIMITS = ("NodeVolumeLimits",)
DEVICES = ("DynamicResources",)
BOTH = (*FIT, *BALANCED)

THEMES: dict[str, Theme] = {
    "node_name": Theme(nodes.node_name, ("NodeName",), joins=False),
    "unschedulable": Theme(nodes.unschedulable, ("NodeUnschedulable",)),
    "taints": Theme(nodes.taints, TAINTED),
    "taint_numbers": Theme(nodes.taint_numbers, TAINTED),
    "soft_taints": Theme(nodes.soft_taints, scores=TAINTED),
    "declared": Theme(nodes.declared, ("NodeDeclaredFeatures",)),
    "node_selector": Theme(nodeaffinity.node_selector, NAMED),
    "node_affinity": Theme(nodeaffinity.node_affinity, NAMED),
    "node_preference": Theme(nodeaffinity.node_preference, scores=NAMED),
    "added_affinity": Theme(nodeaffinity.added_affinity, NAMED, NAMED),
    "host_ports": Theme(host_ports, ("NodePorts",)),
    "images": Theme(images, scores=("ImageLocality",)),
    "heavy": Theme(resources.heavy, FIT, ground=Ground.TIGHT),
    "extended": Theme(resources.extended, FIT),
    "crowded": Theme(resources.crowded, FIT),
    "zero": Theme(resources.zero, scores=BOTH, ground=Ground.TIGHT),
    "inits": Theme(resources.inits, FIT, BOTH, ground=Ground.TIGHT),
    "overhead": Theme(resources.overhead, scores=BOTH, ground=Ground.TIGHT),
    "pod_level": Theme(resources.pod_level, scores=BOTH, ground=Ground.TIGHT),
    "in_place": Theme(resources.in_place, FIT, BOTH, ground=Ground.TIGHT),
    "fit_strategy": Theme(resources.fit_strategy, scores=FIT, ground=Ground.TIGHT),
    "balanced": Theme(resources.balanced, scores=BALANCED, ground=Ground.TIGHT),
    "pod_affinity": Theme(affinity.pod_affinity, BETWEEN_PODS),
    "solitary_affinity": Theme(affinity.solitary_affinity, BETWEEN_PODS),
    "pod_anti_affinity": Theme(affinity.pod_anti_affinity, BETWEEN_PODS),
    "guarded": Theme(affinity.guarded, BETWEEN_PODS),
    "pod_preferences": Theme(affinity.pod_preferences, scores=BETWEEN_PODS),
    "spread_hard": Theme(spread.spread_hard, SPREAD),
    "spread_soft": Theme(spread.spread_soft, scores=SPREAD),
    "spread_list": Theme(spread.spread_list, SPREAD, SPREAD),
    "spread_system": Theme(spread.spread_system, scores=SPREAD),
    "volumes_bound": Theme(volumes.volumes_bound, BINDING),
    "volumes_late": Theme(volumes.volumes_late, BINDING, BINDING),
    "volumes_dynamic": Theme(volumes.volumes_dynamic, BINDING, BINDING),
    "volume_scores": Theme(volumes.volume_scores, scores=BINDING),
    "volumes_broken": Theme(volumes.volumes_broken, BINDING, joins=False),
    "ephemeral": Theme(volumes.ephemeral, BINDING),
    "volume_zone": Theme(volumes.volume_zone, ("VolumeZone",)),
    "disks": Theme(attachments.disks, ("VolumeRestrictions",)),
    "rwop": Theme(attachments.rwop, ("VolumeRestrictions",), joins=False),
    "csi_limits": Theme(attachments.csi_limits, LIMITS),
    "nominated": Theme(preemption.nominated, FIT, ground=Ground.TIGHT),
    "preempt_cpu": Theme(preemption.preempt_cpu, ground=Ground.FULL),
    "preempt_count": Theme(preemption.preempt_count, ground=Ground.FULL),
    "preempt_devices": Theme(preemption.preempt_devices, ground=Ground.FULL),
    "preempt_ports": Theme(preemption.preempt_ports, ground=Ground.FULL),
    "preempt_spread": Theme(preemption.preempt_spread, ground=Ground.FULL),
    "preempt_rivals": Theme(preemption.preempt_rivals, ground=Ground.FULL),
    "preempt_claim": Theme(preemption.preempt_claim, ground=Ground.FULL),
    "preempt_volumes": Theme(preemption.preempt_volumes, ground=Ground.FULL),
    "preempt_budgets": Theme(preemption.preempt_budgets, ground=Ground.FULL),
    "requests": Theme(request, ground=Ground.NONE),
    "claims": Theme(claims, DEVICES),
    "claims_choice": Theme(claims_choice, DEVICES, DEVICES),
    "claims_held": Theme(claims_held, DEVICES),
    "claims_broken": Theme(claims_broken, DEVICES, joins=False),
    "claims_extended": Theme(claims_extended, (*FIT, *DEVICES)),
}

EXCLUSIVE = (
    {"volumes_bound", "volumes_late", "volumes_dynamic", "volume_scores", "volumes_broken", "ephemeral", "volume_zone"}
    | {"csi_limits", "rwop", "preempt_claim", "preempt_volumes"},
    {"spread_list", "spread_system", "spread_hard", "spread_soft", "preempt_spread"},
    {"taint_numbers", "soft_taints", "taints"},
    {"claims", "claims_choice", "claims_held", "claims_broken", "claims_extended"},
    {"claims_extended", "fit_strategy"},
    {"claims_extended", "balanced"},
)
"""Themes of one set use the same names of objects or undo each other: at most one of each set shapes a case.

Where extended resources are scored, kube-scheduler counts the devices that serve them, and we do not.
"""

JOINS_PREEMPTION = (
    ("budgets", preemption.budgets, 0.65),
    ("earlier", preemption.earlier, 0.15),
    ("nominated", preemption.nominated, 0.2),
    ("guarded", affinity.guarded, 0.12),
    ("taints", nodes.taints, 0.12),
    ("unschedulable", nodes.unschedulable, 0.1),
    ("node_affinity", nodeaffinity.node_affinity, 0.1),
    ("pod_anti_affinity", affinity.pod_anti_affinity, 0.1),
    ("spread_hard", spread.spread_hard, 0.08),
    ("claims", claims, 0.08),
    ("above", preemption.add_peer_above, 0.1),
)
"""What may join a preemption: tag, theme, how often."""
