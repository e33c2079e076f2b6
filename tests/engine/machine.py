"""Anything may arrive, leave or fail in any order, engines die, and the promises hold.

The mock's memory refuses a sequence whose stream isn't exactly its own tokens, so a mistake in
slots, copies or positions shows as a sequence that fails for no reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.engine.adapters import adapter_plan
from inference.engine.batch import Batch
from inference.engine.config import EngineConfig
from inference.engine.contract import SequenceRequest
from inference.engine.errors import BackendError, NoRoomError
from inference.engine.host_cache import StoredState
from inference.protocol.events import Cancelled, Event, Failed, Started
from inference.protocol.params import ContextParams, Grammar, Limits, SamplingParams
from tests.engine.driving import ADAPTERS, GREEDY, ask, backend_of, make_engine
from tests.engine.ledger import Ledger
from tests.engine.lives import NUM_SEQ_TOKENS, Life

NUM_SLOTS = 5
MANY_LIVES = 150
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
    st.text("abc", min_size=1, max_size=60)
    | st.builds("{}GO{}".format, st.text("abc", max_size=25), st.text("abc", max_size=25)),
)
SAMPLINGS = {
    "greedy": GREEDY,
    "warm": SamplingParams(num_probs=2),
    "hot": SamplingParams(temperature=10.0, samplers=("temperature",), num_probs=1),
    "mirostat": SamplingParams(temperature=10.0, mirostat=2, mirostat_tau=3.0),
    "grammar": SamplingParams(temperature=0.0, grammar=Grammar('root ::= [a-c]{2,5} " end"')),
    "loose": SamplingParams(repeat_penalty=1.1, grammar=Grammar("root ::= [abp]*")),
}
limitses = st.builds(
    Limits,
    max_tokens=st.none() | st.integers(0, 20),
    stop=st.sampled_from([(), (), ("abc", "text!"), ("cba",)]),
)
# The last one is activated by "GO": what lies before that is computed without it.
adapterses = st.sampled_from([(), (), (), ((0, 1.0),), ((0, 0.5), (1, 1.0)), ((3, 1.0),)])
# A prompt that waited for age_steps goes before all but the others that did, and a step serves one.
# Groups of other adapters take turns, each a step.
MAX_GROUPS = 4
MAX_WAITED = MAX_GROUPS * (CONFIG.age_steps + NUM_SLOTS)
# A prompt is at most 73 tokens in pieces of 4 or more, and says at most 99 more.
MAX_STEPS = MAX_GROUPS * (CONFIG.age_steps + NUM_SLOTS) * 25 * NUM_SLOTS + 100


class EngineMachine(RuleBasedStateMachine):
    """Random lives over engines with small pieces. `driven` counts what happened, by kind."""

    config = CONFIG
    backend_fields: ClassVar[dict[str, Any]] = {}
    driven: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.lives: dict[str, Life] = {}
        self.num_failing = self.num_refused = 0
        self.start()

    # --- engines

    def start(self) -> None:
        """A new engine, with nothing in it."""
        self.engine = make_engine(
            num_slots=NUM_SLOTS,
            max_context=NUM_SEQ_TOKENS,
            batch_len=24,
            ubatch_len=8,
            config=self.config,
            **self.backend_fields,
        )
        self.backend = backend_of(self.engine)
        self.ledger = Ledger(self.backend)
        self.ends: Counter[str] = Counter()
        self.num_cached = self.num_wanted = 0
        self.is_calm = True  # all that was begun was also computed

    def admit(self, request: SequenceRequest) -> None:
        self.engine.add(request)
        self.driven["arrivals"] += 1
        self.driven["adapters"] += bool(request.adapters)

    def step_once(self) -> list[tuple[str, Event]]:
        events = [(item.generation_id, item.event) for item in self.engine.step()]
        self.take(events)
        return events

    def take(self, items: list[tuple[str, Event]]) -> None:
        for who, event in items:
            life = self.lives[who]
            life.take(event)
            if isinstance(event, Failed):  # also for want of room, where all share a pool
                self.is_calm = False
            if isinstance(event, Started):
                self.num_cached += event.cached_tokens
                self.num_wanted += life.target_len
            elif not life.is_open:
                self.ends[type(event).__name__.lower()] += 1

    @property
    def open(self) -> list[str]:
        return [who for who, life in self.lives.items() if life.is_open]

    # --- arrivals, cancels, deletions

    @precondition(lambda self: self.engine.free_slots > 0)
    @rule(
        prompt=prompts,
        owner=st.sampled_from(OWNERS),
        public=st.integers(0, len(PUBLIC)),
        limits=limitses,
        sampling=st.sampled_from(sorted(SAMPLINGS)),
        background=st.booleans(),
        conversation=st.sampled_from(["", "c1", "c2"]),
        adapters=adapterses,
    )
    def add(
        self,
        prompt: str,
        owner: str,
        public: int = 0,
        limits: Limits | None = None,
        sampling: str = "greedy",
        background: bool = False,
        conversation: str = "",
        adapters: tuple[tuple[int, float], ...] = (),
    ) -> None:
        who = f"g{len(self.lives)}"
        request = ask(
            who,
            prompt,
            owner=owner,
            public=min(public, len(prompt)),
            limits=limits or Limits(max_tokens=1),
            sampling=SAMPLINGS[sampling],
            lane="background" if background else "interactive",
            context=ContextParams(conversation=conversation),
            adapters=adapters,
        )
        self.admit(request)
        self.lives[who] = Life(request)

    @rule(times=st.integers(1, 8))
    def step(self, times: int) -> None:
        for _ in range(times):
            for who in self.open:
                self.lives[who].waited += 1
            self.step_once()

    @precondition(lambda self: len(self.lives) < MANY_LIVES)  # a run of floods would take minutes
    @rule(
        times=st.integers(1, MAX_WAITED + 10), owners=st.lists(st.sampled_from(OWNERS), min_size=1)
    )
    def flood(self, times: int, owners: list[str]) -> None:
        """Every free slot is taken at once, by a prompt that is as long as a step."""
        for _ in range(times):
            while self.engine.free_slots:
                number = len(self.lives)
                self.add(f"{number:04}" + "z" * 20, owners[number % len(owners)])
            self.step(1)
            self.nobody_starves()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open))
        free = self.engine.free_slots
        self.take([(i.generation_id, i.event) for i in self.engine.abort(who, "user")])
        assert isinstance(self.lives[who].events[-1], Cancelled)
        assert self.engine.free_slots == free + 1
        self.is_calm = False
        self.driven["cancels"] += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open))
        self.engine.drop(who)
        self.lives[who].is_dropped = True
        self.is_calm = False

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

    # --- failures

    @precondition(lambda self: self.open)
    @rule()
    def fail_a_batch(self) -> None:
        """A decode breaks: those of its batch end, the others don't notice."""
        hit: set[int] = set()

        def fault(batch: Batch) -> None:
            hit.update(seq_id for seq_id, _ in batch.runs)
            raise BackendError("injected")

        assert len(self.failing_with("fault", fault)) == len(hit)

    @precondition(lambda self: self.open and not self.config.verify_cache)
    @rule()
    def fail_a_row(self) -> None:
        """A token can't be made: its sequence ends, the others of the batch have theirs."""
        logits, calls = self.backend.logits, []

        def broken(output: int) -> Any:
            calls.append(output)
            if len(calls) == 1:
                raise BackendError("injected")
            return logits(output)

        assert len(self.failing_with("logits", broken)) == min(1, len(calls))

    @precondition(lambda self: self.open)
    @rule()
    def fail_adapters(self) -> None:
        """Other adapters can't be set: those that wanted them end."""
        wanted = []

        def broken(adapters: tuple[tuple[int, float], ...]) -> None:
            wanted.append(adapters)
            raise BackendError("injected")

        failed = self.failing_with("use_adapters", broken)
        assert bool(failed) == bool(wanted) or self.config.verify_cache  # a check sets them, too
        for who in failed:
            request = self.lives[who].request
            plan = adapter_plan(ADAPTERS, request.adapters, request.tokens)
            assert {plan.before, plan.after} & set(wanted)

    def failing_with(self, name: str, broken: Callable[..., Any]) -> list[str]:
        """A step with a broken part of the backend; who failed in it."""
        before, part = self.open, getattr(self.backend, name)
        setattr(self.backend, name, broken)
        self.step_once()
        setattr(self.backend, name, part)
        failed = [who for who in before if self.lives[who].is_failed]
        self.num_failing += len(failed)
        self.is_calm = self.is_calm and not failed
        self.driven["failures"] += len(failed)
        return failed

    @precondition(lambda self: self.open)
    @rule(times=st.integers(1, 12))
    def refuse_room(self, times: int) -> None:
        """The memory is full for a while: cached cells go, then prompts shrink, then the last that
        asked ends; whoever is left goes on unharmed."""
        left, num_before = times, len(self.open)

        def fault(batch: Batch) -> None:
            nonlocal left
            if left:
                left -= 1
                raise NoRoomError("injected")

        self.backend.fault = fault
        self.step_once()
        self.backend.fault = None
        self.num_refused = sum(life.is_out_of_room for life in self.lives.values())
        self.is_calm = self.is_calm and len(self.open) == num_before
        self.driven["no room"] += 1

    # --- restarts

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """The engine dies; the next one goes on from as much as was published of each."""
        self.sums_are_right()
        self.engine.close()
        self.nothing_is_held_but_by_the_living()
        order = data.draw(st.permutations(self.open))
        self.start()
        for who in order:
            most = len(self.lives[who].events)
            num_deltas = data.draw(st.integers(0, most) | st.just(most))
            self.admit(self.lives[who].resumed(num_deltas))
        self.driven["restarts"] += 1

    # --- what always holds

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
        # A step that failed before its decode leaves copies to the next one, and knows of them.
        awaited = {target for _, target in self.backend._copies}
        assert awaited <= self.engine._cache._pending.targets
        for slot in self.engine._table.slots:
            assert self.backend._lengths[slot.seq_id] == slot.length
            held = self.backend._cells[slot.seq_id, : slot.length]
            assert slot.seq_id in awaited or (held == slot.cached).all()
            assert slot.length == 0 or slot.belonging is not None, "cells that nobody answers for"

    @invariant()
    def nothing_is_held_but_by_the_living(self) -> None:
        living = [sequence.request.sampling for sequence in self.engine._active.values()]
        assert len(self.ledger.samplers) == sum(params.temperature != 0.0 for params in living)
        assert len(self.ledger.grammars) == sum(params.grammar is not None for params in living)

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
        assert all(self.lives[who].waited <= MAX_WAITED for who in self.open)

    @invariant()
    def sums_are_right(self) -> None:
        stats = self.engine.stats()
        assert stats["cached_tokens"] == self.num_cached
        hits = sum(stats[f"cache_{tier}_hit_tokens"] for tier in ("slot", "copy", "host"))
        assert hits + stats["cache_missed_tokens"] == self.num_wanted
        for kind in ("finished", "failed", "cancelled"):
            assert stats[kind] == self.ends[kind]
        idle = [slot.length for slot in self.engine._table.slots if not slot.is_busy]
        assert stats["cache_slot_tokens"] == sum(idle)
        if self.config.verify_cache:
            return  # computes more than is asked for
        assert stats["batch_rows"] == self.backend.num_evaluated
        assert stats["prompt_tokens"] <= stats["cache_missed_tokens"]
        if self.is_calm and not self.open:
            assert stats["prompt_tokens"] == stats["cache_missed_tokens"]

    def teardown(self) -> None:
        for _ in range(MAX_STEPS):
            if not self.engine.has_work:
                break
            self.step(1)
            record = self.engine.last_step
            assert record.num_ubatches <= max(1, record.num_decode + record.num_prompt)
        assert not self.open
        self.sums_are_right()
        lives = [life for life in self.lives.values() if not life.is_dropped]
        for life in lives:
            life.check()
            life.check_scope(self.lives.values())
        assert sum(life.is_failed for life in lives) == self.num_failing, "one failed unhit"
        if not self.backend.is_unified:
            assert sum(life.is_out_of_room for life in lives) == self.num_refused
        self.engine.purge()
        assert not any(self.backend._lengths)
        assert len(self.engine._cache._index) == len(self.engine._cache.host) == 0
        self.engine.close()
        self.nothing_is_held_but_by_the_living()
