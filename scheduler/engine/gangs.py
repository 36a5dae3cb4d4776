"""Gang phases: what a PodGroup's status says, from the members as they are.

For the engine, when a group's status is due; O(members).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.gang import BELOW_MINIMUM

if TYPE_CHECKING:
    from scheduler.framework.status import Status
    from scheduler.model import Gang, Pod
    from scheduler.state.cluster import ClusterState


def counts_of(members: list[Pod]) -> dict[str, int]:
    """Count the members by state: pending, bound (on a node, not yet running), running, succeeded, failed."""
    counts = dict.fromkeys(("pending", "bound", "running", "succeeded", "failed"), 0)
    for pod in members:
        if pod.phase in ("Succeeded", "Failed", "Running"):
            counts[pod.phase.lower()] += 1
        else:
            counts["bound" if pod.node_name else "pending"] += 1
    return counts


def phase_of(gang: Gang, counts: dict[str, int], *, in_flight: bool) -> str:
    """Return the group's phase.

    Invalid: the object makes no sense.  Pending: too few members, or no room.  Scheduling: reserved, or being bound.
    Scheduled: the minimum is on nodes.  Running: the minimum runs or has succeeded.  Finished: the minimum has
    succeeded.  Failed: some failed, and too few are left to reach the minimum.
    """
    if gang.problems:
        return "Invalid"
    alive = counts["bound"] + counts["running"] + counts["succeeded"]
    if counts["succeeded"] >= gang.min_member:
        return "Finished"
    if counts["running"] + counts["succeeded"] >= gang.min_member:
        return "Running"
    if counts["failed"] and alive + counts["pending"] < gang.min_member:
        return "Failed"
    if alive >= gang.min_member:
        return "Scheduled"
    return "Scheduling" if in_flight else "Pending"


def condition_of(
    gang: Gang, members: list[Pod], cluster: ClusterState, refusal: Status | None, *, was_complete: bool
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Scheduled; a gang that was complete is told apart."""
    if gang.problems:
        return "False", "InvalidPodGroup", "; ".join(gang.problems)
    placed = sum(1 for pod in members if pod.phase == "Succeeded" or (pod.node_name and cluster.counts_as_placed(pod)))
    if placed >= gang.min_member:
        return "True", "Scheduled", f"at least {gang.min_member} members are on nodes or have succeeded"
    if was_complete and placed:
        text = f"{placed} of {gang.min_member} members are on nodes; the gang was complete before"
        return "False", BELOW_MINIMUM, f"{text}; {refusal.message}" if refusal is not None else text
    if refusal is not None and refusal.reasons:
        return "False", refusal.reasons[0].code, refusal.reasons[0].text
    return "False", "WaitingForMembers", f"{placed} of {gang.min_member} members are on nodes"
