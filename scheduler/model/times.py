"""Times of the API as numbers.

For whoever reads API objects.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=65_536)
def parse_time(text: str | None) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None for none, ValueError for what is no time."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
