"""Gang phases: what a PodGroup's status says, from the members as they are.

For the engine, when a group's status is due; O(members).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.model.gang import BELOW_MINIMUM
from scheduler.model.needs import Needs, minimum_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scheduler.framework.status import Status
    from scheduler.framework.workload import Workload
    from scheduler.model import Gang, Pod
    from scheduler.state.cluster import ClusterState


def counts_of(members: list[Pod]) -> dict[str, int]:
    """Count the members by state: pending, bound (on a node, not yet running), running, succeeded, failed."""
    counts = dict.fromkeys(("pending", "bound", "running", "succeeded", "failed"), 0)
    for pod in members:
        counts[state_of(pod)] += 1
    return counts


def state_of(pod: Pod) -> str:
    """Return the state of a member as the status counts it."""
    if pod.phase in ("Succeeded", "Failed", "Running"):
        return pod.phase.lower()
    return "bound" if pod.node_name else "pending"


def is_bound(pod: Pod) -> bool:
    """Tell whether a member is on a node for the API server, or has finished well."""
    return pod.phase == "Succeeded" or bool(pod.node_name and not pod.is_terminal and not pod.is_terminating)


def needs_with(gang: Gang, members: Iterable[Pod], cluster: ClusterState) -> Needs:
    """Return what a gang still needs if these members count, and they alone."""
    return Needs(gang, Counter(map(cluster.groups.role_of, members)))


def is_enough(workload: Workload, uids: Iterable[str]) -> bool:
    """Tell whether these of its pending pods make up what a workload needs placed together."""
    uids, needs = list(uids), workload.needs
    if needs is None:
        return len(uids) >= max(workload.needed, 1)
    return bool(uids) and not needs.missing(Counter(needs.roles.get(uid, "") for uid in uids))


def wishes_of(gang: Gang | None) -> object:
    """Return what a gang asks for besides numbers; None for single pods.  Plans that were made for something else are void."""
    if gang is None:
        return None
    return gang.key, gang.topology, tuple((s.name, s.parent, s.topology) for s in gang.subgroups)


def phase_of(gang: Gang, members: list[Pod], cluster: ClusterState, *, in_flight: bool) -> str:
    """Return the group's phase.

    Invalid: the object makes no sense.  Pending: too few members, or no room.  Scheduling: reserved, or being bound.
    Scheduled: the minimum is on nodes.  Running: the minimum runs or has succeeded.  Finished: the minimum has
    succeeded.  Failed: some failed, and too few are left to reach the minimum.
    """
    if gang.problems:
        return "Invalid"

    def reach(*states: str) -> bool:
        pods = [pod for pod in members if state_of(pod) in states]
        return bool(pods) and not needs_with(gang, pods, cluster).missing()

    if reach("succeeded"):
        return "Finished"
    if reach("running", "succeeded"):
        return "Running"
    if any(pod.phase == "Failed" for pod in members) and not reach("pending", "bound", "running", "succeeded"):
        return "Failed"
    if reach("bound", "running", "succeeded"):
        return "Scheduled"
    return "Scheduling" if in_flight else "Pending"


def condition_of(
    gang: Gang,
    members: list[Pod],
    cluster: ClusterState,
    refusal: Status | None,
    *,
    told: Collection[Pod],
    was_complete: bool,
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Scheduled; a gang that was complete is told apart.

    `told` are members that run on under notice of their eviction: they are on nodes for now.
    """
    if gang.problems:
        return "False", "InvalidPodGroup", "; ".join(gang.problems)
    on_nodes = [pod for pod in members if pod.phase == "Succeeded" or (pod.node_name and cluster.counts_as_placed(pod))]
    placed = [*on_nodes, *told]
    needs = needs_with(gang, placed, cluster)
    if placed and not needs.missing():
        return "True", "Scheduled", f"at least {minimum_of(gang)} members are on nodes or have succeeded"
    if was_complete and placed:
        text = f"{progress(gang, len(placed), needs)}; the gang was complete before"
        return "False", BELOW_MINIMUM, f"{text}; {refusal.message}" if refusal is not None else text
    if refusal is not None and refusal.reasons:
        return "False", refusal.reasons[0].code, refusal.reasons[0].text
    return "False", "WaitingForMembers", progress(gang, len(placed), needs)


def progress(gang: Gang, count: int, needs: Needs) -> str:
    """Return how many members count towards which minimum, with the roles that are short."""
    shortfalls = ", ".join(f"{name}: {within} of {wanted}" for name, within, wanted in needs.shortfalls())
    return f"{count} of {minimum_of(gang)} members are on nodes{f' ({shortfalls})' if shortfalls else ''}"
