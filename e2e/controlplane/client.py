"""A plain JSON client for one API server, for tests: standard library only, synchronous, no retries that could repeat a write.

The scheduler's own clients live in `scheduler/kube`; tests use this one so that a fault there cannot hide itself.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused a request; `status` is the HTTP status, `body` its Status object."""

    def __init__(self, status: int, body: Mapping[str, Any], request: str) -> None:
        """Keeps what was answered; `request` says to what."""
        super().__init__(f"{request}: {status} {body.get('reason', '')}: {body.get('message', '')}")
        self.status = status
        self.body = body

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as `NotFound` or `AlreadyExists`."""
        return str(self.body.get("reason", ""))


class Client:
    """Sends JSON requests with a bearer token over one kept connection per thread."""

    def __init__(self, server: str, token: str, certificate_authority: str, timeout_seconds: float = 120) -> None:
        """Takes the server's URL, a token and the PEM text of the certificates to trust."""
        location = urlsplit(server)
        self._host = location.hostname or ""
        self._port = location.port or 443
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._tls = ssl.create_default_context(cadata=certificate_authority)
        self._timeout_seconds = timeout_seconds
        self._local = threading.local()

    def request(self, method: str, path: str, body: object = None, content_type: str | None = None) -> Any:
        """Returns the decoded answer, or its text where it is no JSON; raises `ApiError` for a status of 400 or more.

        A PATCH is a merge patch unless `content_type` says otherwise.
        """
        headers = dict(self._headers)
        payload = None
        if body is not None:
            payload = json.dumps(body)
            headers["Content-Type"] = content_type or (MERGE_PATCH if method == "PATCH" else "application/json")
        status, is_json, text = self._exchange(method, path, payload, headers)
        answer = json.loads(text) if is_json and text else text
        if status >= http.client.BAD_REQUEST:
            raise ApiError(status, answer if isinstance(answer, dict) else {"message": text}, f"{method} {path}")
        return answer

    def watch(self, path: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Yields the events of a watch until the server ends it, after so many seconds; on a connection of its own."""
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=seconds + self._timeout_seconds, context=self._tls
        )
        mark = "&" if "?" in path else "?"
        try:
            connection.request("GET", f"{path}{mark}watch=1&timeoutSeconds={seconds}", None, dict(self._headers))
            with connection.getresponse() as response:
                if response.status >= http.client.BAD_REQUEST:
                    raise ApiError(response.status, {"message": response.read().decode()}, f"WATCH {path}")
                for line in response:
                    yield json.loads(line)
        finally:
            connection.close()

    def close(self) -> None:
        """Closes the calling thread's connection."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _exchange(
        self, method: str, path: str, payload: str | None, headers: Mapping[str, str]
    ) -> tuple[int, bool, str]:
        connection = self._connection()
        try:
            connection.request(method, path, payload, headers)
            with connection.getresponse() as response:
                text = response.read().decode()
                return response.status, response.headers.get_content_type().endswith("json"), text
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _connection(self) -> http.client.HTTPSConnection:
        """Returns the thread's connection, a new one if the server has closed it (as it does when it is restarted)."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None and _is_closed_by_peer(connection.sock):
            self.close()
            connection = None
        if connection is None:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_seconds, context=self._tls
            )
            self._local.connection = connection
        return connection


def _is_closed_by_peer(connected: socket.socket) -> bool:
    """Tells whether an idle TLS connection has ended. Anything readable counts: nobody sends to a client that asked nothing."""
    timeout = connected.gettimeout()
    connected.settimeout(0)
    try:
        connected.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connected.settimeout(timeout)
    return True
