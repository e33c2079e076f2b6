"""How often the database is written: transactions counted in SQLite's own shared memory.

The second and third word of the write-ahead log's index are an unused one and a counter of
commits by any process (https://www.sqlite.org/walformat.html, "WAL-index header").
"""

from __future__ import annotations

import struct
from pathlib import Path

COUNTER_OFFSET = 8


def commits(database: Path) -> int:
    """Write transactions committed since the log's index was made.

    Raises:
        FileNotFoundError: nobody has the database open in WAL mode.
    """
    with Path(f"{database}-shm").open("rb") as index:
        index.seek(COUNTER_OFFSET)
        (count,) = struct.unpack("=I", index.read(4))
        return int(count)
