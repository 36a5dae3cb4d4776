"""`make cluster`: a whole cluster with GPU nodes and the scheduler on this machine, until Ctrl-C.

The API server, its controllers and the scheduler are real; the nodes are played by kwok, so no GPU and no container
engine is needed. The kubeconfig is left in `build/kubeconfig`, the scheduler's files in `build/cluster/`.
"""

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import yaml

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import ProcessFailedError
from e2e.deployment import ROOT, Replica, apply_manifests

KUBECONFIG = ROOT / "build" / "kubeconfig"
LOOK_SECONDS = 0.5
"""How often to look whether a program has ended, while waiting for a signal."""


def fill(cluster: ControlPlane) -> None:
    """Installs what `manifests/` has, and creates the nodes and priority classes of the demo."""
    apply_manifests(cluster)
    demo = ROOT / "examples" / "demo"
    cluster.kubectl("apply", "-f", str(demo / "priorityclasses.yaml"))
    cluster.kubectl("create", "-f", str(demo / "nodes.yaml"))


def start_scheduler(cluster: ControlPlane, configuration: Path | None) -> Replica:
    """Starts the scheduler as its Deployment says, and waits until it leads."""
    changes = yaml.safe_load(configuration.read_text()) if configuration else {}
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
    if chosen.config is not None and not chosen.config.is_file():
        options.error(f"--config: there is no file {chosen.config}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Both signals are a KeyboardInterrupt from here on.
    try:
        with ControlPlane(controller_manager=True, kwok=True) as cluster, ExitStack() as cleanup:
            fill(cluster)
            cluster.write_kubeconfig(KUBECONFIG)
            cleanup.callback(KUBECONFIG.unlink, missing_ok=True)
            scheduler = None
            if not chosen.without_scheduler:
                scheduler = start_scheduler(cluster, chosen.config)
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
