"""Small gangs whose roles ask for domains: what is placed is right, and a placement is found whenever there is one.

Both are held against brute force, which knows nothing but the sentences of docs/topology.md.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Gang, Subgroup, TopologyConstraint
from tests.builders import a_gang, a_node, a_pod
from tests.engine.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK, RACK = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"
ROLE, RANK = "scheduling.ai-scheduler.io/role", "scheduling.ai-scheduler.io/rank"
#: Node number to block, rack and GPUs.
Nodes = list[tuple[int, int, int]]
#: Pod (role, index in it) to node number.
Where = dict[tuple[str, int], int]


@dataclass
class Tree:
    """A gang or one of its roles: what it asks for, the sizes of its own pods, and the roles below."""

    name: str
    asks: TopologyConstraint
    sizes: list[int] = field(default_factory=list)
    below: list[Tree] = field(default_factory=list)

    def pods(self) -> list[tuple[str, int]]:
        """Return its pods, role by role."""
        found = [pod for tree in self.below for pod in tree.pods()]
        return found + [(self.name, index) for index in range(len(self.sizes))]

    def all(self) -> Iterator[Tree]:
        """Walk over it and those below."""
        yield self
        for tree in self.below:
            yield from tree.all()


ASKS = st.sampled_from(
    [
        TopologyConstraint(),
        TopologyConstraint(),
        TopologyConstraint(required=RACK),
        TopologyConstraint(required=RACK),
        TopologyConstraint(required=BLOCK),
        TopologyConstraint(exclusive=RACK),
        TopologyConstraint(exclusive=BLOCK),
        TopologyConstraint(spread=RACK),
        TopologyConstraint(spread=BLOCK),
        TopologyConstraint(required=BLOCK, spread=RACK),
        TopologyConstraint(segment_size=2, segment_required=RACK),
        TopologyConstraint(required=BLOCK, segment_size=3, segment_required=RACK),
        TopologyConstraint(preferred=(RACK,)),
    ]
)


@st.composite
def trees(draw: st.DrawFn, most_pods: int = 6) -> Tree:
    """Draw a gang with roles, nested up to four deep."""
    root = Tree("", draw(ASKS))
    places, left = [(root, 0)], most_pods
    for number in range(draw(st.integers(0, 5))):
        above, depth = draw(st.sampled_from(places))
        tree = Tree(f"r{number}", draw(ASKS))
        above.below.append(tree)
        if depth < 3:
            places.append((tree, depth + 1))
    for tree in root.all():
        if not tree.below:
            tree.sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=max(1, min(left, 4))))
            left -= len(tree.sizes)
    return root


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> Nodes:
    """Draw nodes in racks, two of which are a block."""
    racks = draw(st.lists(st.integers(0, 3), min_size=1, max_size=most))
    return [(rack // 2, rack, draw(st.integers(1, 8))) for rack in racks]


def brute_force(root: Tree, nodes: Nodes) -> bool:
    """Tell by trying everything whether a gang can be placed as it asks."""
    pods = root.pods()
    sizes = {(tree.name, index): size for tree in root.all() for index, size in enumerate(tree.sizes)}
    checks = [check for tree in root.all() for check in demands(tree, root, nodes)]
    free, where = [gpus for _, _, gpus in nodes], Where()

    def put(position: int) -> bool:
        if position == len(pods):
            return all(is_even(tree, root, nodes, sizes, where) for tree in root.all())
        pod = pods[position]
        for node in range(len(nodes)):
            if free[node] >= sizes[pod]:
                free[node] -= sizes[pod]
                where[pod] = node
                if all(check(where) for check in checks) and put(position + 1):
                    return True
                del where[pod]
                free[node] += sizes[pod]
        return False

    return put(0)


def demands(tree: Tree, root: Tree, nodes: Nodes) -> Iterator[Callable[[Where], bool]]:
    """Yield what a gang or role demands, but for `spread`, as tests of a placement that may not be whole yet."""
    asks, mine = tree.asks, set(tree.pods())

    def domains(where: Where, pods: set[tuple[str, int]], label: str) -> set[int]:
        return {nodes[node][0 if label == BLOCK else 1] for pod, node in where.items() if pod in pods}

    for label in filter(None, (asks.required, asks.exclusive)):
        yield lambda where, label=label: len(domains(where, mine, label)) <= 1
    above = next((other for other in root.all() if tree in other.below), None)
    if asks.exclusive and above is not None:
        others = set(above.pods()) - mine
        yield lambda where: not domains(where, mine, asks.exclusive) & domains(where, others, asks.exclusive)
    if asks.segment_size:
        for first in range(0, len(mine), asks.segment_size):
            some = set(tree.pods()[first : first + asks.segment_size])
            yield lambda where, some=some: len(domains(where, some, asks.segment_required)) <= 1


def is_even(tree: Tree, root: Tree, nodes: Nodes, sizes: dict[tuple[str, int], int], where: Where) -> bool:
    """Tell whether shares differ by one at most, among the domains where one of the pods could have stood at first."""
    if not tree.asks.spread:
        return True
    mine, level = tree.pods(), 0 if tree.asks.spread == BLOCK else 1
    smallest = min(sizes[pod] for pod in mine)
    taking_part = [node for node in nodes if node[2] >= smallest]
    for above in root.all():
        if tree in above.all():
            for label in filter(None, (above.asks.required, above.asks.exclusive)):
                depth = 0 if label == BLOCK else 1
                taking_part = [node for node in taking_part if node[depth] == nodes[where[mine[0]]][depth]]
    shares = [sum(nodes[where[pod]][level] == domain for pod in mine) for domain in {n[level] for n in taking_part}]
    return max(shares) - min(shares) <= 1


def world_of(root: Tree, nodes: Nodes, wanted: int | None = None, minimum: int | None = None) -> World:
    """Return a world in which the gang was tried."""
    subgroups = tuple(
        Subgroup(name=tree.name, parent=above.name, min_member=minimum or len(tree.sizes), topology=tree.asks)
        for above in root.all()
        for tree in above.below
    )
    order = {tree.name: number for number, tree in enumerate(root.all())}
    gang: Gang = msgspec.structs.replace(
        a_gang("job", 1).build(),
        min_member=len(root.sizes),
        topology=root.asks,
        min_subgroups=wanted,
        subgroups=tuple(sorted(subgroups, key=lambda subgroup: order[subgroup.name])),
    )
    pods = []
    for tree in root.all():
        for index, size in enumerate(tree.sizes):
            pod = a_pod(f"job-{tree.name}-{index}").gpus(size).gang("job").label(RANK, str(index))
            pods.append(pod.label(ROLE, tree.name) if tree.name else pod)
    machines = [
        a_node(f"n{number}").gpus(gpus).cpu(64).label(BLOCK, f"b{block}").label(RACK, f"r{rack}")
        for number, (block, rack, gpus) in enumerate(nodes)
    ]
    return World(machines, gang, pods).run()


def hold_against_brute_force(root: Tree, nodes: Nodes) -> None:
    """Check that a gang is placed if it can be, and as it asks."""
    world, pods = world_of(root, nodes), root.pods()
    can_be = brute_force(root, nodes)
    assert len(world.placed) == (len(pods) if can_be else 0)
    if can_be:
        sizes = {(tree.name, index): size for tree in root.all() for index, size in enumerate(tree.sizes)}
        where = {pod: int(world.placed[f"job-{pod[0]}-{pod[1]}"][1:]) for pod in pods}
        assert all(check(where) for tree in root.all() for check in demands(tree, root, nodes))
        assert all(is_even(tree, root, nodes, sizes, where) for tree in root.all())


@given(trees(), clusters())
@settings(max_examples=120, deadline=None)
def test_roles_that_ask_for_domains_are_placed_whenever_they_can_be(root: Tree, nodes: Nodes) -> None:
    """Required, exclusive, segments and spread, at the gang, at roles, and at roles of roles."""
    hold_against_brute_force(root, nodes)


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6), clusters(),
    st.sampled_from([TopologyConstraint(spread=RACK), TopologyConstraint(spread=BLOCK),
                     TopologyConstraint(required=BLOCK, spread=RACK)]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_pods_of_mixed_shapes_are_spread_whenever_they_can_be(
    sizes: list[int], nodes: Nodes, asks: TopologyConstraint
) -> None:
    """A gang without roles."""
    hold_against_brute_force(Tree("", asks, sizes), nodes)


@given(trees(), clusters(), st.data())
@settings(max_examples=60, deadline=None)
def test_as_many_roles_as_the_gang_needs_are_placed_whenever_they_can_be(
    root: Tree, nodes: Nodes, data: st.DataObject
) -> None:
    """Some of the roles directly below a gang are enough: any of them."""
    wanted = data.draw(st.integers(1, max(1, len(root.below))))
    if not root.below or root.asks.spread or root.asks.segment_size:
        return
    some = [Tree("", root.asks, below=list(few)) for few in itertools.combinations(root.below, wanted)]
    world = world_of(root, nodes, wanted)
    whole = {tree.name for tree in root.below if {f"job-{role}-{k}" for role, k in tree.pods()} <= world.placed.keys()}
    assert (len(whole) >= wanted) == any(brute_force(few, nodes) for few in some)
    assert len(world.placed) == sum(len(tree.pods()) for tree in root.below if tree.name in whole)


@given(
    st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=3), min_size=2, max_size=4),
    clusters(8),
)
@settings(max_examples=60, deadline=None)
def test_roles_with_a_rack_each_are_placed_whenever_they_can_be(roles: list[list[int]], nodes: Nodes) -> None:
    """Up to eight pods on up to eight nodes."""
    asks, left = TopologyConstraint(required=RACK), 8
    below = []
    for number, sizes in enumerate(roles):
        if sizes[:left]:
            below.append(Tree(f"r{number}", asks, sizes[:left]))
            left -= len(sizes[:left])
    hold_against_brute_force(Tree("", TopologyConstraint(), below=below), nodes)


def two_roles(count: int, asks: TopologyConstraint, own: TopologyConstraint | None = None) -> Tree:
    """Return a gang with two roles of so many whole nodes each."""
    own = own or TopologyConstraint()
    return Tree("", asks, below=[Tree("a", own, [8] * count), Tree("b", own, [8] * count)])


def full_racks(racks: int, each: int) -> Nodes:
    """Return racks of so many nodes, all empty."""
    return [(rack // 2, rack, 8) for rack in range(racks) for _ in range(each)]


def shares(world: World, nodes: Nodes, role: str = "") -> list[int]:
    """Return how many pods of a role, or of all, each rack has."""
    rows = [int(node[1:]) for pod, node in world.placed.items() if pod.startswith(f"job-{role}")]
    return sorted(sum(nodes[row][1] == rack for row in rows) for rack in {rack for _, rack, _ in nodes})


def test_a_large_gang_is_spread_as_a_whole() -> None:
    """Twenty pods of two roles over four racks: five each, whatever their roles."""
    nodes = full_racks(4, 8)
    assert shares(world_of(two_roles(10, TopologyConstraint(spread=RACK)), nodes), nodes) == [5, 5, 5, 5]


def test_a_large_gang_is_spread_though_each_role_stands_in_one_rack() -> None:
    """Two roles of ten over two racks: one role in each."""
    nodes = full_racks(2, 12)
    world = world_of(two_roles(10, TopologyConstraint(spread=RACK), TopologyConstraint(required=RACK)), nodes)
    assert shares(world, nodes) == [10, 10]
    assert shares(world, nodes, "a") == [0, 10]


def test_segments_of_a_large_gang_go_across_its_roles() -> None:
    """Two roles of six pods are three segments of four, by role and rank; the second has pods of both."""
    nodes = full_racks(4, 5)
    world = world_of(two_roles(6, TopologyConstraint(segment_size=4, segment_required=RACK)), nodes)
    racks = [nodes[int(world.placed[f"job-{role}-{k}"][1:])][1] for role in "ab" for k in range(6)]
    assert [len(set(racks[first : first + 4])) for first in (0, 4, 8)] == [1, 1, 1]


def test_a_member_that_is_replaced_goes_back_to_its_segment_across_roles() -> None:
    """Its number is its role's first one and its rank."""
    nodes = full_racks(4, 4)
    world = world_of(two_roles(6, TopologyConstraint(segment_size=4, segment_required=RACK)), nodes)
    place = world.placed["job-b-3"]
    again = a_pod("job-b-again").gpus(8).gang("job").label(RANK, "3").label(ROLE, "b")
    world.remove("job-b-3").add(again).run().wait(2)
    assert nodes[int(world.placed["job-b-again"][1:])][1] == nodes[int(place[1:])][1]


def test_surplus_is_spread_with_the_rest_whatever_its_role() -> None:
    """Each of two roles needs one pod and has three; of three racks one has room for one pod only."""
    nodes = [(0, 0, 8), (0, 0, 8), (0, 0, 8), (0, 1, 8), (0, 1, 8), (1, 2, 8)]
    world = world_of(two_roles(3, TopologyConstraint(spread=RACK)), nodes, minimum=1)
    assert shares(world, nodes) == [1, 2, 2]


def test_an_exclusive_role_shares_with_no_sibling_in_whatever_order() -> None:
    """The larger role is placed first and does not ask for a rack of its own; the smaller one does."""
    nodes = [(0, 0, 8), (0, 0, 8), (0, 0, 8), (0, 1, 8)]
    large, small = Tree("large", TopologyConstraint(required=RACK), [4] * 3), Tree("small", TopologyConstraint(), [4])
    small.asks = TopologyConstraint(exclusive=RACK)
    world = world_of(Tree("", TopologyConstraint(required=BLOCK), below=[large, small]), nodes)
    assert shares(world, nodes, "large") == [0, 3]
    assert shares(world, nodes) == [1, 3]


def test_what_is_too_large_to_be_searched_to_the_end_is_given_up() -> None:
    """Nine pods of 5 and 4 on eight nodes of 7: no two of them share one, but nine are too many to be searched."""
    sizes = [5, 4] * 4 + [5]
    world = world_of(Tree("", TopologyConstraint(required=RACK), sizes), [(0, 0, 7)] * 8)
    assert not world.placed
    assert world.pending("job").reason == "GaveUpSearching"


def test_what_was_searched_to_the_end_is_not_given_up() -> None:
    """Eight such pods on seven nodes are not too many."""
    world = world_of(Tree("", TopologyConstraint(required=RACK), [5, 4] * 4), [(0, 0, 7)] * 7)
    assert not world.placed
    assert world.pending("job").reason != "GaveUpSearching"


def test_racks_that_look_alike_are_not_searched_in_vain_again() -> None:
    """Nine pods that no rack holds: one rack, or sixty like it, cost one search; only looking at the nodes grows."""
    costs = {}
    for racks in (1, 60):
        nodes = [(0, rack, 7) for rack in range(racks) for _ in range(8)]
        world = world_of(Tree("", TopologyConstraint(required=RACK), [5, 4] * 4 + [5]), nodes)
        assert world.pending("job").reason == "GaveUpSearching"
        costs[racks] = sum(decision.evaluations for decision in world.decisions) - len(nodes) * 2
    assert costs[60] <= costs[1] * 2


def test_a_rack_that_looks_otherwise_is_searched() -> None:
    """The last of many racks has one node with room for two of them."""
    nodes = [(0, rack, 7) for rack in range(30) for _ in range(8)]
    nodes[-1] = (0, 29, 9)
    world = world_of(Tree("", TopologyConstraint(required=RACK), [5, 4] * 4 + [5]), nodes)
    assert shares(world, nodes)[-1] == 9
