"""`topology show` and `topology check`: what is printed of machines, and what ends with which code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.devices.cases import slice_of

DATA = Path(__file__).parents[1] / "topology" / "data"
SAMPLES = sorted(DATA.glob("*.txt"))
VECTORS = DATA / "gpuallocator_vectors.json"
SVG = "{http://www.w3.org/2000/svg}"


def call(*arguments: str, stdin: str | None = None) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, ["topology", *map(str, arguments)], input=stdin)


def a_node_topology(**status: object) -> str:
    """Return a manifest of four GPUs in two bridged pairs."""
    gpus = [{"index": gpu, "numaNode": gpu // 2} for gpu in range(4)]
    for gpu in (0, 2):
        gpus[gpu]["nvlinkPeers"] = [{"gpu": gpu + 1, "links": 4, "gigabytesPerSecond": 100}]
    head = {"apiVersion": "scheduling.ai-scheduler.io/v1alpha1", "kind": "NodeTopology", "metadata": {"name": "n"}}
    return yaml.safe_dump(head | {"spec": {"gpus": gpus}, "status": status})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("output", ["text", "svg", "json"])
def test_every_sample_is_shown_in_every_form(sample, output):
    """No machine is too odd for a picture; each device is in it."""
    result = call("show", sample, "-o", output)
    assert (result.exit_code, result.stderr) == (0, "")
    count = int(sample.stem.partition("gpu")[0].rpartition("_")[2])
    if output == "svg":
        texts = [text.text for text in ET.fromstring(result.stdout).iter(f"{SVG}text")]
        assert {f"GPU {gpu}" for gpu in range(count)} <= set(texts)
    elif output == "json":
        shown = json.loads(result.stdout)
        assert (shown["gpus"], len(shown["best"])) == (count, count)
    else:
        assert result.stdout.startswith(f"{count} GPUs, ")


def test_best_sets_are_those_of_the_hybrid_cube_mesh():
    """2, 5, 9, 11, 14, 18 and 24 links of 25 GB/s, as published for k = 2 … 8."""
    shown = json.loads(call("show", DATA / "dgx1v_v100_sxm2_8gpu_1nic.txt", "-o", "json").stdout)
    assert [best["gigabytesPerSecond"] // 25 for best in shown["best"]] == [0, 2, 5, 9, 11, 14, 18, 24]


def test_only_free_gpus_are_chosen_from():
    """0 and 3 have two links, 5 has none to either."""
    result = call("show", DATA / "dgx1v_v100_sxm2_8gpu_1nic.txt", "--free", "0,3,5")
    assert "free: 0,3,5" in result.stdout
    assert result.stdout.splitlines()[-2].split() == ["2", "50", "100%", "0,3"]


def test_product_tells_how_fast_a_link_is():
    """NV18 is 450 GB/s on an H100 and 900 on a B200."""
    arguments = ("show", DATA / "b200_8gpu_8nic_gke_a4.txt", "-o", "json")
    assert json.loads(call(*arguments).stdout)["nvlinkGigabytesPerSecond"][0][1] == 450
    assert json.loads(call(*arguments, "--product", "NVIDIA-B200").stdout)["nvlinkGigabytesPerSecond"][0][1] == 900


def test_manifest_shows_what_is_reported_free():
    """GPU 1 is taken, so the other pair is the best."""
    text = a_node_topology(observedTime="2026-01-01T00:00:00Z", free={"gpus": [0, 2, 3]})
    shown = json.loads(call("show", "-", "-o", "json", stdin=text).stdout)
    assert shown["free"] == [0, 2, 3]
    assert shown["best"][1] == {"k": 2, "gpus": [2, 3], "gigabytesPerSecond": 100}


def test_node_with_labels_is_a_machine_too():
    """As `kubectl get node -o yaml` prints it, alone or in a list."""
    labels = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB", "nvidia.com/gpu.count": "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": {}}
    for document in (node, {"kind": "List", "items": [node]}):
        assert call("show", "-", stdin=json.dumps(document)).stdout.startswith("8 GPUs")


def test_slices_tell_the_machine_before_labels_do():
    """Eight V100 by the name of their product, whatever the label says; alone they tell as much."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}, "status": {}}
    product = {"string": "Tesla V100-SXM2-16GB"}
    devices = [{"name": f"g{i}", "attributes": {"index": {"int": i}, "productName": product}} for i in range(8)]
    told = {"kind": "ResourceSlice", **slice_of(*devices)}
    for items in ([node, told], [told]):
        shown = json.loads(call("show", "-", "-o", "json", stdin=json.dumps({"kind": "List", "items": items})).stdout)
        pair = shown["best"][1]
        assert pair["gigabytesPerSecond"] == 50
        assert pair["gpus"] in [[0, 3], [0, 4], [1, 2], [1, 5], [2, 3], [4, 7], [5, 6], [6, 7]]


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        ("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X", "topology text, line 3, column 6: GPU0 to GPU1 is NV1 and back NV2"),
        ("", "line 1, column 1"),
        ('{"gpus": 0}', "allowed are gpus"),
        ("kind: NodeTopology\nspec: {gpus: [{index: 3}]}", "spec.gpus: indices 3"),
        ("kind: NodeTopology\nspec: {gpus: 7}", "Expected `array | null`, got `int`"),
        ("kind: Node\nmetadata: {name: n}", "nothing tells its machine"),
        (
            "kind: Node\nmetadata: {name: b}\n---\nkind: Node\nmetadata: {name: a}",
            "it has 2 nodes (a, b); allowed is one",
        ),
    ],
)
def test_what_cannot_be_used_is_said_and_ends_with_2(stdin, says):
    """On standard error, without a trace."""
    result = call("show", "-", stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_free_gpus_that_are_not_there_end_with_2():
    """The allowed ones are named."""
    result = call("show", DATA / "rtx5090_2gpu_phb.txt", "--free", "0,2")
    assert (result.exit_code, "GPUs from 0 to 1" in result.stderr) == (2, True)


def test_node_without_a_cluster_ends_with_2(monkeypatch, tmp_path):
    """A name that is no file is a node, and nobody says where the cluster is; a script finds no word of it on standard output."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = call("show", "no-such-file")
    assert (result.exit_code, "no cluster is configured" in result.stderr) == (2, True)
    assert result.stdout == ""


def test_all_vectors_of_nvidias_allocator_pass():
    """In the policy that each one names; the last line counts them."""
    result = call("check", VECTORS)
    count = sum(len(json.loads(VECTORS.read_text())[key]) for key in ("sequential_alloc", "policy_alloc"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, f"{count} of {count}")


def changed(**changes: object) -> str:
    """Return the vectors with one thing changed, by path."""
    vectors = json.loads(VECTORS.read_text())
    for path, value in changes.items():
        *way, last = path.split("__")
        place = vectors
        for key in way:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(vectors)


@pytest.mark.parametrize(
    "change",
    [
        {"sequential_alloc__0__steps__1__expect": [2]},
        {"policy_alloc__0__expect": [0, 2]},
        {"policy_alloc__6__policy": "simple"},
    ],
)
def test_vector_that_fails_is_named_and_ends_with_1(change):
    """What was expected and what was picked is said; one fewer passes."""
    result = call("check", "-", stdin=changed(**change))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "19 of 20")
    assert len([line for line in result.stdout.splitlines() if "expected" in line and "picked" in line]) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policy_alloc__0__policy": "worst"}, "policy_alloc[0].policy: 'worst' is unknown; allowed: best_effort"),
        ({"policy_alloc__0__node": "DGX9"}, "policy_alloc[0].node: 'DGX9' is unknown; allowed: 4xRTX8000"),
        ({"policy_alloc__0__available": [9]}, "policy_alloc[0].available"),
        ({"sequential_alloc__6__node": "4xRTX8000"}, "static_dgx knows no sets for 4xRTX8000"),
        ({"topologies__DGX1Volta__gpus": 7}, "topologies.DGX1Volta.nvlinks: allowed are 7 rows"),
        ({"topologies__DGX1Volta__pcie__0__1": "PIG"}, "topologies.DGX1Volta.pcie[0][1]"),
        ({"topologies__DGX1Volta__optimum_by_size__2__max_links": 3}, "max_links: 3, but the matrices allow 2"),
        ({"topologies": 1}, "Expected `object`"),
    ],
)
def test_file_that_cannot_be_run_names_the_place_and_ends_with_2(change, says):
    """Nothing is counted."""
    result = call("check", "-", stdin=changed(**change))
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
