"""The cast before the API: what there is, and how each of them asks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from conversations import services
from conversations.models import Conversation, Turn
from inference.models import Generation
from llamaweb.accounts.services import api_key_create, api_key_revoke
from tests.conversations.driving import say

API = "/api/app/"


class Person:
    """A browser: its session, and the CSRF token as the app sends it."""

    def __init__(self, user: Any = None, *, csrf: bool = True) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.headers: dict[str, str] = {}
        if user is not None:
            self.client.force_login(user)
        if csrf:
            token = "a" * 32
            self.client.cookies["llamaweb_csrf"] = token
            self.headers["X-CSRFToken"] = token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The response; `body` is JSON, bytes are sent as they are."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        return self.client.generic(
            method,
            path if path.startswith("/") else API + path,
            raw,
            content_type="application/json",
            headers={**self.headers, **headers},
        )

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """The body of a good answer."""
        response = self.ask(method, path, body)
        assert response.status_code in (200, 201), response.content
        return response.json()


@dataclass
class World:
    """`turn`: ended by accident, so that it can be retried; `going`: still being written.
    `deleted`: a conversation of alice's that she may restore."""

    alice: Any
    bob: Any
    carol: Any
    chat: Conversation
    turn: Turn
    going: Turn
    deleted: Conversation
    key_id: int

    def share(self, can_write: bool) -> None:
        services.share_grant(
            user=self.alice, conversation_id=self.chat.id, to=self.bob, can_write=can_write
        )


def make_world(alice: Any, bob: Any, carol: Any) -> World:
    """All of it is alice's."""
    chat = services.conversation_create(user=alice, title="alice's secret")
    turn = say(alice, chat, "a secret question")
    Generation.objects.filter(id=turn.generation_id).delete()
    assert services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    going = services.message_regenerate(user=alice, message_id=turn.user_message_id)
    deleted = services.conversation_create(user=alice, title="alice's deleted")
    services.conversation_delete(user=alice, conversation_id=deleted.id)
    key, _ = api_key_create(user=alice, name="alice's key")
    return World(alice, bob, carol, chat, turn, going, deleted, key.pk)


def key_of(user: Any, *, is_revoked: bool = False) -> str:
    """A key that did or does work for the OpenAI routes."""
    key, raw = api_key_create(user=user, name="for the access tests")
    if is_revoked:
        api_key_revoke(key=key)
    return raw
