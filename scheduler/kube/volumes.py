"""VolumeWriter: what a pod's volumes need before its binding, one request each, as kube-scheduler's binder writes it.

For the binder.  The controller of PersistentVolumes and the provisioners do the rest; that it has happened is seen by the
watches of claims and volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model.storage import BOUND_BY_CONTROLLER_ANNOTATION, SELECTED_NODE_ANNOTATION

from .client import CONFLICT, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.framework.effects import BindVolume, SelectNode

    from .client import Client


class VolumeWriter:
    """Writes about volumes and claims; each method returns why it failed for good, or nothing."""

    def __init__(self, client: Client) -> None:
        """Keep the client, which repeats what may be repeated."""
        self._client = client

    async def bind_volume(self, effect: BindVolume) -> str:
        """Mean a volume for a claim; one that its user has meant for it already is not marked as our doing."""
        path, what = f"/api/v1/persistentvolumes/{effect.volume_name}", f"PersistentVolume {effect.volume_name}"
        ref = {"namespace": effect.claim_namespace, "name": effect.claim_name, "uid": effect.claim_uid}
        found = await self._client.get(path)
        if _says(_ref_in(found), ref):
            return ""
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": effect.resource_version},
            "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | ref},
        }
        if not _is_meant_for(_ref_in(found), ref):
            body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER_ANNOTATION: "yes"}
        return await self._write(path, body, what, lambda now: _says(_ref_in(now), ref))

    async def select_node(self, effect: SelectNode) -> str:
        """Say for which node a claim's volume is to be made."""
        body = {
            "metadata": {
                "resourceVersion": effect.resource_version,
                "annotations": {SELECTED_NODE_ANNOTATION: effect.node_name},
            }
        }
        path = f"/api/v1/namespaces/{effect.claim_namespace}/persistentvolumeclaims/{effect.claim_name}"
        what = f"PersistentVolumeClaim {effect.claim_namespace}/{effect.claim_name}"
        return await self._write(path, body, what, lambda found: _selected(found) == effect.node_name)

    async def _write(self, path: str, body: object, what: str, is_so: Callable[[dict[str, Any]], bool]) -> str:
        """Patch an object; a conflict with our own request, whose answer was lost, is none."""
        try:
            await self._client.patch(path, body)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            if is_so(await self._client.get(path)):
                return ""
            return f"{what} has changed meanwhile; the pod is tried again: {error.message}"
        return ""


def _ref_in(volume: dict[str, Any]) -> dict[str, str]:
    """Return which claim a volume is meant for."""
    ref: dict[str, str] = (volume.get("spec") or {}).get("claimRef") or {}
    return ref


def _says(found: dict[str, str], ref: dict[str, str]) -> bool:
    """Tell whether a reference names this claim."""
    return all(found.get(key) == value for key, value in ref.items())


def _is_meant_for(found: dict[str, str], ref: dict[str, str]) -> bool:
    """Tell whether a user has meant a volume for a claim: by name, before the claim had a uid."""
    return _says(found, {key: ref[key] for key in ("namespace", "name")}) and found.get("uid", "") in ("", ref["uid"])


def _selected(claim: dict[str, Any]) -> str:
    """Return the node that a claim's volume is to be made for."""
    annotations: dict[str, str] = claim["metadata"].get("annotations") or {}
    return annotations.get(SELECTED_NODE_ANNOTATION, "")
