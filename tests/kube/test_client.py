"""The client repeats what is safe to repeat, obeys the server, and logs in again when refused."""

import pytest

from scheduler.kube.auth import Connection, Login
from scheduler.kube.client import ApiError, Client, ForeignAnswerError, UnreachableError
from scheduler.kube.limits import TokenBucket
from tests.builders import a_pod
from tests.kube.conftest import Naps, login_to
from tests.kube.scripted import PODS, Answer, ScriptedServer

POD = "/api/v1/namespaces/default/pods/p"


async def test_reads_are_repeated_after_temporary_failures(server: ScriptedServer, client: Client) -> None:
    """500, a cut connection and 503 are followed by the answer."""
    server.put(PODS, a_pod("p").manifest())
    server.script("GET", POD, Answer(500), Answer(cut=True), Answer(503))
    assert (await client.get(POD))["metadata"]["name"] == "p"
    assert len(server.seen("GET", POD)) == 4


async def test_attempts_are_bounded(server: ScriptedServer, client: Client) -> None:
    """A server that stays broken is reported."""
    server.script("GET", POD, *[Answer(500)] * 9)
    with pytest.raises(ApiError) as caught:
        await client.get(POD, attempts=3)
    assert caught.value.status == 500
    assert len(server.seen("GET", POD)) == 3


async def test_too_many_requests_waits_as_long_as_asked(server: ScriptedServer, client: Client, naps: Naps) -> None:
    """Retry-After counts, for writes too: the server has done nothing."""
    server.script("POST", f"{POD}/binding", Answer(429, headers={"Retry-After": "7"}))
    server.put(PODS, a_pod("p").manifest())
    await client.post(f"{POD}/binding", {"metadata": {}, "target": {"name": "n"}})
    assert naps.seconds == [7.0]


async def test_a_post_is_not_repeated_when_it_may_have_worked(server: ScriptedServer, client: Client) -> None:
    """A cut connection after a POST is an error, once."""
    server.put(PODS, a_pod("p").manifest())
    server.script("POST", f"{POD}/binding", Answer(cut=True))
    with pytest.raises(UnreachableError) as caught:
        await client.post(f"{POD}/binding", {"metadata": {}, "target": {"name": "n"}})
    assert not caught.value.is_unsent
    assert len(server.seen("POST", f"{POD}/binding")) == 1


async def test_nobody_listening_means_surely_unsent(naps: Naps) -> None:
    """A refused connection is told apart from a lost answer."""
    client = Client(Login(lambda: Connection("http://127.0.0.1:9")), sleep=naps)
    with pytest.raises(UnreachableError) as caught:
        await client.get(POD, attempts=1)
    await client.close()
    assert caught.value.is_unsent


async def test_a_rotated_token_is_read_again(server: ScriptedServer, naps: Naps) -> None:
    """401 loads the credentials anew and repeats the request once."""
    tokens = iter(["old", "new", "newer"])
    server.tokens = {"Bearer new"}
    server.put(PODS, a_pod("p").manifest())

    def load() -> Connection:
        token = next(tokens)
        return Connection(server.url, authorize=lambda: f"Bearer {token}")

    client = Client(Login(load), sleep=naps)
    assert (await client.get(POD))["metadata"]["name"] == "p"
    await client.close()
    assert next(tokens) == "newer"


async def test_the_same_refused_token_is_not_tried_for_ever(server: ScriptedServer, naps: Naps) -> None:
    """If there is no other token the refusal is final."""
    server.tokens = {"Bearer other"}
    client = Client(login_to(server), sleep=naps)
    with pytest.raises(ApiError) as caught:
        await client.get(POD)
    await client.close()
    assert caught.value.status == 401
    assert len(server.requests) == 1


async def test_unreadable_credentials_are_a_temporary_failure(server: ScriptedServer, naps: Naps) -> None:
    """A token file that is being replaced must not end anything but the request."""
    server.put(PODS, a_pod("p").manifest())
    answers = iter(["", "Bearer t"])

    def read() -> str:
        if not (found := next(answers)):
            raise FileNotFoundError("token")
        return found

    client = Client(Login(lambda: Connection(server.url, authorize=read)), sleep=naps)
    assert (await client.get(POD))["metadata"]["name"] == "p"
    await client.close()


async def test_the_token_file_is_read_once_a_minute(server: ScriptedServer) -> None:
    """The header is kept for a minute and asked for again after it."""
    now = 0.0
    tokens = iter(["a", "b"])
    login = Login(lambda: Connection(server.url, authorize=lambda: next(tokens)), clock=lambda: now)
    assert [await login.header(), await login.header()] == ["a", "a"]
    now = 61.0
    assert await login.header() == "b"


async def test_errors_carry_reason_and_message(server: ScriptedServer, client: Client) -> None:
    """A Status object becomes an ApiError."""
    server.script("GET", POD, Answer(403, "Forbidden", "no"))
    with pytest.raises(ApiError) as caught:
        await client.get(POD)
    assert (caught.value.status, caught.value.reason, caught.value.message) == (403, "Forbidden", "no")


async def test_the_bucket_lets_bursts_through_and_then_the_rate() -> None:
    """Two at once, then one each half second."""
    naps = Naps()
    bucket = TokenBucket(2.0, 2, clock=lambda: 0.0, sleep=naps)
    for _ in range(4):
        await bucket.take()
    assert naps.seconds == [0.5, 1.0]


async def test_a_bucket_without_rate_never_waits() -> None:
    """Below zero there is no limit."""
    naps = Naps()
    bucket = TokenBucket(-1, 1, sleep=naps)
    for _ in range(10):
        await bucket.take()
    assert naps.seconds == []


FOREIGN = ["<html>log in</html>", '{"error": "log in"}', "[]", "null", ""]


@pytest.mark.parametrize("page", FOREIGN)
async def test_an_answer_of_somebody_else_is_no_answer(server: ScriptedServer, client: Client, page: str) -> None:
    """A proxy's page is repeated like a lost answer, and reported as one."""
    server.put(PODS, a_pod("p").manifest())
    server.script("GET", POD, Answer(page=page), Answer(page=page))
    assert (await client.get(POD))["metadata"]["name"] == "p"
    server.script("GET", POD, Answer(page=page))
    with pytest.raises(ForeignAnswerError, match="the answer is not the API server's"):
        await client.get(POD, attempts=1)


@pytest.mark.parametrize("page", FOREIGN)
async def test_a_write_answered_by_somebody_else_may_have_happened(
    server: ScriptedServer, client: Client, page: str
) -> None:
    """It is not repeated, and its outcome is unknown."""
    server.script("POST", f"{POD}/binding", Answer(page=page))
    with pytest.raises(ForeignAnswerError) as caught:
        await client.post(f"{POD}/binding", {})
    assert not caught.value.is_unsent


async def test_a_refusal_of_one_write_keeps_the_others_back(server: ScriptedServer, client: Client, naps: Naps) -> None:
    """As long as the server asked for; reads go on."""
    server.script("POST", f"{POD}/binding", Answer(429, headers={"Retry-After": "7"}))
    server.put(PODS, a_pod("p").manifest())
    with pytest.raises(ApiError):
        await client.create(f"{POD}/binding", {"metadata": {}, "target": {"name": "n"}}, attempts=1)
    await client.get(POD)
    assert naps.seconds == []
    await client.change(f"{POD}/status", {"status": {"phase": "Pending"}})
    assert [round(seconds) for seconds in naps.seconds] == [7]


@pytest.mark.parametrize("page", ["<html>log in</html>", '{"error": "log in"}', "[]", '{"metadata": {}}'])
async def test_an_unread_answer_of_somebody_else_is_no_answer(
    server: ScriptedServer, client: Client, page: str
) -> None:
    """It is looked at just enough to know whose it is."""
    server.script("POST", f"{POD}/binding", Answer(page=page))
    with pytest.raises(ForeignAnswerError):
        await client.create(f"{POD}/binding", {"metadata": {}}, attempts=1)
