"""One request on its way to the other server, in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from inference.engine.timings import SequenceClock
from inference.engine.upstream.chunks import AnswerReader, ToldError
from inference.engine.upstream.events import EventLines, UnreadableError
from inference.engine.upstream.failures import (
    BROKE_OFF,
    FILTERED,
    INTERRUPTED,
    MAX_ERROR_BYTES,
    OVERDUE,
    UNREADABLE,
    Trouble,
    trouble_of_error,
    trouble_of_exception,
    trouble_of_status,
)
from inference.engine.upstream.health import Health
from inference.engine.upstream.link import Link
from inference.engine.upstream.request import (
    NEW_LENGTH,
    OLD_LENGTH,
    UpstreamRequest,
    estimated_tokens,
)
from inference.protocol.events import Delta, Event, Failed, Finished, Started, Usage
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import DeadlineError, LlamawebError
from llamaweb.lib.outbound import UnreachableError
from llamaweb.lib.outbound_call import Answer, OutboundCall

log = logging.getLogger(__name__)

ONCE_AFTER_S = 0.5
MIN_PAUSE_S, MAX_PAUSE_S = 0.5, 8.0  # between patient tries, doubled each time
PATIENCE_S = 60.0  # how long a request that can wait is tried again; its deadline may be nearer
FINISH_S = 5.0  # behind the last text: the usage, and the end
MAX_ANSWER_BYTES = 256 * 1024 * 1024  # as sent; a token takes a few hundred


@dataclass(slots=True)
class Patience:
    """When one request is tried again."""

    waited_s: float = 0.0
    tries: int = 0

    def pause_s(self, trouble: Trouble) -> float | None:
        """Seconds until the next try, None for no more."""
        if trouble.retry == "never" or (trouble.retry == "once" and self.tries):
            return None
        pause_s = ONCE_AFTER_S
        if trouble.retry == "patiently":
            pause_s = min(MAX_PAUSE_S, MIN_PAUSE_S * 2.0 ** min(self.tries, 10))
            pause_s = max(pause_s, trouble.retry_after_s)
        if self.waited_s + pause_s > PATIENCE_S:
            return None
        self.tries += 1
        self.waited_s += pause_s
        return pause_s


class UpstreamCall:
    """`run` in a thread; `emit` gets what comes, at last exactly one terminal event, unless the
    call was cut before it came."""

    def __init__(
        self,
        request: UpstreamRequest,
        link: Link,
        health: Health,
        clock: Clock,
        emit: Callable[[UpstreamCall, Sequence[Event]], None],
    ) -> None:
        self.request = request
        self._link = link
        self._health = health
        self._clock = clock
        self._emit = emit
        self._reader = AnswerReader(request.path)
        self._times = SequenceClock()
        self._stopped = threading.Event()
        self._outbound: OutboundCall | None = None
        self._has_started = False

    def run(self) -> None:
        """Ask until there is an end."""
        try:
            end = INTERRUPTED if self.request.is_interrupted else self._end()
        except Exception:
            log.exception("a call to the upstream server failed")
            end = Failed("engine_failed", "the engine failed on this request", retryable=True)
        if self._stopped.is_set():
            return
        if isinstance(end, Failed) and self._times.begun_ts is not None:
            end = replace(end, usage=self.usage)
        self._emit(self, [end])

    def cut(self) -> None:
        """End it now, from any thread; nothing more is emitted that matters."""
        self._stopped.set()
        outbound = self._outbound
        if outbound is not None:
            outbound.cut()

    @property
    def usage(self) -> Usage:
        """What the server counted; estimated until it says so."""
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
        """How many deltas it emitted."""
        return self._reader.num_pieces

    def _end(self) -> Finished | Failed:
        patience = Patience()
        while True:
            end = self._attempt()
            if not isinstance(end, Trouble):
                return end
            pause_s = patience.pause_s(end)
            if pause_s is None or pause_s > self._left_s or self._reader.has_text:
                return end.failure
            if self._stopped.wait(pause_s):
                return end.failure

    @property
    def _left_s(self) -> float:
        return self.request.deadline_at - self._clock.wall()

    def _attempt(self) -> Finished | Failed | Trouble:
        """Ask once. Trouble comes only while no reader has seen text."""
        if self._left_s <= 0:
            return OVERDUE
        self._reader = AnswerReader(self.request.path)
        started_ts = self._clock.monotonic()
        self._outbound = self._link.post(self.request, total_s=self._left_s)
        if self._stopped.is_set():  # cut before there was something to cut
            return BROKE_OFF
        try:
            with self._outbound.open() as answer:
                if answer.status != 200:
                    return self._refused(answer)
                self._health.good()
                return self._read(answer, started_ts)
        except ToldError as error:
            trouble = trouble_of_error(error.error, 500)
            self._log("it says that it failed", trouble)
            return trouble.failure if self._reader.has_text else trouble
        except UnreadableError as error:
            self._log(str(error))
            return UNREADABLE
        except LlamawebError as error:
            return self._broken(error)

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
        """What a status other than 200 means."""
        body = b""
        with contextlib.suppress(LlamawebError):  # the status says enough
            body = answer.start(MAX_ERROR_BYTES)
        now_at = self._clock.wall()
        trouble = trouble_of_status(answer.status, answer.headers, body, now_at=now_at)
        self._log("it refuses", trouble)
        if trouble.param == OLD_LENGTH and self._link.length_field == OLD_LENGTH:
            self._link.length_field = NEW_LENGTH
            return replace(trouble, retry="once")
        if trouble.reason:
            self._health.bad(trouble.reason, is_refusal=trouble.retry == "never")
        return trouble

    def _broken(self, error: LlamawebError) -> Failed | Trouble:
        """There was no answer, or it broke off."""
        trouble = trouble_of_exception(error)
        if self._stopped.is_set():
            return BROKE_OFF
        self._log("the connection failed", trouble)
        if self._reader.has_text:
            return trouble.failure if trouble.failure is OVERDUE else BROKE_OFF
        if self._has_started and trouble.retry == "patiently":
            return Trouble(BROKE_OFF, "once")  # it can be reached
        if trouble.reason:
            self._health.bad(trouble.reason, is_refusal=False)
        return trouble

    def _log(self, what: str, trouble: Trouble | None = None) -> None:
        code = trouble.failure.code if trouble else "engine_failed"
        status = trouble.status if trouble else 0
        log.warning(
            "generation %s: upstream: %s (%s, status %d)",
            self.request.generation_id, what, code, status,
        )  # fmt: skip
