"""Cases: one JSON line in, one result line out, in the format that the oracle of the real Go plugins speaks too.

For `ai-scheduler explain --cases` and the tests that compare line by line.  A case is a cluster, a pending pod, and how the
plugins are configured; without a cluster it asks what the pod requests.  Every case gets a cluster and plugins of its own.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import Core
from scheduler.model.api import ApiPod

from .explaining import explain, waiting
from .objects import KINDS, GroupKind, Head
from .requests import requests_of
from .results import result_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.state.cluster import ClusterState


class Case(msgspec.Struct, rename="camel"):
    """One line: a cluster, the pod that waits in it, and how the scheduler is set up."""

    id: str = ""
    #: Absent in a request case.
    objects: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    #: Empty if the line has none.
    pod: msgspec.Raw = msgspec.Raw()
    plugin_config: list[Any] | None = None
    gates: dict[str, bool] | None = None


class _Wrapped(msgspec.Struct):
    """A line that holds the expected result beside the case."""

    case: msgspec.Raw = msgspec.Raw()


class CaseError(Exception):
    """A case that cannot be run."""


_wrapped = msgspec.json.Decoder(_Wrapped)
_case = msgspec.json.Decoder(Case)
_head = msgspec.json.Decoder(Head)
_pod = msgspec.json.Decoder(ApiPod)
_of_kind: dict[GroupKind, msgspec.json.Decoder[Any]] = {
    of: msgspec.json.Decoder(kind.wire_type) for of, kind in KINDS.items()
}


def run(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a result line for every line that is not empty."""
    for line in lines:
        if line.strip():
            yield msgspec.json.encode(answer(line))


def answer(line: bytes) -> dict[str, Any]:
    """Return the result of a line, or its id and what is wrong with it."""
    name = ""
    try:
        wrapped = _wrapped.decode(line)
        case = _case.decode(bytes(wrapped.case) or line)
        name = case.id
        return {"id": name, **_result(case)}
    except (
        CaseError,
        RecursionError,
        ValueError,
    ) as error:  # ValueError: of JSON, configurations, quantities and times
        return {"id": name or _id_in(line), "error": str(error) or type(error).__name__}


def _result(case: Case) -> dict[str, Any]:
    if not bytes(case.pod):
        raise CaseError("pod: is missing; allowed: the pod that waits")
    if _head.decode(case.pod).group_kind != ("", "Pod"):
        raise CaseError("pod: is of another kind; allowed: a Pod of v1")
    api = _pod.decode(case.pod)
    if case.objects is msgspec.UNSET:
        return requests_of(api)
    pod = waiting(api)
    times = [pod.created, pod.started or 0.0]
    configuration = _configuration(
        pod.scheduler_name, json.dumps(case.plugin_config or []), tuple(sorted((case.gates or {}).items()))
    )
    core = Core(configuration, lambda: max(times) + 1.0, 0)
    _fill(core.cluster, case.objects or ())
    times += [moment for other in core.cluster.pods.values() for moment in (other.created, other.started or 0.0)]
    return result_of(explain(core, pod))


def _fill(cluster: ClusterState, objects: Sequence[msgspec.Raw]) -> None:
    """Put the objects into the cluster, in their order."""
    for index, raw in enumerate(objects):
        head = _head.decode(raw)
        decoder = _of_kind.get(head.group_kind)
        if decoder is None:
            kinds = ", ".join(sorted({kind for _, kind in KINDS}))
            text = f"{head.kind or 'no kind'} ({head.api_version or 'no apiVersion'}) is not read; allowed: {kinds}"
            raise CaseError(f"objects[{index}]: {text}")
        try:
            KINDS[head.group_kind].put(cluster, decoder.decode(raw))
        except ValueError as error:
            raise CaseError(f"objects[{index}]: {head.kind}: {error}") from error


@lru_cache(maxsize=256)
def _configuration(
    scheduler_name: str, plugin_config: str, gates: tuple[tuple[str, bool], ...]
) -> SchedulerConfiguration:
    """Return kube-scheduler's plugins as a case configures them; most cases have the defaults."""
    profile = {"schedulerName": scheduler_name, "base": "kube-default", "pluginConfig": json.loads(plugin_config)}
    return SchedulerConfiguration.model_validate({"profiles": [profile], "featureGates": dict(gates)})


def _id_in(line: bytes) -> str:
    """Return the id of a line that is JSON but no case."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    inner = found.get("case", found) if isinstance(found, dict) else None
    name = inner.get("id") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""
