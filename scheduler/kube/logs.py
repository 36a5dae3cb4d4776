"""Logs: an event name and fields, as JSON lines on stderr, or in colour on a terminal.

For every entry point that runs long.  Records of the standard library (Kopf, aiohttp, asyncio) take the same way.
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
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(_formatter(shared, is_json=is_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(max(quiet, number))
    logging.captureWarnings(capture=True)


def _formatter(shared: list[structlog.typing.Processor], *, is_json: bool) -> logging.Formatter:
    tail: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if is_json:
        tail += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(serializer=_json)]
    else:
        tail.append(structlog.dev.ConsoleRenderer(colors=True))
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()], processors=tail
    )


def _json(fields: Any, default: Any = None, **_: Any) -> str:
    """Return a line of JSON; what JSON cannot say is written as its text."""
    del default
    return msgspec.json.encode(fields, enc_hook=str).decode()
