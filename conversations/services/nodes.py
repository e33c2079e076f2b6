"""Adding messages to a locked conversation, and answers with their turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone

from conversations.changes import MAX_MESSAGES
from conversations.models import OPEN_STATES, Conversation, Message, Turn
from conversations.models.conversation import CLIENT_KEY_LEN
from conversations.parts import AttachmentPart, Part, parts_check, parts_to_json
from conversations.tree import Node, Tree
from conversations.turns.prompt import prompt_of
from conversations.turns.runner import turn_begin
from inference import api
from inference.api import ModelInfo
from inference.protocol.accounts import Account
from inference.protocol.params import ContextParams, SamplingParams
from inference.protocol.requests import AnswerParams, ChatPrompt, GenerateRequest, ReplyInfo
from llamaweb.accounts.caller import owner_key_of
from llamaweb.lib.errors import BusyError, InvalidError
from llamaweb.lib.ids import new_id, new_seed

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

ON_FINISH = "turn_advance"
MAX_OPEN_TURNS = 4  # of one conversation, on different branches
MAX_OPEN_TURNS_PER_USER = 32
RETRY_AFTER_S = 5.0


def tree_of(conversation: Conversation) -> Tree:
    """The living messages of a conversation."""
    rows = conversation.messages.filter(deleted_at=None).values_list("id", "parent_id", "number")
    return Tree(Node(*row) for row in rows)


def parts_from_person(parts: Sequence[Part]) -> list[dict[str, object]]:
    """A person's message as it is stored.

    Raises:
        InvalidError: out of bounds, or attachments, which can't be uploaded yet.
    """
    parts_check(parts)
    for index, part in enumerate(parts):
        if isinstance(part, AttachmentPart):
            raise InvalidError("there is no such attachment", param=f"parts[{index}].attachment_id")
    return parts_to_json(parts)


def message_add(
    conversation: Conversation,
    *,
    parent: Message | None,
    role: Message.Role,
    parts: list[dict[str, object]],
    revision: int,
    number: int,
    state: Message.State = Message.State.DONE,
    model_name: str = "",
) -> Message:
    """Store a message of a locked conversation.

    Raises:
        InvalidError: the conversation is full.
    """
    if number > MAX_MESSAGES:
        raise InvalidError(f"a conversation holds at most {MAX_MESSAGES} messages; start another")
    return Message.objects.create(
        conversation=conversation,
        parent=parent,
        number=number,
        role=role,
        parts=parts,
        state=state,
        revision=revision,
        model_name=model_name,
        created_at=timezone.now(),
    )


def refuse_streaming(message: Message) -> None:
    """An answer that is being written can't be followed or changed.

    Raises:
        BusyError: it is being written.
    """
    if message.state == Message.State.STREAMING:
        raise BusyError(
            "this answer is still being written; wait for it or stop it",
            reason="turn_open",
            retry_after_s=RETRY_AFTER_S,
        )


def client_key_check(client_key: str) -> None:
    """A client's name for its request.

    Raises:
        InvalidError: the key is too long, or no printable ASCII.
    """
    if len(client_key) > CLIENT_KEY_LEN or not (client_key.isascii() and client_key.isprintable()):
        raise InvalidError(
            f"client_key must have at most {CLIENT_KEY_LEN} printable ASCII characters",
            param="client_key",
        )


def turn_known(conversation: Conversation, user: User, client_key: str) -> Turn | None:
    """The turn that this request of a client made before.

    Raises:
        InvalidError: as of `client_key_check`.
    """
    client_key_check(client_key)
    if not client_key:
        return None
    turns = Turn.objects.filter(conversation=conversation, started_by=user, client_key=client_key)
    turn = turns.select_related("answer", "user_message").first()
    if turn is not None:
        turn.conversation = conversation
    return turn


def refuse_too_many(conversation: Conversation, user: User) -> None:
    """Bounds of open turns. The one of a user is soft: two requests may pass it at once.

    Raises:
        BusyError: too many answers are being written.
    """
    here = conversation.turns.filter(state__in=OPEN_STATES).count()
    if here >= MAX_OPEN_TURNS:
        raise BusyError(
            f"{MAX_OPEN_TURNS} answers are being written in this conversation; stop one first",
            reason="conversation_turns",
            retry_after_s=RETRY_AFTER_S,
        )
    if Turn.objects.filter(started_by=user, state__in=OPEN_STATES).count() >= (
        MAX_OPEN_TURNS_PER_USER
    ):
        raise BusyError(
            f"{MAX_OPEN_TURNS_PER_USER} of your answers are being written; stop one first",
            reason="user_turns",
            retry_after_s=RETRY_AFTER_S,
        )


def answer_begin(
    conversation: Conversation,
    *,
    user: User,
    user_message: Message,
    model: ModelInfo,
    revision: int,
    number: int,
    client_key: str = "",
    retry_of: Turn | None = None,
) -> Turn:
    """An empty answer to `user_message`, its turn and its generation."""
    path = tree_of(conversation).path(user_message.id)
    rows = conversation.messages.in_bulk(path)
    prompt = prompt_of(rows[message_id] for message_id in path)
    request = request_for(user, model, prompt, conversation_id=conversation.id)
    answer = message_add(
        conversation,
        parent=user_message,
        role=Message.Role.ASSISTANT,
        parts=[],
        state=Message.State.STREAMING,
        revision=revision,
        number=number,
        model_name=model.name,
    )
    return turn_begin(
        conversation=conversation,
        user=user,
        user_message=user_message,
        answer=answer,
        request=request,
        revision=revision,
        client_key=client_key,
        retry_of=retry_of,
    )


def request_for(
    user: User, model: ModelInfo, prompt: ChatPrompt, *, conversation_id: str
) -> GenerateRequest:
    """An owned generation in the name of whoever asks: their fairness, their cache scope. Its
    reasoning may be ended under its own id, where the engine is ours."""
    now, generation_id = time.time(), new_id("gen-")
    return GenerateRequest(
        generation_id=generation_id,
        model=model.name,
        owner_key=owner_key_of(user.pk),
        cache_scope=f"user:{user.pk}",
        prompt=model.chat.fill(prompt),
        seed=new_seed(),
        submitted_at=now,
        deadline_at=now + settings.REQUEST_TIMEOUT_S,
        sampling=SamplingParams(**model.sampling),
        context=ContextParams(conversation=str(conversation_id)),
        on_finish=ON_FINISH,
        keep=True,
        account=Account(user.pk, family="chat").text(),
        reply=ReplyInfo(reply_id=generation_id),
        answer=AnswerParams(reasoning_control=model.can_end_reasoning),
    )


def model_for(user: User, conversation: Conversation, model_name: str | None) -> ModelInfo:
    """The model that answers `user`: the one asked for, the conversation's, or the default.

    Raises:
        NotFoundError: there is no such model, or not for this user.
        WrongModelError: it writes no answers.
        UnavailableError: none is configured.
    """
    info = api.model_resolve_for_now(user.pk, model_name or conversation.model_name or None)
    api.refuse_other_task(info, "answers")
    return info
