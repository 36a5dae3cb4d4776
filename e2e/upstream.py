"""The real kube-scheduler in our place: `E2E_SCHEDULER=kube-scheduler pytest e2e -k default_scheduler`.

So that what the tests expect of `default-scheduler` is what kube-scheduler does, word for word.
"""

from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import Process, free_ports


class KubeScheduler:
    """A running kube-scheduler of the control plane's version."""

    def __init__(self, control_plane: ControlPlane, folder: Path, configuration: dict[str, Any]) -> None:
        """Starts it with a configuration of its own kind, as a cluster administrator."""
        programs = build.build(("kube-scheduler",))
        [port] = free_ports(1)
        connection = {"clientConnection": {"kubeconfig": str(control_plane.kubeconfig)}}
        file = folder / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(configuration | connection))
        command = [programs / "kube-scheduler", "--config", file, f"--secure-port={port}"]
        self._process = Process("kube-scheduler", command, folder / "kube-scheduler.log")

    def kill(self) -> None:
        """Ends it."""
        self._process.kill()
