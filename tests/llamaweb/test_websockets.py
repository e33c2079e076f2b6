"""WebSockets reach Channels; foreign origins don't."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

# Channels closes old connections of its thread, whether they were used or not.
pytestmark = pytest.mark.django_db(transaction=True)


async def answer(origin: str | None) -> dict[str, Any]:
    """How the application answers a handshake at an address nobody serves."""
    from llamaweb.asgi import application

    headers = [(b"host", b"testserver")]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    scope = {"type": "websocket", "path": "/ws", "headers": headers, "client": ["192.0.2.1", 1]}
    talk = ApplicationCommunicator(application, {**scope, "query_string": b"", "subprotocols": []})
    await talk.send_input({"type": "websocket.connect"})
    found: dict[str, Any] = await talk.receive_output(timeout=10)
    await talk.send_input({"type": "websocket.disconnect", "code": 1006})
    await talk.wait(timeout=10)
    return found


async def test_an_unknown_address_is_closed_with_its_code() -> None:
    found = await answer("http://testserver")
    assert (found["type"], found["code"]) == ("websocket.close", 4404)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
async def test_a_foreign_origin_does_not_even_get_there(origin: str | None) -> None:
    found = await answer(origin)
    assert found["type"] == "websocket.close"
    assert found.get("code") != 4404
