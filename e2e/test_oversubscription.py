"""Far more gangs than there is room for: exactly as many run as fit, the others are told once and then nothing is written."""

import random
import time
from collections.abc import Iterable

from e2e.objects import GROUP, World
from e2e.waiting import wait_until
from e2e.watching import PodTimes

GANGS, SIZE, ROOM = 20, 100, 5
#: Generous: the machine also runs the API server. The times that were needed are printed.
LONGEST_SECONDS = 30.0
QUIET_SECONDS = 6.0


def versions(world: World) -> dict[str, str]:
    """Return the version of every pod and group of the test."""
    found = {}
    for path in ("/api/v1", f"/apis/{GROUP}/v1alpha1"):
        plural = "pods" if path == "/api/v1" else "podgroups"
        for item in world.plane.request("GET", f"{path}/namespaces/{world.namespace}/{plural}")["items"]:
            found[f"{plural}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


def gangs_of(placed: Iterable[str]) -> dict[str, int]:
    """Return how many members each gang has on nodes."""
    counts: dict[str, int] = {}
    for name in placed:
        gang = name.rpartition("-")[0]
        counts[gang] = counts.get(gang, 0) + 1
    return counts


def test_as_many_gangs_run_as_fit_and_the_others_are_quiet(world: World) -> None:
    """20 gangs of 100 pods in random order, with room for 5; then room for a sixth."""
    nodes = [world.node(f"n{k}", gpus=0, cpu=str(SIZE)) for k in range(ROOM)]
    assert len(nodes) == ROOM
    for number in range(GANGS):
        world.group(f"g{number}", SIZE)
    members = [(f"g{number}", k) for number in range(GANGS) for k in range(SIZE)]
    random.Random(5).shuffle(members)
    with PodTimes(world.plane, world.namespace) as times:
        for gang, number in members:
            world.members(gang, [number], gpus=0, cpu="1")
        began = time.monotonic()
        bound = times.bound
        wait_until(
            lambda: len(bound) >= ROOM * SIZE, LONGEST_SECONDS, lambda: f"five gangs placed: {gangs_of(tuple(bound))}"
        )
        print(f"five gangs placed {max(bound.values()) - began:.2f} s after the last pod was made")
        _check_quiet_and_sixth(world, times)


def _check_quiet_and_sixth(world: World, times: PodTimes) -> None:
    running = gangs_of(world.placed())
    assert sorted(running.values()) == [SIZE] * ROOM

    waiting = sorted({f"g{number}" for number in range(GANGS)} - running.keys())

    def all_told() -> bool:
        items = world.plane.request("GET", f"/api/v1/namespaces/{world.namespace}/pods")["items"]
        told = [
            c for p in items for c in p.get("status", {}).get("conditions", []) if c.get("reason") == "Unschedulable"
        ]
        return len(told) == len(waiting) * SIZE

    wait_until(all_told, 60, "a condition on every pod that waits")
    wait_until(lambda: world.group_status(waiting[-1]).get("phase") == "Pending", what="the groups' statuses")
    before = {}

    def is_still() -> bool:
        nonlocal before
        former, before = before, versions(world)
        time.sleep(0.5)
        return former == before

    wait_until(is_still, 30, "the last writes")
    time.sleep(QUIET_SECONDS)  # the claim is that nothing happens in this time
    assert versions(world) == before
    assert gangs_of(world.placed()) == running

    leaver = min(running)
    for k in range(SIZE):
        world.delete_pod(f"{leaver}-{k}")
    wait_until(lambda: sum(name.startswith(f"{leaver}-") for name in times.gone) == SIZE, 60, "the room to be free")
    free = max(times.gone.values())

    def all_six() -> bool:
        return len(times.bound) == (ROOM + 1) * SIZE

    wait_until(all_six, 60, lambda: f"a sixth gang placed; there are {gangs_of(world.placed())}")
    print(f"the sixth gang was placed {max(times.bound.values()) - free:.2f} s after the room was free")
    assert sorted(gangs_of(world.placed()).values()) == [SIZE] * ROOM
