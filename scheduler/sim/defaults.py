"""What the API server adds to an object when it is created: uid, namespace, time, and the priority that admission resolves.

For the loader and the workload controllers, which create pods later.  Requests that follow from limits are the model's.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from scheduler.model import PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.model.api import PodSpec

DEFAULT_NAMESPACE = "default"
SYSTEM_CLASSES = (
    PriorityClass(name="system-cluster-critical", value=2_000_000_000),
    PriorityClass(name="system-node-critical", value=2_000_001_000),
)
HIGHEST_USER_PRIORITY = 1_000_000_000

_UIDS = uuid.UUID("6f2c1a52-4f0c-5c55-9a3e-1d1f8f6a7f10")
#: The letters of generated names: no vowels and nothing that looks like something else, as Kubernetes has it.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


def uid_of(kind: str, namespace: str, name: str, turn: int = 0) -> str:
    """Return the uid of an object: the same in every run, another one each time a name is used again."""
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}/{turn}"))


def suffix_of(*parts: object, length: int = _SUFFIX_LENGTH) -> str:
    """Return the letters that end a generated name: the same in every run."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:length])


def rfc3339(seconds: float) -> str:
    """Return a time as the API server writes it: in UTC, to the second."""
    return datetime.fromtimestamp(int(seconds // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Admission:
    """Resolves priority classes, as the Priority admission plugin does."""

    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        """Keep the classes; the two of the system exist always."""
        self.classes = {found.name: found for found in (*SYSTEM_CLASSES, *classes)}
        defaults = [found for found in self.classes.values() if found.is_default]
        #: Of several defaults the lowest counts.
        self.default = min(defaults, key=lambda found: (found.value, found.name), default=None)

    def problem(self, class_name: str) -> str:
        """Return what is wrong with the name of a class, or nothing."""
        if not class_name or class_name in self.classes:
            return ""
        return f"there is no PriorityClass {class_name!r}; allowed: {', '.join(sorted(self.classes))}"

    def admit(self, spec: PodSpec) -> PodSpec:
        """Return the spec with its priority filled in; one that has a priority already (a dump) keeps it."""
        if spec.priority is not None:
            return spec
        found = self.classes.get(spec.priority_class_name) if spec.priority_class_name else self.default
        if found is None:
            return msgspec.structs.replace(spec, priority=0)
        return msgspec.structs.replace(
            spec,
            priority=found.value,
            priority_class_name=found.name,
            preemption_policy=spec.preemption_policy or found.preemption_policy,
        )
