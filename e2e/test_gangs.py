"""Gangs on a real API server: whole or not at all."""

import pytest

from e2e.controlplane.client import ApiError
from e2e.objects import GROUP, V100, World
from e2e.waiting import wait_until

ROOM_SECONDS = 40
#: The pairs of a DGX-1V with two NVLinks, from its `nvidia-smi topo -m`.
DOUBLE_LINKS = ("0,3", "0,4", "1,2", "1,5", "2,3", "4,7", "5,6", "6,7")


def test_gang_of_eight_is_placed_whole(world: World) -> None:
    """Eight pods with all GPUs of a node each get eight nodes, and the group says so."""
    nodes = world.nodes(8)
    names = world.gang("job", 8)
    found = world.wait_placed(*names)
    assert sorted(found.values()) == sorted(nodes)
    wait_until(lambda: world.group_status("job").get("phase") == "Running", what=lambda: str(world.group_status("job")))
    status = world.group_status("job")
    assert status["counts"]["running"] == 8
    assert {c["type"]: c["status"] for c in status["conditions"]}["Scheduled"] == "True"


def test_gang_that_does_not_fit_holds_nothing(world: World) -> None:
    """Three of four nodes are no use to a gang of four: a pod that came later gets its room."""
    world.nodes(3)
    names = world.gang("job", 4)
    for name in names:
        message = world.wait_condition(name, "Unschedulable")["message"]
        assert "needs 4 pods at once" in message
    world.pod("single", gpus=8)
    world.wait_placed("single")
    assert set(world.placed()) == {"single"}


def test_gangs_that_would_dead_lock_do_not(world: World) -> None:
    """Two gangs whose pods arrive in turns, with room for one: one runs whole, the other waits whole, then runs."""
    world.nodes(4)
    world.group("red", 4)
    world.group("blue", 4)
    for i in range(4):
        world.members("red", [i])
        world.members("blue", [i])

    def bound() -> tuple[int, int]:
        placed = world.placed()
        return sum(n.startswith("red") for n in placed), sum(n.startswith("blue") for n in placed)

    wait_until(lambda: sorted(bound()) == [0, 4], what=lambda: f"one gang whole; bound are {bound()}")
    first, second = ("red", "blue") if bound()[0] else ("blue", "red")
    for i in range(4):
        world.delete_pod(f"{first}-{i}")
    world.wait_placed(*(f"{second}-{i}" for i in range(4)), timeout_seconds=ROOM_SECONDS)


def test_missing_members_and_missing_groups_are_told(world: World) -> None:
    """Pods of an incomplete gang, or of no group at all, say what they wait for; then they go together."""
    world.nodes(2)
    world.members("late", [0], gpus=4)
    message = world.wait_condition("late-0", "SchedulingGated")["message"]
    assert "PodGroup" in message
    assert "does not exist" in message
    world.group("late", 2)
    world.wait_condition("late-0", "SchedulingGated")
    world.members("late", [1], gpus=4)
    world.wait_placed("late-0", "late-1")


def test_member_that_names_another_scheduler_is_an_error_at_the_group(world: World) -> None:
    """It waits for somebody else: the group, an event and our members say so, and the gang goes when it is replaced."""
    world.nodes(2)
    world.group("mixed", 2)
    world.members("mixed", [0], gpus=4)
    world.pod("mixed-1", gpus=4, gang="mixed", schedulerName="somebody-else")
    expected = "its pods name different schedulers: ai-scheduler (1), somebody-else (1); allowed is one for all"

    def told() -> bool:
        conditions = {c["type"]: c for c in world.group_status("mixed").get("conditions", [])}
        return (
            conditions.get("Scheduled", {}).get("reason") == "InvalidPodGroup"
            and expected in (conditions["Scheduled"]["message"])
        )

    wait_until(told, what=lambda: str(world.group_status("mixed")))
    wait_until(lambda: expected in world.condition("mixed-0").get("message", ""), what="the condition of our member")
    wait_until(
        lambda: [e for e in world.events("InvalidPodGroup") if e["regarding"]["kind"] == "PodGroup"], what="an event"
    )
    assert world.condition("mixed-1") == {}
    world.delete_pod("mixed-1")
    world.members("mixed", [2], gpus=4)
    world.wait_placed("mixed-0", "mixed-2")


def test_late_member_of_a_running_gang_is_placed(world: World) -> None:
    """A member beyond the minimum joins when it comes."""
    world.nodes(2)
    names = world.gang("job", 2, gpus=4)
    world.wait_placed(*names)
    world.members("job", [2], gpus=4)
    world.wait_placed("job-2")


def test_group_out_of_range_is_refused_by_the_api_server(world: World) -> None:
    """A minMember of 0 does not get past the CRD."""
    with pytest.raises(ApiError, match="minMember"):
        world.group("zero", 0)


def test_group_with_an_unknown_priority_class_waits_and_says_why(world: World) -> None:
    """The pods name the group, the field and what exists; they go when the class does."""
    world.nodes(1)
    name = f"{world.namespace}-urgent"
    world.group("job", 1, priorityClassName=name)
    world.members("job", [0], gpus=1)
    assert "spec.priorityClassName" in world.wait_condition("job-0", "SchedulingGated")["message"]
    world.priority("urgent", 0)
    world.wait_placed("job-0")


def test_coscheduling_label_without_its_crd_waits(world: World) -> None:
    """A pod of another dialect, whose CRD is not there, is not placed alone, and says what is missing."""
    world.nodes(1)
    world.pod("alone", labels={"scheduling.x-k8s.io/pod-group": "theirs"})
    assert "coscheduling" in world.wait_condition("alone", "SchedulingGated")["message"]


def test_gpus_with_the_best_links_are_chosen_and_published(world: World) -> None:
    """Of a hybrid mesh two GPUs with a double NVLink are named in the pod's annotation; the basis is told."""
    mesh = world.node("mesh", product=V100)
    world.pod("pair", gpus=2)
    assert world.wait_placed("pair")["pair"] == mesh
    annotations = world.get("pair")["metadata"]["annotations"]
    gpus, basis = annotations[f"{GROUP}/gpus"].split(";")
    assert gpus in DOUBLE_LINKS
    assert basis == "basis=assumed"
    assert "bandwidth" in annotations[f"{GROUP}/placement"]


def test_linked_gpus_are_preferred_among_mixed_nodes(world: World) -> None:
    """Of boards without NVLink, a hybrid mesh with two GPUs left on each side, and a free mesh, four GPUs come from the free one."""
    world.node("boards", product="NVIDIA-L4")
    torn = world.node("torn", product=V100)
    free = world.node("free", product=V100)
    for name, gpus in (("a", "0,1"), ("b", "4,5")):
        taken = {f"{GROUP}/gpus": f"{gpus};basis=assumed"}
        world.pod(name, gpus=2, schedulerName="somebody-else", nodeName=torn, annotations=taken)
    wait_until(lambda: len(world.placed()) == 2, what="the pods of the other scheduler")
    world.pod("four", gpus=4)
    assert world.wait_placed("four")["four"] == free


def test_gang_prefers_nodes_of_one_clique(world: World) -> None:
    """Nodes that share an NVLink clique are filled together."""
    for i in range(6):
        world.node(
            f"tray{i}", gpus=4, labels={"nvidia.com/gpu.clique": f"8f2c0d9e-0000-4000-8000-00000000000{i % 2}.1"}
        )
    names = world.gang("job", 3, gpus=4)
    found = world.wait_placed(*names)
    assert len({int(node[-1]) % 2 for node in found.values()}) == 1


def test_replacement_of_a_rejected_member_goes_to_the_same_rack_and_another_node(world: World) -> None:
    """A kubelet refuses a member: its replacement comes back to the gang's rack, not to that node."""
    leaf = "network.topology.nvidia.com/leaf"
    racks: dict[str, str] = {}
    for rack in ("a", "b"):
        for number in range(3):
            full = world.bare_node(f"{rack}{number}", labels={leaf: f"{world.namespace}-{rack}"})
            racks[full] = rack
    world.gang("job", 2)
    before = world.wait_placed("job-0", "job-1")
    [home] = {racks[name] for name in before.values()}
    path = f"/api/v1/namespaces/{world.namespace}/pods/job-1/status"
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"}
    world.plane.request("PATCH", path, {"status": status})
    world.members("job", [2])
    after = world.wait_placed("job-2")
    assert racks[after["job-2"]] == home
    assert after["job-2"] not in before.values()


def test_group_tells_where_it_is(world: World) -> None:
    """The domain at each level, how many leaf switches are used and could be, and how near together the pods are."""
    leaf, spine = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"
    for number in range(2):
        world.node(f"n{number}", labels={leaf: f"{world.namespace}-l", spine: f"{world.namespace}-s"})
    world.gang("job", 2)
    world.wait_placed("job-0", "job-1")
    told = wait_until(lambda: world.group_status("job").get("placement"), what=lambda: str(world.group_status("job")))
    assert [domain["name"] for domain in told["domains"]] == [f"{world.namespace}-s", f"{world.namespace}-l"]
    assert (told["leafDomains"], told["leafDomainsMinimum"]) == (1, 1)
    assert told["quality"] == "1.00"
    assert told["bottleneckLevel"]
