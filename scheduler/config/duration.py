"""Go durations ("15s", "1m30s", "500ms") as timedeltas, for the fields that kube-scheduler writes that way."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer

_SECONDS_BY_UNIT: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[+-]?(?:{_PART.pattern})+")


def parse_duration(text: str) -> timedelta:
    """Return the duration that Go's `time.ParseDuration` reads from the text, to the microsecond.

    Raises:
        ValueError: The text is no Go duration.
    """
    if text in ("0", "+0", "-0"):
        return timedelta()
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no duration; allowed: a Go duration such as 15s, 1m30s or 500ms")
    seconds = sum(float(number) * _SECONDS_BY_UNIT[unit] for number, unit in _PART.findall(text))
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is too long; allowed: a Go duration such as 15s, 1m30s or 500ms") from None


def format_duration(duration: timedelta) -> str:
    """Return a text that `parse_duration` and Go read as this duration: the inverse."""
    microseconds = round(duration / timedelta(microseconds=1))
    if microseconds == 0:
        return "0s"
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    parts = []
    for unit, size in (("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)):
        count, microseconds = divmod(microseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def _from_text(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f"{value!r} is no duration; allowed: a Go duration such as 15s, 1m30s or 500ms")


#: A field that is a Go duration in the file and a timedelta in Python.
Duration = Annotated[timedelta, BeforeValidator(_from_text), PlainSerializer(format_duration)]
