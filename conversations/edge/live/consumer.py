"""The WebSocket at /api/app/socket: frames in, frames out; what they do is `Live`'s matter."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

import pydantic
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.http import parse_cookie
from pydantic import TypeAdapter

from conversations.edge.errors import error_out, invalid_from
from conversations.edge.live.bounds import (
    FRAMES_BURST,
    FRAMES_PER_S,
    HELLO_S,
    MAX_BAD_FRAMES,
    MAX_FRAME_BYTES,
)
from conversations.edge.live.closing import CloseCode, FrameTooLargeError, close_code_for
from conversations.edge.live.connection import Live
from conversations.edge.live.frames import Ack, ClientFrame, ErrorFrame, Hello, Ping, PongFrame
from conversations.edge.live.instruments import count_closed, count_opened, count_refused
from conversations.edge.live.origin import is_own_page
from conversations.edge.live.rate import Rate
from conversations.edge.live.sign_in import sign_in
from conversations.edge.live.tasks_end import tasks_end
from conversations.edge.live.watch import watch_here
from conversations.edge.live.window import Window
from conversations.edge.session_auth import SIGNED_OUT
from llamaweb.lib.errors import (
    AuthenticationError,
    BusyError,
    DeadlineError,
    InvalidError,
    LlamawebError,
    UnavailableError,
)

CLIENT_FRAME: Final[TypeAdapter[ClientFrame]] = TypeAdapter(ClientFrame)
NO_STATUS: Final = 1006  # of a connection that was just gone

log = logging.getLogger(__name__)


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One socket. Nothing here waits for the database or for a slow client."""

    live: Live | None = None
    window: Window
    hello_timer: asyncio.TimerHandle | None = None
    ender: asyncio.Task[None] | None = None
    num_bad = 0
    code = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """The socket's life. Channels would also listen to the channel layer here, and end the
        socket when its server is away; the Watch listens for all."""
        self.scope, self.base_send = scope, send
        self.rate = Rate(FRAMES_PER_S, FRAMES_BURST)
        try:
            with contextlib.suppress(StopConsumer):
                while True:
                    await self.dispatch(await receive())
        finally:
            await self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """As Channels does it, without a hop into a thread for each message."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def websocket_connect(self, message: dict[str, Any]) -> None:
        """Refuse foreign pages; let a page of ours know why it is refused."""
        if not is_own_page(self.scope, is_needed=True):
            count_refused("origin")
            await self.close(code=CloseCode.ORIGIN)
            return
        await self.accept()
        count_opened("socket")
        try:
            await self._begin()
        except Exception as error:
            if not isinstance(error, LlamawebError | DatabaseError):
                log.exception("a socket could not begin")
            away = UnavailableError("the database can't be reached")
            await self._end(away if isinstance(error, DatabaseError) else error)

    async def _begin(self) -> None:
        cookies = dict(self.scope["headers"]).get(b"cookie", b"").decode("latin-1")
        found = await sign_in(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, ""))
        if found is None:
            raise AuthenticationError(SIGNED_OUT)
        self.window = Window(self._write)
        live = Live(found, watch_here(), self.window.send)
        live.start()
        self.live = live
        late = DeadlineError(f"no hello within {HELLO_S:g} s")
        self.hello_timer = asyncio.get_running_loop().call_later(HELLO_S, live.end, late)
        self.ender = asyncio.create_task(self._end_when_told(live), name="live-end")

    async def websocket_disconnect(self, message: dict[str, Any]) -> None:
        """The client is gone."""
        self.code = self.code or int(message.get("code") or NO_STATUS)
        raise StopConsumer

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A frame of the client's."""
        if self.live is None or self.live.ended.done():
            return
        try:
            await self._take(self.live, text_data)
        except FrameTooLargeError as error:
            self.live.end(error)
        except DeadlineError:
            return  # the window has ended it
        except BusyError as error:
            self.live.end(error)
        except InvalidError as error:
            await self._refuse(self.live, error)

    async def _take(self, live: Live, text: str | None) -> None:
        if not self.rate.take():
            count_refused("frames")
            raise BusyError("too many frames", reason="frames", retry_after_s=1.0)
        if text is None:
            raise InvalidError("frames are text, not bytes")
        if len(text) > MAX_FRAME_BYTES:
            count_refused("frame_bytes")
            raise FrameTooLargeError(f"a frame holds at most {MAX_FRAME_BYTES} bytes")
        frame = frame_parse(text)
        if self.hello_timer is not None:
            if not isinstance(frame, Hello):
                raise InvalidError("the first frame must be hello", param="type")
            self.hello_timer.cancel()
            self.hello_timer = None
        if isinstance(frame, Ack):
            self.window.ack(frame.n)
        elif isinstance(frame, Ping):
            await live.send_urgent(PongFrame())
        else:
            await live.take(frame)

    async def _refuse(self, live: Live, error: InvalidError) -> None:
        count_refused("bad_frames")
        self.num_bad += 1
        with contextlib.suppress(DeadlineError):
            await live.send_urgent(ErrorFrame(error=error_out(error)))
        if self.num_bad >= MAX_BAD_FRAMES:
            live.end(error)

    async def _write(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})

    async def _end_when_told(self, live: Live) -> None:
        error = await live.ended
        await self._end(error)

    async def _end(self, error: Exception) -> None:
        """Close; the client's answer to that ends the consumer."""
        self.code = close_code_for(error)
        await self.close(code=int(self.code))
        if self.live is not None:
            await self.live.close()

    async def _leave(self) -> None:
        if self.hello_timer is not None:
            self.hello_timer.cancel()
        await tasks_end([self.ender])
        if self.live is not None:
            await self.live.close()
        if self.code != CloseCode.ORIGIN:
            count_closed("socket", self.code or NO_STATUS)


def frame_parse(text: str) -> ClientFrame:
    """A client's frame.

    Raises:
        InvalidError: not JSON, no such type, or a field is wrong; names the field.
    """
    try:
        return CLIENT_FRAME.validate_json(text)
    except pydantic.ValidationError as error:
        findings = error.errors(include_input=False, include_url=False, include_context=False)
        raise invalid_from(findings, skip=1 if len(findings[0]["loc"]) > 1 else 0) from None
