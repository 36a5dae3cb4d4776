"""Plays the kubelet for the scheduler's own Deployment: its command, ConfigMap, probes and token, as `manifests/` say.

No image can be pulled here, so each replica is a process of this machine.  Only what a container would isolate is
changed: mount paths become folders, and the listening port one of loopback.  `E2E_INTAKE=reflector` has pending pods come
in by the other way in all tests: nothing may differ.
"""

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import Process, free_ports
from e2e.waiting import wait_until

ROOT = Path(__file__).parent.parent
NAMESPACE = "ai-scheduler"
PLUGINS = ROOT / "examples" / "plugins"
READY_SECONDS = 60
TOKEN_SECONDS = 24 * 3600


def apply_crds(plane: ControlPlane) -> None:
    """Installs the CRDs and waits until they are served."""
    plane.kubectl("apply", "--server-side", "-k", str(ROOT / "crds"))
    wait_until(lambda: _is_served(plane), what="the PodGroup API to be served")


def _is_served(plane: ControlPlane) -> bool:
    try:
        plane.request("GET", "/apis/scheduling.ai-scheduler.io/v1alpha1/podgroups")
    except ApiError:
        return False
    return True


def apply_manifests(plane: ControlPlane) -> None:
    """Installs everything that a cluster needs; its own Deployment gets no pods of the controller manager."""
    apply_crds(plane)
    for document in manifests(plane):
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 0
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(document))


def manifests(plane: ControlPlane) -> list[dict[str, Any]]:
    """Returns what `kubectl kustomize manifests` makes, the CRDs left out."""
    documents = yaml.safe_load_all(plane.kubectl("kustomize", str(ROOT / "manifests")))
    return [d for d in documents if d and d["kind"] != "CustomResourceDefinition"]


def _intake() -> dict[str, str]:
    """Returns the setting that a run of the whole suite may change."""
    intake = os.environ.get("E2E_INTAKE")
    return {"intake": intake} if intake else {}


class Replica:
    """One replica of the Deployment."""

    def __init__(self, plane: ControlPlane, folder: Path, name: str = "replica", **configuration: Any) -> None:
        """Starts it; `configuration` replaces top-level keys of the ConfigMap's file."""
        self.plane = plane
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        documents = manifests(plane)
        deployment = next(d for d in documents if d["kind"] == "Deployment")
        self._template = deployment["spec"]["template"]["spec"]
        self._container = self._template["containers"][0]
        [self.port] = free_ports(1)
        self._mount(documents, configuration)
        token = plane.token_for(NAMESPACE, self._template["serviceAccountName"], TOKEN_SECONDS)
        kubeconfig = plane.write_kubeconfig(self.folder / "kubeconfig", token)
        self._command = [*self._argv(), "--kubeconfig", str(kubeconfig), "--log-level", "debug"]
        self.log = self.folder / "log"
        self.log.unlink(missing_ok=True)
        path = os.pathsep.join(filter(None, [str(PLUGINS), os.environ.get("PYTHONPATH", "")]))
        self.process = Process(
            name, self._command, self.log, {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}, ROOT
        )

    def wait_ready(self) -> "Replica":
        """Waits for the readiness probe."""
        wait_until(lambda: self._checked() and self.probe("readinessProbe"), READY_SECONDS, self._log_tail)
        return self

    def wait_leading(self) -> "Replica":
        """Waits until it schedules."""
        wait_until(lambda: self._checked() and '"leading"' in self.log.read_text(), READY_SECONDS, self._log_tail)
        return self

    def is_leading(self) -> bool:
        """Tells whether it has said that it leads."""
        return '"leading"' in self.log.read_text()

    def probe(self, name: str) -> bool:
        """Asks one of the Deployment's probes, at the port that stands for the container's."""
        return self._get(self._container[name]["httpGet"]["path"])[0] == 200

    def metrics(self) -> str:
        """Returns what the metrics endpoint says."""
        return self._get("/metrics")[1]

    def stop(self) -> int:
        """Ends it as the kubelet does, and returns its exit code."""
        return self.process.terminate(grace_seconds=30)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()

    def _mount(self, documents: list[dict[str, Any]], changes: dict[str, Any]) -> None:
        """Writes the ConfigMap's files where the container would see them, with a port of loopback."""
        self._mounts = {}
        volumes = {v["name"]: v for v in self._template["volumes"]}
        for mount in self._container["volumeMounts"]:
            folder = self.folder / mount["name"]
            folder.mkdir(exist_ok=True)
            self._mounts[mount["mountPath"]] = folder
            wanted = volumes[mount["name"]].get("configMap", {}).get("name")
            for found in (d for d in documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] == wanted):
                for file, text in found["data"].items():
                    content = {**yaml.safe_load(text), **_intake(), **changes}
                    for key in ("healthzBindAddress", "metricsBindAddress"):
                        content[key] = f"127.0.0.1:{self.port}"
                    (folder / file).write_text(yaml.safe_dump(content))

    def _argv(self) -> list[str]:
        """Returns the container's command and arguments, for this machine."""
        words = [*self._container["command"], *self._container.get("args", [])]
        program = Path(sys.executable).parent / words[0]
        return [str(program), *(self._on_this_machine(word) for word in words[1:])]

    def _on_this_machine(self, word: str) -> str:
        """Returns an argument with a mount path of the container replaced by the folder that stands for it."""
        for path, folder in self._mounts.items():
            if word == path or word.startswith(f"{path}/"):
                return str(folder) + word.removeprefix(path)
        return word

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError as error:
            return 0, str(error)

    def _checked(self) -> bool:
        self.process.check()
        return True

    def _log_tail(self) -> str:
        return f"the replica to be ready; it says:\n{self.process.log_tail(40)}"
