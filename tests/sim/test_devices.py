"""Devices in a simulation: claims are made from templates, and come back when their pods end."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from scheduler.cli.main import main


def test_two_pods_take_turns_with_one_device() -> None:
    """Each runs for a minute; the second is bound after the first has ended."""
    manifests = Path(__file__).with_name("devices.yaml")
    result = CliRunner().invoke(main, ["simulate", str(manifests), "-o", "json"])
    assert result.exit_code == 0, result.output
    pods = sorted(json.loads(result.output)["workloads"][0]["pods"], key=lambda pod: pod["bound"])
    assert [pod["outcome"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert pods[1]["bound"] >= pods[0]["ended"] >= 60


def test_what_the_api_server_would_refuse_is_told(tmp_path: Path) -> None:
    """An expression that does not compile, with its path."""
    text = Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8")
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        text.replace("spec: {}", "spec: {selectors: [{cel: {expression: device.speed}}]}"), encoding="utf-8"
    )
    result = CliRunner().invoke(main, ["simulate", str(broken)])
    assert result.exit_code == 2
    assert "spec.selectors[0].cel.expression: 1:7: undefined field 'speed'" in result.output


def test_pods_take_turns_for_an_extended_resource_that_a_class_stands_for(tmp_path: Path) -> None:
    """No claim is named; one is made for each pod, and goes with it. The kubelet does not count what devices serve."""
    text = Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8")
    text = text.replace("spec: {}", "spec: {extendedResourceName: example.com/gpu}")
    text = text.replace("resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]", "")
    resources = '{requests: {cpu: "1", example.com/gpu: "1"}, limits: {example.com/gpu: "1"}}'
    manifests = tmp_path / "extended.yaml"
    manifests.write_text(text.replace('{requests: {cpu: "1"}}', resources), encoding="utf-8")
    result = CliRunner().invoke(main, ["simulate", str(manifests), "-o", "json"])
    assert result.exit_code == 0, result.output
    pods = sorted(json.loads(result.output)["workloads"][0]["pods"], key=lambda pod: pod["bound"])
    assert [pod["outcome"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert pods[1]["bound"] >= pods[0]["ended"] >= 60


def test_what_slices_tell_of_links_is_in_the_outcome(tmp_path: Path) -> None:
    """Two V100 of a DGX-1, of which nothing but its slice tells: the best pair has two NVLinks of 25 GB/s."""
    text = Path(__file__).with_name("devices.yaml").read_text(encoding="utf-8")
    attributes = "productName: {string: Tesla V100-SXM2-32GB}"
    devices = ", ".join(f"{{name: g{k}, attributes: {{index: {{int: {k}}}, {attributes}}}}}" for k in range(8))
    text = text.replace("{name: g0}", devices).replace("deviceClassName: gpu}", "deviceClassName: gpu, count: 2}")
    manifests = tmp_path / "linked.yaml"
    manifests.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["simulate", str(manifests), "-o", "json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    for pod in found["workloads"][0]["pods"]:
        assert (len(pod["gpu_set"]), pod["bandwidth_gbps"], pod["best_gbps"]) == (2, 50, 50)
    assert len(found["nodes"][0]["links"]) == 16
