"""In kube-scheduler's place on a real API server: the pods that the cluster's controllers make."""

from e2e.objects import HOSTNAME, DefaultWorld, beside
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
    apart = {"podAntiAffinity": beside("web", HOSTNAME)}
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
