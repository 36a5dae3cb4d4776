"""What pods ask: the formulae of kube-scheduler, by hand and as the real one has computed them (data/SOURCE.md)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.model import Pod, pod_from_api
from scheduler.model.api import ApiPod
from scheduler.model.quantity import LARGEST, QuantityError
from tests.builders import a_pod

MI = 2**20
CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "requests.jsonl").read_text().splitlines()]


def built(manifest: dict[str, Any], node_name: str = "") -> Pod:
    """Return the pod of a manifest, pending or bound."""
    other = copy.deepcopy(manifest)
    other["spec"]["nodeName"] = node_name
    return pod_from_api(msgspec.convert(other, ApiPod))


def without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    """Return the amounts that are not zero: an absent one is as good as zero."""
    return {name: count for name, count in amounts.items() if count}


def both(amounts: tuple[int, int]) -> dict[str, int]:
    """Return (millicores, bytes) as amounts."""
    return without_zeros({"cpu": amounts[0], "memory": amounts[1]})


@pytest.mark.parametrize("line", CASES, ids=[line["case"]["id"] for line in CASES])
def test_requests_are_those_of_the_real_scheduler(line: dict[str, Any]) -> None:
    """Filter's and Score's view of the pending pod, and what it adds to its node once bound."""
    expect = {name: without_zeros(amounts) for name, amounts in line["expect"].items()}
    pending, bound = built(line["case"]["pod"]), built(line["case"]["pod"], "n0")
    assert without_zeros(pending.requests) == expect["incoming"]
    assert both(pending.scored) == expect["scored"]
    assert without_zeros(bound.requests) == expect["bound"]
    assert both(bound.nonzero) == expect["boundNonZero"]


def test_containers_add_up() -> None:
    """The request of a pod is the sum of its containers."""
    pod = a_pod().cpu("500m").memory("1Gi").gpus(2).container("side", cpu="250m", memory="512Mi").build()
    assert pod.requests == {"cpu": 750, "memory": 1536 * MI, "nvidia.com/gpu": 2}


def test_init_containers_run_one_by_one() -> None:
    """An init container counts only where it peaks above what runs later."""
    pod = a_pod().cpu("500m").memory("1Gi").init("a", cpu="2", memory="100Mi").init("b", cpu="1").build()
    assert pod.requests == {"cpu": 2000, "memory": 1024 * MI}


def test_sidecars_count_beside_everything_after_them() -> None:
    """A sidecar before an init container adds to its peak, a later one does not; both add to the app containers."""
    before = a_pod().cpu("500m").init("side", sidecar=True, cpu="300m").init("big", cpu="1").build()
    after = a_pod().cpu("500m").init("big", cpu="1").init("side", sidecar=True, cpu="300m").build()
    assert before.requests["cpu"] == 1000 + 300
    assert after.requests["cpu"] == 1000
    assert (
        a_pod().cpu("900m").init("big", cpu="1").init("side", sidecar=True, cpu="300m").build().requests["cpu"] == 1200
    )


def test_overhead_comes_on_top() -> None:
    """The overhead of the runtime class adds to the higher of the two sums."""
    pod = a_pod().cpu("1").init("a", cpu="2").overhead(cpu="250m", memory="120Mi").build()
    assert pod.requests == {"cpu": 2250, "memory": 120 * MI}


def test_a_limit_without_a_request_counts_as_one() -> None:
    """The API server defaults it so; a manifest from a file gets the same."""
    assert a_pod().limit("cpu", "2").limit("memory", "1Gi").memory("1Mi").build().requests == {
        "cpu": 2000,
        "memory": MI,
    }


def test_pod_level_requests_replace_the_sum() -> None:
    """Pod-level cpu, memory and huge pages replace the containers' sums; nothing else may be set there."""
    pod = a_pod().cpu("1").memory("1Gi").gpus(1).pod_level(cpu="3", **{"nvidia.com/gpu": "9"}).build()
    assert pod.requests == {"cpu": 3000, "memory": 1024 * MI, "nvidia.com/gpu": 1}
    assert pod.nonzero == (3000, 1024 * MI)
    assert pod.scored == (1000, 1024 * MI)


def test_pod_level_default_fills_only_what_no_level_requests() -> None:
    """With pod-level memory, cpu defaults only if no container names any."""
    silent = a_pod().pod_level(memory="1Gi").container("b").build()
    spoken = a_pod().cpu("50m").pod_level(memory="1Gi").container("b").build()
    assert silent.nonzero == (200, 1024 * MI)
    assert spoken.nonzero == (50, 1024 * MI)
    assert spoken.scored == (150, 400 * MI)


def test_silent_containers_count_for_scoring() -> None:
    """A container without a request counts 100m and 200 MiB for scoring; an explicit zero stays zero."""
    assert a_pod().build().scored == (100, 200 * MI)
    assert a_pod().cpu("0").memory("0").build().scored == (0, 0)
    assert a_pod().cpu("1").container("side").build().nonzero == (1100, 400 * MI)
    assert a_pod().build().requests == {}


def reported(name: str, allocated: dict[str, str] | None, actual: dict[str, str] | None) -> dict[str, Any]:
    """Return a container status."""
    status: dict[str, Any] = {"name": name}
    if allocated is not None:
        status["allocatedResources"] = allocated
    if actual is not None:
        status["resources"] = {"requests": actual}
    return status


def test_a_resize_counts_with_the_highest_sum() -> None:
    """Of spec, allocated and actual sums the largest counts, per resource."""
    pod = a_pod().cpu("1").memory("3Gi").on("n")
    pod.patch_status(containerStatuses=[reported("main", {"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "2Gi"})])
    assert pod.build().requests == {"cpu": 3000, "memory": 3072 * MI}


def test_an_infeasible_resize_leaves_the_spec_out() -> None:
    """What the kubelet has refused for good is not counted."""
    pod = a_pod().cpu("8").on("n").condition("PodResizePending", reason="Infeasible")
    pod.patch_status(containerStatuses=[reported("main", {"cpu": "2"}, {"cpu": "1"})])
    assert pod.build().requests == {"cpu": 2000}
    assert pod.condition("PodResizePending", reason="Deferred").build().requests == {"cpu": 2000}, (
        "the first one counts"
    )


def test_pod_level_status_counts_with_the_overhead_on_top() -> None:
    """The largest of spec, allocated and actual pod-level requests counts, and the overhead is added whatever they include."""
    pod = a_pod().cpu("1").pod_level(cpu="2").overhead(cpu="250m").on("n")
    pod.patch_status(allocatedResources={"cpu": "4250m"}, resources={"requests": {"cpu": "3250m"}})
    assert pod.build().requests == {"cpu": 4500}


def test_pod_level_status_counts_only_once_it_tells_what_is_in_force() -> None:
    """Without `status.resources` what the kubelet has allocated to the pod as a whole is not looked at."""
    pod = a_pod().cpu("1").pod_level(cpu="2").on("n").patch_status(allocatedResources={"cpu": "3"})
    assert pod.build().requests == {"cpu": 2000}
    told = a_pod().cpu("1").pod_level(cpu="2").on("n").patch_status(allocatedResources={"cpu": "3"}, resources={})
    assert told.build().requests == {"cpu": 3000}


def test_an_infeasible_resize_leaves_the_pod_level_spec_out() -> None:
    """Then the larger of what is allocated and what is in force counts, and a resource that neither tells falls to the sum."""
    pod = a_pod().cpu("1").pod_level(cpu="8", memory="8Gi").on("n").condition("PodResizePending", reason="Infeasible")
    pod.patch_status(allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "1"}})
    assert pod.build().requests == {"cpu": 2000}


def test_a_status_that_agrees_changes_nothing() -> None:
    """Kubelets report every container; most of the time it is what the spec says."""
    pod = a_pod().cpu("1").memory("1Gi").on("n")
    plain = pod.build()
    same = {"cpu": "1", "memory": "1Gi"}
    assert pod.patch_status(containerStatuses=[reported("main", same, same)]).build().requests == plain.requests


def test_sums_stay_within_64_bits() -> None:
    """Absurd requests are cut, so that a column of them cannot overflow."""
    pod = a_pod().memory("8Ei")
    for index in range(200):
        pod.container(f"c{index}", memory="8Ei")
    assert pod.build().requests["memory"] == LARGEST


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        (a_pod().cpu("1x"), r"spec\.containers\[0\]\.resources\.requests\[cpu\]: '1x' is not a quantity"),
        (a_pod().limit("memory", "-1"), r"spec\.containers\[0\]\.resources\.limits\[memory\]: '-1' is negative"),
        (a_pod().init("a", cpu="?"), r"spec\.initContainers\[0\]\.resources\.requests\[cpu\]"),
        (a_pod().overhead(cpu="?"), r"spec\.overhead\[cpu\]"),
        (a_pod().pod_level(cpu="?"), r"spec\.resources\.requests\[cpu\]"),
        (
            a_pod().on("n").patch_status(containerStatuses=[reported("main", {"cpu": "?"}, None)]),
            r"container main: .*\[cpu\]",
        ),
    ],
)
def test_a_bad_quantity_names_its_path(pod: Any, path: str) -> None:
    """The error says where the quantity stands."""
    with pytest.raises(QuantityError, match=path):
        pod.build()
