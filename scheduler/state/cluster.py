"""ClusterState: the live truth about nodes, pods and groups, with the placements that are only assumed so far.

For the engine, which feeds it inputs and takes snapshots.  It counts the pods of every scheduler.

| pod is | counts on its node | leaves that state by |
|---|---|---|
| pending | no | `assume`, `set_pod` with a node, `remove_pod` |
| assumed | yes | `set_pod` with a node (confirmed), `forget`, `remove_pod` |
| assigned, also terminating | yes | `set_pod` with a terminal phase, `remove_pod` |
| terminal | no | `remove_pod` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.gang import PREFIX

from .change_log import ChangeLog
from .demand import Demand
from .groups import Groups
from .image_sizes import ImageSizes
from .objects import Objects
from .rows import Row
from .snapshot import Snapshot

if TYPE_CHECKING:
    from scheduler.model import Budget, GangKey, Node, Pod, PriorityClass

#: Says that a pod, or a gang, may be stopped and started elsewhere.
RESTARTABLE = f"{PREFIX}/restartable"


class ClusterState:
    """Everything that is known of the cluster. Fields are to be read; only methods change them."""

    def __init__(self) -> None:
        """Start with an empty cluster."""
        #: Node name to node.
        self.nodes: dict[str, Node] = {}
        #: Pod uid to pod: pending ones of ours, and of others if they are in a gang; assigned ones of everybody.
        self.pods: dict[str, Pod] = {}
        #: Pod uid to the node that it is assumed on.
        self.assumed: dict[str, str] = {}
        #: Pod uid to the node where room is kept for it.
        self.nominations: dict[str, str] = {}
        #: Who belongs to which gang, and the gangs by key.
        #: Nodes, and gangs, of which something changed that no row of a snapshot shows: room kept for somebody, evictions
        #: asked for, victims that do not go, and what else is known of a gang's members.
        self.asides: ChangeLog[str | GangKey] = ChangeLog()
        self.groups = Groups(self.asides.note)
        self.gangs = self.groups.gangs
        #: Gangs that go on below their minimum: none of their members waits for another one.
        self.shrunk: set[GangKey] = set()
        self.priority_classes: dict[str, PriorityClass] = {}
        #: (namespace, name) to budget.
        self.budgets: dict[tuple[str, str], Budget] = {}
        #: Namespaces, owners of pods, storage.
        self.objects = Objects()
        #: How many pods ask for which devices.
        self.demand = Demand()
        #: Grows with every change that a snapshot would show.
        self.generation = 0
        #: Uids of pods whose eviction was asked for (`expect_leave`); they are as good as gone for whoever counts on them.
        self.evicted: set[str] = set()
        #: Gangs that were evicted, and the nodes that their members were on.
        self.former_nodes: dict[GangKey, list[str]] = {}
        #: Nodes where room was kept for a pod that is not going there any more; whoever reads them empties the list.
        self.released: list[str] = []
        #: Pods whose place or nomination changed since somebody emptied it; None while nobody asks.
        self.watched: set[str] | None = None
        #: Grows with every change of what nodes offer.
        self.offered_generation = 0
        #: Pods whose annotation says that they may be moved.
        self.restartable: set[str] = set()
        #: Pods that do not exist yet, for which room is kept: those that replace others that are moved.
        self._expected: dict[str, tuple[Pod, str]] = {}
        self._expected_on: dict[str, dict[str, None]] = {}
        self._placed: dict[str, str] = {}
        self._uids_on: dict[str, dict[str, None]] = {}
        self._nominated_on: dict[str, dict[str, None]] = {}
        self._ended_on: dict[str, dict[str, None]] = {}
        self._rows: dict[str, Row] = {}
        self._dirty: set[str] = set()
        self._nodes_changed = False
        self._images = ImageSizes()
        self._snapshot = Snapshot()

    def set_node(self, node: Node) -> Node | None:
        """Add or change a node; return the former object (the same one if nothing changed)."""
        former = self.nodes.get(node.name)
        is_resized = self._images.replace(former, node)
        if former == node and not is_resized:
            return former
        self.nodes[node.name] = node
        self.offered_generation += 1
        row = Row(node)
        for uid in self._uids_on.get(node.name, ()):
            row.add(self.pods[uid])
        self._rows[node.name] = row
        self._touch(node.name)
        self._nodes_changed = True
        return former

    def remove_node(self, name: str) -> bool:
        """Forget a node; its pods stay known, as the API server still has them."""
        former = self.nodes.pop(name, None)
        if former is None:
            return False
        self._images.replace(former, None)
        self.offered_generation += 1
        del self._rows[name]
        self._touch(name)
        self._nodes_changed = True
        return True

    def look_again(self, name: str) -> None:
        """Let a snapshot show a node as changed: what else is known of it did."""
        if name in self.nodes:
            self._touch(name)

    def set_pod(self, pod: Pod) -> bool:
        """Add or change a pod; return whether anything changed. A stale pending view of an assigned pod is ignored."""
        former = self.pods.get(pod.uid)
        if former == pod or (former is not None and former.node_name and not pod.node_name):
            return False
        self.pods[pod.uid] = pod
        if pod.node_name and pod.is_terminal:
            self._ended_on.setdefault(pod.node_name, {})[pod.uid] = None
        if RESTARTABLE in pod.annotations:
            self.restartable.add(pod.uid)
        self.demand.replace(former, pod)
        self._note_nomination(pod.uid)
        if pod.node_name:
            self.assumed.pop(pod.uid, None)
            self.nominate(pod.uid, "")
        elif pod.nominated_node_name != (former.nominated_node_name if former else ""):
            self.nominate(pod.uid, pod.nominated_node_name)
        if former is not None and former.membership is not None and former.membership != pod.membership:
            self._note_gang(former)
            self.groups.leave(former)
        self.groups.join(pod)
        self._count(pod.uid)
        return True

    def remove_pod(self, uid: str) -> Pod | None:
        """Forget a pod; return what was known of it."""
        pod = self.pods.get(uid)
        if pod is None:
            return None
        self.assumed.pop(uid, None)
        self.evicted.discard(uid)
        self.restartable.discard(uid)
        self.nominate(uid, "")
        del self.pods[uid]
        ended = self._ended_on.get(pod.node_name, {})
        if ended.pop(uid, uid) is None and not ended:
            del self._ended_on[pod.node_name]
        self.demand.replace(pod, None)
        self._note_gang(pod)
        self._count(uid)
        self.groups.leave(pod)
        return pod

    def assume(self, uid: str, node_name: str) -> None:
        """Count a pending pod on a node, ahead of its binding. `forget` is the inverse."""
        self.assumed[uid] = node_name
        if self.nominations.get(uid, node_name) != node_name:
            self.released.append(self.nominations[uid])
        self._note_nomination(uid)
        self._count(uid)

    def forget(self, uid: str) -> None:
        """Take an assumption back."""
        if self.assumed.pop(uid, None) is not None:
            self._note_nomination(uid)
            self._count(uid)

    def note_aside(self, uid: str) -> None:
        """Tell readers of `asides` that something is known of a placed pod that its row does not show."""
        if (name := self.node_of(uid)) is not None:
            self.asides.note(name)
            self._note_gang(self.pods[uid])

    def nominate(self, uid: str, node_name: str) -> None:
        """Keep room for a pod on a node; the empty name takes it back."""
        former = self.nominations.pop(uid, None)
        if self.watched is not None and (former is not None or node_name):
            self.watched.add(uid)
        if former is not None:
            self.asides.note(former)
            on_former = self._nominated_on[former]
            on_former.pop(uid, None)
            if not on_former:
                del self._nominated_on[former]
            if former not in (node_name, self.node_of(uid)):
                self.released.append(former)
        if node_name:
            self.asides.note(node_name)
            self.nominations[uid] = node_name
            self._nominated_on.setdefault(node_name, {})[uid] = None

    def expect(self, pod: Pod, node_name: str) -> None:
        """Keep room on a node for a pod that does not exist yet; its uid is nobody's. `expect_no_more` is the inverse."""
        self.asides.note(node_name)
        self._expected[pod.uid] = (pod, node_name)
        self._expected_on.setdefault(node_name, {})[pod.uid] = None

    def expect_no_more(self, uid: str) -> None:
        """Keep no room for such a pod any more."""
        _, node_name = self._expected.pop(uid)
        on_node = self._expected_on[node_name]
        del on_node[uid]
        if not on_node:
            del self._expected_on[node_name]
        self.asides.note(node_name)
        self.released.append(node_name)

    def counts_as_placed(self, pod: Pod) -> bool:
        """Tell whether a gang's member counts towards its minimum: on a node (also only assumed), or finished well."""
        if pod.phase == "Succeeded":
            return True
        return not pod.is_terminal and not self.is_going(pod) and self.node_of(pod.uid) is not None

    def is_going(self, pod: Pod) -> bool:
        """Tell whether a pod's deletion was asked for, by anybody."""
        return pod.is_terminating or pod.uid in self.evicted

    def expect_leave(self, uid: str) -> None:
        """Take that a pod is as good as gone, as its eviction was asked for or announced. `expect_stay` is the inverse."""
        self.evicted.add(uid)
        self.note_aside(uid)
        if self.watched is not None:
            self.watched.add(uid)

    def expect_stay(self, uid: str) -> None:
        """Count a pod as staying again."""
        self.evicted.discard(uid)
        self.note_aside(uid)
        if self.watched is not None:
            self.watched.add(uid)

    def node_of(self, uid: str) -> str | None:
        """Return the node that a pod is assigned to or assumed on."""
        pod = self.pods.get(uid)
        return (pod.node_name or self.assumed.get(uid)) if pod else None

    def ended_on(self, node_name: str) -> list[Pod]:
        """Return the pods that ended on a node and are not deleted yet."""
        return [self.pods[uid] for uid in self._ended_on.get(node_name, ())]

    def nominated_on(self, node_name: str) -> list[Pod]:
        """Return the pods nominated to a node and not yet assumed, and those expected there, most important first."""
        uids, expected = self._nominated_on.get(node_name), self._expected_on.get(node_name)
        if not uids and not expected:
            return []
        pods = [self.pods[uid] for uid in uids or () if uid in self.pods and uid not in self.assumed]
        pods += [self._expected[uid][0] for uid in expected or ()]
        return sorted(pods, key=lambda pod: (-pod.priority, pod.created, pod.uid))

    def nominated_nodes(self) -> list[str]:
        """Return the nodes that someone is nominated to, or expected on, sorted."""
        return sorted(self._nominated_on.keys() | self._expected_on.keys())

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that a pod belongs to; None for single pods."""
        return self.groups.gang_of(pod)

    def members(self, key: GangKey) -> list[Pod]:
        """Return all known pods of a gang, in whatever state, in the order in which they were seen."""
        return [self.pods[uid] for uid in self.groups.uids(key)]

    def snapshot(self) -> Snapshot:
        """Return the frozen view, brought up to date: O(changed nodes), or O(nodes) if a node object changed.

        It is one object: whoever placed pods on it must have undone that before.
        """
        snapshot = self._snapshot
        if self._nodes_changed:
            old = {row.node.name: row for row in snapshot.all_rows}
            rows = [
                self._rows[name].copy() if name in self._dirty or name not in old else old[name]
                for name in sorted(self._rows)
            ]
            snapshot.replace_rows(rows, nodes_changed=True)
            snapshot.image_sizes = self._images.sizes.copy()
            self._nodes_changed = False
        else:
            for name in self._dirty:
                if name in self._rows:
                    snapshot.replace_row(snapshot.row_of[name], self._rows[name].copy())
        self._dirty.clear()
        snapshot.generation = self.generation
        return snapshot

    def keep(self, pod: Pod) -> bool:
        """Let a pod stay on the snapshot that was placed on it and then assumed on that node, if nothing else happened since.

        False, with nothing done, if something did, or if the pod is known otherwise now.
        """
        is_all = self._snapshot.generation == self.generation - 1 and not self._nodes_changed
        if not is_all or self.pods.get(pod.uid) is not pod or pod.is_terminating:
            return False
        self._snapshot.keep(pod)
        self._dirty.clear()
        self._snapshot.generation = self.generation
        return True

    def view(self, name: str) -> Row | None:
        """Return the live record of a node, to be read only."""
        return self._rows.get(name)

    def validate(self) -> list[str]:
        """Compare with a state rebuilt from scratch; return the differences as sentences, none if all is well."""
        fresh = ClusterState()
        fresh.groups.take_up_ended(self.groups)
        for group in self.groups.objects():
            fresh.groups.put(group)
        for node in self.nodes.values():
            fresh.set_node(node)
        for pod in self.pods.values():
            fresh.set_pod(pod)
        for uid, name in self.assumed.items():
            fresh.assume(uid, name)
        problems = []
        if fresh.nodes.keys() != self._rows.keys():
            problems.append(f"rows {sorted(self._rows)} instead of {sorted(fresh.nodes)}")
        problems += self.groups.differences(fresh.groups)
        if fresh.demand.counts != self.demand.counts:
            problems.append(f"demand {self.demand.counts}, rebuilt {fresh.demand.counts}")
        for name, row in fresh._rows.items():
            mine = self._rows.get(name)
            if mine and mine.contents() != row.contents():
                problems.append(f"node {name}: {mine.contents()}, rebuilt {row.contents()}")
        problems += [f"assumed pod {uid} is assigned" for uid in self.assumed if self.pods[uid].node_name]
        return problems

    def _count(self, uid: str) -> None:
        """Bring one pod's place in the rows in line with what is known of it."""
        if self.watched is not None:
            self.watched.add(uid)
        pod = self.pods.get(uid)
        if pod is not None:
            self._note_gang(pod)
        target = (pod.node_name or self.assumed.get(uid, "")) if pod and not pod.is_terminal else ""
        former = self._placed.get(uid, "")
        if former and former != target:
            on_former = self._uids_on[former]
            del on_former[uid]
            if not on_former:
                del self._uids_on[former]
            del self._placed[uid]
            if former in self._rows:
                self._rows[former].drop(uid)
            self._touch(former)
        if target and pod is not None:
            self._placed[uid] = target
            self._uids_on.setdefault(target, {})[uid] = None
            if target in self._rows:
                self._rows[target].put(pod)
            self._touch(target)

    def _note_nomination(self, uid: str) -> None:
        """Tell that a pod that is nominated, or what it asks for, counts otherwise than before."""
        if (name := self.nominations.get(uid)) is not None:
            self.asides.note(name)

    def _note_gang(self, pod: Pod) -> None:
        if pod.membership is not None:
            self.asides.note(self.groups.root_of(pod.membership.key))

    def _touch(self, node_name: str) -> None:
        self._dirty.add(node_name)
        self.generation += 1
