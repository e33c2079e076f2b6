"""Who gets what: alice owns, bob is shared with, carol and accounts that are off get nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from conversations import selectors, services
from conversations.access import access_conversation, access_message, access_turn
from conversations.models import Conversation, Share
from conversations.parts import TextPart
from llamaweb.lib.errors import ForbiddenError, NotFoundError
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
PARTS = (TextPart("x"),)


@pytest.fixture
def things(alice: Any, chat: Conversation, engine: Engine) -> dict[str, str]:
    """Ids of a conversation with one answered turn, which was stopped."""
    turn = say(alice, chat)
    services.turn_stop(user=alice, turn_id=turn.id)
    services.turn_advance(turn.generation_id)
    return {"conversation": chat.id, "message": turn.answer_id, "turn": turn.id}


def act(name: str, user: Any, ids: dict[str, str]) -> Any:
    """One of everything that takes an id."""
    conversation, message, turn = ids["conversation"], ids["message"], ids["turn"]
    acts: dict[str, Callable[[], Any]] = {
        "access_conversation": lambda: access_conversation(user, conversation),
        "access_message": lambda: access_message(user, message),
        "access_turn": lambda: access_turn(user, turn),
        "snapshot": lambda: selectors.conversation_snapshot(
            user=user, conversation_id=conversation
        ),
        "changes": lambda: selectors.conversation_changes(
            user=user, conversation_id=conversation, since=0
        ),
        "leaf": lambda: services.leaf_select(
            user=user, conversation_id=conversation, message_id=message
        ),
        "rename": lambda: services.conversation_rename(
            user=user, conversation_id=conversation, title="t"
        ),
        "start": lambda: services.turn_start(user=user, conversation_id=conversation, parts=PARTS),
        "stop": lambda: services.turn_stop(user=user, turn_id=turn),
        "answer now": lambda: services.turn_answer_now(user=user, turn_id=turn),
        "retry": lambda: services.turn_retry(user=user, turn_id=turn),
        "regenerate": lambda: services.message_regenerate(user=user, message_id=message),
        "edit": lambda: services.message_edit(user=user, message_id=message, parts=PARTS),
        "delete message": lambda: services.message_delete(user=user, message_id=message),
        "delete": lambda: services.conversation_delete(user=user, conversation_id=conversation),
        "restore": lambda: services.conversation_restore(user=user, conversation_id=conversation),
    }
    with transaction.atomic():
        return acts[name]()


READS = ["access_conversation", "access_message", "access_turn", "snapshot", "changes"]
WRITES = [
    "leaf",
    "rename",
    "start",
    "stop",
    "answer now",
    "retry",
    "regenerate",
    "edit",
    "delete message",
]
ABSENT = {"conversation": "conv-none", "message": "msg-none", "turn": "turn-none"}


@pytest.mark.parametrize("name", [*READS, *WRITES, "delete"])
def test_the_owner_may_do_everything(name: str, alice: Any, things: dict[str, str]) -> None:
    act(name, alice, things)


@pytest.mark.parametrize("name", [*READS, *WRITES, "delete", "restore"])
def test_absent_and_not_yours_are_never_told_apart(
    name: str, alice: Any, bob: Any, carol: Any, things: dict[str, str]
) -> None:
    Share.objects.create(conversation_id=things["conversation"], user=bob, can_write=True)
    type(bob).objects.filter(pk=bob.pk).update(is_active=False)  # the object still says active
    said = set()
    for user, ids in [
        (alice, ABSENT),
        (carol, things),
        (bob, things),
        (AnonymousUser(), things),
    ]:
        with pytest.raises(NotFoundError) as caught:
            act(name, user, ids)
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("name", [*READS, *WRITES, "delete", "restore"])
@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", "x" * 100_000, "ä"])
def test_what_can_be_no_id_is_absent(
    name: str, value: str, alice: Any, things: dict[str, str]
) -> None:
    with pytest.raises(NotFoundError):
        act(name, alice, dict.fromkeys(things, value) | {"conversation": value})


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("can_write", [False, True])
def test_who_is_shared_with_reads(
    name: str, can_write: bool, bob: Any, things: dict[str, str]
) -> None:
    Share.objects.create(conversation_id=things["conversation"], user=bob, can_write=can_write)
    act(name, bob, things)


@pytest.mark.parametrize("name", WRITES)
def test_who_may_read_only_does_not_write(name: str, bob: Any, things: dict[str, str]) -> None:
    share = Share.objects.create(conversation_id=things["conversation"], user=bob)
    before = Conversation.objects.get().revision
    with pytest.raises(ForbiddenError):
        act(name, bob, things)
    assert Conversation.objects.get().revision == before
    share.can_write = True
    share.save()
    act(name, bob, things)


def test_only_the_owner_deletes_and_restores(alice: Any, bob: Any, things: dict[str, str]) -> None:
    Share.objects.create(conversation_id=things["conversation"], user=bob, can_write=True)
    with pytest.raises(ForbiddenError):
        act("delete", bob, things)
    act("delete", alice, things)
    with pytest.raises(NotFoundError):
        act("restore", bob, things)
    act("restore", alice, things)


@pytest.mark.parametrize("name", [*READS, *WRITES, "delete"])
def test_what_is_deleted_is_absent(name: str, alice: Any, things: dict[str, str]) -> None:
    act("delete", alice, things)
    with pytest.raises(NotFoundError):
        act(name, alice, things)


@pytest.mark.parametrize("name", ["access_message", "access_turn", "stop", "edit", "retry"])
def test_a_deleted_message_is_absent(name: str, alice: Any, things: dict[str, str]) -> None:
    act("delete message", alice, things)
    with pytest.raises(NotFoundError):
        act(name, alice, things)


def test_a_revoked_share_ends_access(bob: Any, things: dict[str, str]) -> None:
    share = Share.objects.create(conversation_id=things["conversation"], user=bob)
    act("snapshot", bob, things)
    share.delete()
    with pytest.raises(NotFoundError):
        act("snapshot", bob, things)


def test_an_id_of_another_conversation_leads_nowhere(
    alice: Any, carol: Any, things: dict[str, str]
) -> None:
    own = services.conversation_create(user=carol)
    with pytest.raises(NotFoundError):
        services.turn_start(
            user=carol, conversation_id=own.id, parts=PARTS, parent_id=things["message"]
        )
    with pytest.raises(NotFoundError):
        services.leaf_select(user=carol, conversation_id=own.id, message_id=things["message"])


def test_the_list_holds_own_and_shared_ones(
    alice: Any, bob: Any, carol: Any, things: dict[str, str]
) -> None:
    services.conversation_create(user=bob, title="bob's")
    Share.objects.create(conversation_id=things["conversation"], user=bob)
    views = selectors.conversation_page(user=bob).conversations
    assert [(v.is_owner, v.can_write) for v in views] == [(True, True), (False, False)]
    views = selectors.conversation_page(user=alice).conversations
    assert [v.id for v in views] == [things["conversation"]]
    assert selectors.conversation_page(user=carol).conversations == ()
