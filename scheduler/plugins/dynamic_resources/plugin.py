"""DynamicResources gives pods the devices that their ResourceClaims ask for, and places them where the devices are.

At PreEnqueue and PreFilter, where claims must be there; at Filter, where the allocator says what a node can do; at Score,
which prefers first choices; at Reserve, where devices are assumed to be the pod's; at PreBind, which has that written; and at
PostFilter, which takes back an allocation that is of no use on any node.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.framework.plugin import AwaitEffects, Plugin
from scheduler.framework.status import ClusterEvent, Code, PreFilterResult, Reason, Status
from scheduler.framework.verdicts import Verdicts
from scheduler.model.device_claims import DeviceClaim
from scheduler.model.dialects.native import NAME as NATIVE_DIALECT

from .answers import CURES, UNAVAILABLE, Answer, Answers, Asked
from .args import DynamicResourcesArgs
from .asking import Asking
from .binding import Step, Steps, check, deallocation, devices_of, effects_of, is_ready, is_usable, undoing
from .boards import MOST_IN_VAIN, Boards
from .claimants import Waiters, is_local, others_everywhere, others_for
from .claims import Needed, is_exclusive, is_reserved, needed_claims, objection_to
from .extended import DELETED, STALE, deletion
from .hints import could_help
from .publishing import publish, published, withdraw
from .scoring import FULL, Links, preference
from .world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scheduler.framework.change import Change
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.plugin import Failure
    from scheduler.framework.workload import Workload
    from scheduler.model import Pod
    from scheduler.model.gang import Gang
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Ints, Nodes

    from .answers import Claimant
    from .boards import Board

    #: Pods that matter for every node, or None if they differ from node to node.
    Others = list[Claimant] | None

NAME = "DynamicResources"
DEALLOCATED = "deallocation of ResourceClaim completed"


class DynamicResources(Plugin):
    """Find devices for claims, and have them allocated."""

    NAME: ClassVar[str] = NAME
    Args = DynamicResourcesArgs
    READS_SHAPE_ONLY: ClassVar[bool] = True
    SIGNS_STORAGE_ONLY: ClassVar[bool] = True
    HELPS_WITHOUT_VICTIMS: ClassVar[bool] = True

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        """Start with nothing assumed."""
        super().__init__(args or DynamicResourcesArgs(), handle)
        self._patience: float = self.args.binding_timeout.total_seconds()
        self._kept: tuple[World, Asking, Boards] | None = None
        self._links = Links()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Keep a pod out of the queue until its claims are there."""
        return self._refusal(self._needed(pod).objection) if pod.claims else None

    def sign(self, pod: Pod) -> Hashable:
        """Return what the verdicts depend on beside the pod's shape and the nodes."""
        world = self._world
        extended = pod.extended if world.extended.served(pod) else ()
        if not pod.claims and not extended:
            return ()
        needed = self._needed(pod)
        wishes = [
            world.wish(claim) if claim.allocation is None and is_exclusive(pod, claim) else claim.key
            for claim in needed.claims
        ]
        return (needed.objection, *wishes, extended, *world.generations())

    def is_settled(self, state: CycleState, pod: Pod, point: str) -> bool:
        """Tell whether a pod that is placed somewhere changes nothing elsewhere: it does where devices or claims are shared."""
        if point == "score" or not self._concerns(pod):
            return True
        open_claims = [claim for claim in self._needed(pod).claims if claim.allocation is None]
        is_alone = all(is_exclusive(pod, claim) for claim in open_claims)
        is_open = bool(open_claims or self._world.extended.served(pod))
        return not is_open or (is_alone and not self._world.catalog.has_shared)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | PreFilterResult | None:
        """Leave pods without claims alone; refuse those whose claims or classes are not there."""
        if not self._concerns(pod):
            return Status.skip()
        needed = self._needed(pod)
        if text := objection_to(needed, self._world.class_of):
            return self._refusal(text)
        return None if needed.claims or self._world.extended.served(pod) else Status.skip()

    def queueing_hint(self, event: ClusterEvent, change: Change, pod: Pod, reason: Reason) -> bool:
        """Tell whether a claim that changed is one of the pod's, or gave devices back."""
        return event is not ClusterEvent.DEVICE_CLAIM_CHANGED or reason == STALE or could_help(change, pod)

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts:
        """Refuse nodes that claims cannot be used on, or that have no devices for them."""
        verdicts = Verdicts(len(nodes))
        if not self._concerns(pod):
            return verdicts
        claims, world = self._needed(pod).claims, self._world
        if (board := self._board(pod, claims, nodes)) is not None:
            return board.verdicts(nodes)
        reasons: dict[tuple[Code, Reason], list[int]] = {}
        in_vain = 0
        everywhere = others_everywhere(world, self._asking.waiters, claims, nodes.snapshot)
        rows, answers = nodes.rows.tolist(), dict[int, Answer]()
        for position in range(len(rows)) if claims else world.extended.where_needed(pod, nodes):
            index = rows[position]
            row = nodes.snapshot.all_rows[index]
            answer = answers[index] = self._answer(world, pod, claims, row, index, everywhere)
            if answer.status is not None:
                positions = reasons.setdefault((answer.status.code, answer.status.reasons[0]), [])
                positions.append(position)
                in_vain += answer.gave_up
                if in_vain == MOST_IN_VAIN:
                    positions += range(position + 1, len(nodes))
                    break
        if nodes.is_whole:
            state.write((NAME, "answers"), Asked(nodes.snapshot.epoch, len(nodes.snapshot.changed_rows), answers))
        for (code, reason), positions in reasons.items():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[positions] = True
            verdicts.reject(mask, code, reason)
        return verdicts

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Return how early the alternatives stand that each node has devices for, then how well its GPUs are linked; 0 without either."""
        found: Ints = np.zeros(len(nodes), dtype=np.int64)
        is_linked = self.args.prefers_connected and self._concerns(pod)
        claims = self._needed(pod).claims if pod.claims else ()
        has_choice = any(request.alternatives for claim in claims for request in claim.requests)
        if not has_choice and not is_linked:
            return found
        world, asked = self._world, state.read((NAME, "answers"))
        if (board := self._board(pod, claims, nodes)) is not None:
            preferred, linked = board.scores(nodes)
            return preferred * (FULL + 1) + linked if is_linked else preferred
        everywhere = others_everywhere(world, self._asking.waiters, claims, nodes.snapshot)
        rows = nodes.snapshot.all_rows
        known = asked.still(nodes.snapshot) if asked is not None and self.is_settled(state, pod, "filter") else {}
        for position, index in enumerate(nodes.rows.tolist()):
            row = rows[index]
            answer = known.get(index) or self._answer(world, pod, claims, row, index, everywhere)
            if has_choice:
                found[position] = preference(claims, answer.given) * (FULL + 1 if is_linked else 1)
            if is_linked:
                found[position] += self._links.worth(world.place(row.node), claims, answer, world.assumed.ledger)
        return found

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Scale to 100 for the best node."""
        highest = int(scores.max()) if len(scores) else 0
        return scores * 100 // highest if highest else scores

    def same_score(self, pod: Pod, nodes: Nodes) -> int | None:
        """Return 0 for a pod that gets no devices, or no choice of them."""
        is_linked = self.args.prefers_connected and pod.extended and self._concerns(pod)
        return None if pod.claims or is_linked else 0

    def post_filter(self, state: CycleState, pod: Pod, failure: Failure) -> Status | None:
        """Take back an allocation that alone kept the pod off some node, if nobody else has reserved it; nothing after a refusal at PreFilter."""
        if NAME in state.skipped_filters or objection_to(self._needed(pod), self._world.class_of):
            return None
        if (status := self._delete_stale([pod])) is not None:
            return status
        rows = failure.nodes.snapshot.all_rows
        kept_off = [
            rows[row]
            for row, status in enumerate(failure.statuses)
            if status is not None and status.plugin == NAME and UNAVAILABLE in status.reasons
        ]
        return self._deallocate([pod], kept_off, any) if kept_off else None

    def post_filter_gang(self, state: CycleState, workload: Workload, failure: Failure) -> Status | None:
        """Take back an allocation of some pod of a gang that is of no use on any node."""
        pods = workload.ordered()
        return self._delete_stale(pods) or self._deallocate(pods, failure.nodes.snapshot.all_rows, all)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume that devices are the pod's; refuse if others have got them meanwhile."""
        if not self._concerns(pod):
            return None
        snapshot, world = self.handle.snapshot, self._world
        index = snapshot.row_of.get(node_name)
        if index is None:
            return Status.unresolvable(UNAVAILABLE)
        row = snapshot.all_rows[index]
        claims, made = self._claims_at(pod, row)
        if isinstance(claims, Status):
            return claims
        answer, open_claims = Answer(), [c for c in claims if c.allocation is None]
        if open_claims:
            others = others_for(world, self._asking.waiters, pod, open_claims, index, snapshot)
            answer = self._asking.answers.serve(open_claims, world.place(row.node), others, is_first=True)
            if answer.status is not None:
                return answer.status
        assumed, steps, given = world.assumed, list[Step](), iter(answer.given)
        for claim in claims:
            fresh = next(given) if claim.allocation is None else assumed.given(claim.key)
            if fresh is not None:
                assumed.assume(claim, fresh, pod.uid, is_made=claim is made)
            steps.append(Step(claim, fresh, world.extended.mappings(pod, claim) if claim is made else ()))
        state.write((NAME, pod.uid), Steps(tuple(steps)))
        devices = [device for step in steps for device in devices_of(step)]
        publish(state, pod, published(world.place(row.node), devices))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give the devices back, and undo what may have been written."""
        steps: Steps | None = state.read((NAME, pod.uid))
        if steps is None:
            return
        state.write((NAME, pod.uid), None)
        withdraw(state, pod)
        for step in steps.steps:
            if step.given is not None:
                self._world.assumed.give_up(step.claim.key, pod.uid, is_written=steps.is_written, now=self.handle.now())
        for effect in undoing(pod, steps, self._group(pod)) if steps.is_written else ():
            self.handle.emit(effect)

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> AwaitEffects | None:
        """Have it written what claims are given and whom they are reserved for, and wait until the devices are ready."""
        steps: Steps | None = state.read((NAME, pod.uid))
        if steps is None:
            return None
        group = self._group(pod)
        if all(s.given is None and is_reserved(pod, s.claim, group) and is_ready(s.claim) for s in steps.steps):
            return None
        steps.is_written = True
        is_done = partial(check, steps, self.handle.cluster.objects)
        return AwaitEffects(effects_of(pod, steps, group), NAME, self._patience, is_done)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take that a claim that had to be made is there, though it may not have been seen yet."""
        steps: Steps | None = state.read((NAME, pod.uid))
        for step in steps.steps if steps is not None else ():
            if step.mappings:
                self._world.assumed.pod_bound(step.claim.key)

    @property
    def _world(self) -> World:
        """What is known of devices; made when first needed, as handles come before the state."""
        if self._kept is None:
            world = World(
                self.handle.cluster.objects,
                self._is_alive,
                prefers_connected=self.args.prefers_connected,
                is_fractional=self.args.fractional_capacity,
            )
            asking = Asking(
                world,
                Answers(world),
                Waiters(world),
                self.handle.cluster.view,
                releases=self.args.preemption_releases_claims,
                prefers_connected=self.args.prefers_connected,
            )
            self._kept = world, asking, Boards(asking)
        world = self._kept[0]
        world.assumed.sync(self.handle.now())
        return world

    @property
    def _asking(self) -> Asking:
        assert self._kept is not None, "the world comes first"
        return self._kept[1]

    def _board(self, pod: Pod, claims: Sequence[DeviceClaim], nodes: Nodes) -> Board | None:
        """Return what is kept about every node; None where that is no matter of what claims ask for alone.

        So it is if some have devices, others differ from node to node, or pods that are placed anywhere wait for shared devices.
        """
        world, snapshot = self._world, nodes.snapshot
        is_open = bool(claims) and all(claim.allocation is None for claim in claims)
        if not is_open or (pod.extended and world.extended.served(pod)):
            return None
        assert self._kept is not None
        board = self._kept[2].board(claims, snapshot)
        return board if is_local(world, claims) or not self._asking.waiters.are_any else None

    def _group(self, pod: Pod) -> Gang | None:
        """Return the PodGroup that a pod names, as its object tells; None for single pods and for groups of other dialects."""
        if pod.membership is None or pod.membership.key.dialect != NATIVE_DIALECT:
            return None
        return self.handle.cluster.groups.object(pod.membership.key)

    def _is_alive(self, uid: str) -> bool:
        pod = self.handle.cluster.pods.get(uid)
        return pod is not None and not pod.is_terminal

    def _concerns(self, pod: Pod) -> bool:
        """Tell whether a pod uses claims, or asks for extended resources that devices may serve."""
        return bool(pod.claims) or bool(pod.extended and self._world.extended.served(pod))

    def _needed(self, pod: Pod) -> Needed:
        return needed_claims(pod, self._world.assumed.claim)

    def _refusal(self, text: str) -> Status | None:
        return Status.unresolvable(Reason("ClaimNotInOrder", text, CURES)) if text else None

    def _claims_at(self, pod: Pod, row: Row) -> tuple[list[DeviceClaim] | Status, DeviceClaim | None]:
        """Return the claims of a pod on a node, with the one among them that has to be made; or why it cannot be there."""
        needed, world = self._needed(pod), self._world
        if status := self._refusal(needed.objection) or self._unusable(world, needed.claims, row):
            return status, None
        more = world.extended.at(pod, row.node)
        if not isinstance(more, DeviceClaim):
            return more or list(needed.claims), None
        made = world.extended.named(more)
        return [*needed.claims, made], made

    def _unusable(self, world: World, claims: Sequence[DeviceClaim], row: Row) -> Status | None:
        """Return that an allocated claim cannot be used on a node: it is elsewhere, or its devices are not made ready."""
        held = [claim for claim in claims if claim.allocation is not None]
        if not held or is_usable(held, world.place(row.node).site, self.handle.now(), self._patience):
            return None
        return Status.unresolvable(UNAVAILABLE)

    def _answer(
        self,
        world: World,
        pod: Pod,
        claims: Sequence[DeviceClaim],
        row: Row,
        index: int,
        everywhere: Others,
    ) -> Answer:
        """Return what a node can do for a pod as the snapshot is now."""
        extended = world.extended.at(pod, row.node)
        if isinstance(extended, Status):
            return Answer(status=extended)
        unusable = self._unusable(world, claims, row)
        open_claims = [claim for claim in claims if claim.allocation is None]
        if extended is not None:
            open_claims.append(extended)
        if not open_claims:
            return Answer(status=unusable)
        others = everywhere if everywhere is not None else self._asking.waiters.on(index)
        answer = self._asking.answer(open_claims, row, others, is_usable=unusable is None)
        return answer if answer.status is not None or unusable is None else Answer(status=unusable)

    def _sole_users(self, pod: Pod) -> tuple[set[str], ...]:
        """Return who may have reserved a claim that is given up: nobody, the pod, its PodGroup while no pod of it is on a node."""
        group = self._group(pod)
        if group is None or any(each.node_name for each in self.handle.cluster.members(group.key)):
            return set(), {pod.uid}
        return set(), {pod.uid}, {group.uid}

    def _delete_stale(self, pods: Sequence[Pod]) -> Status | None:
        """Delete a claim that was made for extended resources of some pod in an earlier attempt."""
        for pod in pods:
            claim = self._world.extended.stale(pod)
            if claim is not None and self._world.extended.served(pod) and not self._world.assumed.is_making(pod.uid):
                self.handle.emit(deletion(pod, claim))
                return Status.unschedulable(Reason("ClaimDeleted", DELETED, CURES))
        return None

    def _deallocate(
        self, pods: Sequence[Pod], rows: Sequence[Row], of_how_many: Callable[[Iterable[bool]], bool]
    ) -> Status | None:
        world = self._world
        for pod in pods:
            claims = self._needed(pod).claims if pod.claims else ()
            for claim in claims:
                if claim.allocation is None or world.assumed.given(claim.key) is not None:
                    continue
                is_free = {consumer.uid for consumer in claim.reserved_for} in self._sole_users(pod)
                if is_free and of_how_many(self._unusable(world, [claim], row) is not None for row in rows):
                    self.handle.emit(deallocation(pod, claim))
                    return Status.unschedulable(Reason("ClaimDeallocated", DEALLOCATED, CURES))
        return None
