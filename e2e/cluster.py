"""`make cluster`: a whole cluster with GPU nodes and the scheduler on this machine, until Ctrl-C.

The API server, its controllers and the scheduler are real; the nodes are played by kwok, so no GPU and no container
engine is needed. The kubeconfig is left in `build/kubeconfig`, the scheduler's files in `build/cluster/`.
"""

import argparse
import signal
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import yaml

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import ProcessFailedError
from e2e.deployment import ROOT, Replica, apply_manifests
from scheduler.config import ConfigurationError, load

KUBECONFIG = ROOT / "build" / "kubeconfig"
LOOK_SECONDS = 0.5
"""How often to look whether a program has ended, while waiting for a signal."""


def fill(cluster: ControlPlane) -> None:
    """Installs what `manifests/` has, and creates the nodes and priority classes of the demo."""
    apply_manifests(cluster)
    demo = ROOT / "examples" / "demo"
    cluster.kubectl("apply", "-f", str(demo / "priorityclasses.yaml"))
    cluster.kubectl("create", "-f", str(demo / "nodes.yaml"))


def is_in_use(kubeconfig: Path) -> bool:
    """Tells whether the API server of a kubeconfig takes connections."""
    if not kubeconfig.exists():
        return False
    server = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((server.hostname or "", server.port or 443)) == 0


def start_scheduler(cluster: ControlPlane, changes: dict[str, Any]) -> Replica:
    """Starts the scheduler as its Deployment says, and waits until it leads."""
    return Replica(cluster, ROOT / "build" / "cluster", **changes).wait_leading()


def greeting(cluster: ControlPlane, scheduler: Replica | None) -> str:
    """Returns what to do next, ready to be pasted into another terminal."""
    lines = [
        "The cluster is up. In another terminal:",
        "",
        f"  export KUBECONFIG={KUBECONFIG}",
        f"  export PATH=$PATH:{cluster.programs}        # kubectl, if you have none",
        "  kubectl get nodes",
        "  kubectl apply -f examples/gang.yaml",
        "  kubectl get aipg,pods -o wide",
        "",
    ]
    if scheduler is not None:
        lines.append(
            f"The scheduler logs to {scheduler.log}; metrics are at http://127.0.0.1:{scheduler.port}/metrics."
        )
    return "\n".join([*lines, "Ctrl-C ends everything."])


def watch(cluster: ControlPlane, scheduler: Replica | None) -> NoReturn:
    """Stays until a signal interrupts it; raises `ProcessFailedError` if a program ends by itself."""
    while True:
        cluster.check()
        if scheduler is not None:
            scheduler.process.check()
        time.sleep(LOOK_SECONDS)


def main() -> int:
    """Runs the cluster until a signal; returns the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--config", type=Path, help="keys that replace those of manifests/config.yaml")
    options.add_argument("--without-scheduler", action="store_true", help="run no scheduler: you start it yourself")
    chosen = options.parse_args()
    changes = {}
    if chosen.config is not None:
        try:
            load(chosen.config)
            changes = yaml.safe_load(chosen.config.read_text()) or {}
        except ConfigurationError as wrong:
            options.error(str(wrong))
    if is_in_use(KUBECONFIG):
        options.error(f"another cluster runs: {KUBECONFIG} leads to it; end it first")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Both signals are a KeyboardInterrupt from here on.
    try:
        with ControlPlane(controller_manager=True, kwok=True) as cluster, ExitStack() as cleanup:
            fill(cluster)
            cluster.write_kubeconfig(KUBECONFIG)
            cleanup.callback(KUBECONFIG.unlink, missing_ok=True)
            scheduler = None
            if not chosen.without_scheduler:
                scheduler = start_scheduler(cluster, changes)
                cleanup.callback(scheduler.stop)
            print(greeting(cluster, scheduler), flush=True)
            watch(cluster, scheduler)
    except KeyboardInterrupt:
        return 0
    except build.ControlPlaneUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return build.UNAVAILABLE_EXIT_CODE
    except ProcessFailedError as failed:
        print(failed, *getattr(failed, "__notes__", ()), sep="\n", file=sys.stderr)
        print("Everything was stopped. `--without-scheduler` starts the cluster alone.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
