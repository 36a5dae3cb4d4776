"""When pods are bound and gone, as a watch tells it: lists of thousands of pods, asked for again and again, would be late and slow."""

import threading
import time
from typing import Any, Self

from e2e.controlplane.cluster import ControlPlane

#: The watch ends by itself after so long.
_LONGEST_SECONDS = 240


class PodTimes:
    """The moments (of `time.monotonic`) at which the pods of a namespace were first seen on a node, and gone; a context manager."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        """Watches from `with` on."""
        self.bound: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._version = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Starts to watch, with what is there now."""
        self._version = self._plane.request("GET", self._path)["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Lets the watch end by itself."""
        self._is_over.set()

    def _watch(self) -> None:
        """Goes on where the last stream ended: the server ends those of watchers that cannot keep up."""
        while not self._is_over.is_set():
            path = f"{self._path}?resourceVersion={self._version}"
            for event in self._plane.watch(path, _LONGEST_SECONDS):
                if self._is_over.is_set():
                    return
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of {self._path} failed: {event['object']}")
                self._note(event["type"], event["object"])

    def _note(self, kind: str, pod: dict[str, Any]) -> None:
        name, now = pod["metadata"].get("name", ""), time.monotonic()
        self._version = pod["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self.gone.setdefault(name, now)
        elif pod.get("spec", {}).get("nodeName"):
            self.bound.setdefault(name, now)
