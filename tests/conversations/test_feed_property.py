"""Whatever happens: old list + feed changes = fresh list, for everybody and from any revision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conversations import selectors, services
from conversations.contracts import ConversationView
from conversations.feed import feed_changes
from conversations.models import Conversation
from conversations.services.conversations import UNDO_KEEP
from llamaweb.lib.errors import LlamawebError
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),  # a busy machine takes its time
]
ACTS = [
    *("create", "create", "rename", "rename", "remove", "restore", "purge", "share", "share"),
    *("write_share", "unshare", "start", "answer", "stop", "look", "look", "look"),
]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.sampled_from([0, 1]), st.integers(0, 30)),
    min_size=10,
    max_size=40,
)


@dataclass
class Reader:
    """A client's list of one person."""

    user: Any
    revision: int | None = None
    rows: dict[str, ConversationView] = field(default_factory=dict)

    def follow(self) -> None:
        """Take in what changed, as the browser does."""
        changes = feed_changes(user=self.user, since=self.revision)
        if changes.reset:
            self.rows = {}
        self.rows.update({view.id: view for view in changes.conversations})
        for gone in changes.gone:
            self.rows.pop(gone, None)
        self.revision = changes.revision
        cursor = changes.next
        while cursor:
            page = selectors.conversation_page(user=self.user, before=cursor, limit=2)
            self.rows.update({view.id: view for view in page.conversations})
            cursor = page.next


@dataclass
class World:
    people: list[Any]
    engine: Engine
    readers: list[Reader] = field(default_factory=list)

    def chat(self, pick: int) -> str:
        ids = list(Conversation.objects.order_by("created_at").values_list("id", flat=True))
        return ids[pick % len(ids)] if ids else "nothing"

    def act(self, name: str, who: int, pick: int) -> None:
        method: Callable[[Any, int], object] = getattr(self, name)
        with contextlib.suppress(LlamawebError):
            method(self.people[who], pick)

    def create(self, user: Any, pick: int) -> None:
        services.conversation_create(user=user, title=str(pick))

    def rename(self, user: Any, pick: int) -> None:
        services.conversation_rename(user=user, conversation_id=self.chat(pick), title=f"n{pick}")

    def remove(self, user: Any, pick: int) -> None:
        services.conversation_delete(user=user, conversation_id=self.chat(pick))

    def restore(self, user: Any, pick: int) -> None:
        services.conversation_restore(user=user, conversation_id=self.chat(pick))

    def purge(self, _user: Any, _pick: int) -> None:
        services.conversation_purge(timezone.now() + UNDO_KEEP + timedelta(minutes=1))

    def share(self, user: Any, pick: int, can_write: bool = False) -> None:
        other = self.people[1 - self.people.index(user)]
        services.share_grant(
            user=user, conversation_id=self.chat(pick), to=other, can_write=can_write
        )

    def write_share(self, user: Any, pick: int) -> None:
        self.share(user, pick, can_write=True)

    def unshare(self, user: Any, pick: int) -> None:
        other = self.people[1 - self.people.index(user)]
        services.share_revoke(user=user, conversation_id=self.chat(pick), to=other)

    def start(self, user: Any, pick: int) -> None:
        say(user, Conversation(id=self.chat(pick)), f"say {pick}")

    def answer(self, _user: Any, _pick: int) -> None:
        self.engine.claim()
        for generation_id in list(self.engine.running):
            self.engine.end(generation_id, text="x")
            services.turn_advance(generation_id)

    def stop(self, _user: Any, _pick: int) -> None:
        services.turn_sweep()

    def look(self, user: Any, _pick: int) -> None:
        reader = Reader(user)
        reader.follow()
        self.readers.append(reader)


@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=SCRIPTS)
def test_old_list_and_changes(alice: Any, bob: Any, engine: Engine, script: list[Any]) -> None:
    Conversation.objects.all().delete()  # of the example before
    world = World([alice, bob], engine)
    world.readers = [Reader(alice), Reader(bob)]
    for name, who, pick in script:
        world.act(name, who, pick)
        if pick % 4 == 0:
            world.readers[who].follow()
    for reader in world.readers:
        reader.follow()
        fresh = selectors.conversation_page(
            user=reader.user, limit=selectors.MAX_LIST
        ).conversations
        assert reader.rows == {view.id: view for view in fresh}
        reader.follow()  # nothing left to tell
        assert reader.rows == {view.id: view for view in fresh}
