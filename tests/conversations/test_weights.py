"""Answers are bounded by bytes: pages that say the same as the whole, none of them too large."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from conversations import selectors
from conversations.contracts import Changes, Snapshot, changes_apply
from conversations.edge.live import reads
from conversations.models import Conversation, Message
from conversations.parts import TextPart, parts_to_json
from conversations.weights import last_within

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
MAX_BYTES = 2_000
TEXTS = ["x" * 900, "short", "ü" * 300, "y" * 5_000, "", "z" * 700, "€" * 100, "last"]


def fill(chat: Conversation, texts: list[str]) -> None:
    """One message a revision, the last two of one."""
    now = timezone.now()
    first = chat.revision
    Message.objects.bulk_create(
        Message(
            conversation=chat, number=number, role="user", created_at=now,
            parts=parts_to_json([TextPart(text)]),
            revision=first + min(number, len(texts) - 1),
        )
        for number, text in enumerate(texts, 1)
    )  # fmt: skip
    Conversation.objects.filter(id=chat.id).update(
        revision=first + len(texts) - 1, last_number=len(texts)
    )


def weight(page: Changes | Snapshot) -> int:
    messages = page.messages.values() if isinstance(page, Snapshot) else page.messages
    return sum(len(p.text.encode()) for m in messages for p in m.parts if isinstance(p, TextPart))


def test_pages_join_to_the_whole(
    alice: Any, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(chat, TEXTS)
    whole = selectors.conversation_state(user=alice, conversation_id=chat.id)
    assert isinstance(whole, Snapshot)
    monkeypatch.setattr(selectors, "MAX_STATE_BYTES", MAX_BYTES)
    page = selectors.conversation_state(user=alice, conversation_id=chat.id)
    assert isinstance(page, Changes)
    joined = Snapshot(page.conversation, 0)
    pages = []
    while True:
        pages.append(page)
        joined = changes_apply(joined, page)
        if not page.has_more:
            break
        page = selectors.conversation_changes(
            user=alice, conversation_id=chat.id, since=page.revision
        )
    assert joined == whole
    assert len(pages) > 2
    for one in pages:
        assert weight(one) <= MAX_BYTES or len({m.revision for m in one.messages}) == 1


def test_what_fits_is_one_answer(alice: Any, chat: Conversation) -> None:
    messages = Message.objects.filter(conversation=chat)
    assert last_within(messages, 0) is None  # there are none
    fill(chat, ["ab", "cd", "ef"])
    sizes = [len('[{"type": "text", "text": "ab"}]')] * 3
    assert last_within(messages, sum(sizes)) is None
    first = chat.revision + 1
    # The last two messages are one revision, which isn't cut.
    assert last_within(messages, sum(sizes) - 1) == first
    assert last_within(messages, 1) == first


def test_live_frames_are_read_page_by_page(
    alice: Any, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(chat, TEXTS)
    whole = reads.conversation_read(alice, chat.id, None)
    assert not whole.has_more
    monkeypatch.setattr(reads, "READ_BYTES", MAX_BYTES)
    read = reads.conversation_read(alice, chat.id, None)
    frames = list(read.frames)
    while read.has_more:
        assert {frame.revision for frame in read.frames} == {0}  # cut off here: all again
        size = sum(len(p.text.encode()) for f in read.frames for m in f.messages for p in m.parts)
        assert size <= MAX_BYTES or len({m.revision for f in read.frames for m in f.messages}) == 1
        read = reads.conversation_read(alice, chat.id, read.revision, before=read.before)
        frames += read.frames
    assert [frame.reset for frame in frames] == [True] + [False] * (len(frames) - 1)
    assert [frame.has_more for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert frames[-1].revision == read.revision == whole.revision
    shown = {message.id: message for frame in frames for message in frame.messages}
    assert shown == {message.id: message for f in whole.frames for message in f.messages}


def test_a_long_chat_is_few_queries(
    alice: Any, chat: Conversation, django_assert_max_num_queries: Any
) -> None:
    fill(chat, ["some words " * 20] * 2_000)
    with django_assert_max_num_queries(12):
        assert len(reads.conversation_read(alice, chat.id, None).frames) == 10
