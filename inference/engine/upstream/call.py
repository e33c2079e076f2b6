"""One answer on its way from the other server, in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference.engine.timings import SequenceClock
from inference.engine.upstream.chunks import AnswerReader
from inference.engine.upstream.events import EventLines, UnreadableError
from inference.engine.upstream.failures import (
    BROKE_OFF,
    FILTERED,
    INTERRUPTED,
    OVERDUE,
    Trouble,
    trouble_of_exception,
)
from inference.engine.upstream.health import Health
from inference.engine.upstream.link import Link
from inference.engine.upstream.request import NEW_LENGTH, OLD_LENGTH, UpstreamRequest
from inference.engine.upstream.tokens import estimated_tokens
from inference.engine.upstream.trying import Call, Emit
from inference.protocol.events import Delta, Event, Failed, Finished, Started, Usage
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import DeadlineError, LlamawebError
from llamaweb.lib.outbound import UnreachableError
from llamaweb.lib.outbound_call import Answer

FINISH_S = 5.0  # behind the last text: the usage, and the end
MAX_ANSWER_BYTES = 256 * 1024 * 1024  # as sent; a token takes a few hundred


class UpstreamCall(Call):
    """See `Call`; what comes are the answer's deltas."""

    def __init__(
        self, request: UpstreamRequest, link: Link, health: Health, clock: Clock, emit: Emit
    ) -> None:
        super().__init__(request, link, health, clock, emit)
        self.request = request
        self._reader = AnswerReader(request.path)
        self._times = SequenceClock()
        self._has_started = False

    @property
    def usage(self) -> Usage:
        """See `Call.usage`."""
        reader, begun = self._reader, estimated_tokens(self.request.said)
        told = reader.usage
        if told is None:
            if self._times.begun_ts is None:
                return Usage()
            return Usage(self.request.prompt_tokens, begun + reader.estimated_tokens, 0)
        # To the server, what an earlier engine published is a part of the prompt.
        prompt = max(0, told.prompt_tokens - begun)
        return Usage(prompt, told.completion_tokens + begun, min(prompt, told.cached_tokens))

    @property
    def num_pieces(self) -> int:
        """See `Call.num_pieces`."""
        return self._reader.num_pieces

    @property
    def _has_text(self) -> bool:
        return self._reader.has_text

    def _begin(self) -> None:
        self._reader = AnswerReader(self.request.path)

    def _end(self) -> Finished | Failed:
        return INTERRUPTED if self.request.is_interrupted else super()._end()

    def _read(self, answer: Answer, started_ts: float) -> Finished | Failed | Trouble:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream":
            raise UnreadableError("the answer is no stream of events")
        self._times.begun_ts = started_ts
        try:
            for data in self._data(answer):
                self._take(self._reader.feed(data))
                if self._reader.is_done:
                    break
                if self._reader.reason is not None and self._outbound is not None:
                    self._outbound.hurry(FINISH_S)
        except (UnreachableError, DeadlineError):
            if self._reader.reason is None:
                raise
        return self._finished()

    def _data(self, answer: Answer) -> Iterator[str]:
        """The data of each event."""
        lines, num_bytes = EventLines(), 0
        for piece in answer.pieces():
            num_bytes += len(piece)
            if num_bytes > MAX_ANSWER_BYTES:
                raise UnreadableError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
            yield from lines.feed(piece)
        yield from lines.close()

    def _take(self, events: Sequence[Event]) -> None:
        """Hand on what a reader hasn't seen: a second try begins again."""
        if self._has_started:
            events = [event for event in events if not isinstance(event, Started)]
        self._has_started = self._has_started or bool(events)
        if self._times.first_token_ts is None and any(isinstance(e, Delta) for e in events):
            self._times.first_token_ts = self._clock.monotonic()
        if events:
            self._emit(self, events)

    def _finished(self) -> Finished | Failed | Trouble:
        reader = self._reader
        if reader.is_filtered:
            return FILTERED
        if reader.reason is None:
            self._log("its answer has no end")
            return BROKE_OFF if reader.has_text else Trouble(BROKE_OFF, "once")
        self._take(reader.end())
        return Finished(reader.reason, self.usage, self._times.timings(self._clock.monotonic()))

    def _refused(self, answer: Answer) -> Trouble:
        trouble = super()._refused(answer)
        if trouble.param == OLD_LENGTH and self._link.length_field == OLD_LENGTH:
            self._link.length_field = NEW_LENGTH
            return replace(trouble, retry="once")
        return trouble

    def _broken(self, error: LlamawebError) -> Failed | Trouble:
        trouble = trouble_of_exception(error)
        if self._stopped.is_set():
            return BROKE_OFF
        if self._reader.has_text:
            self._log("the connection failed", trouble)
            return trouble.failure if trouble.failure is OVERDUE else BROKE_OFF
        if self._has_started and trouble.retry == "patiently":
            self._log("the connection failed", trouble)
            return Trouble(BROKE_OFF, "once")  # it can be reached
        return super()._broken(error)
