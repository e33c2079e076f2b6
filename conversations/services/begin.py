"""The beginning of a conversation: once a client key, however often and concurrently asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from conversations.access import access_conversation
from conversations.feed import feed_touch
from conversations.models import Conversation
from conversations.services.nodes import client_key_check
from inference import api
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

# Of one owner, deleted ones that can still be restored included. Side by side a few more may pass.
MAX_CONVERSATIONS = 20_000


def conversation_begin(
    *, user: User, title: str = "", model_name: str = "", client_key: str = ""
) -> Conversation:
    """A new empty conversation, or the one that `client_key` made before; locked, so call it
    inside a transaction. Two at once: the second waits for the first and finds its conversation.

    Raises:
        InvalidError: no client key, or MAX_CONVERSATIONS are there.
        NotFoundError: as of `access_conversation`; no such model.
    """
    client_key_check(client_key)
    model = api.model_resolve_for_now(user.pk, model_name).name if model_name else ""
    now = timezone.now()
    new = Conversation(
        owner=user,
        title=title,
        title_is_custom=bool(title),
        model_name=model,
        client_key=client_key,
        created_at=now,
        updated_at=now,
    )
    Conversation.objects.bulk_create([new], ignore_conflicts=True)  # waits for the key's first
    home_id = new.id
    if client_key:
        known = Conversation.objects.filter(owner=user, client_key=client_key)
        home_id = known.values_list("id", flat=True).get()
    conversation = access_conversation(user, home_id, own=True, lock=True)
    if conversation.id == new.id:
        if Conversation.objects.filter(owner=user).count() > MAX_CONVERSATIONS:
            raise InvalidError(
                f"you have {MAX_CONVERSATIONS} conversations, as many as there may be; delete some "
                "(they count for another day)"
            )
        feed_touch(conversation)
    return conversation
