"""Logs: an event name and fields, as JSON lines on stderr, or in colour on a terminal.

For every entry point that runs long.  Records of the standard library (Kopf, aiohttp, asyncio) end in the same stream; our own
lines do not become such records on the way, which would cost three times as much, and there is one for each decision.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import msgspec
import structlog

#: From which level on other people's loggers are heard.  Kopf reports each attempt of each request as an error, and
#: missing kinds with every look; both are said once by our own modules.
QUIET = {
    "kopf": logging.WARNING,
    "kopf._cogs.clients": logging.CRITICAL,
    "kopf._core.reactor.observation": logging.ERROR,
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes": logging.WARNING,
}


def configure_logs(level: str = "info", *, as_json: bool | None = None, stream: TextIO | None = None) -> None:
    """Route all logs to one stream, stderr by default; JSON unless it is a terminal or `as_json` says otherwise."""
    output = stream or sys.stderr
    is_json = not output.isatty() if as_json is None else as_json
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    tail = _tail(is_json=is_json)
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *tail],
        logger_factory=lambda *name: _Lines(output, *name),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet, number))
    logging.captureWarnings(capture=True)


class _Lines:
    """Writes the lines of one logger; one write for each, so that lines of several do not mix."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self.name = name
        self._stream = stream

    def msg(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()

    debug = info = warning = error = critical = exception = msg


def _add_logger_name(logger: Any, method: str, fields: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Say who speaks: one of our loggers, or one of the standard library."""
    del method
    record = fields.get("_record")
    fields["logger"] = logger.name if record is None else record.name
    return fields


def _tail(*, is_json: bool) -> list[structlog.typing.Processor]:
    """Return what turns fields into a line."""
    if is_json:
        return [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(serializer=_json)]
    return [structlog.dev.ConsoleRenderer(colors=True)]


def _json(fields: Any, default: Any = None, **_: Any) -> str:
    """Return a line of JSON; what JSON cannot say is written as its text."""
    del default
    return msgspec.json.encode(fields, enc_hook=str).decode()
