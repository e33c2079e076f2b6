"""Which streams an owner may take up again: one hash an owner, which ends with its last record.

It says where streams are to be found and nothing of what is in them; logs live and end by
themselves, so a record may outlive its logs, never the other way round for long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, cast

import redis.asyncio
from redis.exceptions import NoScriptError

from inference.protocol.codec import DecodeError
from inference.queues.answers import text
from inference.queues.connect import reachable
from inference.queues.keys import streams_key
from inference.queues.scripts import plain_script
from inference.queues.stream_record import StreamRecord, decode_record, encode_record
from llamaweb.lib.errors import BusyError, InvalidError

MAX_RECORD_BYTES = 256 * 1024
FULL_RETRY_S = 5.0

log = logging.getLogger(__name__)


class StreamBook:
    """The streams of everybody under one prefix. `max_answers`: of one owner, in all streams."""

    def __init__(
        self,
        client: redis.asyncio.Redis,
        prefix: str,
        max_answers: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self.max_answers = max_answers
        self._clock = clock

    async def put(self, owner_key: str, record: StreamRecord) -> StreamRecord | None:
        """Remember `record`; returns the one that had its name.

        Raises:
            BusyError: reason "owner_streams": the owner has too many.
            InvalidError: it has too many answers by itself, or shows too much to be remembered.
        """
        written = encode_record(record)
        number = len(record.requests)
        if number > self.max_answers:
            raise InvalidError(
                f"a stream that can be taken up again has {self.max_answers} answers at most"
            )
        if len(written.encode()) > MAX_RECORD_BYTES:
            raise InvalidError("what this stream repeats of its request is too long to be kept")
        found = await self._run(
            "stream_put",
            owner_key,
            repr(self._clock()),
            repr(record.expires_at),
            record.stream_id,
            written,
            str(number),
            str(self.max_answers),
        )
        if text(found[0]) != "ok":
            raise BusyError(
                f"you have {self.max_answers} answers that can be taken up again already; "
                "wait for one to end, or delete it",
                reason="owner_streams",
                retry_after_s=FULL_RETRY_S,
            )
        return self._decoded(found[1]) if found[1] else None

    async def all(self, owner_key: str) -> list[StreamRecord]:
        """All of an owner's, the oldest first."""
        key = streams_key(self._prefix, owner_key)
        async with reachable():
            found = await cast("Any", self._client.hvals(key))
        records = [record for item in found if (record := self._decoded(item)) is not None]
        return sorted(records, key=lambda record: record.started_at)

    async def drop(self, owner_key: str, record: StreamRecord) -> bool:
        """Forget `record`, unless another has taken its name."""
        return bool(await self._run("stream_drop", owner_key, record.stream_id, record.ids[0]))

    def _decoded(self, written: Any) -> StreamRecord | None:
        """None if its time is over, or if it can't be read: another version wrote it."""
        try:
            record = decode_record(text(written))
        except DecodeError:
            log.warning("the record of a stream can't be read")
            return None
        return record if record.expires_at > self._clock() else None

    async def _run(self, name: str, owner_key: str, *args: str) -> Any:
        code, key = plain_script(name), streams_key(self._prefix, owner_key)
        async with reachable():
            try:
                return await cast("Any", self._client.evalsha(code.sha, 1, key, *args))
            except NoScriptError:
                return await cast("Any", self._client.eval(code.text, 1, key, *args))
