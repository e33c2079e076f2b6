"""How often the database is written: transactions counted in SQLite's own shared memory.

The third word of the write-ahead log's index is a counter of commits by any process
(https://www.sqlite.org/walformat.html, "WAL-index header").
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path
from types import TracebackType

COUNTER_OFFSET = 8


class Commits:
    """Counts while it is open: its own connection keeps the index from being made anew whenever
    nobody else has the database open.

    Raises:
        FileNotFoundError: the database isn't in WAL mode.
    """

    def __init__(self, database: Path) -> None:
        self._reader = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        self._reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        # Once: closing a file drops all locks that the process holds on it, SQLite's too.
        self._index = Path(f"{database}-shm").open("rb", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Commits:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()
        self._index.close()

    def count(self) -> int:
        """Write transactions committed since the index was made."""
        self._index.seek(COUNTER_OFFSET)
        (count,) = struct.unpack("=I", self._index.read(4))
        return int(count)
