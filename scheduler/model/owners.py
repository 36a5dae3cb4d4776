"""Namespaces, and what owns pods: Services and controllers with the labels that they select.

For namespace selectors and for the default constraints of PodTopologySpread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .label_tests import Selector, SelectorError, selector_of, selector_of_labels

if TYPE_CHECKING:
    from .owner_api import ApiNamespace, ApiReplicaSet, ApiService

#: Kinds of owners and their API versions.
OWNER_VERSIONS = {"Service": "v1", "ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


class Namespace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A namespace and its labels."""

    name: str
    labels: dict[str, str] = {}

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: no namespace, and the name."""
        return "", self.name


class Owner(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A Service, ReplicationController, ReplicaSet or StatefulSet."""

    kind: str
    namespace: str
    name: str
    #: None matches no pod.
    selector: Selector | None

    @property
    def key(self) -> tuple[str, str]:
        """Where it is kept: namespace, and kind with name."""
        return self.namespace, f"{self.kind}/{self.name}"


def namespace_from_api(api: ApiNamespace) -> Namespace:
    """Return the view of a namespace."""
    return Namespace(name=api.metadata.name, labels=api.metadata.labels or {})


def owner_of_labels(api: ApiService, kind: str) -> Owner:
    """Return the view of a Service or a ReplicationController; one without a selector matches nothing."""
    selector = None if api.spec.selector is None else selector_of_labels(api.spec.selector)
    return _owner(api, kind, selector)


def owner_of_selector(api: ApiReplicaSet, kind: str) -> Owner:
    """Return the view of a ReplicaSet or a StatefulSet; a selector that makes no sense matches nothing."""
    try:
        selector = selector_of(api.spec.selector)
    except SelectorError:
        selector = None
    return _owner(api, kind, selector)


def _owner(api: ApiService | ApiReplicaSet, kind: str, selector: Selector | None) -> Owner:
    return Owner(kind=kind, namespace=api.metadata.namespace or "default", name=api.metadata.name, selector=selector)
