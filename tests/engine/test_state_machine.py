"""Anything may arrive, leave or fail in any order, and the promises hold.

The mock's memory refuses a sequence whose stream isn't exactly its own tokens, so a mistake in
slots, copies or positions shows as a sequence that fails for no reason.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.engine.batch import Batch, count_ubatches
from inference.engine.config import EngineConfig
from inference.engine.contract import SequenceRequest
from inference.engine.errors import BackendError
from inference.engine.host_cache import StoredState
from inference.protocol.events import (
    Cancelled,
    Event,
    Failed,
    Finished,
    Progress,
    Started,
    is_terminal,
)
from inference.protocol.params import ContextParams, Limits
from tests.engine.driving import ask, backend_of, make_engine, text_of

NUM_SLOTS = 5
CONFIG = EngineConfig(
    min_piece_len=4,
    copy_min_len=3,
    age_steps=6,
    host_cache_bytes=1500,  # some five chats
)
PUBLIC = "public text! "
OWNERS = ("alice", "bob", "carol")
prompts = st.builds(
    lambda shared, words: PUBLIC[:shared] + words,
    st.integers(0, len(PUBLIC)),
    st.text("abc", min_size=1, max_size=60),
)
# A prompt that waited for age_steps goes before all but the others that did, and a step serves one.
# Groups of other adapters take turns, each a step.
MAX_GROUPS = 3
MAX_WAITED = MAX_GROUPS * (CONFIG.age_steps + NUM_SLOTS)
# A prompt is at most 73 tokens in pieces of 4 or more, and says at most 73 more.
MAX_STEPS = MAX_GROUPS * (CONFIG.age_steps + NUM_SLOTS) * 20 * NUM_SLOTS + 100


class EngineMachine(RuleBasedStateMachine):
    """Random lives of an engine with small pieces."""

    config = CONFIG
    backend_fields: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.engine = make_engine(
            num_slots=NUM_SLOTS,
            max_context=100,
            batch_len=24,
            ubatch_len=8,
            config=self.config,
            **self.backend_fields,
        )
        self.requests: dict[str, SequenceRequest] = {}
        self.events: dict[str, list[Event]] = {}
        self.dropped: set[str] = set()
        self.num_failing = 0
        self.waited: dict[str, int] = {}

    def take(self, items: list[tuple[str, Event]]) -> None:
        for generation_id, event in items:
            events = self.events[generation_id]
            assert generation_id not in self.dropped
            assert not (events and is_terminal(events[-1])), "an event behind the end"
            events.append(event)
            self.waited[generation_id] = 0

    @property
    def open(self) -> list[str]:
        return [
            who
            for who, events in self.events.items()
            if who not in self.dropped and not (events and is_terminal(events[-1]))
        ]

    @precondition(lambda self: self.engine.free_slots > 0)
    @rule(
        prompt=prompts,
        owner=st.sampled_from(OWNERS),
        public=st.integers(0, len(PUBLIC)),
        max_tokens=st.none() | st.integers(0, 20),
        background=st.booleans(),
        conversation=st.sampled_from(["", "c1", "c2"]),
        adapters=st.sampled_from([(), (), (), ((0, 1.0),), ((0, 0.5), (1, 1.0))]),
    )
    def add(
        self,
        prompt: str,
        owner: str,
        public: int,
        max_tokens: int | None,
        background: bool,
        conversation: str = "",
        adapters: tuple[tuple[int, float], ...] = (),
    ) -> None:
        who = f"g{len(self.requests)}"
        request = ask(
            who,
            prompt,
            owner=owner,
            public=min(public, len(prompt)),
            limits=Limits(max_tokens=max_tokens),
            lane="background" if background else "interactive",
            context=ContextParams(conversation=conversation),
            adapters=adapters,
        )
        self.engine.add(request)
        self.requests[who] = request
        self.events[who] = []
        self.waited[who] = 0

    @rule(times=st.integers(1, 8))
    def step(self, times: int) -> None:
        for _ in range(times):
            for who in self.open:
                self.waited[who] += 1
            self.take([(item.generation_id, item.event) for item in self.engine.step()])

    @rule(
        times=st.integers(1, 2 * MAX_WAITED), owners=st.lists(st.sampled_from(OWNERS), min_size=1)
    )
    def flood(self, times: int, owners: list[str]) -> None:
        """Every free slot is taken at once, by a prompt that is as long as a step."""
        for _ in range(times):
            while self.engine.free_slots:
                number = len(self.requests)
                prompt = f"{number:04}" + "z" * 20
                self.add(prompt, owners[number % len(owners)], 0, 1, background=False)
            self.step(1)
            self.nobody_starves()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open))
        free = self.engine.free_slots
        self.take([(i.generation_id, i.event) for i in self.engine.abort(who, "user")])
        assert isinstance(self.events[who][-1], Cancelled)
        assert self.engine.free_slots == free + 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open))
        self.engine.drop(who)
        self.dropped.add(who)

    @rule(owner=st.sampled_from(OWNERS), conversation=st.none() | st.sampled_from(["c1", "c2"]))
    def purge(self, owner: str, conversation: str | None) -> None:
        self.engine.purge(owner_key=owner, conversation=conversation)
        cache = self.engine._cache
        idle = [slot.belonging for slot in cache.table.slots if not slot.is_busy]
        for held in [*idle, *(entry.belonging for entry in cache.host)]:
            assert not (
                held is not None
                and held.owner_key == owner
                and conversation in (None, held.conversation)
            )

    @precondition(lambda self: self.open)
    @rule()
    def fail_a_batch(self) -> None:
        backend = backend_of(self.engine)
        hit: set[int] = set()

        def fault(batch: Batch) -> None:
            hit.update(seq_id for seq_id, _ in batch.runs)
            raise BackendError("injected")

        backend.fault = fault
        before = set(self.open)
        self.take([(item.generation_id, item.event) for item in self.engine.step()])
        backend.fault = None
        failed = [
            who
            for who in before
            if self.events[who]
            and isinstance(last := self.events[who][-1], Failed)
            and last.code != "busy"
        ]
        assert len(failed) == len(hit)
        self.num_failing += len(failed)

    @invariant()
    def seats_are_held_once(self) -> None:
        active = list(self.engine._active.values())
        seats = [sequence.slot.seq_id for sequence in active]
        assert len(set(seats)) == len(seats)
        assert sorted(sequence.request.generation_id for sequence in active) == sorted(self.open)
        busy = {slot.seq_id for slot in self.engine._table.slots if slot.is_busy}
        assert busy == set(seats)
        assert self.engine.free_slots == NUM_SLOTS - len(active)

    @invariant()
    def memory_is_what_the_slots_say(self) -> None:
        backend = backend_of(self.engine)
        assert backend._copies == []
        for slot in self.engine._table.slots:
            assert backend._lengths[slot.seq_id] == slot.length
            assert (backend._cells[slot.seq_id, : slot.length] == slot.cached).all()

    @invariant()
    def the_index_and_the_budget_are_right(self) -> None:
        cache = self.engine._cache
        assert sum(entry.num_bytes for entry in cache.host) == cache.host.used_bytes
        assert cache.host.used_bytes <= self.config.host_cache_bytes
        indexed = set(cache._index._leaves)
        assert {entry for entry in indexed if isinstance(entry, StoredState)} == set(cache.host)
        for slot in cache.table.slots:
            if slot in indexed:
                assert slot.length
                assert not slot.is_doomed
        assert cache.stats.check_failures == 0

    @invariant()
    def nobody_starves(self) -> None:
        assert all(self.waited[who] <= MAX_WAITED for who in self.open)

    def teardown(self) -> None:
        for _ in range(MAX_STEPS):
            if not self.engine.has_work:
                break
            self.step(1)
            record = self.engine.last_step
            assert record.num_ubatches <= max(1, record.num_decode + record.num_prompt)
        assert not self.open
        failed = 0
        for who, events in self.events.items():
            if who in self.dropped:
                continue
            failed += isinstance(events[-1], Failed) and events[-1].code != "busy"
            self.check_life(self.requests[who], events)
        assert failed == self.num_failing, "a sequence failed that no fault had hit"

    def check_life(self, request: SequenceRequest, events: list[Event]) -> None:
        assert [is_terminal(event) for event in events].count(True) == 1
        assert sum(isinstance(event, Started) for event in events) <= 1
        done = [event.done for event in events if isinstance(event, Progress)]
        assert done == sorted(set(done))
        reply = bytes(request.tokens)  # the mock echoes the prompt
        most = request.limits.max_tokens
        expected = reply[: 100 - len(reply)] if most is None else reply[:most]
        text = text_of(events)
        if isinstance(events[-1], Finished):
            assert text.encode() == expected
            assert events[-1].usage.completion_tokens == len(expected)
        else:
            assert expected.startswith(text.encode())
        self.check_scope(request, events)

    def check_scope(self, request: SequenceRequest, events: list[Event]) -> None:
        """Across scopes nothing but public text may have been reused."""
        cached = next((e.cached_tokens for e in events if isinstance(e, Started)), 0)
        allowed = 0
        for other in self.requests.values():
            if other is request:
                continue
            said = other.tokens + other.tokens  # it may have echoed all of its prompt
            common = 0
            for left, right in zip(request.tokens, said, strict=False):
                if left != right:
                    break
                common += 1
            if other.adapters != request.adapters:
                continue
            if other.cache_scope != request.cache_scope:
                common = min(common, request.public_len, other.public_len)
            allowed = max(allowed, common)
        assert cached <= allowed


class CheckedMachine(EngineMachine):
    """Every reused prefix is computed again and compared."""

    config = dataclasses.replace(CONFIG, verify_cache=True)


class WindowMachine(EngineMachine):
    """Cells behind a sliding window are gone."""

    backend_fields: ClassVar[dict[str, Any]] = {"window_len": 10}


class UnifiedMachine(EngineMachine):
    """All slots share one pool of cells; whoever asked last may have to go."""

    backend_fields: ClassVar[dict[str, Any]] = {"is_unified": True}

    def nobody_starves(self) -> None:
        """A prompt waits for room as long as others use it."""


class RecurrentMachine(EngineMachine):
    """A sequence goes on from the end of another only."""

    backend_fields: ClassVar[dict[str, Any]] = {"is_recurrent": True}


SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None, print_blob=True)
FEWER = settings(SETTINGS, max_examples=20)
EngineMachine.TestCase.settings = SETTINGS
CheckedMachine.TestCase.settings = FEWER
WindowMachine.TestCase.settings = FEWER
RecurrentMachine.TestCase.settings = FEWER
UnifiedMachine.TestCase.settings = FEWER
TestEngineMachine = EngineMachine.TestCase
TestCheckedMachine = CheckedMachine.TestCase
TestWindowMachine = WindowMachine.TestCase
TestRecurrentMachine = RecurrentMachine.TestCase
TestUnifiedMachine = UnifiedMachine.TestCase


def test_the_count_is_bounded_by_the_rows() -> None:
    assert count_ubatches([(0, 3), (2, 3)], 1) == 6
