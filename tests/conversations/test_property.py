"""Whatever two clients, an engine and restarts do in whatever order, the promises hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conversations import selectors, services
from conversations.contracts import Snapshot, changes_apply
from conversations.models import OPEN_STATES, Conversation, Message, Share, Turn
from conversations.parts import TextPart
from conversations.services.nodes import tree_of
from inference import bus
from inference.models import Generation
from inference.protocol.events import Cancelled, Delta, Failed, Finished
from inference.registry.generations import generation_sweep
from llamaweb.lib.errors import LlamawebError
from tests.conversations.driving import Engine, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),  # a busy machine takes its time
]
ACTS = [
    *("start", "start", "start", "stop", "retry", "regenerate", "edit", "replace", "delete"),
    *("delete", "select", "write", "write", "finish", "finish", "fail", "obey", "lose", "advance"),
    *("sweep", "poll", "poll", "reader lost", "restart"),
]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(ACTS), st.sampled_from([0, 1]), st.integers(0, 30)),
    min_size=15,
    max_size=40,
)


@dataclass
class World:
    """One conversation, two people who write in it, what each of them has, and an engine."""

    chat: Conversation
    people: list[Any]
    engine: Engine
    seen: list[Snapshot] = field(default_factory=list)
    ended: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)

    def act(self, name: str, who: int, pick: int) -> None:
        """One step; what is refused must be refused with an error of ours."""
        method: Callable[[int, int], None] = getattr(self, "do_" + name.replace(" ", "_"))
        with contextlib.suppress(LlamawebError):
            method(who, pick)
        if pick % 3 == 0:
            self.do_poll(1 - who, pick)
        self.check()

    def message(self, pick: int) -> str:
        rows = Message.objects.filter(conversation=self.chat).order_by("number")
        return rows[pick % rows.count()].id if rows.count() else "nobody"

    def turn(self, pick: int) -> str:
        rows = Turn.objects.filter(conversation=self.chat).order_by("created_at", "id")
        return rows[pick % rows.count()].id if rows.count() else "nobody"

    def do_start(self, who: int, pick: int) -> None:
        parent = self.message(pick) if pick % 3 == 0 else None
        say(self.people[who], self.chat, f"message {pick}", parent_id=parent)

    def do_stop(self, who: int, pick: int) -> None:
        services.turn_stop(user=self.people[who], turn_id=self.turn(pick))

    def do_retry(self, who: int, pick: int) -> None:
        services.turn_retry(user=self.people[who], turn_id=self.turn(pick))

    def do_regenerate(self, who: int, pick: int) -> None:
        services.message_regenerate(user=self.people[who], message_id=self.message(pick))

    def do_edit(self, who: int, pick: int) -> None:
        parts = (TextPart(f"edit {pick}"),)
        services.message_edit(user=self.people[who], message_id=self.message(pick), parts=parts)

    def do_replace(self, who: int, pick: int) -> None:
        message_id = self.message(pick)
        services.message_edit(
            user=self.people[who],
            message_id=message_id,
            parts=(TextPart(f"replaced {pick}"),),
            in_place=True,
        )
        self.written.pop(message_id, None)

    def do_delete(self, who: int, pick: int) -> None:
        services.message_delete(user=self.people[who], message_id=self.message(pick))

    def do_select(self, who: int, pick: int) -> None:
        services.leaf_select(
            user=self.people[who], conversation_id=self.chat.id, message_id=self.message(pick)
        )

    def running(self, pick: int) -> str | None:
        """A generation that an engine has; two steps in three claim what waits first."""
        if pick % 3:
            self.engine.claim()
        ids = sorted(self.engine.running)
        return ids[pick % len(ids)] if ids else None

    def do_write(self, _who: int, pick: int) -> None:
        if generation_id := self.running(pick):
            self.engine.write(generation_id, Delta(f"<{pick}>", (pick,)))
            answer_id = Turn.objects.get(generation_id=generation_id).answer_id
            self.written[answer_id] = self.written.get(answer_id, "") + f"<{pick}>"

    def do_finish(self, _who: int, pick: int) -> None:
        if generation_id := self.running(pick):
            self.engine.end(generation_id, Finished("stop"))
            self.do_advance(0, pick)

    def do_fail(self, _who: int, pick: int) -> None:
        if generation_id := self.running(pick):
            self.engine.end(generation_id, Failed("engine_failed", "no"))

    def do_obey(self, _who: int, _pick: int) -> None:
        for generation_id in self.engine.cancelled():
            self.engine.end(generation_id, Cancelled("user"))

    def do_lose(self, _who: int, pick: int) -> None:
        """The generation's row is gone, as when its owner is removed."""
        if pick % 5 == 0 and (generation_id := self.running(pick)):
            Generation.objects.filter(id=generation_id).delete()
            turn = Turn.objects.get(generation_id=generation_id)
            self.written.pop(turn.answer_id, None)
            self.engine.end(generation_id, Finished("stop"))  # nobody reads what it wrote

    def do_advance(self, _who: int, pick: int) -> None:
        for _, entry in self.engine.queue.finished()[: pick % 3 + 1]:
            services.turn_advance(entry.generation_id)

    def do_sweep(self, _who: int, _pick: int) -> None:
        services.turn_sweep()

    def do_restart(self, _who: int, _pick: int) -> None:
        """Every process but the engine starts anew: nothing is kept in memory."""
        bus.sync_queue.cache_clear()
        generation_sweep()
        services.turn_sweep()

    def do_reader_lost(self, who: int, _pick: int) -> None:
        self.seen[who] = self.fresh(who)

    def do_poll(self, who: int, pick: int) -> None:
        changes = selectors.conversation_changes(
            user=self.people[who],
            conversation_id=self.chat.id,
            since=self.seen[who].revision,
            limit=pick % 10 + 1,
        )
        self.seen[who] = changes_apply(self.seen[who], changes)

    def fresh(self, who: int) -> Snapshot:
        return selectors.conversation_snapshot(user=self.people[who], conversation_id=self.chat.id)

    def check(self) -> None:
        """What must hold after every step."""
        turns = list(Turn.objects.filter(conversation=self.chat).select_related("answer"))
        for turn in turns:
            is_streaming = turn.answer.state == "streaming"
            assert is_streaming == turn.is_open
            if turn.is_open:
                assert turn.answer.deleted_at is None
                assert not turn.answer.children.exists()
                continue
            end = (turn.state, turn.ended_at, turn.error_code)
            assert self.ended.setdefault(turn.id, end) == end, "an ended turn moved"
            going_on = Generation.objects.filter(id=turn.generation_id, state="queued")
            assert turn.cancel_pending or not going_on.exists()
        streaming = Message.objects.filter(conversation=self.chat, state="streaming").count()
        assert streaming == sum(turn.is_open for turn in turns)
        self.chat.refresh_from_db()
        tree = tree_of(self.chat)  # raises if it is none
        leaf_id = self.chat.current_leaf_id
        if leaf_id is None:
            assert len(tree) == 0
        else:
            assert leaf_id in tree
            assert not tree.children(leaf_id)

    def drain(self) -> None:
        """Let everything end."""
        self.engine.claim()
        for generation_id in list(self.engine.running):
            self.engine.end(generation_id, Finished("stop"))
        services.turn_sweep()
        for turn in Turn.objects.filter(conversation=self.chat, state__in=OPEN_STATES):
            services.turn_advance(turn.generation_id)
        self.check()


@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=SCRIPTS)
def test_two_clients(alice: Any, bob: Any, engine: Engine, script: list[Any]) -> None:
    chat = services.conversation_create(user=alice)
    Share.objects.create(conversation=chat, user=bob, can_write=True)
    world = World(chat, [alice, bob], engine)
    world.seen = [world.fresh(0), world.fresh(1)]
    for name, who, pick in script:
        world.act(name, who, pick)
    world.drain()
    assert not Turn.objects.filter(conversation=chat, state__in=OPEN_STATES).exists()
    for who in (0, 1):
        for _ in range(300):
            if world.seen[who].revision == world.fresh(who).revision:
                break
            world.do_poll(who, 3)
        assert world.seen[who] == world.fresh(who)
    for answer_id, written in world.written.items():
        message = Message.objects.get(id=answer_id)
        assert text(message) == ("" if message.deleted_at else written)
