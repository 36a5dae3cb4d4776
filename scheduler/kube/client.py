"""Client: JSON requests to the API server over one pooled session; errors as values of two exception types.

For everything in this package that reads or writes, except Kopf.  It repeats what is safe to repeat, a bounded number of
times, and obeys Retry-After; what a refusal means is for the caller to say.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import msgspec

from .auth import LoginError
from .limits import Brake, TokenBucket

if TYPE_CHECKING:
    from .auth import Login

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

PAGE_SIZE = 500
TIMEOUT_SECONDS = 30.0
ATTEMPTS = 5
FIRST_BACKOFF_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 5.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
_READ_BUFFER_BYTES = 2**20
_TEMPORARY = frozenset({500, 502, 503, 504})

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE = 400, 401, 403, 404, 409, 410
INVALID, TOO_MANY_REQUESTS = 422, 429

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class RequestError(Exception):
    """A request did not succeed."""


class UnreachableError(RequestError):
    """No answer came: refused, cut or late.  A late write may still have been carried out (`is_unsent` False)."""

    def __init__(self, message: str, *, is_unsent: bool = False) -> None:
        """Keep what happened, and whether the server surely has not seen the request."""
        super().__init__(message)
        self.is_unsent = is_unsent


class ForeignAnswerError(UnreachableError):
    """Something answered with success, but not as the API server does: a proxy, a login page.  Nothing is known then."""


class ApiError(RequestError):
    """The API server answered with a refusal."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        """Keep the HTTP status, the machine-readable reason, the sentence and how long to wait, if it said so."""
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def is_temporary(self) -> bool:
        """The same request may succeed a little later."""
        return self.status == TOO_MANY_REQUESTS or self.status in _TEMPORARY


class _StatusDetails(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: _StatusDetails | None = None


def api_error(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Return the error for an answer; a body that is no Status object becomes the message, shortened."""
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        parsed = _Status(message=body[:256].decode(errors="replace").strip())
    seconds = parsed.details.retry_after_seconds if parsed.details else None
    if retry_after is not None and retry_after.strip().isdigit():
        seconds = float(retry_after)
    return ApiError(status, parsed.reason, parsed.message, seconds)


def backoff_seconds(
    attempt: int, first: float = FIRST_BACKOFF_SECONDS, longest: float = LONGEST_BACKOFF_SECONDS
) -> float:
    """Return how long to wait after the attempt with this number (from 0): doubling, half of it by chance."""
    return min(longest, first * 2.0 ** min(attempt, 30)) * (0.5 + random.random() / 2)  # noqa: S311 - no secret


class Client:
    """A pooled session with authorization, rate limit, time limits and bounded repetition.

    The rate limit counts writes only: what is read is bounded by what there is.  Besides, the API server may refuse a request
    (Priority and Fairness answers 429), which slows all writes of this client down, and the binder limits how much is in
    flight.  The Lease has a client of its own, so that it queues behind nothing.  Answers are not compressed: the scheduler is near the API server and has one thread.
    """

    def __init__(
        self,
        login: Login,
        *,
        qps: float = -1,
        burst: int = 1,
        timeout_seconds: float = TIMEOUT_SECONDS,
        user_agent: str = "ai-scheduler",
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the session; must run inside the event loop."""
        self.login = login
        self._limit = TokenBucket(qps, burst, sleep=sleep)
        self._brake = Brake(clock, sleep)
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=min(10.0, timeout_seconds))
        self._sleep = sleep
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            headers={"User-Agent": user_agent, "Accept": "application/json"},
            read_bufsize=_READ_BUFFER_BYTES,
            auto_decompress=True,
            skip_auto_headers=("Accept-Encoding",),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None, *, attempts: int = ATTEMPTS) -> Any:
        """Return an object, decoded."""
        return await self._request("GET", path, decode=_object, params=params, attempts=attempts, is_idempotent=True)

    async def discover(self, path: str, kind: type[T], *, attempts: int = ATTEMPTS) -> T:
        """Return a document of discovery, which is no object, in the form of a struct."""

        def decode(body: bytes) -> T:
            return msgspec.json.decode(body, type=kind)

        return await self._request("GET", path, decode=decode, attempts=attempts, is_idempotent=True)

    async def get_bytes(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        accept: str | None = None,
        attempts: int = ATTEMPTS,
    ) -> bytes:
        """Return an object or a list as it came."""
        headers = {"Accept": accept} if accept else None
        return await self._request(
            "GET", path, decode=bytes, params=params, headers=headers, attempts=attempts, is_idempotent=True
        )

    async def post(self, path: str, body: object, *, attempts: int = ATTEMPTS) -> Any:
        """Create something; repeated only where the server surely did nothing."""
        return await self._request("POST", path, decode=_object, body=body, attempts=attempts)

    async def create(self, path: str, body: object, *, attempts: int = ATTEMPTS) -> None:
        """Create something as `post` does, where nobody reads the answer: it is not decoded but to see whose it is."""
        await self._request("POST", path, decode=_seen, body=body, attempts=attempts)

    async def put(self, path: str, body: object, *, attempts: int = ATTEMPTS) -> Any:
        """Replace an object; with a resourceVersion inside, only if nobody else did meanwhile."""
        return await self._request("PUT", path, decode=_object, body=body, attempts=attempts)

    async def patch(self, path: str, body: object, content_type: str = MERGE_PATCH, *, attempts: int = ATTEMPTS) -> Any:
        """Change an object; a repetition has the same result, so it is repeated like a read."""
        headers = {"Content-Type": content_type}
        return await self._request(
            "PATCH", path, decode=_object, body=body, headers=headers, attempts=attempts, is_idempotent=True
        )

    async def change(
        self, path: str, body: object, content_type: str = MERGE_PATCH, *, attempts: int = ATTEMPTS
    ) -> None:
        """Change an object as `patch` does, where nobody reads the answer."""
        headers = {"Content-Type": content_type}
        await self._request(
            "PATCH", path, decode=_seen, body=body, headers=headers, attempts=attempts, is_idempotent=True
        )

    async def delete(self, path: str, body: object = None, *, attempts: int = ATTEMPTS) -> None:
        """Delete an object; give the uid as precondition, so that a repetition hits no successor."""
        await self._request("DELETE", path, decode=_mapping, body=body, attempts=attempts, is_idempotent=True)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], headers_within_seconds: float = TIMEOUT_SECONDS
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch; ApiError or UnreachableError if it does not start.  Errors inside it come as aiohttp's own."""
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.sock_connect)
        try:
            async with asyncio.timeout(headers_within_seconds):
                response = await self._open("GET", path, params=params, timeout=unlimited)
        except TimeoutError as error:
            raise UnreachableError(f"GET {path}: no answer within {headers_within_seconds:g} s") from error
        try:
            yield response.content
        finally:
            response.close()

    async def _request(
        self,
        method: str,
        path: str,
        *,
        decode: Callable[[bytes], T],
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        attempts: int,
        is_idempotent: bool = False,
    ) -> T:
        """Send until it succeeds, is refused for good or the attempts are used up; return the answer, decoded."""
        data = None if body is None else msgspec.json.encode(body)
        for attempt in range(attempts):
            try:
                return _decoded(await self._once(method, path, params, data, headers), decode, f"{method} {path}")
            except ApiError as error:
                if error.status == TOO_MANY_REQUESTS and method != "GET":
                    self._brake.refused(_wait_seconds(error, 0))
                is_repeatable = error.status == TOO_MANY_REQUESTS or (is_idempotent and error.is_temporary)
                if not is_repeatable or attempt == attempts - 1:
                    raise
                await self._sleep(_wait_seconds(error, attempt))
            except UnreachableError as error:
                if not (is_idempotent or error.is_unsent) or attempt == attempts - 1:
                    raise
                await self._sleep(backoff_seconds(attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str] | None,
    ) -> bytes:
        if method != "GET":
            await self._limit.take()
            await self._brake.wait()
        sent = {"Content-Type": "application/json", **(headers or {})} if data is not None else dict(headers or {})
        response = await self._open(method, path, params=params, data=data, headers=sent, timeout=self._timeout)
        try:
            return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {error!r}") from error
        finally:
            response.release()

    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, passed through
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request and return its answer once the headers are there; a 401 is tried once more, renewed."""
        for is_last in (False, True):
            authorization = await self._authorization()
            response = await self._send(method, path, params, data, headers, timeout, authorization)
            if response.status < BAD_REQUEST:
                return response
            body = await _remaining(response)
            if response.status != UNAUTHORIZED or is_last or not await self._renews(authorization):
                raise api_error(response.status, body, response.headers.get("Retry-After"))
        raise AssertionError("unreachable: the second turn returns or raises")

    async def _authorization(self) -> str | None:
        try:
            return await self.login.header()
        except LoginError as error:
            raise UnreachableError(str(error), is_unsent=True) from error

    async def _renews(self, refused: str | None) -> bool:
        try:
            return await self.login.renew(refused)
        except LoginError as error:
            raise UnreachableError(str(error), is_unsent=True) from error

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own, passed through
        authorization: str | None,
    ) -> aiohttp.ClientResponse:
        connection = self.login.connection
        sent = dict(headers or {})
        if authorization:
            sent["Authorization"] = authorization
        try:
            return await self._session.request(
                method,
                connection.server + path,
                params=params,
                data=data,
                headers=sent,
                timeout=timeout,
                ssl=self.login.ssl or True,
                server_hostname=connection.tls_server_name,
                proxy=connection.proxy,
            )
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(f"{method} {path}: {error}", is_unsent=True) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {error!r}") from error


def _decoded(body: bytes, decode: Callable[[bytes], T], request: str) -> T:
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ForeignAnswerError(f"{request}: the answer is not the API server's: {error}") from error


def _mapping(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body, type=dict[str, Any])


class _Name(msgspec.Struct):
    name: str | None = None


class _Answer(msgspec.Struct):
    """The least that tells an API object, or a Status, from the JSON of somebody else."""

    kind: str = ""
    metadata: _Name | None = None


def _seen(body: bytes) -> None:
    """Raise unless this is what `_object` returns."""
    answer = _answers.decode(body)
    if answer.kind != "Status" and (answer.metadata is None or answer.metadata.name is None):
        raise msgspec.ValidationError("JSON without `metadata.name`")


_answers = msgspec.json.Decoder(_Answer)


def _object(body: bytes) -> dict[str, Any]:
    """Return an API object, or the Status that some requests are answered with; other JSON is somebody else's."""
    answer = _mapping(body)
    meta = answer.get("metadata")
    if answer.get("kind") != "Status" and not (isinstance(meta, dict) and isinstance(meta.get("name"), str)):
        raise msgspec.ValidationError("JSON without `metadata.name`")
    return answer


async def _remaining(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a refusal, or nothing if it does not come."""
    try:
        return await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError):
        return b""
    finally:
        response.release()


def _wait_seconds(error: ApiError, attempt: int) -> float:
    """Return how long to wait before the next attempt: what the server asked for, within reason."""
    if error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER_SECONDS)
    return backoff_seconds(attempt, first=1.0 if error.status == TOO_MANY_REQUESTS else FIRST_BACKOFF_SECONDS)
