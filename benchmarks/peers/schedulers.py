"""The schedulers that take turns: each a process of its own, with the rights of an administrator and no limit of requests."""

from __future__ import annotations

import sys
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from e2e.controlplane.process import Process, free_ports
from e2e.deployment import ROOT

from .processes import cpu_seconds, resident_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.controlplane.cluster import ControlPlane

OURS, KUBE, BARE = "ai-scheduler", "kube-scheduler", "bare client"
#: Ours with `intake: reflector`: pending pods do not come through Kopf.
REFLECTOR = "ai-scheduler, reflector"


class Scheduler:
    """A running scheduler."""

    def __init__(self, name: str, process: Process, metrics_port: int = 0) -> None:
        self.name = name
        self.is_ours = metrics_port != 0
        self.process = process
        self._metrics_port = metrics_port

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds used so far."""
        return cpu_seconds(self.process.pid)

    @property
    def resident_mib(self) -> float:
        """The largest resident memory so far."""
        return resident_mib(self.process.pid)

    def counter(self, name: str) -> float:
        """Return the sum of a counter of ours over its labels; 0 for the others, which count something else."""
        if not self.is_ours:
            return 0.0
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def pod_name(name: str) -> str:
    """Return the name by which pods ask for a scheduler."""
    return OURS if name == REFLECTOR else name.replace(" ", "-")


@contextmanager
def running(
    name: str, plane: ControlPlane, token: str, folder: Path, nodes: int, profile: Path | None = None
) -> Iterator[Scheduler]:
    """Start a scheduler; kill it at the end, or let it end and write its profile, if it is ours and one is wanted."""
    kubeconfig = plane.write_kubeconfig(folder / "scheduler.kubeconfig", token)
    [port] = free_ports(1)
    if name == BARE:
        authority = folder / "authority.pem"
        authority.write_text(plane.certificate_authority)
        words = [plane.server, token, str(authority), pod_name(name), str(nodes)]
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.peers.bare", *words]
    else:
        command = _COMMANDS[name](plane, kubeconfig, folder / "scheduler.yaml", port)
    is_ours = pod_name(name) == OURS
    if is_ours and profile is not None:
        profile.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cProfile", "-o", profile, *command]
    process = Process(name, command, folder / "scheduler.log", folder=ROOT)
    try:
        yield Scheduler(name, process, port if is_ours else 0)
    except BaseException as error:
        error.add_note(process.log_tail(20))
        raise
    finally:
        if profile is not None:
            process.terminate(grace_seconds=30)
        process.kill()


def _our_command(
    plane: ControlPlane, kubeconfig: Path, file: Path, port: int, intake: str = "kopf"
) -> list[str | Path]:
    del plane
    address = f"127.0.0.1:{port}"
    configuration: dict[str, Any] = {
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": -1},
        "leaderElection": {"resourceNamespace": "default"},
        "intake": intake,
        "healthzBindAddress": address,
        "metricsBindAddress": address,
    }
    file.write_text(yaml.safe_dump(configuration))
    return [Path(sys.executable).parent / "ai-scheduler", "run", "--config", file]


def _kube_command(plane: ControlPlane, kubeconfig: Path, file: Path, port: int) -> list[str | Path]:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": True, "resourceNamespace": "default"},
        "profiles": [{"schedulerName": KUBE}],
    }
    file.write_text(yaml.safe_dump(configuration))
    switches = ["--feature-gates=GenericWorkload=true", f"--secure-port={port}"]
    return [plane.programs / "kube-scheduler", f"--config={file}", *switches]


_COMMANDS: dict[str, Callable[[ControlPlane, Path, Path, int], list[str | Path]]] = {
    OURS: _our_command,
    REFLECTOR: partial(_our_command, intake="reflector"),
    KUBE: _kube_command,
}
