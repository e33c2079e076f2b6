"""REST of conversations, turns and messages; mounted, with authentication, by `llamaweb.api`.

Acts are those of `conversations.edge.acts`, with the id in the address.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router

from conversations import selectors
from conversations.edge.act_rate import act_take
from conversations.edge.acts import act_run
from conversations.edge.mappers import conversation_out, state_out
from conversations.edge.schemas import (
    ActResult,
    AgainIn,
    ConversationCreate,
    ConversationPage,
    ConversationState,
    EditIn,
    LeafIn,
    TitleIn,
    TurnStart,
)
from conversations.selectors import PAGE_LEN
from llamaweb.accounts.database import in_database
from llamaweb.accounts.edge.replies import json_of, json_reply, user_of

router = Router(tags=["chat"])
AGAIN = AgainIn()


@router.get("/conversations", response=ConversationPage, summary="List conversations")
async def conversation_list(
    request: HttpRequest, before: str = "", limit: int = PAGE_LEN
) -> HttpResponse:
    """The newest activity first; `before` is the `next` of the page before."""

    def read() -> bytes:
        page = selectors.conversation_page(user=user_of(request), before=before, limit=limit)
        rows = [conversation_out(view) for view in page.conversations]
        return json_of(ConversationPage(conversations=rows, next=page.next))

    return json_reply(await in_database(read)())


@router.post("/conversations", response={201: ActResult}, summary="Make a conversation")
async def conversation_create(request: HttpRequest, body: ConversationCreate) -> HttpResponse:
    """An empty one."""
    return await _act(request, "conversation.create", body.model_dump(), status=201)


@router.get("/conversations/{id}", response=ConversationState, summary="Read a conversation")
async def conversation_read(request: HttpRequest, id: str) -> HttpResponse:
    """All of it; with `has_more` its first part, and `changes` since `revision` have the rest."""

    def read() -> bytes:
        state = selectors.conversation_state(user=user_of(request), conversation_id=id)
        return json_of(state_out(state))

    return json_reply(await in_database(read)())


@router.get("/conversations/{id}/changes", response=ConversationState, summary="What changed since")
async def conversation_changes(request: HttpRequest, id: str, since: int) -> HttpResponse:
    """Rows that changed after the revision `since`."""

    def read() -> bytes:
        changes = selectors.conversation_changes(
            user=user_of(request), conversation_id=id, since=since
        )
        return json_of(state_out(changes))

    return json_reply(await in_database(read)())


@router.patch("/conversations/{id}", response=ActResult, summary="Rename")
async def conversation_rename(request: HttpRequest, id: str, body: TitleIn) -> HttpResponse:
    """Give a title that stays."""
    return await _act(request, "conversation.rename", {**body.model_dump(), "conversation_id": id})


@router.delete("/conversations/{id}", response=ActResult, summary="Delete a conversation")
async def conversation_delete(request: HttpRequest, id: str) -> HttpResponse:
    """Can be undone for a day."""
    return await _act(request, "conversation.delete", {"conversation_id": id})


@router.post("/conversations/{id}/restore", response=ActResult, summary="Undo a delete")
async def conversation_restore(request: HttpRequest, id: str) -> HttpResponse:
    """Bring it back."""
    return await _act(request, "conversation.restore", {"conversation_id": id})


@router.put("/conversations/{id}/leaf", response=ActResult, summary="Show another branch")
async def leaf_select(request: HttpRequest, id: str, body: LeafIn) -> HttpResponse:
    """The one that holds the message."""
    return await _act(request, "leaf.select", {**body.model_dump(), "conversation_id": id})


@router.post("/turns", response={201: ActResult}, summary="Ask something")
async def turn_start(request: HttpRequest, body: TurnStart) -> HttpResponse:
    """In a conversation, or in a new one."""
    return await _act(request, "turn.start", body.model_dump(), status=201)


@router.post("/turns/{id}/stop", response=ActResult, summary="Stop an answer")
async def turn_stop(request: HttpRequest, id: str) -> HttpResponse:
    """It keeps the text it has."""
    return await _act(request, "turn.stop", {"turn_id": id})


@router.post("/turns/{id}/answer-now", response=ActResult, summary="End the reasoning")
async def turn_answer_now(request: HttpRequest, id: str) -> HttpResponse:
    """The model answers with what it has thought so far."""
    return await _act(request, "turn.answer_now", {"turn_id": id})


@router.post("/turns/{id}/retry", response=ActResult, summary="Try an answer again")
async def turn_retry(request: HttpRequest, id: str, body: AgainIn = AGAIN) -> HttpResponse:
    """One that failed, was stopped or interrupted."""
    return await _act(request, "turn.retry", {**body.model_dump(), "turn_id": id})


@router.post("/messages/{id}/regenerate", response=ActResult, summary="Another answer")
async def message_regenerate(request: HttpRequest, id: str, body: AgainIn = AGAIN) -> HttpResponse:
    """Beside this one."""
    return await _act(request, "message.regenerate", {**body.model_dump(), "message_id": id})


@router.post("/messages/{id}/edit", response=ActResult, summary="Edit a message")
async def message_edit(request: HttpRequest, id: str, body: EditIn) -> HttpResponse:
    """As a sibling, or in place."""
    return await _act(request, "message.edit", {**body.model_dump(), "message_id": id})


@router.delete("/messages/{id}", response=ActResult, summary="Delete a message")
async def message_delete(request: HttpRequest, id: str) -> HttpResponse:
    """With all that follows it."""
    return await _act(request, "message.delete", {"message_id": id})


async def _act(
    request: HttpRequest, name: str, args: dict[str, object], *, status: int = 200
) -> HttpResponse:
    def act() -> ActResult:
        user = user_of(request)
        act_take(user)
        return act_run(user, name, args)

    return json_reply(await in_database(act)(), status)
