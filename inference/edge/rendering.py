"""The frames of a stream as bytes, each under the id by which its reader can say how far it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from inference.edge.following import Batch
from inference.edge.places import EventId, Place
from inference.edge.rejoining import Told
from inference.edge.steps import LOST_LOG, Broken, Prefill
from inference.edge.tool_places import placed
from inference.edge.wire import Frame, Wire
from inference.protocol.events import Cancelled, Failed
from llamaweb.lib.errors import LlamawebError

ErrorOf = Callable[[Failed | Cancelled], LlamawebError]


class Rendering:
    """One stream of the generations `ids`. `groups`: how many of them answer the same prompt, in a
    row, if the stream can be taken up again; then ids tell places (`EventId`)."""

    def __init__(self, wire: Wire, ids: Sequence[str], groups: Sequence[int] | None = None) -> None:
        self._wire = wire
        self._ids = ids
        self._places = [Place() for _ in ids]
        self._mates = _mates(groups) if groups is not None else None
        self._index = 0
        self._seq = -1
        self._sub = 0

    def batch(self, batch: Batch, error_of: ErrorOf) -> tuple[bytes, bool]:
        """The frames of a batch, and whether they are the last of a stream that ends incomplete."""
        if (batch.index, batch.seq) != (self._index, self._seq):
            self._index, self._seq, self._sub = batch.index, batch.seq, 0
        out: list[bytes] = []
        for told in batch.told:
            self._places[batch.index] = told.after
            if not isinstance(told.step, Broken):
                out += self._told(told, self._wire.render(batch.index, told.step))
                continue
            error = placed(error_of(told.step.end), self._wire.places)
            frames = self._wire.error(error)
            if told.step.end is LOST_LOG:  # no part of the stream: it may be taken up again
                return b"".join([*out, *(self._frame(frame, None) for frame in frames)]), True
            return b"".join([*out, *self._told(told, frames)]), True
        return b"".join(out), False

    def end(self, skip: int = 0) -> bytes:
        """What comes behind all generations, but its first `skip` frames."""
        out = []
        for number, frame in enumerate(self._wire.end()):
            event_id = self._event_id(self._places[self._index], number + 1)
            if number >= skip:
                out.append(self._frame(frame, event_id))
        return b"".join(out) + self._wire.tail

    def _told(self, told: Told, frames: Sequence[Frame]) -> list[bytes]:
        out = []
        for number, frame in enumerate(frames):
            if isinstance(told.step, Prefill) or number == len(frames) - 1:
                event_id = self._event_id(told.after, 0)
            else:
                event_id = self._event_id(told.before, number + 1)
            if not told.is_hidden and number >= told.skip:
                out.append(self._frame(frame, event_id))
        return out

    def _frame(self, frame: Frame, event_id: str | None) -> bytes:
        return self._wire.encoding.frame(frame, event_id)

    def _event_id(self, place: Place, skip: int) -> str:
        """The id of the next frame of the entry."""
        sub, self._sub = self._sub, self._sub + 1
        generation_id = self._ids[self._index]
        if self._mates is None:
            return str(EventId(generation_id, self._seq, sub))
        places = tuple(
            place if index == self._index else self._places[index]
            for index in self._mates[self._index]
        )
        return str(EventId(generation_id, self._seq, sub, places, skip))


def _mates(groups: Sequence[int]) -> list[range]:
    """Of each generation: the indexes of all that answer the same prompt."""
    ends = itertools.accumulate(groups)
    return [
        range(end - size, end) for size, end in zip(groups, ends, strict=True) for _ in range(size)
    ]


class Bytes:
    """Counts the bytes of a stream's events and drops the first ones, which the reader has."""

    def __init__(self, skip: int = 0) -> None:
        self.total = 0
        self._skip = skip

    @property
    def is_short(self) -> bool:
        """Whether the reader has more than there was."""
        return self.total < self._skip

    def take(self, data: bytes) -> bytes:
        """What the reader lacks of `data`."""
        left = max(0, self._skip - self.total)
        self.total += len(data)
        return data[left:] if left else data
