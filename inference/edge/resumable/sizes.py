"""How many bytes a stream's events have: they are made again to be counted.

Of ended streams this is remembered, and one of an owner is counted at a time.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from inference import api
from inference.api import Position, Read, StreamRecord
from inference.edge.errors import end_error
from inference.edge.following import Follower
from inference.edge.rendering import Bytes, Rendering
from inference.edge.wire import Wire
from inference.queues.contract import START
from llamaweb.lib.errors import UnavailableError

MAX_KNOWN: Final = 1024  # streams; the least recently asked for are forgotten
MAX_WAIT_S: Final = 30.0  # behind other streams of the owner
BATCHES_AT_ONCE: Final = 32  # then others have their turn

_known: OrderedDict[tuple[str, ...], tuple[int, bool]] = OrderedDict()
_turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()


async def num_bytes(record: StreamRecord, wire: Wire, *, is_done: bool) -> tuple[int, bool]:
    """Bytes of all events so far, rendered by the fresh `wire`, and whether they are those that the
    first client got: False where a log was cut. `is_done`: nothing comes any more.

    Raises:
        UnavailableError: others of the owner's took too long.
    """
    turn = _turns.setdefault(record.requests[0].owner_key, asyncio.Lock())
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            await turn.acquire()
    except TimeoutError as error:
        raise UnavailableError("too many streams are asked about at once; try again") from error
    try:
        if is_done and record.ids in _known:
            _known.move_to_end(record.ids)
            return _known[record.ids]
        total, is_uncut, is_all = await _counted(record, wire)
        if is_done and is_all:
            _remember(record.ids, (total, is_uncut))
        return total, is_uncut
    finally:
        turn.release()


def _remember(ids: tuple[str, ...], found: tuple[int, bool]) -> None:
    _known[ids] = found
    while len(_known) > MAX_KNOWN:
        _known.popitem(last=False)


async def _counted(record: StreamRecord, wire: Wire) -> tuple[int, bool, bool]:
    """As `num_bytes`, and whether its end was read."""
    follower = Follower(
        [(record.model, generation_id) for generation_id in record.ids],
        groups=record.groups,
        source=_recorded,
        is_live=False,
    )
    rendering, counted = Rendering(wire, record.ids, record.groups), Bytes()
    num_batches = 0
    try:
        for index in range(len(record.ids)):
            follower.start(index)
        while (batch := await follower.next()) is not None:
            data, is_broken = rendering.batch(batch, end_error)
            counted.take(data)
            if is_broken:  # by its own end, or because it can't be read
                return counted.total, not follower.was_reset, follower.has_broken
            num_batches += 1
            if num_batches % BATCHES_AT_ONCE == 0:
                await asyncio.sleep(0)
        if follower.is_over:
            counted.take(rendering.end())
    finally:
        follower.close()
    return counted.total, not follower.was_reset, follower.is_over


async def _recorded(model: str, generation_id: str) -> AsyncIterator[Read | Position]:
    """A log as it is now."""
    cursor = START
    while True:
        read = await api.generation_read(model, generation_id, cursor)
        if not read.entries and read.reset is None and not read.gone:
            return
        yield read
        if read.gone:
            return
        cursor = read.cursor
