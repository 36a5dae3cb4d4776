"""Namespaces, Services and controllers as they come over the wire, with the fields that are read.

For the edges, which decode them, and for `owners`, which turns them into views.
"""

from __future__ import annotations

from .api import LabelSelector, ObjectMeta
from .volume_api import ApiStruct


class ApiNamespace(ApiStruct, frozen=True):
    """A namespace; only its labels are read."""

    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(ApiStruct, frozen=True):
    """The spec of a Service or a ReplicationController; labels that its pods have."""

    selector: dict[str, str] | None = None


class ApiService(ApiStruct, frozen=True):
    """A Service or a ReplicationController."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicaSetSpec(ApiStruct, frozen=True):
    """The spec of a ReplicaSet or a StatefulSet; the selector of its pods."""

    selector: LabelSelector | None = None


class ApiReplicaSet(ApiStruct, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
