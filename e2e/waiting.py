"""The one way in which end-to-end tests wait: for a condition, with a deadline, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.05

Found = TypeVar("Found")


def wait_until(
    predicate: Callable[[], Found], timeout_seconds: float = 30, what: str | Callable[[], str] = "the condition"
) -> Found:
    """Polls until `predicate` returns something true and returns that.

    Raises `TimeoutError` after `timeout_seconds`. `what` names what was waited for; a callable is asked only then, so that
    it can say how things stand. An exception of the predicate ends the wait.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        found = predicate()
        if found:
            return found
        if time.monotonic() > deadline:
            described = what() if callable(what) else what
            raise TimeoutError(f"after {timeout_seconds:g} s still not: {described}")
        time.sleep(POLL_SECONDS)
