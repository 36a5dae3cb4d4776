"""A fresh control plane for one scheduler: with native groups, and an audit log of that scheduler's requests."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import yaml

from e2e.controlplane.cluster import NATIVE_GANG_APIS, NATIVE_GANG_FEATURES, ControlPlane
from e2e.deployment import apply_crds

from .audit import Audit, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Whoever schedules comes as this user, an administrator as everybody here, so that its requests can be told from the harness's.
USER = "scheduler"


class FreshPlane(NamedTuple):
    """A control plane, the scheduler's token and the log of its requests."""

    plane: ControlPlane
    token: str
    audit: Audit


@contextmanager
def fresh_plane(programs: Path, folder: Path) -> Iterator[FreshPlane]:
    """Start etcd and an API server.

    No controllers and no kubelets run: a pod is done when it has a node.
    """
    token = secrets.token_hex(16)
    rules, log = folder / "audit-policy.yaml", folder / "audit.log"
    rules.write_text(yaml.safe_dump(policy(USER)))
    plane = ControlPlane(
        programs=programs,
        administrators={USER: token},
        feature_gates=NATIVE_GANG_FEATURES,
        runtime_config=NATIVE_GANG_APIS,
        apiserver_flags={"audit-policy-file": str(rules), "audit-log-path": str(log)},
    )
    with plane:
        apply_crds(plane)
        yield FreshPlane(plane, token, Audit(log))
