"""Hints: whether a claim that changed may cure the refusal of a pod.

For the plugin beside it: kube-scheduler's `isSchedulableAfterClaimChange`.  That a claim has given devices back is an event of
its own, which everybody hears of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.model import Pod


def could_help(change: Change, pod: Pod) -> bool:
    """Tell whether a claim is one of the pod's."""
    namespace, name = change.key
    return namespace == pod.namespace and any(use.claim_name == name for use in pod.claims)
