"""The life of one request over one or more engines, and what must be true of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from inference.engine.adapters import AdapterPlan, adapter_plan
from inference.engine.contract import Resume, SequenceRequest
from inference.protocol.events import (
    Cancelled,
    Delta,
    Event,
    Failed,
    Finished,
    Progress,
    Started,
    is_terminal,
)
from tests.engine.driving import (
    ADAPTERS,
    draws_of,
    finished,
    ids_of,
    make_engine,
    run_one,
    text_of,
)

NUM_SEQ_TOKENS = 100  # of a stream


@dataclass(slots=True)
class Life:
    """`events` are those of the engine that has it now; `text`, `ids`, `draws` what earlier ones
    published. `waited`: steps since it was last heard of."""

    request: SequenceRequest
    events: list[Event] = field(default_factory=list)
    text: str = ""
    ids: tuple[int, ...] = ()
    draws: int = 0
    num_engines: int = 1
    waited: int = 0
    is_dropped: bool = False
    plan: AdapterPlan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = adapter_plan(ADAPTERS, self.request.adapters, self.request.tokens)

    @property
    def is_open(self) -> bool:
        """Whether an engine still owes it its end."""
        return not self.is_dropped and not (self.events and is_terminal(self.events[-1]))

    @property
    def is_failed(self) -> bool:
        """Whether something broke; no room isn't that."""
        return self._failure() not in (None, "busy")

    @property
    def is_out_of_room(self) -> bool:
        """Whether it had to go because the memory was full."""
        return self._failure() == "busy"

    @property
    def said(self) -> tuple[int, ...]:
        """All ids that anybody has read."""
        return self.ids + ids_of(self.events)

    @property
    def target_len(self) -> int:
        """Tokens that its engine needs in its memory before it can say more."""
        by_count = self.request.sampling.mirostat is None
        return len(self.request.tokens) + (len(self.ids) if by_count else 0)

    def take(self, event: Event) -> None:
        """One more event of the engine that has it."""
        assert not self.is_dropped, "an event of a sequence that was dropped"
        assert self.is_open, "an event behind the end"
        self.events.append(event)
        self.waited = 0

    def resumed(self, num_deltas: int) -> SequenceRequest:
        """Its engine died when `num_deltas` were published; what the next one gets."""
        deltas: list[Event] = [event for event in self.events if isinstance(event, Delta)]
        published = deltas[:num_deltas]
        self.text += text_of(published)
        self.ids += ids_of(published)
        self.draws += draws_of(published)
        self.events, self.waited, self.num_engines = [], 0, self.num_engines + 1
        resume = Resume(self.ids, self.draws) if self.ids else None
        return dataclasses.replace(self.request, resume=resume)

    def check(self) -> None:
        """It ended once, and what it said is what it says when nothing ever happens."""
        assert [is_terminal(event) for event in self.events].count(True) == 1
        assert sum(isinstance(event, Started) for event in self.events) <= 1
        done = [event.done for event in self.events if isinstance(event, Progress)]
        assert done == sorted(set(done))
        text, said = self.text + text_of(self.events), self.said
        last = self.events[-1]
        whole = undisturbed(self.request)
        if isinstance(last, Finished):
            assert (text, said) == (text_of(whole), ids_of(whole))
            end = finished(whole)
            assert (last.reason, last.stop_string) == (end.reason, end.stop_string)
            assert last.usage.completion_tokens == len(said)
        else:
            assert ids_of(whole)[: len(said)] == said
            assert bytes(said).decode("utf-8", "replace").startswith(text)

    def check_scope(self, others: Iterable[Life]) -> None:
        """Across scopes nothing but public text may have been reused."""
        first = next((event for event in self.events if isinstance(event, Started)), None)
        if first is None:
            return
        cached = first.cached_tokens
        # Most have nothing cached: there may be hundreds of others.
        assert not cached or any(
            self._common_len(other) >= cached for other in others if other is not self
        )
        last = self.events[-1]
        if isinstance(last, Finished | Failed | Cancelled):
            assert last.usage.cached_tokens == first.cached_tokens

    def _common_len(self, other: Life) -> int:
        mine, theirs = self.request, other.request
        plans = self.plan, other.plan
        if plans[0].before != plans[1].before:
            return 0
        common = 0
        for left, right in zip(mine.tokens, theirs.tokens + other.said, strict=False):
            if left != right:
                break
            common += 1
        if plans[0] != plans[1]:
            common = min([common, *(plan.start for plan in plans if plan.before != plan.after)])
        if mine.cache_scope != theirs.cache_scope:
            common = min(common, mine.public_len, theirs.public_len)
        return common

    def _failure(self) -> str | None:
        last = self.events[-1] if self.events else None
        return last.code if isinstance(last, Failed) else None


def undisturbed(request: SequenceRequest) -> list[Event]:
    """What the request gets from an engine of its own."""
    return run_one(make_engine(num_slots=1, max_context=NUM_SEQ_TOKENS), request)
