"""`ai-scheduler explain`: what it prints where, and with which exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from scheduler.sim.dump import dump_command
from tests.sim.worlds import PREFIX, a_pod, nodes

if TYPE_CHECKING:
    from pathlib import Path


def call(*arguments: str, stdin: str | None = None) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, ["explain", *arguments], input=stdin)


def written(path: Path, *manifests: Any) -> str:
    """Write manifests to a file and return its name."""
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "keep", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 0},
}


def labelled(pod: dict[str, Any], **labels: str) -> dict[str, Any]:
    """Return a pod with labels."""
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


@pytest.fixture
def full(tmp_path: Path) -> str:
    """Return a cluster of two nodes, one full of important pods, where a pod of eight GPUs waits; and a ConfigMap."""
    important = a_pod("important", 8, node="node-0", priority=100)
    guarded = labelled(a_pod("guarded", 8, node="node-1", priority=1), app="web")
    return written(
        tmp_path / "full.yaml", *nodes(2), important, guarded, a_pod("waits", 8, priority=50), BUDGET,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}},
    )  # fmt: skip


def test_a_pod_that_fits_nowhere_is_explained(full: str) -> None:
    """Verdicts by node, whom preemption would evict and which budget that breaks, the event, and what was not read."""
    result = call("--snapshot", full, "--pod", "default/waits", "--profile", "kube-default")
    assert result.exit_code == 0, result.output
    for said in (
        "Insufficient nvidia.com/gpu",
        "would evict",
        "default/guarded (priority 1), breaks its budget: keep allows 0",
        "No preemption victims found for incoming pod",
        "FailedScheduling: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: found a potential",
        "placement for pod on node node-1, preempting 1 victims",
        "not read: 1 ConfigMap",
    ):
        assert said in result.stdout
    assert result.stderr == ""


def test_json_has_every_field(full: str) -> None:
    """Scripts get JSON and nothing else."""
    result = call("--snapshot", full, "--pod", "waits", "-o", "json", "--profile", "kube-default")
    found = json.loads(result.stdout)
    assert found["pod"] == "default/waits"
    assert found["base"] == "kube-default"
    assert found["feasible"] == []
    assert found["filters"]["NodeResourcesFit"]["node-0"]["code"] == "Unschedulable"
    assert found["preemption"]["chosen"] == ["node-1"]
    assert found["preemption"]["candidates"]["node-1"] == {
        "victims": [
            {"pod": "default/guarded", "node": "node-1", "priority": 1, "violatesBudget": True, "budgets": {"default/keep": 0}}
        ],
        "pdbViolations": 1,
    }  # fmt: skip


def test_a_pod_that_fits_has_scores(tmp_path: Path) -> None:
    """Raw and normalised scores with weights, totals, and the best nodes; from standard input, too."""
    text = yaml.safe_dump_all([*nodes(2), a_pod("waits", 2)])
    result = call("--snapshot", "-", "--pod", "waits", "-o", "json", stdin=text)
    found = json.loads(result.stdout)
    assert found["feasible"] == ["node-0", "node-1"]
    assert found["weights"]["NodeResourcesFit"] == 1
    totals = {
        node: sum(found["weights"][plugin] * of[node]["normalized"] for plugin, of in found["scores"].items())
        for node in found["feasible"]
    }
    assert found["total"] == totals
    assert found["best"] == ["node-0", "node-1"]
    assert found["preemption"] is None
    table = call("--snapshot", written(tmp_path / "a.yaml", *nodes(2), a_pod("waits", 2)), "--pod", "waits")
    assert "Best: node-0, node-1" in table.stdout


def test_a_bound_pod_is_explained_as_if_it_waited(tmp_path: Path) -> None:
    """It is taken off its node, and that is said."""
    path = written(tmp_path / "a.yaml", *nodes(1), a_pod("runs", 8, node="node-0"))
    result = call("--snapshot", path, "--pod", "runs", "-o", "json")
    found = json.loads(result.stdout)
    assert found["feasible"] == ["node-0"]
    assert "the pod is on node node-0; it is taken off and explained as if it waited" in found["notes"]


def test_a_member_of_a_gang_is_told_who_speaks_of_the_whole_gang_and_what_that_was_told(tmp_path: Path) -> None:
    """Every node passes, and yet the gang is refused: the reader learns where to look, and what a dump says."""
    member = labelled(a_pod("waits", 2), **{f"{PREFIX}/pod-group": "train"})
    status = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "No rack could."}
    path = written(tmp_path / "a.yaml", *nodes(1), {**member, "status": {"conditions": [status]}})
    notes = json.loads(call("--snapshot", path, "--pod", "waits", "-o", "json").stdout)["notes"]
    alone, told = [note for note in notes if "gang" in note]
    assert "looked at alone" in alone
    assert "ai-scheduler simulate" in alone
    assert told == "when the gang was last refused, the pod was told: No rack could."


def test_a_folder_and_a_list_are_read(tmp_path: Path) -> None:
    """As kubectl writes them."""
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes(1)}))
    written(tmp_path / "pods.yaml", a_pod("waits"))
    assert call("--snapshot", str(tmp_path), "--pod", "waits").exit_code == 0


def test_the_profile_is_the_one_that_is_named(tmp_path: Path, full: str) -> None:
    """By name, else by the pod, else the first; another name is an error that tells the names."""
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{schedulerName: first, base: kube-default}, {schedulerName: ai-scheduler}]")
    arguments = ("--snapshot", full, "--pod", "waits", "-o", "json", "--config", str(config))
    assert json.loads(call(*arguments).stdout)["profile"] == "ai-scheduler"
    assert json.loads(call(*arguments, "--profile", "first").stdout)["base"] == "kube-default"
    wrong = call(*arguments, "--profile", "other")
    assert wrong.exit_code == 2
    assert "'other' is unknown; allowed: first, ai-scheduler, kube-default" in wrong.stderr


@pytest.mark.parametrize(
    ("manifests", "pod", "said"),
    [
        ([*nodes(1), a_pod("a")], "b", "--pod: there is no Pod default/b in the input; allowed: default/a"),
        ([*nodes(1)], "b", "allowed: a pod, but the input has none"),
        ([a_pod("a", cpu="many")], "a", "Pod a: spec.containers[0].resources.requests[cpu]: 'many'"),
        (
            [a_pod("a", priorityClassName="high")],
            "a",
            "Pod a: spec.priorityClassName: there is no PriorityClass 'high'",
        ),
        ([a_pod("a"), a_pod("a")], "a", "is there twice"),
        ([{**a_pod("a"), "status": {"phase": "Failed"}}], "a", "Pod default/a has ended (Failed)"),
        (
            [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": 3}}, a_pod("a")],
            "a",
            "Service s: spec.selector: 3 is a number; allowed: a mapping",
        ),
    ],
)
def test_bad_input_exits_with_2(manifests: list[Any], pod: str, said: str, tmp_path: Path) -> None:
    """Object, field and what is allowed go to stderr, nothing to stdout."""
    result = call("--snapshot", written(tmp_path / "a.yaml", *manifests), "--pod", pod)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--snapshot"],
        ["--snapshot", "a.yaml"],
        ["--cases", "a.jsonl", "--snapshot", "a.yaml"],
        ["--cases", "a.jsonl", "--pod", "a"],
        ["a.yaml", "--pod", "a"],
    ],
)
def test_a_wrong_call_exits_with_2(arguments: list[str]) -> None:
    """The usage goes to stderr."""
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_cases_are_answered_line_by_line(tmp_path: Path) -> None:
    """A bad line does not end the run, and exits with 0; a file that cannot be read exits with 2."""
    good = json.dumps({"id": "good", "objects": nodes(1), "pod": a_pod("waits")})
    (tmp_path / "cases.jsonl").write_text(f"nothing\n{good}\n")
    for result in (
        call("--cases", str(tmp_path / "cases.jsonl")),
        call("--cases", "-", stdin=f"nothing\n{good}\n"),
    ):
        assert result.exit_code == 0
        first, second = [json.loads(line) for line in result.stdout.splitlines()]
        assert first["id"] == ""
        assert second["feasible"] == ["node-0"]
    missing = call("--cases", str(tmp_path / "missing.jsonl"))
    assert missing.exit_code == 2
    assert "missing.jsonl cannot be read: No such file or directory" in missing.stderr


def with_spec(**fields: Any) -> dict[str, Any]:
    """Return a pod that waits, with more in its spec."""
    pod = a_pod("waits", 1)
    return {**pod, "spec": {**pod["spec"], **fields}}


TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
SPREAD = {**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{"topologykey": "zone"}]}}}, f"podAntiAffinity.{REQUIRED}[0].topologyKey: is missing"),
        ({"affinity": {"podAffinity": {PREFERRED: [{"weight": 0, "podAffinityTerm": TERM}]}}}, f"podAffinity.{PREFERRED}[0].weight: 0 is out of range"),
        ({"affinity": {"podAffinity": {REQUIRED: [{**TERM, "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]}}}, "namespaceSelector.matchExpressions[0].operator"),
        ({"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]}, "topologySpreadConstraints[0].maxSkew: 0 is out of range; allowed: numbers from 1"),
        ({"topologySpreadConstraints": [{**SPREAD, "topologyKey": ""}]}, "topologySpreadConstraints[0].topologyKey: is missing"),
        ({"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedul"}]}, "topologySpreadConstraints[0].whenUnsatisfiable"),
        ({"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]}, "topologySpreadConstraints[0].minDomains"),
        ({"topologySpreadConstraints": [{**SPREAD, "nodeTaintsPolicy": "honor"}]}, "topologySpreadConstraints[0].nodeTaintsPolicy"),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_is_refused(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    """A slip in a constraint does not make it vanish."""
    result = call(
        "--snapshot", written(tmp_path / "bad.yaml", *nodes(1), with_spec(**fields)), "--pod", "default/waits"
    )
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_gaps_of_the_input_are_told(tmp_path: Path) -> None:
    """What the answer depends on and the input does not have; and volumes that count as not there for want of a status."""
    affinity = {"podAntiAffinity": {REQUIRED: [{**TERM, "namespaceSelector": {"matchLabels": {"team": "a"}}}]}}
    pod = with_spec(
        affinity=affinity, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}],
    )  # fmt: skip
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    }  # fmt: skip
    result = call(
        "--snapshot", written(tmp_path / "a.yaml", *nodes(1), volume, pod), "--pod", "default/waits", "-o", "json"
    )
    notes = "\n".join(json.loads(result.output)["notes"])
    for said in (
        "the input has no PersistentVolumeClaim (the pod uses claims); a whole dump is (leave out kinds",
        "the input has no Namespace (the pod selects namespaces)",
        "the input has no ResourceClaim (the pod uses resource claims)",
        "PersistentVolume pv has no status.phase: it counts as not available",
    ):
        assert said in notes


def test_gangs_are_read_by_the_configured_kinds_of_groups(tmp_path: Path) -> None:
    """A kind of the user's own makes gangs; without the configuration its pods are single, and its objects are not read."""
    batch = {"apiVersion": "example.com/v1", "kind": "Batch", "metadata": {"name": "b"}, "spec": {"size": 2}}
    snapshot = written(tmp_path / "a.yaml", *nodes(1), batch, labelled(a_pod("waits", 1), batch="b"))
    kind = {
        "apiGroup": "example.com", "kind": "Batch", "versions": ["v1"], "resource": "batches", "nameLabel": "batch",
        "roles": [{"path": "spec", "counts": [{"fields": ["size"]}]}],
    }  # fmt: skip
    config = written(tmp_path / "config.yaml", {"groupKinds": [kind]})
    arguments = ("--snapshot", snapshot, "--pod", "waits", "-o", "json")
    told = json.loads(call(*arguments, "--config", config).stdout)["notes"]
    assert len(told) == 1
    assert "belongs to the gang" in told[0]
    assert "default/b" in told[0]
    assert json.loads(call(*arguments).stdout)["notes"] == ["not read: 1 Batch"]


def test_the_help_names_the_dump_that_notes_ask_for() -> None:
    """One command, in both places, and in the simulation too."""
    assert dump_command() in call("--help").output


def test_plugin_that_fails_is_told_with_its_mistake(tmp_path: Path) -> None:
    """So that its author can mend it."""
    plugins = {"multiPoint": {"enabled": [{"name": "tests.engine.plugins:Raises"}]}}
    config = written(tmp_path / "config.yaml", {"profiles": [{"schedulerName": "ai-scheduler", "plugins": plugins}]})
    pod = labelled(a_pod("waits", 1), **{"raise": "filter"})
    result = call(
        "--snapshot", written(tmp_path / "a.yaml", *nodes(1), pod), "--pod", "default/waits", "--config", config
    )
    assert "broken at filter" in result.output


def a_queue(name: str, **resource: Any) -> dict[str, Any]:
    """Return a queue of GPUs."""
    resources = [{"name": "nvidia.com/gpu", **resource}]
    return {
        "apiVersion": f"{PREFIX}/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": {"resources": resources}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (
            "small",
            "note: the pod is not placed while its queue has no quota for it: queue small: limit 4 nvidia.com/gpu, 0 used",
        ),
        ("full", "queue full: limit 10 nvidia.com/gpu, 8 used, asks 8"),
        ("large", "note: the pod waits in the queue large, which has quota left for it"),
        ("none", "note: the pod is not tried: "),
    ],
)
def test_the_queue_of_a_pod_is_a_note(tmp_path: Path, queue: str, said: str) -> None:
    """Whether a pod is placed is also for its queue to say: what it may use, what is used, and what the pod asks for."""
    label = f"{PREFIX}/queue"
    runs = labelled(a_pod("runs", 8, node="node-0"), **{label: "full"})
    waits = labelled(a_pod("waits", 8), **{label: queue})
    path = written(
        tmp_path / "queues.yaml",
        *nodes(2),
        a_queue("small", limit=4),
        a_queue("full", limit=10),
        a_queue("large"),
        runs,
        waits,
    )
    result = call("--snapshot", path, "--pod", "waits")
    assert result.exit_code == 0, result.output
    assert said in result.stdout


def test_a_promised_start_is_a_note(tmp_path: Path) -> None:
    """What the scheduler wrote at a pod that waits is told."""
    waits = a_pod("waits", 8)
    message = "room is reserved from 2026-01-01T00:00:00Z on"
    waits["status"] = {"conditions": [{"type": f"{PREFIX}/PromisedStart", "status": "True", "message": message}]}
    result = call("--snapshot", written(tmp_path / "one.yaml", *nodes(1), waits), "--pod", "waits")
    assert f"note: the pod is promised a start: {message}" in result.stdout
