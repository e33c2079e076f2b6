"""GET /api/app/live: the server's frames as server-sent events, where WebSockets don't get through.

The address says what a socket's client would say in `hello` and `open`. Nothing is acknowledged;
acts go through REST. A stream that is over says why in its last frame, or the client's next try is
refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic
from django.conf import settings
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router
from pydantic import TypeAdapter

from conversations.edge.errors import error_out, invalid_from
from conversations.edge.live.bounds import MAX_OPEN, STALL_S
from conversations.edge.live.closing import close_code_for
from conversations.edge.live.connection import Live
from conversations.edge.live.frames import (
    MAX_CURSORS,
    Cursor,
    ErrorFrame,
    GenerationId,
    Hello,
    Numbered,
    Open,
)
from conversations.edge.live.instruments import count_closed, count_opened, count_refused
from conversations.edge.live.origin import is_own_page
from conversations.edge.live.sign_in import SignIn, sign_in
from conversations.edge.live.watch import watch_here
from conversations.edge.session_auth import SIGNED_OUT
from llamaweb.lib.errors import (
    AuthenticationError,
    DeadlineError,
    FailedError,
    ForbiddenError,
    InvalidError,
    LlamawebError,
    UnavailableError,
)
from llamaweb.lib.event_stream import CONTENT_TYPE, HEADERS, PING, event

MAX_WAITING_FRAMES: Final = 16  # between the connection's tasks and the response
GONE: Final = 1006
LONG_ENOUGH: Final = "a stream ends after a while; connect again"

CURSORS: Final = TypeAdapter(dict[GenerationId, Cursor])

router = Router(tags=["live"])


@dataclass
class Wanted:
    """What the address asks for."""

    hello: Hello
    opens: list[Open] = field(default_factory=list)


@router.get("/live", include_in_schema=False)
async def live(request: HttpRequest) -> StreamingHttpResponse:
    """The stream of everything that happens in the caller's list and the open conversations.

    Raises:
        ForbiddenError: a page of another origin asks.
        AuthenticationError: nobody is signed in.
        InvalidError: a parameter is wrong.
    """
    scope = getattr(request, "scope", None)
    if scope is not None and not is_own_page(scope, is_needed=False):
        count_refused("origin")
        raise ForbiddenError("only this server's own pages may follow its live stream")
    wanted = wanted_from(request)
    found = await sign_in(request.COOKIES.get(settings.SESSION_COOKIE_NAME, ""))
    if found is None:
        raise AuthenticationError(SIGNED_OUT)
    return StreamingHttpResponse(
        EventStream(_events(found, wanted, settings.SSE_PING_S, settings.REQUEST_TIMEOUT_S)),
        content_type=CONTENT_TYPE,
        headers=HEADERS,
    )


def wanted_from(request: HttpRequest) -> Wanted:
    """`feed=N`, `open=<conversation>@<revision or ->`, `cursor=<generation>@<cursor>`.

    Raises:
        InvalidError: one of them is wrong, or there are too many.
    """
    opens, cursors = request.GET.getlist("open"), request.GET.getlist("cursor")
    if len(opens) > MAX_OPEN:
        raise InvalidError(f"at most {MAX_OPEN} conversations can be open", param="open")
    if len(cursors) > MAX_CURSORS * MAX_OPEN:
        raise InvalidError(f"at most {MAX_CURSORS * MAX_OPEN} cursors", param="cursor")
    try:
        wanted = Wanted(Hello(type="hello", feed=_number(request.GET.get("feed"), "feed")))
        for text in opens:
            conversation_id, revision = _pair(text, "open")
            number = _number(None if revision == "-" else revision, "open")
            wanted.opens.append(Open(type="open", conversation_id=conversation_id, revision=number))
        places = CURSORS.validate_python(dict(_pair(cursor, "cursor") for cursor in cursors))
    except pydantic.ValidationError as error:
        raise invalid_from(error.errors(include_input=False, include_url=False)) from None
    for one in wanted.opens:  # whichever follows a generation takes its cursor
        one.cursors = places
    return wanted


def _pair(text: str, param: str) -> tuple[str, str]:
    head, at, tail = text.rpartition("@")
    if not at:
        raise InvalidError("must have the form ID@PLACE", param=param)
    return head, tail


def _number(text: str | None, param: str) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidError("a revision is a number", param=param)
    return int(text)


class _Outlet:
    """Numbers frames and hands them to the response."""

    def __init__(self) -> None:
        self.bodies: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING_FRAMES)
        self._lock = asyncio.Lock()
        self._n = 0

    async def send(self, frame: Numbered, *, urgent: bool = False) -> None:
        """Waits while the response is slow.

        Raises:
            DeadlineError: nothing moves.
        """
        try:
            async with asyncio.timeout(STALL_S), self._lock:
                frame.n = self._n + 1
                await self.bodies.put(frame.model_dump_json().encode())
                self._n += 1
        except TimeoutError:
            raise DeadlineError(f"nothing was taken in for {STALL_S:g} s") from None

    def last(self, error: Exception) -> bytes:
        """The frame that says why it is over."""
        shown = error if isinstance(error, LlamawebError) else FailedError("the server failed")
        self._n += 1
        return event(ErrorFrame(n=self._n, error=error_out(shown)).model_dump_json().encode())


class EventStream:
    """A response's content that ends with the response: Django calls `close`, from any thread,
    but leaves a generator that waits between two chunks to the garbage collector."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    def close(self) -> None:
        """The client is gone, or all was sent."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._close_soon)

    def _close_soon(self) -> None:
        task = self._loop.create_task(self._events.aclose(), name="live-sse-close")
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()  # the loop keeps only weak references


async def _events(
    found: SignIn, wanted: Wanted, ping_s: float, life_s: float
) -> AsyncGenerator[bytes, None]:
    """`life_s`: the web server would cut the response soon after, without a last frame."""
    loop = asyncio.get_running_loop()
    until_ts = loop.time() + life_s
    yield PING  # the head goes out with the first bytes
    outlet = _Outlet()
    live = Live(found, watch_here(), outlet.send)  # not before: the Watch ends with its last one
    timer = loop.call_at(until_ts, live.end, UnavailableError(LONG_ENOUGH))
    code = GONE
    count_opened("sse")
    try:
        try:
            live.start()
            await live.take(wanted.hello)
            for one in wanted.opens:
                await live.take(one)
        except LlamawebError as error:
            code = close_code_for(error)
            yield outlet.last(error)
            return
        async for data in _chunks(live, outlet, ping_s):
            yield data
        reason = live.ended.result()
        code = close_code_for(reason)
        yield outlet.last(reason)
    finally:
        timer.cancel()
        count_closed("sse", code)
        await live.close()


async def _chunks(live: Live, outlet: _Outlet, ping_s: float) -> AsyncIterator[bytes]:
    """What is sent until the connection is to end."""
    while not live.ended.done():
        getter = asyncio.ensure_future(outlet.bodies.get())
        try:
            waits: set[asyncio.Future[Any]] = {getter, live.ended}
            await asyncio.wait(waits, timeout=ping_s, return_when=asyncio.FIRST_COMPLETED)
            if not getter.done():
                if not live.ended.done():
                    yield PING
                continue
            data = event(getter.result())
            with contextlib.suppress(asyncio.QueueEmpty):
                while True:
                    data += event(outlet.bodies.get_nowait())
            yield data
        finally:
            getter.cancel()
