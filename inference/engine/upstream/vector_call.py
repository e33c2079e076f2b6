"""Vectors or scores on their way from the other server, in a thread of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from inference.engine.errors import failed_event
from inference.engine.upstream.events import UnreadableError
from inference.engine.upstream.failures import CHAT_PARAM, Trouble
from inference.engine.upstream.health import Health
from inference.engine.upstream.link import Link
from inference.engine.upstream.trying import Call, Emit
from inference.engine.upstream.vectors import RERANK_PATH, VectorsAsked, result_in
from inference.protocol.events import Failed, Finished, Result, Usage
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound_call import Answer

MAX_BODY_BYTES: Final = 64 * 1024 * 1024  # as many numbers as an answer may hold take less
NO_ROUTE: Final = frozenset({404, 405, 501})


class VectorCall(Call):
    """See `Call`; one result comes, with the end behind it."""

    def __init__(
        self, asked: VectorsAsked, link: Link, health: Health, clock: Clock, emit: Emit
    ) -> None:
        super().__init__(asked, link, health, clock, emit)
        self._asked = asked
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """See `Call.usage`."""
        return self._usage

    def _begin(self) -> None:
        self._usage = Usage()

    def _read(self, answer: Answer, started_ts: float) -> Finished | Failed | Trouble:
        try:
            result = result_in(_whole(answer), self._asked)
        except InvalidError as error:
            return failed_event(error)
        self._usage = Usage(prompt_tokens=result.prompt_tokens)
        self._emit(self, [Result(result)])
        return Finished("stop", self._usage)

    def _refused(self, answer: Answer) -> Trouble:
        """That it has no such route says nothing of the chats it serves."""
        if answer.status not in NO_ROUTE:
            trouble = super()._refused(answer)
            if trouble.failure.param != CHAT_PARAM:
                return trouble
            return replace(trouble, failure=replace(trouble.failure, param=self._asked.param))
        what = "rates no texts" if self._asked.path == RERANK_PATH else "makes no vectors of texts"
        message = f"the server behind this model {what} with it"
        trouble = Trouble(Failed("not_supported", message), status=answer.status)
        self._log("it refuses", trouble)
        return trouble


def _whole(answer: Answer) -> bytes:
    pieces, num_bytes = [], 0
    for piece in answer.pieces():
        num_bytes += len(piece)
        if num_bytes > MAX_BODY_BYTES:
            raise UnreadableError(f"the answer has more than {MAX_BODY_BYTES:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)
