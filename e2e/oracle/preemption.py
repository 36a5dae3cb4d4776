"""Preemption themes: a full cluster, a pending pod that outranks some of it, and what stands in the way of eviction.

The base (`full_cluster`) leaves no node enough cpu; each blocking theme replaces that shortage by another: pod count,
devices, host ports, spread, anti-affinity of either side, a claim for one pod only, volume limits.
"""

from math import ceil

from .affinity import REQUIRED, add_term, own_labels
from .attachments import csi_limits
from .pods import (
    APPS,
    FPGA,
    GPU,
    TIERS,
    add_bound,
    attach,
    bind,
    container,
    labels,
    millicores,
    namespace,
    pod,
    terminate,
)
from .quantities import amount, container_total
from .selectors import selector
from .spread import HARD, constraint
from .storage import claim, mount, storage_class, tie, volume
from .world import HOSTNAME, PODS_PER_NODE, RACK, ZONE, Object, World

PRIORITIES = {"pm100": -100, "p0": 0, "p10": 10, "p50": 50, "p500": 500, "p1000": 1000, "top": 1_000_000_000}
LOW = ("pm100", "p0", "p0", "p10", "p10", "p50")
RANKS = ("p10", "p50", "p50", "p500", "p500", "p1000", "top")
STARTS = ("apart", "few", "same")
BY_SCHEDULER = "PreemptionByScheduler"
DELETED_AT = "2026-02-01T00:00:00Z"


def rank(manifest: Object, priority_class: str) -> None:
    """Gives a pod the priority of a class."""
    manifest["spec"] |= {"priorityClassName": priority_class, "priority": PRIORITIES[priority_class]}


def full_cluster(world: World) -> None:
    """Fills every node's cpu with ranked pods and lets the pending pod ask for more than any node has left."""
    for name, value in PRIORITIES.items():
        world.add("scheduling.k8s.io/v1", "PriorityClass", name, value=value, preemptionPolicy="PreemptLowerPriority")
    starts = world.pick(STARTS)
    for node in world.nodes:
        _fill_node(world, node, starts)
    rank(world.pending, world.pick(RANKS))
    if world.maybe(0.04):
        world.spec["preemptionPolicy"] = "Never"
    if world.maybe(0.3) and (pods := world.bound()):
        del world.pick(pods)["status"]["startTime"]
    ask_too_much(world)


def _fill_node(world: World, node: Object, starts: str) -> None:
    cpu = world.pick((4000, 8000))
    sizes = {"cpu": millicores(cpu), "memory": "16Gi", "pods": world.pick(("110", "110", "8"))}
    if world.maybe(0.4):
        sizes[GPU] = world.pick(("1", "2", "4"))
    node["status"] |= {"allocatable": sizes, "capacity": dict(sizes)}
    left = cpu - world.pick((0, 0, 500, 1000))
    is_mixed = world.maybe(0.3)
    place = namespace(world)
    most = min(PODS_PER_NODE, int(sizes["pods"])) - 3
    while left > 0 and len(world.pods_on(node["metadata"]["name"])) < most:
        wanted = min(left, world.pick((250, 500, 1000, 1000, 2000, 3000)))
        left -= wanted
        made = pod(
            world,
            f"e{len(world.pods)}",
            place if world.maybe(0.5) else namespace(world),
            labels(world),
            [container(world, "main", {"cpu": millicores(wanted), "memory": world.pick(("128Mi", "1Gi", "2Gi"))})],
        )
        rank(made, world.pick(RANKS) if is_mixed and world.maybe(0.5) else world.pick(LOW))
        seconds = {"apart": world.number(0, 7200), "few": world.pick((0, 60, 61)), "same": 300}[starts]
        world.pods.append(bind(world, made, node["metadata"]["name"], seconds))
        if world.maybe(0.05):
            terminate(made)


def free_cpu(world: World, node: Object) -> int:
    """Returns the millicores that the pods on a node leave."""
    name = node["metadata"]["name"]
    used = sum(container_total(one["spec"], "cpu") for one in world.bound() if one["spec"]["nodeName"] == name)
    return int(amount(node["status"]["allocatable"]["cpu"]) * 1000) - ceil(used * 1000)


def ask_too_much(world: World) -> None:
    """Lets the pod ask for more cpu than any node has left, and, if it can be, for no more than a node has."""
    room = max(0, *(free_cpu(world, node) for node in world.nodes))
    wanted = room + world.pick((1, 250, 1000, 1000, 2000, 3500, 6000))
    world.spec["containers"][0]["resources"] = {"requests": {"cpu": millicores(wanted), "memory": "128Mi"}}


def _ask_little(world: World) -> None:
    """Takes cpu out of the way, so that another shortage decides: the pod asks for almost none."""
    world.spec["containers"][0]["resources"] = {"requests": {"cpu": "0"}}


def preempt_cpu(world: World) -> None:
    """Leaves the shortage of cpu as it is."""
    full_cluster(world)


def preempt_count(world: World) -> None:
    """Lets every node be full by the number of its pods."""
    full_cluster(world)
    _ask_little(world)
    for name, node in zip(world.node_names, world.nodes, strict=True):
        limit = str(
            len([one for one in world.bound() if one["spec"]["nodeName"] == name]) - (1 if world.maybe(0.2) else 0)
        )
        for part in ("allocatable", "capacity"):
            node["status"][part]["pods"] = limit


def preempt_devices(world: World) -> None:
    """Lets pods hold all devices that the pending pod asks for."""
    full_cluster(world)
    _ask_little(world)
    resource = world.pick((GPU, FPGA))
    for node in world.nodes:
        count = world.number(1, 4)
        for part in ("allocatable", "capacity"):
            node["status"][part][resource] = str(count)
        holders = world.pods_on(node["metadata"]["name"])
        while count > 0 and holders:
            holder = holders.pop(world.number(0, len(holders) - 1))
            taken = min(count, world.number(1, 2))
            count -= taken
            _hold(world, holder, resource, taken)
    _hold(world, world.pending, resource, world.number(1, 4))


def _hold(world: World, holder: Object, resource: str, count: int) -> None:
    quantity = {resource: str(count)}
    attach(holder["spec"], "containers", container(world, "ext", dict(quantity), dict(quantity)))


def preempt_ports(world: World) -> None:
    """Lets pods on every node hold host ports that the pending pod wants."""
    full_cluster(world)
    _ask_little(world)
    numbers = world.some((80, 443, 9090), 1, 2)
    world.spec["containers"][0]["ports"] = [_port(number) for number in numbers]
    for name in world.node_names:
        free = list(numbers)
        for holder in world.some(world.pods_on(name), 1, 3):
            if free:
                holder["spec"]["containers"][0]["ports"] = [_port(free.pop())]


def _port(number: int) -> Object:
    return {"containerPort": number, "hostPort": number, "protocol": "TCP"}


def preempt_spread(world: World) -> None:
    """Lets the skew of a spread constraint, counted over ranked pods, keep the pod out."""
    full_cluster(world)
    _ask_little(world)
    own = {"app": "web", "tier": "front"}
    world.pending["metadata"]["labels"] = dict(own)
    for manifest in world.bound():
        if world.maybe(0.5):
            manifest["metadata"] |= {"namespace": world.namespace, "labels": dict(own)}
    made = constraint(world, world.pick((HOSTNAME, ZONE, RACK)), HARD)
    made |= {"maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}, "minDomains": world.pick((1, 9, 9))}
    made.pop("matchLabelKeys", None)
    world.spec["topologySpreadConstraints"] = [made]


def preempt_rivals(world: World) -> None:
    """Lets anti-affinity, of the pending pod or of those that run, keep the pod out everywhere."""
    full_cluster(world)
    _ask_little(world)
    world.pending["metadata"]["labels"] = {"app": "rival", "tier": "front"}
    key = world.pick((HOSTNAME, HOSTNAME, RACK, ZONE))
    is_mutual = world.maybe(0.3)
    if is_mutual or world.maybe(0.5):
        term: Object = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "enemy"}}, "namespaceSelector": {}}
        add_term(world.pending, "podAntiAffinity", REQUIRED, term)
    else:
        is_mutual = True
    for name in world.node_names:
        for enemy in world.some(world.pods_on(name), 1, 2):
            enemy["metadata"]["labels"] = {"app": "enemy"}
            if is_mutual:
                term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "rival"}}, "namespaceSelector": {}}
                add_term(enemy, "podAntiAffinity", REQUIRED, term)


def preempt_claim(world: World) -> None:
    """Lets a pod that runs hold the claim that only one pod may use."""
    full_cluster(world)
    _ask_little(world)
    storage_class(world, "fast")
    modes = ("ReadWriteOncePod",)
    tie(claim(world, "only", modes=modes), volume(world, "only", modes=modes))
    mount(world.pending, "only")
    if world.bound():
        holder = world.pick(world.bound())
        holder["metadata"]["namespace"] = world.namespace
        mount(holder, "only")


def preempt_volumes(world: World) -> None:
    """Lets the limits of a volume driver keep the pod out of most nodes."""
    full_cluster(world)
    if world.maybe(0.5):
        _ask_little(world)
    csi_limits(world)


def preempt_budgets(world: World) -> None:
    """Puts pods of few kinds under budgets that overlap, so that their order can decide which one is broken first."""
    full_cluster(world)
    for manifest in world.bound():
        manifest["metadata"] |= {
            "namespace": "default",
            "labels": {"app": world.pick(APPS[:2]), "tier": world.pick(TIERS)},
        }
    selectors: list[Object] = [{"matchLabels": {"app": app}} for app in APPS[:2]]
    selectors += [{"matchLabels": {"tier": tier}} for tier in TIERS]
    selectors.append({"matchExpressions": [{"key": "app", "operator": "Exists"}]})
    for index, chosen in enumerate(world.some(selectors, 2, 5)):
        add_budget(world, f"over{index}", "default", chosen, world.pick((0, 1, 1, 2)))


def budgets(world: World) -> None:
    """Adds disruption budgets: several over one pod, over nobody, used up, or with evictions under way."""
    for index in range(world.number(1, 6)):
        guarded = world.pick(world.bound()) if world.bound() else world.pending
        chosen = world.pick((None, {})) if world.maybe(0.1) else selector(world, own_labels(guarded), 0.6)
        add_budget(world, f"pdb{index}", guarded["metadata"]["namespace"], chosen, world.pick((0, 0, 0, 1, 1, 2)))


def add_budget(world: World, name: str, place: str, chosen: Object | None, allowed: int) -> None:
    """Adds a budget; some of its pods may be under eviction already and then count no more."""
    spec: Object = {"minAvailable": 1} if world.maybe(0.6) else {"maxUnavailable": world.pick((1, "25%"))}
    if chosen is not None:
        spec["selector"] = chosen
    status: Object = {
        "currentHealthy": 3,
        "desiredHealthy": 3 - min(3, allowed),
        "disruptionsAllowed": allowed,
        "expectedPods": 3,
    }
    if world.maybe(0.3) and (pods := world.bound()):
        names = [one["metadata"]["name"] for one in world.some(pods, 1, 3)]
        status["disruptedPods"] = dict.fromkeys(names, DELETED_AT)
    world.add("policy/v1", "PodDisruptionBudget", name, place, spec=spec, status=status)


def earlier(world: World) -> None:
    """Lets the pod be nominated from an earlier attempt, whose victims may still be on their way out."""
    node = world.pick(world.node_names) if world.maybe(0.92) else "elsewhere"
    world.pending["status"]["nominatedNodeName"] = node
    for manifest in world.bound():
        on_node = manifest["spec"]["nodeName"] == node
        if world.maybe(0.35 if on_node else 0.05):
            terminate(manifest)
            if world.maybe(0.8):
                reason = world.pick((BY_SCHEDULER, BY_SCHEDULER, "DeletionByTaintManager"))
                condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
                condition |= {"lastProbeTime": None, "lastTransitionTime": None}
                manifest["status"].setdefault("conditions", []).append(condition)


def nominated(world: World) -> None:
    """Adds other pending pods that are nominated to nodes and take room there if their priority is high enough."""
    for name, value in PRIORITIES.items():
        if world.find("PriorityClass", name) is None:
            world.add(
                "scheduling.k8s.io/v1", "PriorityClass", name, value=value, preemptionPolicy="PreemptLowerPriority"
            )
    if "priorityClassName" not in world.spec:
        rank(world.pending, world.pick(("p0", "p10", "p50")))
    for index in range(world.number(1, 4)):
        amounts = {"cpu": world.pick(("500m", "1", "2", "3", "6")), "memory": world.pick(("128Mi", "1Gi", "5Gi"))}
        made = pod(world, f"w{index}", namespace(world), labels(world), [container(world, "main", amounts)])
        rank(made, world.pick(("pm100", "p0", "p10", "p10", "p50", "p500")))
        if world.maybe(0.92):
            node = world.pick(world.node_names) if world.maybe(0.95) else "elsewhere"
            made["status"]["nominatedNodeName"] = node
        _interfere(world, made)
        world.pods.append(made)


def _interfere(world: World, made: Object) -> None:
    """Lets a nominated pod stand in the way by more than its requests, or be what the pending pod looks for."""
    ports = world.spec["containers"][0].get("ports")
    if ports and world.maybe(0.5):
        made["spec"]["containers"][0]["ports"] = [dict(one) for one in ports]
    target = own_labels(world.pending)
    if target and world.maybe(0.4):
        made["metadata"]["labels"] = dict(target)
        made["metadata"]["namespace"] = world.namespace
    if target and world.maybe(0.25):
        chosen = selector(world, target, 1.0)
        term: Object = {"topologyKey": world.pick((HOSTNAME, ZONE)), "labelSelector": chosen, "namespaceSelector": {}}
        add_term(made, "podAntiAffinity", REQUIRED, term)


def add_peer_above(world: World) -> None:
    """Adds a pod of the highest priority to a node or two, whose room eviction cannot free."""
    for index in range(world.number(1, 2)):
        peer = add_bound(world, f"top{index}")
        if peer is not None:
            rank(peer, "top")
