"""`ControlPlane`: etcd and a kube-apiserver on loopback, with kube-controller-manager and kwok if asked for.

For the end-to-end tests, benchmarks and `make cluster`. Everything lives in one temporary folder and is killed and
removed at the end; nothing survives the process that started it. There is no kubelet: kwok plays them (`stages.yaml`).
"""

import base64
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.controlplane import build
from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.kubeconfig import write_kubeconfig
from e2e.controlplane.process import Process, ProcessFailedError, free_ports

START_SECONDS = 90
POLL_SECONDS = 0.05
STAGES = Path(__file__).resolve().parent / "stages.yaml"

NATIVE_GANG_FEATURES: Mapping[str, bool] = {"GenericWorkload": True}
NATIVE_GANG_APIS: Mapping[str, bool] = {"scheduling.k8s.io/v1beta1": True}
"""Feature gates and API groups with which the API server serves Kubernetes' own PodGroup; both are off by default."""

NATIVE_TOPOLOGY_FEATURES: Mapping[str, bool] = {
    **NATIVE_GANG_FEATURES,
    "TopologyAwareWorkloadScheduling": True,
    "CompositePodGroup": True,
}
NATIVE_TOPOLOGY_APIS: Mapping[str, bool] = {**NATIVE_GANG_APIS, "scheduling.k8s.io/v1alpha3": True}
"""The same with topology constraints and composite groups, which are younger still."""

WITHOUT_DRA_V1: Mapping[str, bool] = {"resource.k8s.io/v1": False}
"""An API server that serves no `resource.k8s.io/v1`, like those before Kubernetes 1.34."""


#: kwok sends no heartbeats here; with the usual 50 s the node controller would take its nodes for dead again and again.
PLAYED_NODES_LIVE = "24h"


class ControlPlane:
    """A running control plane; a context manager. Start and stop it from one thread that stays alive.

    Without the controller manager nobody makes default ServiceAccounts or lifts the taint of new nodes, so the admission
    plugins that count on it (ServiceAccount, TaintNodesByCondition) are off then.
    """

    def __init__(
        self,
        *,
        controller_manager: bool = False,
        kwok: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        apiserver_flags: Mapping[str, str] | None = None,
        administrators: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> None:
        """Says what to run; `start` runs it. `programs` is the folder of binaries, found or built if not given.

        `administrators` are the tokens of further users of the group system:masters, by name.
        """
        self._has_controller_manager = controller_manager
        self._has_kwok = kwok
        self._feature_gates = dict(feature_gates or {})
        self._runtime_config = dict(runtime_config or {})
        self._apiserver_flags = dict(apiserver_flags or {})
        self._programs = programs
        self._processes: dict[str, Process] = {}
        self._folder: Path | None = None
        self._client: Client | None = None
        self._token = secrets.token_hex(16)
        self._administrators = {"admin": self._token, **(administrators or {})}
        self._etcd_port = self._etcd_peer_port = self._port = 0

    def __enter__(self) -> Self:
        """Starts everything."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Kills everything."""
        self.stop()

    # ---- life ----

    def start(self) -> Self:
        """Starts every program and returns once the API server is ready; on failure stops all and shows the logs' tails."""
        self._programs = self._programs or build.build()
        self._folder = Path(tempfile.mkdtemp(prefix="ai-scheduler-e2e-"))
        self._etcd_port, self._etcd_peer_port, self._port = free_ports(3)
        try:
            users = [f'{token},{name},{name},"system:masters"\n' for name, token in self._administrators.items()]
            (self.folder / "tokens.csv").write_text("".join(users))
            (self.folder / "service-account.key").write_text(new_signing_key())
            self._run("etcd", self._etcd_command())
            self.start_apiserver()
            if self._has_controller_manager:
                self._run("kube-controller-manager", self._controller_manager_command())
                self._wait_for(lambda: self._exists("/api/v1/namespaces/default/serviceaccounts/default"), "accounts")
            if self._has_kwok:
                self._run("kwok", ["--kubeconfig", self.kubeconfig, "--config", STAGES, "--manage-all-nodes=true"])
        except BaseException as error:
            if isinstance(error, ProcessFailedError | TimeoutError):
                error.add_note(self.log_tails())
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kills every program and removes the folder with data and logs. May be called twice."""
        for process in reversed(self._processes.values()):
            process.kill()
        self._processes.clear()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def start_apiserver(self) -> None:
        """Starts the API server on its port and data, and waits for `/readyz`: the first start or one after a stop."""
        self._run("kube-apiserver", self._apiserver_command())
        certificate = self.folder / "certificates" / "apiserver.crt"
        self._wait_for(certificate.exists, "the certificate of the API server")
        if self._client is None:
            self._client = Client(self.server, self._token, self.certificate_authority)
            self.write_kubeconfig(self.kubeconfig)
        self._wait_for(self._is_ready, "/readyz of the API server")
        self._wait_for(lambda: self._exists("/api/v1/namespaces/default"), "the namespace default")

    def stop_apiserver(self) -> None:
        """Kills the API server only; etcd keeps the data, and everybody's connections break."""
        self.kill("kube-apiserver")

    def kill(self, program: str) -> None:
        """Kills one of the programs by name, such as "kwok" or "kube-controller-manager"."""
        self._processes.pop(program).kill()

    def is_running(self, program: str) -> bool:
        """Tells whether a program was started and has not ended."""
        process = self._processes.get(program)
        return process is not None and process.exit_code is None

    def check(self) -> None:
        """Raises `ProcessFailedError` if a program has ended that nobody killed through `kill`."""
        for process in self._processes.values():
            process.check()

    def log_tails(self, lines: int = 30) -> str:
        """Returns the last lines of every program's log."""
        return "\n".join(process.log_tail(lines) for process in self._processes.values())

    # ---- access ----

    @property
    def folder(self) -> Path:
        """The temporary folder of data, logs and credentials, as long as the control plane runs."""
        if self._folder is None:
            raise RuntimeError("the control plane is not running")
        return self._folder

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def etcd_server(self) -> str:
        """The URL of etcd."""
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def token(self) -> str:
        """The token of the administrator (group system:masters)."""
        return self._token

    @property
    def certificate_authority(self) -> str:
        """The PEM text of the certificates to trust."""
        return (self.folder / "certificates" / "apiserver.crt").read_text()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return self.folder / "admin.kubeconfig"

    @property
    def programs(self) -> Path:
        """The folder that holds the binaries."""
        return self._programs or build.build()

    def kubeconfig_for(self, token: str, namespace: str = "default") -> Path:
        """Writes a kubeconfig for somebody's token into the temporary folder and returns its path."""
        return self.write_kubeconfig(self.folder / f"{secrets.token_hex(6)}.kubeconfig", token, namespace)

    def write_kubeconfig(self, path: Path, token: str | None = None, namespace: str = "default") -> Path:
        """Writes a kubeconfig, the administrator's unless a token is given, and returns its path."""
        trusted = self.certificate_authority
        chosen = token or self._token
        return write_kubeconfig(
            path, server=self.server, certificate_authority=trusted, token=chosen, namespace=namespace
        )

    def token_for(self, namespace: str, service_account: str, lifetime_seconds: int = 3600) -> str:
        """Returns a fresh token of an existing ServiceAccount (at least 600 s are granted)."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lifetime_seconds},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        return str(self.request("POST", path, body)["status"]["token"])

    def request(self, method: str, path: str, body: object = None, content_type: str | None = None) -> Any:
        """Sends a request as the administrator: see `Client.request`."""
        if self._client is None:
            raise RuntimeError("the control plane is not running")
        return self._client.request(method, path, body, content_type)

    def watch(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Yields the events of a watch as the administrator: see `Client.watch`."""
        if self._client is None:
            raise RuntimeError("the control plane is not running")
        return self._client.watch(path, seconds)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Runs kubectl as the administrator (or with a `--kubeconfig` of yours) and returns its output.

        Raises `RuntimeError` with kubectl's message if it fails.
        """
        command = [
            str(self.programs / "kubectl"),
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.folder}/kubectl",
        ]
        done = subprocess.run(
            [*command, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=START_SECONDS
        )
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    # ---- inside ----

    def _run(self, program: str, arguments: list[str | Path]) -> None:
        log = self.folder / f"{program}.log"
        self._processes[program] = Process(program, [self.programs / program, *arguments], log)

    def _etcd_command(self) -> list[str | Path]:
        client, peer = self.etcd_server, f"http://127.0.0.1:{self._etcd_peer_port}"
        return [
            *("--name", "e2e", "--data-dir", self.folder / "etcd", "--log-level", "warn", "--unsafe-no-fsync"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e2e={peer}"),
        ]

    def _apiserver_command(self) -> list[str | Path]:
        key = self.folder / "service-account.key"
        flags: dict[str, str | Path] = {
            "etcd-servers": self.etcd_server,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": self.folder / "certificates",
            "service-cluster-ip-range": "10.96.0.0/16",
            "endpoint-reconciler-type": "none",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "RBAC,Node" if self._serves_dra_v1 else "RBAC",
            "allow-privileged": "true",
            "profiling": "false",
        }
        if not self._has_controller_manager:
            flags["disable-admission-plugins"] = "ServiceAccount,TaintNodesByCondition"
        flags |= self._switches()
        if self._runtime_config:
            flags["runtime-config"] = switches(self._runtime_config)
        return [f"--{name}={value}" for name, value in {**flags, **self._apiserver_flags}.items()]

    @property
    def _serves_dra_v1(self) -> bool:
        """Without `resource.k8s.io/v1` the Node authorizer waits for ResourceSlices for ever; there are no kubelets anyway."""
        return self._runtime_config.get("resource.k8s.io/v1", True)

    def _controller_manager_command(self) -> list[str | Path]:
        flags: dict[str, str | Path] = {
            "kubeconfig": self.kubeconfig,
            "service-account-private-key-file": self.folder / "service-account.key",
            "root-ca-file": self.folder / "certificates" / "apiserver.crt",
            "leader-elect": "false",
            "secure-port": "0",
            "node-monitor-grace-period": PLAYED_NODES_LIVE,
            **self._switches(),
        }
        return [f"--{name}={value}" for name, value in flags.items()]

    def _switches(self) -> dict[str, str]:
        return {"feature-gates": switches(self._feature_gates)} if self._feature_gates else {}

    def _is_ready(self) -> bool:
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except (OSError, ApiError):
            return False

    def _exists(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except ApiError:
            return False
        return True

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Polls until `condition` holds; raises at once if a program ends, and after `START_SECONDS` in any case."""
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not there after {START_SECONDS} s")
            time.sleep(POLL_SECONDS)


def switches(values: Mapping[str, bool]) -> str:
    """Returns the form in which Kubernetes' programs take feature gates and API groups: `A=true,B=false`."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in sorted(values.items()))


def new_signing_key() -> str:
    """Returns a fresh P-256 private key in PEM, for the tokens of ServiceAccounts.

    SEC 1 lets the public half be left out, and Go computes it: so no cryptography package is needed. The first bit is
    cleared to stay below the order of the curve.
    """
    scalar = bytearray(secrets.token_bytes(32))
    scalar[0] &= 0x7F
    encoded = bytes.fromhex("30310201010420") + bytes(scalar) + bytes.fromhex("a00a06082a8648ce3d030107")
    body = base64.encodebytes(encoded).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"
