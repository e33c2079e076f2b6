"""One case for each route; `test_access` fails for a route that has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from llamaweb.api import app_api
from llamaweb.app_schema import PATH_PREFIX, app_schema
from tests.app_api.world import World

TEXT = [{"type": "text", "text": "hello"}]
# read, write, own: of alice's conversation. private: of alice's, absent for everybody else.
# self: everybody has their own. stream: as self, but goes on; tests/live opens it.
Needs = Literal["read", "write", "own", "private", "self", "stream"]


@dataclass(frozen=True)
class Case:
    """`ids`: what stands in the address."""

    needs: Needs
    ok: int = 200
    ids: Callable[[World], dict[str, Any]] = lambda world: {}
    body: Callable[[World], dict[str, Any] | None] = lambda world: None

    def url(self, template: str, world: World) -> str:
        return template.format(**self.ids(world))


def _chat(world: World) -> dict[str, Any]:
    return {"id": world.chat.id}


def _question(world: World) -> dict[str, Any]:
    return {"id": world.turn.user_message_id}


CASES: dict[str, Case] = {
    "GET /api/app/me": Case("self"),
    "GET /api/app/models": Case("self"),
    "GET /api/app/live": Case("stream"),
    "GET /api/app/conversations": Case("self"),
    "POST /api/app/conversations": Case("self", 201, body=lambda world: {"title": "new"}),
    "GET /api/app/conversations/{id}": Case("read", ids=_chat),
    "GET /api/app/conversations/{id}/changes": Case("read", ids=_chat),
    "PATCH /api/app/conversations/{id}": Case(
        "write", ids=_chat, body=lambda world: {"title": "new"}
    ),
    "DELETE /api/app/conversations/{id}": Case("own", ids=_chat),
    "POST /api/app/conversations/{id}/restore": Case(
        "private", ids=lambda world: {"id": world.deleted.id}
    ),
    "PUT /api/app/conversations/{id}/leaf": Case(
        "write", ids=_chat, body=lambda world: {"message_id": world.turn.answer_id}
    ),
    "POST /api/app/turns": Case(
        "write",
        201,
        body=lambda world: {
            "conversation_id": world.chat.id,
            "parent_id": world.turn.answer_id,
            "parts": TEXT,
        },
    ),
    "POST /api/app/turns/{id}/stop": Case("write", ids=lambda world: {"id": world.going.id}),
    "POST /api/app/turns/{id}/answer-now": Case("write", ids=lambda world: {"id": world.going.id}),
    "POST /api/app/turns/{id}/retry": Case(
        "write", ids=lambda world: {"id": world.turn.id}, body=lambda world: {}
    ),
    "POST /api/app/messages/{id}/regenerate": Case("write", ids=_question, body=lambda world: {}),
    "POST /api/app/messages/{id}/edit": Case(
        "write", ids=_question, body=lambda world: {"parts": TEXT}
    ),
    "DELETE /api/app/messages/{id}": Case("write", ids=_question),
    "PATCH /api/app/preferences": Case("self", body=lambda world: {"theme": "dark"}),
    "GET /api/app/keys": Case("self"),
    "POST /api/app/keys": Case("self", 201, body=lambda world: {"name": "new"}),
    "DELETE /api/app/keys/{key_id}": Case(
        "private", 204, ids=lambda world: {"key_id": world.key_id}
    ),
    "POST /api/app/password": Case(
        "self", 204, body=lambda world: {"current": "password", "new": "correct horse battery"}
    ),
    "GET /api/app/sessions": Case("self"),
    "DELETE /api/app/sessions": Case("self"),
    "DELETE /api/app/sessions/{session_id}": Case(
        "private", ids=lambda world: {"session_id": alice_session(world)}
    ),
}
QUERIES = {"GET /api/app/conversations/{id}/changes": "?since=0"}


def alice_session(world: World) -> int:
    """A session of alice's, as the list of her devices knows it."""
    from tests.app_api.world import Person

    person = Person(world.alice)
    sessions = person.json("GET", "sessions")["sessions"]
    return next(int(session["id"]) for session in sessions if session["is_current"])


def operations() -> list[str]:
    """All routes that there are, as "METHOD path"; also those that the document leaves out."""
    documented = {
        f"{method.upper()} {path}"
        for path, methods in app_schema()["paths"].items()
        for method in methods
    }
    hidden = {
        f"{method} {PATH_PREFIX}{path.strip('/')}"
        for _, router in app_api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        if not operation.include_in_schema
        for method in operation.methods
    }
    return sorted(documented | hidden)
