"""Groups: which gangs there are and which pods belong to them, put together from objects and from what pods say.

For ClusterState.  A gang is one group object, or a tree of them (a group of groups), or nothing but what its pods tell
(`Membership.implied`).  Pods name the group that they are in; the gang is the root of its tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.model.gang import Gang, GangKey, Subgroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scheduler.model import Pod

#: How many levels a tree of groups may have, the pods' own group included.
MOST_LEVELS = 4
_COMPOSITE = "-composite"


class Groups:
    """Gangs by the key of their root.  `gangs` is to be read only."""

    def __init__(self, note: Callable[[GangKey], None] = lambda _: None) -> None:
        """Start empty; `note` is told of every gang that is made of something else than before."""
        self._note = note
        self.gangs: dict[GangKey, Gang] = {}
        self._objects: dict[GangKey, Gang] = {}
        #: Group → uid → what that pod implies of it.
        self._implied: dict[GangKey, dict[str, Gang]] = {}
        #: Group of groups → the groups that name it, whether or not it exists.
        self._parts: dict[GangKey, dict[GangKey, None]] = {}
        #: Group → uids of the pods that name it.
        self._pods: dict[GangKey, dict[str, None]] = {}
        #: Group of groups → names of the parts that went after it was complete, and are needed no more; no object tells of them.
        self._ended: dict[GangKey, dict[str, None]] = {}

    def put(self, gang: Gang) -> list[GangKey]:
        """Add or change a group object; return the groups whose pods may belong to another gang now."""
        former = self._objects.get(gang.key)
        old_root = self.root_of(gang.key)
        self._objects[gang.key] = gang
        if gang.parent:
            self._ended.get(parent_key(gang), {}).pop(gang.key.name, None)
        if former is None or former.parent != gang.parent:
            self._link(former, gang)
        return self._renewed(gang.key, old_root)

    def drop(self, key: GangKey, *, was_complete: bool = False) -> list[GangKey]:
        """Forget a group object; return the groups whose pods may belong to another gang now.

        `was_complete` says that its gang had its minimum: a part for which once is enough is then waited for no more.
        """
        old_root = self.root_of(key)
        former = self._objects.pop(key, None)
        if former is None:
            return []
        self._ended.pop(key, None)
        if was_complete and former.is_once_enough:
            self._ended.setdefault(parent_key(former), {})[key.name] = None
        self._link(former, None)
        return self._renewed(key, old_root)

    def object(self, key: GangKey) -> Gang | None:
        """Return a group as its object tells, without those above and below it."""
        return self._objects.get(key)

    def objects_of(self, root: GangKey) -> list[Gang]:
        """Return the group objects that a gang is made of, the root first, those above before those below."""
        return [group for key in self._groups_below(root) if (group := self._objects.get(key)) is not None]

    def objects(self) -> list[Gang]:
        """Return all group objects as they are told."""
        return list(self._objects.values())

    def take_up_ended(self, other: Groups) -> None:
        """Take from other groups which parts are needed no more, before any object is put."""
        self._ended = {key: dict(names) for key, names in other._ended.items()}

    def join(self, pod: Pod) -> None:
        """Note that a pod names its group, and what it implies of it."""
        membership = pod.membership
        if membership is None:
            return
        self._pods.setdefault(membership.key, {})[pod.uid] = None
        if membership.implied is not None:
            known = self._implied.setdefault(membership.key, {})
            if known.get(pod.uid) != membership.implied:
                known[pod.uid] = membership.implied
                self._compose(self.root_of(membership.key))

    def leave(self, pod: Pod) -> None:
        """Note that a pod is gone, or names another group."""
        if pod.membership is None:
            return
        key = pod.membership.key
        pods = self._pods.get(key, {})
        pods.pop(pod.uid, None)
        if not pods:
            self._pods.pop(key, None)
        implied = self._implied.get(key)
        if implied is not None and implied.pop(pod.uid, None) is not None:
            if not implied:
                del self._implied[key]
            self._compose(self.root_of(key))

    def root_of(self, key: GangKey) -> GangKey:
        """Return the gang that a group is a part of: itself, if it is part of none."""
        seen = {key: None}
        while (group := self._objects.get(key)) is not None and group.parent:
            above = parent_key(group)
            if above in seen:  # a cycle: all of its groups are one gang, which says so
                return min(list(seen)[list(seen).index(above) :])
            seen[above] = None
            key = above
        return key

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang that a pod belongs to; None for single pods, also of a group that is no gang."""
        if pod.membership is None:
            return None
        key = self.root_of(pod.membership.key)
        gang = self.gangs.get(key)
        return None if gang is not None and is_loose(gang) else key

    def role_of(self, pod: Pod) -> str:
        """Return the subgroup of its gang that a pod names; empty for none."""
        if pod.membership is None:
            return ""
        key = pod.membership.key
        return pod.membership.role if self.root_of(key) == key else key.name

    def named(self) -> set[GangKey]:
        """Return the groups that pods name."""
        return set(self._pods)

    def uids_naming(self, key: GangKey) -> tuple[str, ...]:
        """Return the uids of the pods that name one group."""
        return tuple(self._pods.get(key, ()))

    def uids(self, root: GangKey) -> Iterator[str]:
        """Yield the uids of all pods of a gang, group by group, in the order in which they were seen."""
        for key in self._groups_below(root):
            yield from self._pods.get(key, ())

    def differences(self, rebuilt: Groups) -> list[str]:
        """Return what differs from groups that were rebuilt from scratch, as sentences."""
        problems = []
        if self.gangs != rebuilt.gangs:
            problems.append(f"gangs {sorted(self.gangs)}, rebuilt {sorted(rebuilt.gangs)}, or what they are made of")
        for key in sorted(self.named() | rebuilt.named()):
            mine, other = set(self.uids(key)), set(rebuilt.uids(key))
            if mine != other:
                problems.append(f"gang {key}: members {sorted(mine)}, rebuilt {sorted(other)}")
        return problems

    def _groups_below(self, root: GangKey) -> Iterable[GangKey]:
        """Return a group and all that are part of it."""
        if root not in self._parts:
            return (root,)
        found: dict[GangKey, None] = {}
        waiting = [root]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found[key] = None
                waiting += reversed(self._parts.get(key, {}))
        return found

    def _link(self, former: Gang | None, gang: Gang | None) -> None:
        """Keep the list of parts in line with the parents that groups name."""
        if former is not None and former.parent:
            parts = self._parts[parent_key(former)]
            parts.pop(former.key, None)
            if not parts:
                del self._parts[parent_key(former)]
        if gang is not None and gang.parent:
            self._parts.setdefault(parent_key(gang), {})[gang.key] = None

    def _renewed(self, key: GangKey, old_root: GangKey) -> list[GangKey]:
        """Compose the gangs anew that a group was and is part of; return the groups to look at again."""
        former = self.gangs.get(old_root)
        root = self.root_of(key)
        for one in dict.fromkeys((old_root, root)):
            self._compose(one)
        gang = self.gangs.get(root)
        is_loose_now = gang is not None and is_loose(gang)
        if root == old_root and (former is not None and is_loose(former)) == is_loose_now:
            return []
        former_ones = self._groups_below(old_root) if old_root != key else ()
        return list(dict.fromkeys((*former_ones, *self._groups_below(key))))

    def _compose(self, root: GangKey) -> None:
        """Bring one gang in line with the objects and pods that tell of it."""
        gang = self._whole(root) if self.root_of(root) == root else None
        if gang != self.gangs.get(root):
            self._note(root)
        if gang is None:
            self.gangs.pop(root, None)
        else:
            self.gangs[root] = gang

    def _whole(self, root: GangKey) -> Gang | None:
        group = self._objects.get(root)
        if group is None:
            return self._from_pods(root)
        if root not in self._parts and not group.parent:
            return _with_domain(group)
        subgroups: list[Subgroup] = []
        problems = list(group.problems)
        self._add_parts(root, "", 1, subgroups, problems)
        subgroups += self._awaited(group, "")
        if group.parent:
            problems.append(f"spec.parentCompositePodGroupName: {group.parent!r} leads back to the group itself")
        was_complete = group.was_complete or self._parts_were_complete(group)
        return msgspec.structs.replace(
            group, subgroups=tuple(subgroups), problems=tuple(problems), was_complete=was_complete
        )

    def _add_parts(self, key: GangKey, parent: str, level: int, subgroups: list[Subgroup], problems: list[str]) -> None:
        """Append the groups below one, parents first."""
        for part_key in sorted(self._parts.get(key, ())):
            part = self._objects[part_key]
            if level >= MOST_LEVELS:
                problems.append(
                    f"{part.kind} {part_key}: groups are nested too deeply; allowed are {MOST_LEVELS} levels"
                )
                continue
            problems += [f"{part.kind} {part_key}: {problem}" for problem in part.problems]
            name = part_key.name + "/" if part.is_composite else part_key.name
            subgroups.append(
                Subgroup(
                    name=name, parent=parent, min_member=part.min_member, min_subgroups=part.min_subgroups, topology=part.topology
                )
            )  # fmt: skip
            self._add_parts(part_key, name, level + 1, subgroups, problems)
            subgroups += self._awaited(part, name)

    def _parts_were_complete(self, group: Gang) -> bool:
        """Tell whether all parts of a group of groups that exist say that it was complete, and that once is enough."""
        parts = [self._objects[key] for key in self._parts.get(group.key, ())]
        return bool(group.expected_parts and parts) and all(p.is_once_enough and p.was_complete for p in parts)

    def _awaited(self, group: Gang, name: str) -> Iterator[Subgroup]:
        """Yield stand-ins, which have a minimum and no pods, for the groups that are needed below one and do not exist yet.

        Those without a name are one stand-in, whose minimum is their number: anybody may ask for two billion of them.
        """
        if self._parts_were_complete(group):
            return
        there = {part.name for part in self._parts.get(group.key, ())} | self._ended.get(group.key, {}).keys()
        missing = [part for part in group.expected_parts if part not in there]
        count = max(0, (group.min_subgroups or 0) - len(there) - len(missing))
        first = len(there) + len(missing) + 1
        for part in missing:
            yield Subgroup(name=part, parent=name, min_member=1)
        if count:
            which = f"group {first}" if count == 1 else f"groups {first} to {first + count - 1}"
            yield Subgroup(name=f"{which} of {group.min_subgroups}", parent=name, min_member=count)

    def _from_pods(self, key: GangKey) -> Gang | None:
        """Return the gang as its pods tell of it; where they differ, a gang that says so."""
        implied = self._implied.get(key)
        if not implied:
            return None
        told = list(implied.values())
        first = told[0]
        if all(gang == first for gang in told):
            return _with_domain(first)
        minima = sorted({gang.min_member for gang in told})
        differs = f"at least {' and '.join(map(str, minima))} members" if len(minima) > 1 else "topology or roles"
        problem = f"its pods disagree about it: {differs}; allowed is that all say the same"
        return msgspec.structs.replace(first, problems=(*first.problems, problem))


def parent_key(group: Gang) -> GangKey:
    """Return the key of the group of groups that a group names."""
    dialect, namespace, _ = group.key
    return GangKey(dialect if dialect.endswith(_COMPOSITE) else dialect + _COMPOSITE, namespace, group.parent)


def is_loose(gang: Gang) -> bool:
    """Tell whether a group is no gang: its pods are scheduled one by one."""
    return gang.min_member == 0 and not gang.subgroups and not gang.is_composite and not gang.problems


def _with_domain(gang: Gang) -> Gang:
    """Return the gang; a loose group whose pods want to be near together is one of which one member is enough."""
    if is_loose(gang) and gang.topology is not None:
        return msgspec.structs.replace(gang, min_member=1)
    return gang


def roles_of(gangs: Mapping[GangKey, Gang], key: GangKey) -> tuple[str, ...]:
    """Return the subgroups of a gang that pods may name."""
    gang = gangs.get(key)
    parents = {subgroup.parent for subgroup in gang.subgroups} if gang else set()
    return tuple(s.name for s in gang.subgroups if s.name not in parents) if gang else ()
