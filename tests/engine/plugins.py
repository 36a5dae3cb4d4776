"""Third-party plugins for tests of the framework's points: each does one thing, named in its docstring."""

# ruff: noqa: ARG002 - the arguments of a point are the contract, read or not

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from scheduler import (
    AwaitEffects,
    BindPod,
    ClusterEvent,
    Code,
    Plugin,
    PodRef,
    PreFilterResult,
    Reason,
    Status,
    Verdicts,
)

HERE = "tests.engine.plugins"


class Recorder(Plugin):
    """Notes the calls of Reserve, Unreserve and PostBind in `calls`."""

    NAME = "Recorder"
    calls: ClassVar[list[tuple[str, str, str]]] = []

    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.calls.append((self.NAME, "reserve", pod.name))

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.calls.append((self.NAME, "unreserve", pod.name))

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self.calls.append((self.NAME, "post_bind", pod.name))


class SecondRecorder(Recorder):
    """The same, called after it."""

    NAME = "SecondRecorder"


class Holder(Plugin):
    """Permit: waits for pods with the label `hold`, so many seconds; refuses pods with the label `refuse`."""

    NAME = "Holder"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status | None:
        if "refuse" in pod.labels:
            return Status.unschedulable(Reason("Refused", "the holder refuses"))
        return Status.wait(float(pod.labels["hold"])) if "hold" in pod.labels else None


class FailsReserve(Plugin):
    """Reserve: refuses pods with the label `no-reserve`."""

    NAME = "FailsReserve"

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return Status.unschedulable(Reason("NoReserve", "cannot be reserved")) if "no-reserve" in pod.labels else None


class Preparer(Plugin):
    """PreBind: awaits `prepared`, 30 seconds, for pods with the label `prepare`."""

    NAME = "Preparer"

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> AwaitEffects | None:
        return AwaitEffects((), "prepared", 30.0) if "prepare" in pod.labels else None


class SkipBinder(Plugin):
    """Bind: only for pods with the label `special`; others are skipped."""

    NAME = "SkipBinder"

    def bind(self, state: Any, pod: Any, node_name: str) -> BindPod | Status:
        if "special" not in pod.labels:
            return Status.skip()
        return BindPod(PodRef(pod.namespace, pod.name, pod.uid), node_name, {"bound-by": "special"})


class FailsBind(Plugin):
    """Bind: refuses pods with the label `no-bind`; others are skipped."""

    NAME = "FailsBind"

    def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        if "no-bind" in pod.labels:
            return Status.unschedulable(Reason("NoBind", "cannot be bound"))
        return Status.skip()


class Narrower(Plugin):
    """PreFilter: only the nodes in the label `only`, separated by dots; skips its Filter for pods without it."""

    NAME = "Narrower"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> PreFilterResult | Status:
        if "only" not in pod.labels:
            return Status.skip()
        return PreFilterResult(frozenset(pod.labels["only"].split(".")))

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        assert "only" in pod.labels, "PreFilter said Skip"
        return None


class NarrowFilter(Plugin):
    """Filter, one node at a time: refuses nodes whose name ends with the label `not`."""

    NAME = "NarrowFilter"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if "not" in pod.labels and node.name.endswith(pod.labels["not"]):
            return Status.unresolvable(Reason("WrongName", "node(s) had the wrong name"))
        return None


class WideFilter(Plugin):
    """Filter, all nodes at once: the same."""

    NAME = "WideFilter"

    def filter_all(self, state: Any, pod: Any, nodes: Any) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        wrong = np.array([name.endswith(pod.labels.get("not", "-")) for name in nodes.names], dtype=np.bool_)
        verdicts.reject(wrong, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Reason("WrongName", "node(s) had the wrong name"))
        return verdicts


class OnePerRack(Plugin):
    """Filter that looks at other nodes: at most one pod of a team in each rack (node label)."""

    NAME = "OnePerRack"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        for view in self.handle.snapshot.nodes:
            if view.labels.get("rack") == node.labels.get("rack") and any("team" in p.labels for p in view.pods):
                return Status.unschedulable(Reason("RackTaken", "node(s) had the team in their rack"))
        return None


class Favourite(Plugin):
    """Score: 100 for the node named in the label `favourite`."""

    NAME = "Favourite"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 100 if node.name == pod.labels.get("favourite") else 0


class TooHigh(Plugin):
    """Score: 101 for pods with the label `high`."""

    NAME = "TooHigh"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 101 if "high" in pod.labels else 50


class Picky(Plugin):
    """Filter with a hint: waits for nodes with the label `good`, and is woken by changes of labels on such nodes only."""

    NAME = "Picky"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if node.labels.get("good") == "yes":
            return None
        return Status.unresolvable(Reason("NotGood", "node(s) were not good", ClusterEvent.NODE_ANY))

    def queueing_hint(self, event: Any, change: Any, pod: Any, reason: Any) -> bool:
        row = self.handle.cluster.view(change.node_name)
        return row is not None and row.node.labels.get("good") == "yes"


class Activator(Plugin):
    """PostBind: activates the pods that wait at Permit or were refused, with the uids in the label `activates`."""

    NAME = "Activator"

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        if "activates" in pod.labels:
            self.handle.activate(pod.labels["activates"].split("."))


class Turnstile(Plugin):
    """PreEnqueue: holds pods with the label `turnstile` until a node named `open` exists; woken by nodes."""

    NAME = "Turnstile"

    def pre_enqueue(self, pod: Any) -> Status | None:
        if "turnstile" in pod.labels and self.handle.cluster.view("open") is None:
            return Status.unresolvable(Reason("Closed", "the turnstile is closed", ClusterEvent.NODE_ADDED))
        return None


class ArgsOfPicky(BaseModel):
    """Arguments with one number."""

    limit: int = 3


class WithArgs(Plugin):
    """Takes arguments."""

    NAME = "WithArgs"
    Args = ArgsOfPicky

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return int(self.args.limit)


class Exits(Plugin):
    """Means to end the process."""

    NAME = "Exits"

    def __init__(self, args: Any, handle: Any) -> None:
        raise SystemExit(0)

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Never called."""


class ExitsAtFilter(Plugin):
    """Means to end the process while it decides."""

    NAME = "ExitsAtFilter"

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        if "exit" in pod.labels:
            raise SystemExit(0)


class CannotBeMade(Plugin):
    """Raises when it is made."""

    NAME = "CannotBeMade"

    def __init__(self, args: Any, handle: Any) -> None:
        raise RuntimeError("no")

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        pass


class Raises(Plugin):
    """Raises at the point that the label `raise` names, for as long as `is_broken`."""

    NAME = "Raises"
    is_broken: ClassVar[bool] = True

    def _maybe(self, pod: Any, point: str) -> None:
        if self.is_broken and pod.labels.get("raise") == point:
            raise RuntimeError(f"broken at {point}")

    def pre_enqueue(self, pod: Any) -> None:
        self._maybe(pod, "pre_enqueue")

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        self._maybe(pod, "pre_filter")

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        self._maybe(pod, "filter")

    def post_filter(self, state: Any, pod: Any, failure: Any) -> None:
        self._maybe(pod, "post_filter")

    def post_filter_gang(self, state: Any, workload: Any, failure: Any) -> None:
        self._maybe(workload.ordered()[0], "post_filter_gang")

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
        self._maybe(pod, "pre_score")

    def score(self, state: Any, pod: Any, node: Any) -> int:
        self._maybe(pod, "score")
        return 0

    def normalize(self, state: Any, pod: Any, scores: Any) -> Any:
        self._maybe(pod, "normalize")
        return scores

    def generate_domains(self, state: Any, workload: Any, nodes: Any) -> list[Any]:
        self._maybe(workload.ordered()[0], "generate_domains")
        return []

    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._maybe(pod, "reserve")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._maybe(pod, "unreserve")

    def permit(self, state: Any, pod: Any, node_name: str) -> None:
        self._maybe(pod, "permit")

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._maybe(pod, "pre_bind")

    def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        self._maybe(pod, "bind")
        return Status.skip()

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._maybe(pod, "post_bind")

    def queueing_hint(self, event: Any, change: Any, pod: Any, reason: Any) -> bool:
        self._maybe(pod, "queueing_hint")
        return False


class BrokenSort(Plugin):
    """QueueSort: raises for pods with the label `raise`."""

    NAME = "BrokenSort"
    is_broken: ClassVar[bool] = True

    def sort_key(self, workload: Any) -> tuple[Any, ...]:
        if self.is_broken and any("raise" in pod.labels for pod in workload.pods.values()):
            raise RuntimeError("cannot sort")
        return (-workload.priority, workload.since, workload.key)


class Nonsense(Plugin):
    """Answers with what is no answer, at the point that the label `nonsense` names."""

    NAME = "Nonsense"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        return "yes" if pod.labels.get("nonsense") == "pre_filter" else None

    def filter_all(self, state: Any, pod: Any, nodes: Any) -> Any:
        return Verdicts(len(nodes) + 1 if pod.labels.get("nonsense") == "filter" else len(nodes))

    def score_all(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes) + (pod.labels.get("nonsense") == "score"), dtype=np.int64)

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        return "yes" if pod.labels.get("nonsense") == "permit" else None

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return "yes" if pod.labels.get("nonsense") == "pre_bind" else None

    def bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return "yes" if pod.labels.get("nonsense") == "bind" else Status.skip()


def named(*classes: type[Plugin], **points: Any) -> dict[str, Any]:
    """Return the fields of a profile that enables these classes everywhere, before the base's plugins at Bind."""
    names = [f"{HERE}:{cls.__name__}" for cls in classes]
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    binders = [n for n, cls in zip(names, classes, strict=True) if hasattr(cls, "bind")]
    if binders:
        plugins["bind"] = {
            "disabled": [{"name": "*"}], "enabled": [{"name": name} for name in (*binders, "DefaultBinder")]
        }  # fmt: skip
    return {"plugins": plugins | points}
