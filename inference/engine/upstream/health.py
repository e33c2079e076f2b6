"""Whether the other server can be reached and takes our key; what it says of the model."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from inference.engine.upstream.failures import (
    MAX_ERROR_BYTES,
    Trouble,
    trouble_of_exception,
    trouble_of_status,
)
from inference.engine.upstream.link import Link
from llamaweb.lib.clock import Clock
from llamaweb.lib.errors import LlamawebError

log = logging.getLogger(__name__)

HEALTHY_LOOK_S = 60.0  # without a call that went well meanwhile
MIN_LOOK_S, MAX_LOOK_S = 1.0, 30.0  # while there is trouble; doubled each time
MAX_LIST_BYTES = 8 * 1024 * 1024
# Where servers say how long prompt and answer may be together.
CONTEXT_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window")
MAX_CONTEXT = 2**31 - 1


class Health:
    """Looks at the list of models from a thread of its own, often while there is trouble.

    `on_trouble(reason)` is told each change, "" when all is well. A key that a call was refused
    with is right again only when a call went well: some servers show their models to everybody.
    """

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._lock = threading.Lock()
        self._reason = ""
        self._is_refusal = False
        self._good_ts = clock.monotonic()
        self._on_trouble: Callable[[str], None] = lambda _reason: None
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upstream-health", daemon=True)

    def start(self, on_trouble: Callable[[str], None]) -> None:
        """Go on looking until `close`."""
        self._on_trouble = on_trouble
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stopping.set()
        self._changed.set()

    def good(self) -> None:
        """A call went well."""
        self._good_ts = self._clock.monotonic()
        self._set("", is_refusal=False)

    def bad(self, reason: str, *, is_refusal: bool) -> None:
        """A call didn't, for a `reason` that isn't the request's."""
        self._set(reason, is_refusal=is_refusal)

    def look(self) -> tuple[Trouble | None, bytes]:
        """Ask once: what is wrong, or None and the list of models as it came."""
        try:
            with self._link.models().open() as answer:
                if answer.status == 200:
                    return None, answer.start(MAX_LIST_BYTES)
                body = answer.start(MAX_ERROR_BYTES)
        except LlamawebError as error:
            return trouble_of_exception(error), b""
        if answer.status in (404, 405, 501):
            return None, b""  # it has no such list, but it is there
        now_at = self._clock.wall()
        trouble = trouble_of_status(answer.status, answer.headers, body, now_at=now_at)
        return trouble, b""

    def _run(self) -> None:
        pause_s = MIN_LOOK_S
        while not self._stopping.is_set():
            is_bad = bool(self._reason)
            self._changed.wait(pause_s if is_bad else HEALTHY_LOOK_S)
            if self._changed.is_set():  # another state, another pace
                self._changed.clear()
                pause_s = MIN_LOOK_S
                continue
            pause_s = min(MAX_LOOK_S, 2 * pause_s)
            if is_bad or self._clock.monotonic() - self._good_ts >= HEALTHY_LOOK_S:
                self._look_again()

    def _look_again(self) -> None:
        trouble, _ = self.look()
        if trouble is not None:
            reason = trouble.reason or "the upstream server doesn't answer as it should"
            self._set(reason, is_refusal=self._is_refusal)
        elif not self._is_refusal:
            self._set("", is_refusal=False)

    def _set(self, reason: str, *, is_refusal: bool) -> None:
        with self._lock:
            is_new = reason != self._reason
            self._reason, self._is_refusal = reason, is_refusal
        if is_new:
            log.warning("upstream: %s", reason or "all is well again")
            self._changed.set()
            self._on_trouble(reason)


def context_in(listing: bytes, model: str) -> int:
    """How many tokens the server says that `model` holds; 0 if it doesn't."""
    try:
        data = json.loads(listing)
    except (ValueError, RecursionError):
        return 0
    entries = data.get("data") if isinstance(data, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and model in (entry.get("id"), *_aliases(entry)):
            return _context_of(entry)
    return 0


def _aliases(entry: Mapping[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return aliases if isinstance(aliases, list) else []


def _context_of(entry: Mapping[str, Any]) -> int:
    meta = entry.get("meta")
    told = [meta.get("n_ctx")] if isinstance(meta, dict) else []
    told += [entry.get(name) for name in CONTEXT_FIELDS]
    return next((v for v in told if type(v) is int and 0 < v <= MAX_CONTEXT), 0)
