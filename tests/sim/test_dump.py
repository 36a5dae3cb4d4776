"""The command that dumps a cluster: it names every kind that is read."""

import pytest

from scheduler.explain.objects import KINDS as EXPLAINED
from scheduler.model.dialects import DIALECTS
from scheduler.model.queue_dialects import QUEUE_KINDS
from scheduler.sim.dump import dump_command
from scheduler.sim.kinds import KINDS as SIMULATED

OURS = "scheduling.ai-scheduler.io"
#: Short names of Kubernetes' own kinds, as `kubectl api-resources` prints them; others go by their plural.
SHORT = {
    "PriorityClass": "pc", "Deployment": "deploy", "ReplicaSet": "rs", "StatefulSet": "sts", "DaemonSet": "ds",
    "PodDisruptionBudget": "pdb", "Namespace": "ns", "Service": "svc", "ReplicationController": "rc",
    "PersistentVolumeClaim": "pvc", "PersistentVolume": "pv", "StorageClass": "sc", "DeviceClass": "deviceclasses",
    "CSIStorageCapacity": "csistoragecapacities",
}  # fmt: skip
PLURALS = {
    "PodGroup": "podgroups", "Queue": "queues", "Topology": "topologies", "NodeTopology": "nodetopologies",
    "NodeResourceTopology": "noderesourcetopologies",
}  # fmt: skip
GROUPS_OF_KUBERNETES = ("", "apps", "batch", "policy", "resource.k8s.io", "storage.k8s.io")


def dumped(*names: str) -> list[str]:
    """Return the resources that the command names."""
    return (dump_command(names) if names else dump_command()).split()[2].split(",")


def test_every_kind_that_is_read_is_dumped() -> None:
    """Kubernetes' own kinds and ours, by simulations and explanations; and what NUMA nodes are read from."""
    read = {(kind.group, kind.kind) for kind in SIMULATED} | EXPLAINED.keys()
    expected = {SHORT.get(kind, f"{kind.lower()}s") for group, kind in read if group in GROUPS_OF_KUBERNETES}
    expected |= {f"{PLURALS[kind]}.{group}" for group, kind in read if group in (OURS, "topology.node.k8s.io")}
    assert {"pc", *expected} == set(dumped())
    assert len(dumped()) == len(set(dumped()))


@pytest.mark.parametrize(
    ("dialect", "queues"),
    [
        ("kueue", {"clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"}),
        ("kai", {"queues.scheduling.run.ai"}),
        ("volcano", {"queues.scheduling.volcano.sh"}),
    ],
)
def test_queues_are_dumped_with_the_groups_of_their_project(dialect: str, queues: set[str]) -> None:
    """Only these: kubectl refuses the whole command for one kind that the cluster does not have."""
    assert dialect in {known.name for known in DIALECTS}
    every = {f"{kind.resource}.{kind.group}" for kind in QUEUE_KINDS}
    assert every & set(dumped(dialect)) == queues
