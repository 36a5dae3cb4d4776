"""In kube-scheduler's place on a real API server: the pods that the cluster's controllers make."""

from e2e.objects import DefaultWorld
from e2e.test_default_scheduler import HOSTNAME, is_in
from e2e.test_default_scheduler_preferences import beside
from e2e.test_default_scheduler_volumes import claim_spec, storage_class, volume, wait_bound
from e2e.waiting import wait_until


def test_job_runs_to_its_end(default_world: DefaultWorld) -> None:
    """A Job whose pods fit two at a time gets all four done one after the other."""
    default_world.node("only", cpu="2")
    template = default_world.template(cpu="900m", annotations={"pod-complete.stage.kwok.x-k8s.io/delay": "100ms"})
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 4, "completions": 4, "template": template}
    default_world.make("/apis/batch/v1", "jobs", {"metadata": {"name": "job"}, "spec": spec})
    path = f"/apis/batch/v1/namespaces/{default_world.namespace}/jobs/job"
    wait_until(
        lambda: any(
            c["type"] == "Complete" for c in default_world.plane.request("GET", path)["status"].get("conditions", [])
        ),
        what=lambda: f"the Job to be complete; it is {default_world.plane.request('GET', path)['status']}",
    )
    assert default_world.plane.request("GET", path)["status"]["succeeded"] == 4


def test_deployment_rolls_out(default_world: DefaultWorld) -> None:
    """Replicas of a Deployment with a node each are replaced one by one in the room of those that go."""
    nodes = default_world.nodes(2)
    apart = beside("podAntiAffinity", "web", HOSTNAME)
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
    default_world.controller("deployments", "web", 2, strategy, affinity=apart)
    assert sorted(default_world.wait_pods(2, app="web")) == sorted(nodes)
    path = f"/apis/apps/v1/namespaces/{default_world.namespace}/deployments/web"
    change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    default_world.plane.request("PATCH", path, change)
    assert sorted(default_world.wait_pods(2, app="web", version="2")) == sorted(nodes)


def test_scaled_replica_set_uses_new_nodes(default_world: DefaultWorld) -> None:
    """Replicas without room wait, and get the node that is added for them."""
    first = default_world.node("first", cpu="1")
    default_world.controller("replicasets", "web", 1, cpu="900m")
    default_world.wait_pods(1, app="web")
    path = f"/apis/apps/v1/namespaces/{default_world.namespace}/replicasets/web"
    default_world.plane.request("PATCH", path, {"spec": {"replicas": 2}})
    wait_until(lambda: default_world.events("FailedScheduling"), what="the second replica to be refused")
    second = default_world.node("second", cpu="1")
    assert sorted(default_world.wait_pods(2, app="web")) == [first, second]


def test_daemon_set_has_a_pod_on_every_node(default_world: DefaultWorld) -> None:
    """Each pod of a DaemonSet is for one node by name, and gets it; a node that comes later gets one too."""
    nodes = default_world.nodes(2)
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": default_world.template(labels={"app": "agent"})}
    default_world.make("/apis/apps/v1", "daemonsets", {"metadata": {"name": "agent"}, "spec": spec})
    assert sorted(default_world.wait_pods(2, app="agent")) == nodes
    nodes.append(default_world.node("n2"))
    assert sorted(default_world.wait_pods(3, app="agent")) == nodes


def test_stateful_set_gets_its_volumes(default_world: DefaultWorld) -> None:
    """Each pod of a StatefulSet goes where a volume for its own claim is."""
    nodes = default_world.nodes(2)
    storage = storage_class(default_world, "WaitForFirstConsumer")
    for i, node in enumerate(nodes):
        volume(default_world, f"pv{i}", storage, is_in(HOSTNAME, node))
    templates = [{"metadata": {"name": "data"}, "spec": claim_spec(storage)}]
    more = {"serviceName": "db", "volumeClaimTemplates": templates}
    default_world.controller("statefulsets", "db", 2, more)
    found = default_world.wait_placed("db-0", "db-1")
    bound = {name: wait_bound(default_world, f"data-{name}") for name in ("db-0", "db-1")}
    number_of = {f"{default_world.namespace}-pv{i}": node for i, node in enumerate(nodes)}
    assert {name: number_of[pv] for name, pv in bound.items()} == found


def test_pod_of_a_stateful_set_returns_to_its_volume(default_world: DefaultWorld) -> None:
    """A pod of a StatefulSet that was deleted comes back to the node that has its volume, though another is emptier."""
    nodes = default_world.nodes(2)
    storage = storage_class(default_world, "WaitForFirstConsumer")
    volume(default_world, "pv", storage, is_in(HOSTNAME, nodes[0]))
    templates = [{"metadata": {"name": "data"}, "spec": claim_spec(storage)}]
    default_world.controller("statefulsets", "db", 1, {"serviceName": "db", "volumeClaimTemplates": templates})
    default_world.wait_placed("db-0")
    before = default_world.get("db-0")["metadata"]["uid"]
    default_world.pod("filler", cpu="2", nodeName=nodes[0])
    default_world.delete_pod("db-0")
    wait_until(
        lambda: default_world.get("db-0").get("metadata", {}).get("uid") not in (None, before), what="the new pod"
    )
    assert default_world.wait_placed("db-0")["db-0"] == nodes[0]
