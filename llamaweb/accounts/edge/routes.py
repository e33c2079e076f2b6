"""What a person may change about their own account; mounted, with a session's authentication,
by `llamaweb.api`. All of it is about the one who asks: others' keys and sessions don't exist here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest, HttpResponse
from ninja import Router

from llamaweb.accounts.database import in_database
from llamaweb.accounts.edge.mappers import key_out, preferences_out, session_out
from llamaweb.accounts.edge.replies import empty_reply, json_reply, user_of
from llamaweb.accounts.edge.schemas import (
    Ended,
    KeyCreated,
    KeyIn,
    KeyList,
    PasswordIn,
    PreferencesIn,
    PreferencesOut,
    SessionList,
)
from llamaweb.accounts.language import language_remember
from llamaweb.accounts.password_services import password_change
from llamaweb.accounts.selectors import api_key_of, api_keys_of
from llamaweb.accounts.services import MAX_KEYS_PER_USER, api_key_create, api_key_revoke
from llamaweb.accounts.session_services import session_end, sessions_end, sessions_list
from llamaweb.accounts.user_services import preferences_set
from llamaweb.lib.errors import NotFoundError

T = TypeVar("T")

router = Router(tags=["account"])


def _address(request: HttpRequest) -> str | None:
    return request.META.get("REMOTE_ADDR")


async def _in_database(function: Callable[[], T]) -> T:
    return await in_database(function)()


@router.patch("/preferences", response=PreferencesOut, summary="Change theme and language")
async def preferences_change(request: HttpRequest, body: PreferencesIn) -> HttpResponse:
    """The language goes into a cookie, too: pages before the login speak it as well."""
    user = await _in_database(
        lambda: preferences_set(user=user_of(request), theme=body.theme, language=body.language)
    )
    response = json_reply(preferences_out(user))
    if body.language is not None:
        language_remember(response, user.language)
    return response


@router.get("/keys", response=KeyList, summary="List own API keys")
async def key_list(request: HttpRequest) -> HttpResponse:
    """All that work, and the newest that don't any more."""
    keys = await _in_database(lambda: api_keys_of(user_of(request)))
    return json_reply(KeyList(keys=[key_out(key) for key in keys], max_keys=MAX_KEYS_PER_USER))


@router.post("/keys", response={201: KeyCreated}, summary="Make an API key")
async def key_create(request: HttpRequest, body: KeyIn) -> HttpResponse:
    """The only time its secret is shown."""

    def create() -> KeyCreated:
        user = user_of(request)
        key, secret = api_key_create(
            user=user,
            name=body.name,
            scopes=body.scopes,
            model_names=body.models,
            expires_at=body.expires_at,
            actor=user,
            address=_address(request),
        )
        return KeyCreated(key=key_out(key), secret=secret)

    return json_reply(await _in_database(create), 201)


@router.delete("/keys/{int:key_id}", response={204: None}, summary="Revoke an API key")
async def key_revoke(request: HttpRequest, key_id: int) -> HttpResponse:
    """At once; one that is revoked already stays so."""

    def revoke() -> None:
        user = user_of(request)
        key = api_key_of(user=user, key_id=key_id)
        api_key_revoke(key=key, actor=user, address=_address(request))

    await _in_database(revoke)
    return empty_reply()


@router.post("/password", response={204: None}, summary="Change the own password")
async def password(request: HttpRequest, body: PasswordIn) -> HttpResponse:
    """This session goes on under a new cookie, all others end."""
    await _in_database(lambda: password_change(request=request, current=body.current, new=body.new))
    return empty_reply()


@router.get("/sessions", response=SessionList, summary="List signed-in devices")
async def session_list(request: HttpRequest) -> HttpResponse:
    """The current one first."""

    def read() -> SessionList:
        current = request.session.session_key
        found = sessions_list(request)
        return SessionList(sessions=[session_out(session, current) for session in found])

    return json_reply(await _in_database(read))


@router.delete("/sessions/{int:session_id}", response=Ended, summary="Sign a device out")
async def session_delete(request: HttpRequest, session_id: int) -> HttpResponse:
    """The current one, too."""

    def end() -> Ended:
        num_ended = session_end(request=request, session_id=session_id)
        if not num_ended:
            raise NotFoundError("there is no such session")
        return Ended(num_ended=num_ended)

    return json_reply(await _in_database(end))


@router.delete("/sessions", response=Ended, summary="Sign all other devices out")
async def sessions_delete(request: HttpRequest) -> HttpResponse:
    """All but the current one."""

    def end() -> Ended:
        keep = request.session.session_key
        return Ended(
            num_ended=sessions_end(user=user_of(request), keep=keep, address=_address(request))
        )

    return json_reply(await _in_database(end))
