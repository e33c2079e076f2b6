"""Rows that a database quotes in its errors never reach the log."""

from __future__ import annotations

import io
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import structlog
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from conversations.models import Conversation, Message
from llamaweb.log_errors import exceptions_as_text
from llamaweb.logs import logging_config

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
SECRET = "a private prompt"
Say = Callable[[logging.Logger, BaseException], None]


@pytest.fixture(params=[True, False], ids=["json", "text"])
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What our handler writes."""
    stream = io.StringIO()
    config = logging_config(level="INFO", as_json=request.param)
    config["handlers"]["stderr"]["stream"] = stream
    logging.config.dictConfig(config)
    yield stream
    logging.config.dictConfig(settings.LOGGING)


def row_error(user: Any) -> BaseException:
    """A message row that the database refuses: PostgreSQL quotes all of it."""
    now = timezone.now()
    chat = Conversation.objects.create(owner=user, created_at=now, updated_at=now)
    try:
        with transaction.atomic():
            Message.objects.create(
                conversation=chat, number=1, revision=1, created_at=now, role="user",
                state="failed", parts=[{"type": "text", "text": SECRET}], error_message=SECRET,
            )  # fmt: skip
    except DatabaseError as error:
        return error
    raise AssertionError("the row was taken")


def _chained(log: logging.Logger, error: BaseException) -> None:
    try:
        raise RuntimeError("outer") from error
    except RuntimeError:
        log.exception("chained")


WAYS: dict[str, Say] = {
    "exception": lambda log, error: log.error("failed", exc_info=error),
    "argument": lambda log, error: log.error("failed: %s, %r", error, error),
    "named argument": lambda log, error: log.error("failed: %(exc)s", {"exc": error}),
    "text beside it": lambda log, error: log.error(f"failed: {error!r}", exc_info=error),
    "cause": _chained,
    "group": lambda log, error: log.error(
        "failed", exc_info=BaseExceptionGroup("several", [error])
    ),
    "structlog": lambda log, error: structlog.get_logger(log.name).error("failed", exc_info=error),
    "structlog field": lambda log, error: structlog.get_logger(log.name).error("x", error=error),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_isnt_quoted(way: str, written: io.StringIO, alice: Any) -> None:
    error = row_error(alice)
    if connection.vendor == "postgresql":
        assert SECRET in str(error)
    WAYS[way](logging.getLogger("tests.rows"), error)
    text = written.getvalue()
    assert "its text may quote rows" in text
    assert ("23514" if connection.vendor == "postgresql" else "SQLITE_CONSTRAINT_CHECK") in text
    assert SECRET not in text
    assert "Failing row" not in text
    if way in ("exception", "cause", "group", "structlog"):
        assert "row_error" in text  # where it happened is still said


def test_that_nobody_answers_is_said(written: io.StringIO) -> None:
    error = psycopg.OperationalError("connection refused: is the server running?")
    logging.getLogger("tests.rows").error("failed", exc_info=error)
    assert "is the server running?" in written.getvalue()


def test_an_error_that_causes_itself_ends() -> None:
    error = RuntimeError("round")
    error.__cause__ = RuntimeError("and round")
    error.__cause__.__cause__ = error
    assert "round" in str(exceptions_as_text(None, "", {"exc_info": error})["exception"])
