"""One request on its way to the other server, in a thread of its own, until there is an end."""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from inference.engine.upstream.chunks import ToldError
from inference.engine.upstream.events import UnreadableError
from inference.engine.upstream.failures import (
    BROKE_OFF,
    MAX_ERROR_BYTES,
    OVERDUE,
    UNREADABLE,
    Trouble,
    trouble_of_error,
    trouble_of_exception,
    trouble_of_status,
)
from inference.engine.upstream.health import Health
from inference.engine.upstream.link import Link, Sent
from inference.protocol.events import Event, Failed, Finished, Usage
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import LlamawebError
from llamaweb.lib.outbound_call import Answer, OutboundCall

log = logging.getLogger(__name__)

ONCE_AFTER_S = 0.5
MIN_PAUSE_S, MAX_PAUSE_S = 0.5, 8.0  # between patient tries, doubled each time
PATIENCE_S = 60.0  # how long a request that can wait is tried again; its deadline may be nearer


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


class Call(ABC):
    """`run` in a thread; `emit` gets what comes, at last exactly one terminal event, unless the
    call was cut before it came."""

    def __init__(self, sent: Sent, link: Link, health: Health, clock: Clock, emit: Emit) -> None:
        self.generation_id = sent.generation_id
        self._sent = sent
        self._link = link
        self._health = health
        self._clock = clock
        self._emit = emit
        self._stopped = threading.Event()
        self._outbound: OutboundCall | None = None

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """What the server counted; estimated until it says so."""

    @property
    def num_pieces(self) -> int:
        """How many deltas it emitted."""
        return 0

    @abstractmethod
    def _read(self, answer: Answer, started_ts: float) -> Finished | Failed | Trouble:
        """Take what comes of a good answer; raises UnreadableError, ToldError, or as `Answer`."""

    @abstractmethod
    def _begin(self) -> None:
        """Before each try: nothing of an earlier one counts."""

    @property
    def _has_text(self) -> bool:
        """Whether a reader has seen something of it, so that it can't be tried again."""
        return False

    def run(self) -> None:
        """Ask until there is an end."""
        try:
            end = self._end()
        except Exception:
            log.exception("a call to the upstream server failed")
            end = Failed("engine_failed", "the engine failed on this request", retryable=True)
        if self._stopped.is_set():
            return
        if isinstance(end, Failed):
            end = replace(end, usage=self.usage)
        self._emit(self, [end])

    def cut(self) -> None:
        """End it now, from any thread; nothing more is emitted that matters."""
        self._stopped.set()
        outbound = self._outbound
        if outbound is not None:
            outbound.cut()

    def _end(self) -> Finished | Failed:
        patience = Patience()
        while True:
            end = self._attempt()
            if not isinstance(end, Trouble):
                return end
            pause_s = patience.pause_s(end)
            if pause_s is None or pause_s > self._left_s or self._has_text:
                return end.failure
            if self._stopped.wait(pause_s):
                return end.failure

    @property
    def _left_s(self) -> float:
        return self._sent.deadline_at - self._clock.wall()

    def _attempt(self) -> Finished | Failed | Trouble:
        """Ask once. Trouble comes only while no reader has seen text."""
        if self._left_s <= 0:
            return OVERDUE
        self._begin()
        started_ts = self._clock.monotonic()
        self._outbound = self._link.post(self._sent, total_s=self._left_s)
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
            return trouble.failure if self._has_text else trouble
        except UnreadableError as error:
            self._log(str(error))
            return UNREADABLE
        except LlamawebError as error:
            return self._broken(error)

    def _refused(self, answer: Answer) -> Trouble:
        """What a status other than 200 means."""
        body = b""
        with contextlib.suppress(LlamawebError):  # the status says enough
            body = answer.start(MAX_ERROR_BYTES)
        now_at = self._clock.wall()
        trouble = trouble_of_status(answer.status, answer.headers, body, now_at=now_at)
        self._log("it refuses", trouble)
        if trouble.reason:
            self._health.bad(trouble.reason, is_refusal=trouble.retry == "never")
        return trouble

    def _broken(self, error: LlamawebError) -> Failed | Trouble:
        """There was no answer, or it broke off before a reader has seen text."""
        trouble = trouble_of_exception(error)
        if self._stopped.is_set():
            return BROKE_OFF
        self._log("the connection failed", trouble)
        if trouble.reason:
            self._health.bad(trouble.reason, is_refusal=False)
        return trouble

    def _log(self, what: str, trouble: Trouble | None = None) -> None:
        code = trouble.failure.code if trouble else "engine_failed"
        status = trouble.status if trouble else 0
        log.warning(
            "generation %s: upstream: %s (%s, status %d)",
            self.generation_id, what, code, status,
        )  # fmt: skip


Emit: TypeAlias = Callable[[Call, Sequence[Event]], None]
