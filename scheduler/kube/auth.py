"""Connection: where the API server is and how to prove who we are, in a cluster and from a kubeconfig.

For the client and for Kopf, which get the same facts.  Finding and reading credentials (service account, kubeconfig,
exec plugins, OIDC) is left to the `kubernetes` package; what is here keeps them fresh without blocking the event loop.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: How long an authorization is used before its source is asked again; the kubelet renews token files far earlier.
FRESH_SECONDS = 60.0
#: What the `kubernetes` package comes to grief with when a kubeconfig has another shape than it expects.
_SHAPE_ERRORS = (ValueError, TypeError, LookupError, AttributeError)
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class LoginError(Exception):
    """Credentials could not be read; perhaps they are being replaced at this moment."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The facts that an HTTP client needs; paths may name temporary files of the `kubernetes` package."""

    server: str
    #: Returns the whole Authorization header; may read a file or run a program, so it is called in a thread.
    authorize: Callable[[], str | None] = lambda: None
    ca_path: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None
    is_insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings, or None for a plain HTTP server."""
        if not self.server.startswith("https"):
            return None
        context = ssl.create_default_context(cafile=self.ca_path)
        if self.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_path:
            context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def load_connection(kubeconfig: str = "", context: str | None = None) -> Connection:
    """Return the connection: the kubeconfig if one is named, else the pod's service account, else the default kubeconfig.

    Raises `kubernetes.config.ConfigException` if there is none or it cannot be used, and says which file that is.  Blocks: it
    may run an exec plugin.
    """
    from kubernetes import client, config  # noqa: PLC0415 - half a second to import, and tests need none of it

    facts = client.Configuration()
    if not kubeconfig and os.environ.get("KUBERNETES_SERVICE_HOST"):
        config.load_incluster_config(client_configuration=facts)  # type: ignore[no-untyped-call]
    else:
        path = _kubeconfig_path(kubeconfig)
        try:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                path, context=context, client_configuration=facts, persist_config=False
            )
            _connection_from(facts).ssl_context()  # certificates that cannot be read are the kubeconfig's fault, too
        except (config.ConfigException, yaml.YAMLError, OSError, *_SHAPE_ERRORS) as error:
            said = " ".join(str(error).split())
            raise config.ConfigException(f"the kubeconfig {path} cannot be used: {said}") from error
    return _connection_from(facts)


def _kubeconfig_path(kubeconfig: str) -> str:
    """Return the kubeconfigs to read: the named one, else those of $KUBECONFIG, else the default one.

    Raises `kubernetes.config.ConfigException` if none of them exists.
    """
    from kubernetes.config import ConfigException  # noqa: PLC0415 - slow to import

    remedy = "name one with --kubeconfig, $KUBECONFIG or clientConnection.kubeconfig"
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    files = [file for file in path.split(os.pathsep) if file]
    if any(Path(file).expanduser().exists() for file in files):
        return path
    if kubeconfig:
        raise ConfigException(f"there is no file {kubeconfig}; {remedy}")
    source = "$KUBECONFIG" if os.environ.get("KUBECONFIG") else "the default"
    raise ConfigException(f"this is no pod of a cluster, and there is no kubeconfig {path} ({source}); {remedy}")


def own_namespace(default: str = "default") -> str:
    """Return the namespace that the process runs in, or the default outside of a cluster."""
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else default


def _connection_from(facts: Any) -> Connection:
    """Return the part of a `kubernetes` configuration that we use; its refresh hook comes along in `authorize`."""
    return Connection(
        server=facts.host.rstrip("/"),
        authorize=lambda: facts.get_api_key_with_prefix("BearerToken"),
        ca_path=facts.ssl_ca_cert or None,
        certificate_path=facts.cert_file or None,
        key_path=facts.key_file or None,
        is_insecure=not facts.verify_ssl,
        tls_server_name=facts.tls_server_name or None,
        proxy=facts.proxy or None,
    )


class Login:
    """Keeps a connection usable: asks for the header now and then, and loads everything anew when it is refused."""

    def __init__(self, load: Callable[[], Connection], clock: Callable[[], float] = time.monotonic) -> None:
        """Load the connection for the first time (blocking)."""
        self._load = load
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._header: str | None = None
        self.connection = load()
        self.ssl = self.connection.ssl_context()

    async def header(self) -> str | None:
        """Return the Authorization header; its source is asked at most once a minute, in a thread. Raises LoginError."""
        if self._clock() - self._read_at < FRESH_SECONDS:
            return self._header
        async with self._lock:
            if self._clock() - self._read_at >= FRESH_SECONDS:
                self._header = await _in_thread(self.connection.authorize)
                self._read_at = self._clock()
        return self._header

    async def renew(self, refused: str | None) -> bool:
        """Load everything anew because a header was refused; tell whether there is another one to try.

        Of many requests refused at once only the first loads; the others find the newer header.  Raises LoginError.
        """
        async with self._lock:
            if self._header != refused:
                return True
            self.connection = await _in_thread(self._load)
            self.ssl = await _in_thread(self.connection.ssl_context)
            self._header = await _in_thread(self.connection.authorize)
            self._read_at = self._clock()
            return self._header != refused


async def _in_thread(function: Callable[[], T]) -> T:
    """Call something that blocks; whatever goes wrong with files and programs of others is a LoginError."""
    try:
        return await asyncio.to_thread(function)
    except Exception as error:
        raise LoginError(f"credentials cannot be read: {error!r}") from error
