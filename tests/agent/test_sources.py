"""What the agent reads of a machine: NVML, `nvidia-smi` or the kernel, in this order, and what it says if none can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.agent.errors import SourceError
from scheduler.agent.sources import read_machine
from scheduler.agent.sysfs import pci_address, read_pci_devices
from scheduler.model.node_topology import ApiNodeTopology, node_topology_from_api
from scheduler.topology import parse_topology
from scheduler.topology.told import machine_of_told
from tests.agent.machines import DATA, Driver, a_program, add_device, two_gpus

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "0000:3d:00.0", "0000:3e:00.0"
SWITCH = ["pci0000:3a", "0000:3a:00.0", "0000:3b:00.0"]
NO_DRIVER = Driver({}, broken="Driver Not Loaded")
NIC = {"name": "mlx5_0", "pciAddress": "0000:3f:00.0", "numaNode": 0, "pciePath": [*SWITCH, "0000:3c:0c.0"]}


def as_machine(spec: dict[str, Any]) -> Any:
    """Return the machine that the scheduler makes of a spec."""
    view = node_topology_from_api(msgspec.convert({"metadata": {"name": "n"}, "spec": spec}, ApiNodeTopology))
    return machine_of_told(view.machine)


def test_kernel_tells_gpus_paths_and_rdma_adapters(tmp_path: Path) -> None:
    """Without a driver: no NVLinks and no UUIDs; adapters without RDMA and displays of others do not count."""
    assert read_machine(two_gpus(tmp_path), ("sysfs",)) == {
        "source": "sysfs",
        "gpus": [
            {"index": 0, "pciAddress": ONE, "numaNode": 0, "pciePath": [*SWITCH, "0000:3c:04.0"]},
            {"index": 1, "pciAddress": TWO, "numaNode": 0, "pciePath": [*SWITCH, "0000:3c:08.0"]},
        ],
        "nics": [NIC],
    }


def test_nvml_tells_direct_links(tmp_path: Path) -> None:
    """Four links of 25 GB/s to the other one; a link that is down, or leads to a GPU unseen, does not count."""
    driver = Driver({ONE: [TWO] * 4 + ["down", "0000:99:00.0"], TWO: [ONE] * 4})
    spec = read_machine(two_gpus(tmp_path), nvml=driver)
    assert spec is not None
    assert spec["source"] == "nvml"
    assert [gpu["nvlinkPeers"] for gpu in spec["gpus"]] == [
        [{"gpu": 1, "links": 4, "gigabytesPerSecond": 100}],
        [{"gpu": 0, "links": 4, "gigabytesPerSecond": 100}],
    ]
    assert [(gpu["uuid"], gpu["pciAddress"]) for gpu in spec["gpus"]] == [("GPU-0", ONE), ("GPU-1", TWO)]
    assert spec["gpus"][1]["pciePath"] == [*SWITCH, "0000:3c:08.0"]
    assert spec["nics"] == [NIC]
    assert not driver.is_open


@pytest.mark.parametrize(("version", "gbps"), [(3, 300), (4, 300), (5, 600), (9, 300)])
def test_nvml_tells_switches(tmp_path: Path, version: int, gbps: int) -> None:
    """Twelve links: of 25 GB/s up to NVLink 4, and where the version is not known; of 50 GB/s with NVLink 5."""
    driver = Driver({ONE: ["switch"] * 12, TWO: ["switch"] * 12}, version)
    spec = read_machine(two_gpus(tmp_path), nvml=driver)
    assert spec is not None
    assert [gpu["nvswitch"] for gpu in spec["gpus"]] == [{"links": 12, "gigabytesPerSecond": gbps}] * 2
    assert as_machine(spec).nvlink_gbps[0, 1] == gbps


def test_gpus_without_nvlink_have_none(tmp_path: Path) -> None:
    """The driver says that it is not supported."""
    spec = read_machine(two_gpus(tmp_path), nvml=Driver({ONE: [], TWO: []}))
    assert spec is not None
    assert all("nvlinkPeers" not in gpu and "nvswitch" not in gpu for gpu in spec["gpus"])


PRODUCTS = {
    "dgx1v_v100_sxm2_8gpu_1nic.txt": ("Tesla V100-SXM2-32GB", 8, 25.0),
    "a100_p4d_24xlarge_8gpu.txt": ("NVIDIA A100-SXM4-40GB", 8, 25.0),
    "b200_8gpu_8nic_gke_a4.txt": ("NVIDIA B200", 8, 50.0),
    "gb200_tray_4gpu.txt": ("NVIDIA GB200", 4, 50.0),
    "l40s_4gpu_2nic.txt": ("NVIDIA L40S", 4, 25.0),
    "rtx5090_2gpu_phb.txt": ("NVIDIA GeForce RTX 5090", 2, 25.0),
}


@pytest.mark.parametrize("sample", PRODUCTS)
def test_nvidia_smi_gives_the_links_that_its_matrix_shows(tmp_path: Path, sample: str) -> None:
    """The NVLink bandwidth between all pairs is that of the parser; the program is the one below the root folder."""
    product, count, gbps = PRODUCTS[sample]
    root = a_program(tmp_path, sample, [(f"00000000:{16 + i:02X}:00.0", product) for i in range(count)])
    spec = read_machine(root, nvml=NO_DRIVER)
    assert spec is not None
    assert spec["source"] == "nvidia-smi"
    assert [gpu["pciAddress"] for gpu in spec["gpus"]] == [f"0000:{16 + i:02x}:00.0" for i in range(count)]
    expected = parse_topology((DATA / sample).read_text(), gbps_per_link=gbps)
    assert as_machine(spec).nvlink_gbps.tolist() == expected.nvlink_gbps.tolist()


def test_numa_nodes_are_the_kernels_else_those_of_the_matrix(tmp_path: Path) -> None:
    """The second half of the B200s is on node 1 by the matrix; the kernel's word counts more."""
    listed = [(f"0000:{16 + i:02x}:00.0", "NVIDIA B200") for i in range(8)]
    root = a_program(tmp_path, "b200_8gpu_8nic_gke_a4.txt", listed)
    add_device(root, "pci0000:10", listed[0][0], numa=3)
    spec = read_machine(root, ("nvidia-smi",))
    assert spec is not None
    assert [gpu["numaNode"] for gpu in spec["gpus"]] == [3, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ([("0000:10:00.0", "NVIDIA L40S")], "its matrix has 4 GPUs, its list 1"),
        ([("bus 3", "NVIDIA L40S")], "'bus 3' is no PCI address; allowed are such as 0000:3b:00.0"),
    ],
)
def test_nvidia_smi_that_contradicts_itself_is_not_believed(tmp_path: Path, listed: Any, words: str) -> None:
    """The problem names the source."""
    with pytest.raises(SourceError, match=words):
        read_machine(a_program(tmp_path, "l40s_4gpu_2nic.txt", listed), ("nvidia-smi",))


def test_failing_program_is_told_with_its_words(tmp_path: Path) -> None:
    """As when the driver does not match the kernel module."""
    program = tmp_path / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n")
    program.chmod(0o755)
    with pytest.raises(SourceError, match="ended with 18: Failed to initialize NVML: Driver/library version mismatch"):
        read_machine(tmp_path, ("nvidia-smi",))


def test_all_that_fails_is_told(tmp_path: Path) -> None:
    """One sentence with the reason of every source."""
    with pytest.raises(SourceError) as caught:
        read_machine(tmp_path, ("nvml", "sysfs"), NO_DRIVER)
    said = str(caught.value)
    assert "nvml: Driver Not Loaded" in said
    assert "sys/bus/pci/devices cannot be read: No such file or directory" in said


def test_node_without_gpus_is_no_failure(tmp_path: Path) -> None:
    """There is nothing to write of it."""
    add_device(tmp_path, "pci0000:00", "0000:00:1f.6", kind=0x020000, vendor=0x8086)
    assert read_machine(tmp_path, ("sysfs",)) is None


def test_odd_folders_are_left_alone(tmp_path: Path) -> None:
    """A device without a class, and one whose NUMA node is not told."""
    folder = add_device(tmp_path, "pci0000:00", ONE, numa=-1)
    (add_device(tmp_path, "pci0000:00", TWO) / "class").unlink()
    (folder / "vendor").write_text("0x10de\n")
    found = read_pci_devices(tmp_path)
    assert (list(found.gpus), found.gpus[ONE].numa_node) == ([ONE], None)


@pytest.mark.parametrize(
    ("text", "address"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("3B:00.0", "0000:3b:00.0"), ("00010000:01:00.0", "10000:01:00.0")],
)
def test_addresses_are_written_as_the_kernel_does(text: str, address: str) -> None:
    """Domains beyond 16 bits keep their digits."""
    assert pci_address(text) == address


def test_driver_of_the_tests_has_the_names_of_the_library() -> None:
    """What is called here is there in nvidia-ml-py, with the same numbers."""
    library = pytest.importorskip("pynvml")
    names = [name for name in vars(Driver) if name.lower().startswith("nvml")]
    assert [name for name in names if not hasattr(library, name)] == []
    for name in ("NVML_FEATURE_ENABLED", "NVML_NVLINK_DEVICE_TYPE_GPU", "NVML_NVLINK_DEVICE_TYPE_SWITCH"):
        assert getattr(library, name) == getattr(Driver, name)
    assert issubclass(library.NVMLError_NotSupported, library.NVMLError)
