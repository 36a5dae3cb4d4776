"""The manifests: they fit together, may do just what they must, and the API server's admission will like them."""

from pathlib import Path
from typing import Any

import yaml

from scheduler import config
from scheduler.cli.node_agent import node_agent
from scheduler.model.dialects import DIALECTS

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
KUSTOMIZATION = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    """Return every object in the manifests by kind and name."""
    files = [MANIFESTS / name for name in KUSTOMIZATION["resources"] if name.endswith(".yaml")]
    found = [document for path in files for document in yaml.safe_load_all(path.read_text())]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


OBJECTS = objects()
POD = OBJECTS["Deployment", "ai-scheduler"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
CONFIGURATION = config.load(MANIFESTS / "config.yaml")


def test_kustomization_names_every_file():
    """A file that nobody applies is a lie; the node agent is applied by itself, as not every cluster has GPUs."""
    files = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml", "node-agent.yaml"}
    generated = {name for generator in KUSTOMIZATION["configMapGenerator"] for name in generator["files"]}
    assert files == generated | {name for name in KUSTOMIZATION["resources"] if name.endswith(".yaml")}
    assert "../crds" in KUSTOMIZATION["resources"]


def test_shipped_configuration_has_only_keys_with_effect():
    """What we ship is read without a word of complaint."""
    assert config.unhonoured(CONFIGURATION) == []
    assert CONFIGURATION.leader_election.leader_elect


def test_lease_of_the_configuration_is_the_one_that_may_be_written():
    """Name and namespace agree between configuration, Role and namespace."""
    election = CONFIGURATION.leader_election
    rules = OBJECTS["Role", "ai-scheduler"]["rules"]
    (named,) = [rule for rule in rules if "resourceNames" in rule]
    assert named == {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [election.resource_name],
        "verbs": ["get", "update", "patch"],
    }
    assert election.resource_namespace == KUSTOMIZATION["namespace"] == "ai-scheduler"


def test_no_generated_configmap_has_the_name_of_the_lease():
    """Kustomize takes a resourceName of a Role for a reference to a ConfigMap of that name, and adds the hash."""
    generated = {generator["name"] for generator in KUSTOMIZATION["configMapGenerator"]}
    assert CONFIGURATION.leader_election.resource_name not in generated
    assert {volume["configMap"]["name"] for volume in POD["volumes"] if "configMap" in volume} == generated


def test_scheduler_may_do_what_it_must_and_no_more():
    """The whole list, so that any new right is a visible decision."""
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in OBJECTS["ClusterRole", "ai-scheduler"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    read = {"get", "list", "watch"}
    assert granted == {
        ("", "nodes"): read,
        ("", "namespaces"): read,
        ("scheduling.k8s.io", "priorityclasses"): read,
        ("policy", "poddisruptionbudgets"): read,
        ("scheduling.k8s.io", "podgroups"): read,
        ("scheduling.k8s.io", "podgroups/status"): {"patch"},
        ("scheduling.k8s.io", "compositepodgroups"): read,
        ("scheduling.k8s.io", "compositepodgroups/status"): {"patch"},
        ("scheduling.x-k8s.io", "podgroups"): read,
        ("scheduling.volcano.sh", "podgroups"): read,
        ("scheduling.run.ai", "podgroups"): read,
        ("scheduling.sigs.k8s.io", "podgroups"): read,
        ("batch", "jobs"): read,
        ("jobset.x-k8s.io", "jobsets"): read,
        ("leaderworkerset.x-k8s.io", "leaderworkersets"): read,
        ("ray.io", "rayclusters"): read,
        **{("kubeflow.org", f"{kind}jobs"): read for kind in ("pytorch", "tf", "xgboost", "jax", "paddle", "mpi")},
        ("scheduling.ai-scheduler.io", "topologies"): read,
        ("scheduling.ai-scheduler.io", "nodetopologies"): read,
        ("kueue.x-k8s.io", "topologies"): read,
        ("kai.scheduler", "topologies"): read,
        ("topology.volcano.sh", "hypernodes"): read,
        ("topology.node.k8s.io", "noderesourcetopologies"): read,
        ("scheduling.ai-scheduler.io", "queues"): read,
        ("scheduling.run.ai", "queues"): read,
        ("scheduling.volcano.sh", "queues"): read,
        **{("kueue.x-k8s.io", resource): read for resource in ("clusterqueues", "cohorts", "localqueues")},
        ("scheduling.x-k8s.io", "elasticquotas"): read,
        ("", "services"): read,
        ("", "replicationcontrollers"): read,
        ("apps", "replicasets"): read,
        ("apps", "statefulsets"): read,
        ("storage.k8s.io", "storageclasses"): read,
        ("storage.k8s.io", "csinodes"): read,
        ("storage.k8s.io", "csidrivers"): read,
        ("storage.k8s.io", "csistoragecapacities"): read,
        ("storage.k8s.io", "volumeattachments"): read,
        ("", "persistentvolumes"): read | {"patch"},
        ("", "persistentvolumeclaims"): read | {"patch"},
        **{("resource.k8s.io", kind): read for kind in ("resourceslices", "deviceclasses", "devicetaintrules")},
        ("resource.k8s.io", "resourceclaims"): read | {"update", "create", "delete"},
        ("resource.k8s.io", "resourceclaims/status"): {"update"},
        ("resource.k8s.io", "resourceclaims/binding"): {"update"},
        ("", "pods"): read | {"delete"},
        ("", "pods/status"): {"patch"},
        ("", "pods/binding"): {"create"},
        ("scheduling.ai-scheduler.io", "podgroups"): read,
        ("scheduling.ai-scheduler.io", "podgroups/status"): {"patch"},
        ("scheduling.ai-scheduler.io", "queues/status"): {"patch"},
        ("scheduling.ai-scheduler.io", "topologies/status"): {"patch"},
        ("events.k8s.io", "events"): {"create", "patch"},
    }


def test_everything_that_tells_about_gangs_may_be_read():
    """What a dialect reads without a right for it is simply absent, which nobody would notice."""
    granted = {
        (group, resource)
        for rule in OBJECTS["ClusterRole", "ai-scheduler"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(source.group, source.resource) for dialect in DIALECTS for source in dialect.sources} <= granted


def test_pod_meets_the_restricted_standard():
    """The namespace enforces it, so the pod must meet it."""
    assert (
        OBJECTS["Namespace", "ai-scheduler"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_probes_and_service_reach_the_configured_port():
    """Ports agree between configuration, container, probes and Service."""
    (port,) = CONTAINER["ports"]
    assert (
        CONFIGURATION.healthz_bind_address == f"0.0.0.0:{port['containerPort']}" == CONFIGURATION.metrics_bind_address
    )
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: (probe["path"], probe["port"]) for name, probe in probes.items()} == {
        "startupProbe": ("/healthz", port["name"]),
        "livenessProbe": ("/healthz", port["name"]),
        "readinessProbe": ("/readyz", port["name"]),
    }
    (service_port,) = OBJECTS["Service", "ai-scheduler"]["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]


def test_command_reads_the_mounted_configuration():
    """The path in the command lies in the mount."""
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert CONTAINER["command"] == ["ai-scheduler", "run", "--config", "/etc/ai-scheduler/config.yaml"]
    assert mounts["/etc/ai-scheduler"] == "config"


def test_two_replicas_survive_a_drain():
    """A standby, a budget that leaves one of them, and selectors that agree."""
    deployment = OBJECTS["Deployment", "ai-scheduler"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] == 2
    assert deployment["selector"]["matchLabels"] == labels
    assert OBJECTS["PodDisruptionBudget", "ai-scheduler"]["spec"]["selector"]["matchLabels"] == labels
    assert OBJECTS["PodDisruptionBudget", "ai-scheduler"]["spec"]["maxUnavailable"] == 1
    assert OBJECTS["Service", "ai-scheduler"]["spec"]["selector"] == labels


def test_scheduler_does_not_schedule_itself():
    """Nobody would place the first replica."""
    names = {profile.scheduler_name for profile in CONFIGURATION.profiles}
    assert POD["schedulerName"] not in names


AGENT = {
    (document["kind"], document["metadata"]["name"]): document
    for document in yaml.safe_load_all((MANIFESTS / "node-agent.yaml").read_text())
}
AGENT_SPACE = "ai-scheduler-node-agent"
AGENT_POD = AGENT["DaemonSet", "node-agent"]["spec"]["template"]["spec"]


def test_node_agent_may_write_the_object_of_its_node_and_nothing_else():
    """The whole list of rights, and the policy that holds every agent to its own node."""
    rules = AGENT["ClusterRole", AGENT_SPACE]["rules"]
    granted = {(group, name): set(r["verbs"]) for r in rules for group in r["apiGroups"] for name in r["resources"]}
    assert granted == {
        ("scheduling.ai-scheduler.io", "nodetopologies"): {"get", "create", "patch"},
        ("scheduling.ai-scheduler.io", "nodetopologies/status"): {"patch"},
    }
    account = {"kind": "ServiceAccount", "name": AGENT_POD["serviceAccountName"], "namespace": AGENT_SPACE}
    assert AGENT["ClusterRoleBinding", AGENT_SPACE]["subjects"] == [account]
    policy = AGENT["ValidatingAdmissionPolicy", AGENT_SPACE]["spec"]
    (condition,) = policy["matchConditions"]
    assert f"system:serviceaccount:{AGENT_SPACE}:{account['name']}" in condition["expression"]
    assert set(policy["matchConstraints"]["resourceRules"][0]["resources"]) == {name for _, name in granted}
    binding = AGENT["ValidatingAdmissionPolicyBinding", AGENT_SPACE]["spec"]
    assert binding == {"policyName": AGENT_SPACE, "validationActions": ["Deny"]}


def test_node_agent_sees_of_the_host_what_it_reads_and_no_more():
    """Folders are mounted read-only where the command looks for them; the container has no privileges."""
    (container,) = AGENT_POD["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in AGENT_POD["volumes"]}
    assert {path: paths[mount["name"]] for path, mount in mounts.items()} == {
        "/host/sys": "/sys",
        "/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources",
    }
    assert all(mount["readOnly"] for mount in mounts.values())
    assert container["command"] == ["ai-scheduler", "node-agent", "--root", "/host"]
    options = {option.name: option for option in node_agent.params}
    assert str(options["pod_resources"].default) == "/var/lib/kubelet/pod-resources/kubelet.sock"
    assert options["node_name"].envvar in {entry["name"] for entry in container["env"]}
    assert container["securityContext"] == CONTAINER["securityContext"]
    (image,) = KUSTOMIZATION["images"]
    assert container["image"] == f"{image['name']}:{image['newTag']}"


def test_namespaces_of_the_node_agent_agree():
    """All that has a namespace is in that of the agent, whose selector finds its pods."""
    assert AGENT["Namespace", AGENT_SPACE]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    placed = {key: document["metadata"].get("namespace") for key, document in AGENT.items()}
    assert {key for key, namespace in placed.items() if namespace} == {
        ("ServiceAccount", "node-agent"),
        ("DaemonSet", "node-agent"),
    }
    assert set(placed.values()) == {None, AGENT_SPACE}
    daemons = AGENT["DaemonSet", "node-agent"]["spec"]
    assert daemons["selector"]["matchLabels"].items() <= daemons["template"]["metadata"]["labels"].items()
