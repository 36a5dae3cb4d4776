"""Hints: whether a claim that changed may cure the refusal of a pod.

For the plugin beside it: kube-scheduler's `isSchedulableAfterClaimChange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.device_claims import DeviceClaim

if TYPE_CHECKING:
    from scheduler.framework.change import Change
    from scheduler.model import Pod


def could_help(change: Change, pod: Pod) -> bool:
    """Tell whether a claim is one of the pod's, or had devices before that it may have given back."""
    namespace, name = change.key
    if namespace == pod.namespace and any(use.claim_name == name for use in pod.claims):
        return True
    return not isinstance(change.former, DeviceClaim) or change.former.allocation is not None
