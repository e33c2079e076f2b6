"""Bounds of live connections, in one place because docs/live.md lists them. Bytes, seconds."""

from __future__ import annotations

from typing import Final

MAX_FRAME_BYTES: Final = 1024 * 1024  # a client's frame; larger texts go by REST
MAX_OPEN: Final = 16  # conversations followed on one connection; the oldest gives way
MAX_CONNECTIONS_PER_USER: Final = 32  # sockets and SSE streams of one user in one process
HELLO_S: Final = 10.0  # until the client's first frame
MAX_BAD_FRAMES: Final = 5  # refused frames after which the connection closes
FRAMES_PER_S: Final = 50.0  # a client's frames in the long run …
FRAMES_BURST: Final = 400.0  # … and at once
ACTS_PER_S: Final = 5.0  # acts in the long run …
ACTS_BURST: Final = 40.0  # … and at once
MAX_WAITING_ACTS: Final = 32  # acts of one connection run one after another
MAX_WAITING_JOBS: Final = 64  # opens and closes that wait for the database
ACT_S: Final = 30.0  # the deadline of one act
READ_S: Final = 30.0  # the deadline of one read of the database
READ_BYTES: Final = 2 * 1024 * 1024  # of messages held at once; the rest is read as it is sent

WINDOW_BYTES: Final = 1024 * 1024  # sent and not acknowledged; then the server holds back …
URGENT_BYTES: Final = 256 * 1024  # … but still answers acts and pings, up to this much more
STALL_S: Final = 30.0  # without an ack while held back
CHUNK_BYTES: Final = 256 * 1024  # of one `conversation` frame, and of one reset of a stream
CHUNK_MESSAGES: Final = 200
