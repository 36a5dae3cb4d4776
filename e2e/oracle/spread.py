"""Themes of the PodTopologySpread plugin: constraints of the pod, those of the configuration, the system's defaults."""

from .affinity import own_labels, populate
from .nodes import taints
from .pods import container, template_spec
from .selectors import merge_label_keys, selector
from .world import ABSENT, HOSTNAME, RACK, REGION, ZONE, Object, World

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


def constraint(world: World, key: str, action: str) -> Object:
    """Draws a constraint of the pending pod."""
    own = own_labels(world.pending)
    made: Object = {"maxSkew": world.pick((1, 1, 1, 2, 3)), "topologyKey": key, "whenUnsatisfiable": action}
    chosen = selector(world, own, 0.55)
    if chosen is not None:
        made["labelSelector"] = chosen
    if action == HARD and world.maybe(0.3):
        made["minDomains"] = world.pick((1, 2, 3, 5))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if world.maybe(0.35):
            made[policy] = world.pick(("Honor", "Ignore"))
    merge_label_keys(world, made, own, 0.25)
    return made


def _constrain(world: World, action: str) -> None:
    existing = world.spec.setdefault("topologySpreadConstraints", [])
    taken = {one["topologyKey"] for one in existing if one["whenUnsatisfiable"] == action}
    weighted = [key for key in (HOSTNAME, ZONE, ZONE, RACK, REGION) if key not in taken]
    if world.maybe(0.04):
        weighted.append(ABSENT)
    keys = dict.fromkeys(world.some(weighted, 1, 1 if world.maybe(0.6) else 3))
    existing.extend(constraint(world, key, action) for key in keys)


def _crowd(world: World) -> None:
    """Moves pods into the pending pod's namespace and lets them look like it, as only those count."""
    populate(world)
    own = own_labels(world.pending)
    for manifest in world.pods:
        if world.maybe(0.6):
            manifest["metadata"]["namespace"] = world.namespace
            if own and world.maybe(0.5) and "affinity" not in manifest["spec"]:
                manifest["metadata"]["labels"] = dict(own)


def spread_hard(world: World) -> None:
    """Gives the pod constraints that reject nodes."""
    _crowd(world)
    _constrain(world, HARD)
    if world.maybe(0.15):
        _constrain(world, SOFT)
    if world.maybe(0.2):
        taints(world)


def spread_soft(world: World) -> None:
    """Gives the pod constraints that only score nodes."""
    _crowd(world)
    _constrain(world, SOFT)
    if world.maybe(0.15):
        taints(world)


def spread_list(world: World) -> None:
    """Lets the configuration list the constraints of pods that have none, for a pod that some workload selects."""
    _crowd(world)
    _own(world)
    keys = (HOSTNAME, ZONE, RACK, ABSENT) if world.maybe(0.1) else (HOSTNAME, ZONE, RACK)
    pairs = [(key, action) for key in keys for action in (HARD, HARD, SOFT)]
    drawn = dict.fromkeys(world.some(pairs, 1, 3))
    constraints = [
        {"maxSkew": world.pick((1, 1, 2, 5)), "topologyKey": key, "whenUnsatisfiable": action} for key, action in drawn
    ]
    world.configure("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)
    if world.maybe(0.1):
        _constrain(world, SOFT)


def spread_system(world: World) -> None:
    """Lets the system's default constraints score a pod that some workload selects."""
    _crowd(world)
    _own(world)
    if world.maybe(0.2):
        world.configure("PodTopologySpread", defaultingType="System")


def _own(world: World) -> None:
    """Adds services and workloads, some of which select the pending pod or own it."""
    own = own_labels(world.pending) or {"app": "web"}
    for index in range(world.number(0, 2)):
        _service(world, index, own)
    if world.maybe(0.7):
        kind = world.pick(("ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet"))
        if kind == "DaemonSet":
            reference = {"apiVersion": "apps/v1", "kind": kind, "name": "agent", "uid": world.uid()}
        else:
            owner = _workload(world, kind, own)
            reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
                key: owner["metadata"][key] for key in ("name", "uid")
            }
        if world.maybe(0.08):
            reference["name"] = "gone"
        if world.maybe(0.9):
            reference["controller"] = True
        world.pending["metadata"]["ownerReferences"] = [reference]


def _service(world: World, index: int, own: dict[str, str]) -> None:
    chosen = {key: own[key] for key in world.some(sorted(own), 1, 2)} if world.maybe(0.7) else {"app": "other"}
    address = f"10.96.0.{10 + index}"
    spec: Object = {
        "clusterIP": address,
        "clusterIPs": [address],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    if world.maybe(0.92):
        spec["selector"] = chosen
    namespace = world.namespace if world.maybe(0.85) else "team-b"
    world.add("v1", "Service", f"svc{index}", namespace, spec=spec, status={"loadBalancer": {}})


def _workload(world: World, kind: str, own: dict[str, str]) -> Object:
    """Adds a workload whose selector matches its own template, as the API server asks."""
    template_labels = own if world.maybe(0.85) else {"app": "other", "tier": "front"}
    keys = world.some(sorted(template_labels), 1, 2)
    equal = {key: template_labels[key] for key in keys}
    template = {"metadata": {"labels": dict(template_labels)}, "spec": template_spec([container(world, "main")])}
    template["spec"]["containers"][0]["resources"] = {}
    spec: Object = {"replicas": 3, "selector": equal, "template": template}
    if kind == "ReplicationController":
        return world.add("v1", kind, "owner", world.namespace, spec=spec, status={"replicas": 0})
    if world.maybe(0.3):
        spec["selector"] = {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": sorted({value, "spare"})} for key, value in equal.items()
            ]
        }
    else:
        spec["selector"] = {"matchLabels": equal}
    if kind == "StatefulSet":
        spec |= {
            "serviceName": "svc0",
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        }
    return world.add("apps/v1", kind, "owner", world.namespace, spec=spec, status={"replicas": 0})
