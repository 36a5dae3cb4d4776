"""Cases for the allocator, in a few words: slices, classes and claims as plain manifests."""

from __future__ import annotations

from typing import Any

from scheduler.devices.case import allocate

DRIVER = "gpu.example.com"
NODE: dict[str, Any] = {"metadata": {"name": "n1", "labels": {"zone": "a"}}}


def device(name: str, *, capacity: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A device; `model`, `index`, `numa` and `root` are attributes, everything else stands beside them."""
    attributes: dict[str, Any] = {}
    for key in ("model", "root"):
        if key in more:
            full = "resource.kubernetes.io/pcieRoot" if key == "root" else key
            attributes[full] = {"string": more.pop(key)}
    for key in ("index", "numa"):
        if key in more:
            attributes[key] = {"int": more.pop(key)}
    sizes = {name: each if isinstance(each, dict) else {"value": each} for name, each in (capacity or {}).items()}
    return {"name": name, "attributes": attributes, "capacity": sizes, **more}


def slice_of(*devices: dict[str, Any], name: str = "s1", pool: str = "n1", **spec: Any) -> dict[str, Any]:
    """A slice of a node's own pool, unless `spec` says otherwise."""
    generation, count = spec.pop("generation", 1), spec.pop("count", 1)
    where = (
        {} if any(key in spec for key in ("allNodes", "nodeSelector", "perDeviceNodeSelection")) else {"nodeName": "n1"}
    )
    body = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **where,
        "devices": list(devices),
        **spec,
    }
    return {"metadata": {"name": name}, "spec": body}


def gpus(count: int, **more: Any) -> list[dict[str, Any]]:
    """So many devices, gpu-0 first."""
    return [device(f"gpu-{turn}", index=turn, **more) for turn in range(count)]


def request(name: str = "r", *, count: int = 1, **more: Any) -> dict[str, Any]:
    """A request for exactly this; `where` is an expression."""
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if "where" in more:
        exactly["selectors"] = [{"cel": {"expression": more.pop("where")}}]
    if more.get("allocationMode") == "All":
        del exactly["count"]
    return {"name": name, "exactly": {**exactly, **more}}


def either(*alternatives: dict[str, Any], name: str = "r") -> dict[str, Any]:
    """A request for the first that is available."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives]}


def claim(name: str, *requests: dict[str, Any], constraints: Any = (), has: Any = (), **more: Any) -> dict[str, Any]:
    """A claim; `has` lists results that it was given already."""
    body: dict[str, Any] = {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests) or [request()], "constraints": list(constraints), **more}},
    }
    if has:
        body["status"] = {"allocation": {"devices": {"results": list(has)}}}
    return body


def result(name: str, *, pool: str = "n1", **more: Any) -> dict[str, Any]:
    """A device that a claim was given."""
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": name, **more}


def case(*wanted: dict[str, Any], slices: Any, others: Any = (), classes: Any = None, **more: Any) -> dict[str, Any]:
    """A case: claims to allocate, and others that have what they have."""
    return {
        "node": NODE,
        "slices": list(slices),
        "classes": [{"metadata": {"name": "gpu"}, "spec": {}}] if classes is None else classes,
        "claims": [*wanted, *others],
        "allocate": [f"ns/{each['metadata']['name']}" for each in wanted],
        **more,
    }


def given(*wanted: dict[str, Any], **more: Any) -> list[list[str]] | None:
    """Return the devices of each claim, None if they cannot all be served; an error is no answer."""
    answer = allocate(case(*wanted, **more))
    assert "error" not in answer, answer
    if not answer["feasible"]:
        return None
    return [[each["device"] for each in one["devices"]["results"]] for one in answer["allocations"]]


def trouble(*wanted: dict[str, Any], **more: Any) -> tuple[str, str]:
    """Return the kind and text of the error that a case ends in."""
    answer = allocate(case(*wanted, **more))
    assert not answer["feasible"]
    return answer["errorKind"], answer["error"]
