"""Errors of databases in logs: what kind, never their text, which may quote a row.

PostgreSQL says "Failing row contains (…)" and "CONTEXT: unnamed portal parameter $1 = '…'".
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from typing import Any

import django.db

MIN_PIECE = 4  # characters; what is shorter says nothing, and is part of other words
_KINDS = (django.db.Error, sqlite3.Error)


def _is_of_psycopg(error: object, name: str) -> bool:
    """As `isinstance`, without loading psycopg where SQLite is used."""
    classes = type(error).__mro__
    return any(cls.__name__ == name and cls.__module__.startswith("psycopg") for cls in classes)


def _known(error: BaseException) -> BaseException:
    """The driver's own error, which Django's stands for."""
    return error.__cause__ if isinstance(error, django.db.Error) and error.__cause__ else error


def _may_quote(error: object) -> bool:
    """Whether it is a database's error, other than that the server can't be reached: that text is
    the driver's own, and whoever runs the server needs it."""
    if not isinstance(error, BaseException):
        return False
    if not isinstance(error, _KINDS) and not _is_of_psycopg(error, "Error"):
        return False
    known = _known(error)
    is_unreachable = _is_of_psycopg(known, "OperationalError")
    return not (is_unreachable and getattr(known, "sqlstate", None) is None)


def error_kind(error: BaseException) -> str:
    """What may be said of a database's error, in place of its text."""
    known = _known(error)
    code = getattr(known, "sqlstate", None) or getattr(known, "sqlite_errorname", None)
    return f"[{code or type(error).__name__}; its text may quote rows]"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """All that a traceback of `error` shows."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        yield one


def _quiet(text: str, error: BaseException | None) -> str:
    """`text` without what the database errors of the chain say."""
    for one in _chain(error):
        if not _may_quote(one):
            continue
        said = str(one)
        # Whole; as a `repr`; and by line, as groups indent them.
        for piece in (said, repr(said)[1:-1], *map(str.strip, said.splitlines())):
            if len(piece) >= MIN_PIECE:
                text = text.replace(piece, error_kind(one))
    return text


def exceptions_as_text(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A structlog processor: `exc_info` as the text of its traceback, like `format_exc_info`."""
    error = _error_of(event.pop("exc_info", None))
    if error is not None:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        event["exception"] = "".join(lines).rstrip()
    for name, value in event.items():
        if _may_quote(value):
            event[name] = _said(value)
        elif error is not None and isinstance(value, str):
            event[name] = _quiet(value, error)
    return event


def _error_of(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if len(exc_info) > 1 else None
    return sys.exc_info()[1] if exc_info else None


class QuietArguments(logging.Filter):
    """Replaces database errors among the arguments of plain `logging` calls."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always passes."""
        if isinstance(record.args, tuple):
            record.args = tuple(_said(value) for value in record.args)
        elif isinstance(record.args, dict):
            record.args = {name: _said(value) for name, value in record.args.items()}
        return True


def _said(value: object) -> object:
    if isinstance(value, BaseException) and _may_quote(value):
        return f"{type(value).__name__} {error_kind(value)}"
    return value
