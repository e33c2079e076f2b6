"""How much memory messages take, asked from the database without reading their text."""

from __future__ import annotations

from typing import Any

from django.db.models import Func, IntegerField, QuerySet, TextField
from django.db.models.functions import Cast

from conversations.models import Message

FIRST_ROWS = 64  # weighed at once, then twice as many: long texts aren't weighed beyond the bound


class JsonBytes(Func):
    """The length of a JSON column's text in bytes; SQLite's copy of it is ASCII."""

    function = "LENGTH"
    output_field = IntegerField()

    def __init__(self, column: str) -> None:
        super().__init__(Cast(column, TextField()))

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Its LENGTH counts characters."""
        return self.as_sql(compiler, connection, function="OCTET_LENGTH", **context)


def last_within(messages: QuerySet[Message], max_bytes: int) -> int | None:
    """The last revision up to which all of `messages` have at most `max_bytes`, or their first
    revision if it has more by itself; None if all of them fit."""
    rows = messages.order_by("revision", "number").values_list("revision", JsonBytes("parts"))
    total, start, count = 0, 0, FIRST_ROWS
    complete: int | None = None
    current: int | None = None
    while True:
        batch = list(rows[start : start + count])
        for revision, size in batch:
            if revision != current:
                complete, current = current, revision
            total += size
            if total > max_bytes:
                return current if complete is None else complete
        if len(batch) < count:
            return None
        start, count = start + count, count * 2
