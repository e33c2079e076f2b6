"""Structured logs on standard error: one line an event, with request and generation ids.

Both structlog and plain `logging` end here. Nothing logs prompt text; `hide_query` keeps what
people put into addresses out as well, and `llamaweb.log_errors` the rows that databases quote.
"""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog

from llamaweb.log_errors import QuietArguments, exceptions_as_text

# The other formatters print local variables, which may hold prompt text.
_PLAIN = structlog.dev.plain_traceback
_QUERY_RE = re.compile(r"(/[^\s?\"']*)\?[^\s\"']+")
# Paths that are secrets: whoever reads the log must not be able to use them.
_SECRET_RE = re.compile(r"(/setup/|/accounts/password/reset/key/)[^\s/\"']+")
_ADDRESS_FIELDS = ("event", "path")


def hide_query(text: str) -> str:
    """`text` with the query string of every path, and the token of a one-time link, as `…`."""
    return _SECRET_RE.sub(r"\1…", _QUERY_RE.sub(r"\1?…", text))


def _hide_queries(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for field in _ADDRESS_FIELDS:
        if isinstance(event.get(field), str):
            event[field] = hide_query(event[field])
    return event


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    _hide_queries,
]


def configure_structlog() -> None:
    """Send structlog's events through `logging`, so that one formatter writes everything."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _Faults(logging.Filter):
    """Drops Django's lines about answers that aren't our own fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", 500) != 503


def logging_config(*, level: str, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING."""
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=_PLAIN)
    )
    last = [exceptions_as_text, renderer]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            }
        },
        "filters": {"faults": {"()": _Faults}, "quiet": {"()": QuietArguments}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "structured",
                "filters": ["quiet"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's own handlers would write everything twice or as mail.
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            # One line for each connection below WARNING says nothing anybody needs.
            "daphne": {"level": "WARNING"},
            "twisted": {"level": "ERROR"},
            # The access line says 404 already, and 503 is an answer, not a fault.
            "django.request": {"level": "ERROR", "filters": ["faults"]},
            "asyncio": {"level": "WARNING"},
        },
    }
