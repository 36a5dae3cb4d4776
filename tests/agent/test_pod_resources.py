"""Which GPUs are free and who has which, by a kubelet's socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.agent.errors import SourceError
from scheduler.agent.pod_resources import Devices, read_devices, report_of
from scheduler.agent.protobuf import ProtobufError, fields_of
from tests.agent.kubelet import GPU, Kubelet, devices, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UUIDS = {"GPU-0": 0, "GPU-1": 1, "GPU-2": 2}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    """A kubelet at a socket."""
    with Kubelet(tmp_path / "kubelet.sock") as running:
        yield running


def test_devices_of_all_containers_count_for_their_pod(kubelet: Kubelet) -> None:
    """Other resources do not; what is not allocatable does not work, and is not free."""
    kubelet.allocatable = [devices(GPU, "GPU-0"), devices("vendor/nic", "a"), devices(GPU, "GPU-2", "GPU-1")]
    nic = devices("vendor/nic", "a")
    kubelet.pods = [
        ("team", "train", [[devices(GPU, "GPU-1")], [nic, devices(GPU, "GPU-0")]]),
        ("team", "web", [[nic]]),
    ]
    found = read_devices(str(kubelet.socket), GPU)
    assert found == Devices(frozenset({"GPU-0", "GPU-1", "GPU-2"}), {"team/train": frozenset({"GPU-0", "GPU-1"})})
    assert report_of(found, UUIDS, 3) == ([2], {"team/train": [0, 1]})


def test_socket_without_a_kubelet_is_told(tmp_path: Path) -> None:
    """The problem names the socket."""
    with pytest.raises(SourceError, match=r"pod-resources: .*nobody\.sock: UNAVAILABLE"):
        read_devices(str(tmp_path / "nobody.sock"), GPU)


def test_answer_that_is_no_message_is_told(kubelet: Kubelet) -> None:
    """And ends nothing."""
    kubelet.raw = b"\x0a\x7fshort"
    with pytest.raises(SourceError, match="the answer cannot be read: a field of 127 bytes begins at byte 2 of 7"):
        read_devices(str(kubelet.socket), GPU)


@pytest.mark.parametrize(
    ("allocatable", "held", "expected"),
    [
        ({"0", "1", "2"}, {"a/b": {"1"}}, ([0, 2], {"a/b": [1]})),
        ({"GPU-0::0", "GPU-0::1", "GPU-1::0"}, {"a/b": {"GPU-0::1"}}, ([1], {"a/b": [0]})),
        (set(), {}, ([], {})),
    ],
)
def test_devices_may_be_indices_or_shares(
    allocatable: set[str], held: dict[str, set[str]], expected: tuple[list[int], dict[str, list[int]]]
) -> None:
    """As NVIDIA's device plugin names them by its deviceIDStrategy and with time slices."""
    told = Devices(frozenset(allocatable), {pod: frozenset(names) for pod, names in held.items()})
    assert report_of(told, UUIDS, 3) == expected


@pytest.mark.parametrize("device", ["MIG-1", "7", "GPU-9"])
def test_device_that_is_no_gpu_of_the_node_is_told(device: str) -> None:
    """MIG slices are not whole GPUs: then nothing is said of what is free."""
    with pytest.raises(SourceError, match=f"'{device}' is none of the 3 GPUs"):
        report_of(Devices(frozenset({device}), {}), UUIDS, 3)


def test_fields_of_numbers_are_skipped() -> None:
    """Numbers of every kind, and fields with large numbers."""
    fixed = bytes([2 << 3 | 1, *range(8), 3 << 3 | 5, *range(4)])
    assert fields_of(message((1, 2**63), (5, "x"), (1000, b"y"), (5, "z")) + fixed) == {5: [b"x", b"z"], 1000: [b"y"]}


@pytest.mark.parametrize("data", [b"\x0a", b"\xff" * 11, b"\x0b", b"\x09\x00"])
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    """Cut off, too long a number, a group, and a cut number."""
    with pytest.raises(ProtobufError):
        fields_of(data)
