"""Running the same tests on PostgreSQL: the alias `default` points to another server for a while.

Not a second alias, because code under test says `transaction.atomic()` and means `default`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.db import connections
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresOperations
from django.db.backends.sqlite3.operations import DatabaseOperations as SqliteOperations

from llamaweb.service_urls import database_config

AUDIT_TABLE = "accounts_auditevent"
_migrated: set[str] = set()


@contextlib.contextmanager
def default_database(url: str, blocker: Any) -> Iterator[None]:
    """`default` is the database at `url`, migrated, until the block ends."""
    config = database_config(url, pool_size=4)
    config["OPTIONS"].pop("pool")  # type: ignore[attr-defined]  # threads of a pool outlive a test
    config = connections.configure_settings({"default": config})["default"]
    usual = connections.databases["default"]
    _swap(config)
    try:
        if url not in _migrated:
            with blocker.unblock():
                call_command("migrate", verbosity=0, interactive=False)
            _migrated.add(url)
        yield
    finally:
        _swap(usual)


def _swap(config: dict[str, Any]) -> None:
    """Every thread gets a new connection the next time it asks."""
    if hasattr(connections._connections, "default"):
        connections["default"].close()
        del connections["default"]
    connections.databases["default"] = config


@contextlib.contextmanager
def allow_flushing_audit_events() -> Iterator[None]:
    """The flush after a transactional test lifts the append-only triggers for its own duration."""
    with (
        _wrapped_flush(
            SqliteOperations,
            before=[
                f"DROP TRIGGER {AUDIT_TABLE}_no_delete;",
            ],
            after=[
                f"CREATE TRIGGER {AUDIT_TABLE}_no_delete BEFORE DELETE ON {AUDIT_TABLE} "
                "BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END;",
            ],
        ),
        _wrapped_flush(
            PostgresOperations,
            before=[f"ALTER TABLE {AUDIT_TABLE} DISABLE TRIGGER USER;"],
            after=[f"ALTER TABLE {AUDIT_TABLE} ENABLE TRIGGER USER;"],
        ),
    ):
        yield


@contextlib.contextmanager
def _wrapped_flush(operations: type[Any], *, before: list[str], after: list[str]) -> Iterator[None]:
    original = operations.sql_flush

    def sql_flush(self: Any, style: Any, tables: Any, **kwargs: Any) -> list[str]:
        statements = original(self, style, tables, **kwargs)
        return [*before, *statements, *after] if AUDIT_TABLE in tables else statements

    with mock.patch.object(operations, "sql_flush", sql_flush):
        yield
