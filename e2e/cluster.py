"""`make cluster`: a whole cluster with GPU nodes and the scheduler on this machine, until Ctrl-C.

The API server, its controllers and the scheduler are real; the nodes are played by kwok, so no GPU and no container
engine is needed. The kubeconfig is left in `build/kubeconfig`, the scheduler's log in `build/cluster.log`.
"""

import argparse
import json
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from e2e.controlplane import build
from e2e.controlplane.cluster import ControlPlane
from e2e.controlplane.process import Process, ProcessFailedError

ROOT = Path(__file__).resolve().parent.parent
KUBECONFIG = ROOT / "build" / "kubeconfig"
SCHEDULER_LOG = ROOT / "build" / "cluster.log"
LOOK_SECONDS = 0.5
"""How often to look whether a program has ended, while waiting for a signal."""

GPU_NODES = 8
GPU_NODES_PER_RACK = 4
CPU_NODES = 2


def built_in_nodes() -> list[dict[str, Any]]:
    """Returns eight nodes of eight H100 in two racks and two nodes without GPUs, used where the examples bring none."""
    nodes = []
    for index in range(GPU_NODES):
        rack = f"rack-{index // GPU_NODES_PER_RACK + 1}"
        labels = {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.count": "8",
            "topology.kubernetes.io/rack": rack,
        }
        capacity = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "4Ti", "pods": "110", "nvidia.com/gpu": "8"}
        nodes.append(a_node(f"gpu-{index + 1}", labels, capacity))
    capacity = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    nodes += [a_node(f"cpu-{index + 1}", {}, capacity) for index in range(CPU_NODES)]
    return nodes


def a_node(name: str, labels: dict[str, str], capacity: dict[str, str]) -> dict[str, Any]:
    """Returns a Node with the labels that every node has and all of its capacity allocatable."""
    every = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": "zone-1",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": every | labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def fill(cluster: ControlPlane, root: Path = ROOT) -> None:
    """Creates the CRDs, the priority classes and the nodes, each where the repository has it."""
    if (root / "crds").is_dir() and any((root / "crds").iterdir()):
        cluster.kubectl("apply", "--server-side", "-k", str(root / "crds"))
    demo = root / "examples" / "demo"
    if (demo / "priorityclasses.yaml").exists():
        cluster.kubectl("apply", "-f", str(demo / "priorityclasses.yaml"))
    if (demo / "nodes.yaml").exists():
        cluster.kubectl("create", "-f", str(demo / "nodes.yaml"))
    else:
        nodes = {"apiVersion": "v1", "kind": "List", "items": built_in_nodes()}
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(nodes))


def start_scheduler(kubeconfig: Path, configuration: Path, log: Path) -> Process:
    """Starts the scheduler as its own process with a fresh log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    run = (sys.executable, "-m", "scheduler.cli.main", "run")
    command = [*run, f"--config={configuration}", f"--kubeconfig={kubeconfig}"]
    return Process("the scheduler", command, log, folder=ROOT)


def greeting(cluster: ControlPlane) -> str:
    """Returns what to do next, ready to be pasted into another terminal."""
    return "\n".join(
        [
            "The cluster is up. In another terminal:",
            "",
            f"  export KUBECONFIG={KUBECONFIG}",
            f"  export PATH=$PATH:{cluster.programs}        # kubectl, if you have none",
            "  kubectl get nodes",
            "  kubectl apply -f examples/gang.yaml",
            "",
            f"The scheduler logs to {SCHEDULER_LOG}. Ctrl-C ends everything.",
        ]
    )


def watch(cluster: ControlPlane, scheduler: Process | None) -> NoReturn:
    """Stays until a signal interrupts it; raises `ProcessFailedError` if a program ends by itself."""
    while True:
        cluster.check()
        if scheduler is not None:
            scheduler.check()
        time.sleep(LOOK_SECONDS)


def main() -> int:
    """Runs the cluster until a signal; returns the exit code."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--config", type=Path, default=ROOT / "manifests" / "config.yaml", help="the scheduler's")
    options.add_argument("--without-scheduler", action="store_true", help="run no scheduler: you start it yourself")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Both signals are a KeyboardInterrupt from here on.
    try:
        with ControlPlane(controller_manager=True, kwok=True) as cluster, ExitStack() as cleanup:
            fill(cluster)
            cluster.write_kubeconfig(KUBECONFIG)
            cleanup.callback(KUBECONFIG.unlink, missing_ok=True)
            scheduler = None
            if not chosen.without_scheduler:
                scheduler = start_scheduler(KUBECONFIG, chosen.config, SCHEDULER_LOG)
                cleanup.callback(scheduler.terminate)
            print(greeting(cluster), flush=True)
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
