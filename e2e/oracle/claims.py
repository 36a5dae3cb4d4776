"""Themes of the DynamicResources plugin: pods that use claims, open ones, allocated ones and broken ones."""

from .device_claims import choice, claim, holders
from .device_slices import GPU_DRIVER, RESOURCES, Style, publish, style
from .world import HOSTNAME, ZONE, Object, World

LATER = "2026-01-01T00:00:00Z"
LONG_AGO = "2020-01-01T00:00:00Z"
MOST_CONSUMERS = 256
PLAIN = Style(has_taints=False, has_partitions=False, has_shares=False, has_conditions=False, is_ragged=False)


def use(world: World, made: Object, name: str = "") -> None:
    """Lets the pending pod use a claim."""
    name = name or f"use-{made['metadata']['name']}"
    world.spec.setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": made["metadata"]["name"]})
    world.spec["containers"][0].setdefault("resources", {}).setdefault("claims", []).append({"name": name})


def claims(world: World) -> None:
    """Lets the pod use one or two claims that are not allocated, some devices being held by others."""
    publish(world, world.node_names, style(world))
    holders(world, world.namespace, 5)
    for turn in range(world.pick((1, 1, 1, 2))):
        use(world, claim(world, f"mine-{turn}", world.namespace))


def claims_choice(world: World) -> None:
    """Lets the pod's claims have alternatives, of which nodes have different ones: scores differ."""
    publish(world, world.node_names, PLAIN)
    holders(world, world.namespace, 5)
    for turn in range(world.pick((1, 1, 2))):
        use(world, choice(world, f"either-{turn}", world.namespace))


def claims_held(world: World) -> None:
    """Lets the pod use a claim that is allocated: for some nodes, by others, with devices that are not ready."""
    publish(world, world.node_names, PLAIN)
    result: Object = {"request": "r", "driver": GPU_DRIVER, "pool": world.pick(world.node_names), "device": "d0"}
    status: Object = {"allocation": {"devices": {"results": [result]}}}
    if (selector := _reach(world)) is not None:
        status["allocation"]["nodeSelector"] = selector
    if consumers := _consumers(world):
        status["reservedFor"] = consumers
    if world.maybe(0.3):
        _be_conditional(world, status, result)
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    use(world, world.add(RESOURCES, "ResourceClaim", "held", world.namespace, spec=spec, status=status))
    if world.maybe(0.3):
        use(world, claim(world, "open", world.namespace))


def _reach(world: World) -> Object | None:
    """Draws where an allocated claim can be used; None is everywhere."""
    by_name = {"key": "metadata.name", "operator": "In", "values": [world.pick(world.node_names)]}
    by_label = {"key": ZONE, "operator": "In", "values": [world.pick(("z0", "z1", "z2"))]}
    by_host = {"key": HOSTNAME, "operator": "NotIn", "values": [world.pick(world.node_names)]}
    terms: tuple[Object, ...] = world.pick(
        (
            (),
            ({"matchFields": [by_name]},),
            ({"matchExpressions": [by_label]},),
            ({"matchExpressions": [by_label, by_host]},),
        )
    )
    return {"nodeSelectorTerms": list(terms)} if terms else None


def _consumers(world: World) -> list[Object]:
    """Draws whom an allocated claim is reserved for: nobody, the pod, others, or as many as it can be."""
    metadata = world.pending["metadata"]
    own = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
    others = [{"resource": "pods", "name": f"other-{turn}", "uid": world.uid()} for turn in range(2)]
    crowd = [{"resource": "pods", "name": f"one-{turn}", "uid": world.uid()} for turn in range(MOST_CONSUMERS)]
    return world.pick(([], [], [own], others, [*others, own], crowd, [*crowd[1:], own]))


def _be_conditional(world: World, status: Object, result: Object) -> None:
    """Lets the device wait for a condition that is true, false, failed or absent, for long or for ever.

    The pod was made much later: a case has no other clock than the latest time in it.
    """
    world.pending["metadata"]["creationTimestamp"] = LATER
    result |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["lost"]}
    if world.maybe(0.6):
        status["allocation"]["allocationTimestamp"] = LONG_AGO
    states = world.pick(
        ((), (("attached", "True"),), (("attached", "False"),), (("attached", "True"), ("lost", "True")))
    )
    conditions = [
        {"type": kind, "status": value, "reason": "Test", "message": "", "lastTransitionTime": LONG_AGO}
        for kind, value in states
    ]
    if conditions:
        identity = {key: result[key] for key in ("driver", "pool", "device")}
        status["devices"] = [{**identity, "conditions": conditions}]


def claims_broken(world: World) -> None:
    """Lets the pod's claim be missing, going, somebody else's, of a class that is not there, or not yet made."""
    publish(world, world.node_names, PLAIN)
    kind = world.pick(("missing", "terminating", "template", "not mine", "not made", "no class", "needless"))
    made = claim(world, "mine", world.namespace)
    if kind in {"missing", "terminating", "no class"}:
        use(world, made)
    else:
        _use_template(world, made, kind)
    if kind == "missing":
        world.others.remove(made)
    elif kind == "terminating":
        made["metadata"] |= {"deletionTimestamp": LONG_AGO, "deletionGracePeriodSeconds": 0, "finalizers": ["a.test/b"]}
    elif kind == "no class":
        exactly = {"deviceClassName": "absent", "allocationMode": "ExactCount", "count": 1}
        made["spec"] = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def _use_template(world: World, made: Object, kind: str) -> None:
    """Lets a claim be one that a template stands for, made for the pod or not."""
    world.spec["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "template"}]
    world.spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": "own"}]
    metadata = world.pending["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    if kind == "not mine":
        owner["uid"] = world.uid()
    made["metadata"]["ownerReferences"] = [owner]
    if kind != "not made":
        entry = {"name": "own"} if kind == "needless" else {"name": "own", "resourceClaimName": "mine"}
        world.pending.setdefault("status", {})["resourceClaimStatuses"] = [entry]
