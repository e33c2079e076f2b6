"""The engine-side life of one request: waiting → prefill → decode → ended."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inference.engine.adapters import AdapterPlan, Scales
from inference.engine.contract import SequenceRequest
from inference.engine.host_cache import Belonging
from inference.engine.picking import Row
from inference.engine.picks import Sampler
from inference.engine.prefix import Prefix
from inference.engine.slots import Slot
from inference.engine.stopping import Answer, Ended
from inference.engine.timings import SequenceClock
from inference.protocol.events import Usage
from llamaweb.lib.clock import Clock

LANE_RANK = {"interactive": 0, "background": 1}


class Phase(enum.Enum):
    """Where a sequence is. WAITING: it holds a slot, nothing of it is computed."""

    WAITING = enum.auto()
    PREFILL = enum.auto()
    DECODE = enum.auto()


@dataclass(slots=True)
class Sequence:
    """One sequence in its slot.

    `target`: tokens to evaluate before the next one can be sampled: the prompt and, after a
    resume, the published ids; `prefix`: the same for the prompt cache, which keeps it for
    `belonging`. `adapters`: what it is computed under. `next_token` is sampled but not evaluated.
    `replayed_end`: a resumed sequence that had ended already. `has_leader`: somebody else is
    computing its prefix. `served_step`: the last step that computed prompt of it. `replay`:
    published ids that its sampler has yet to see the logits of; they aren't in `target`.
    `was_shifted`: the context was full and gave a part up.
    """

    request: SequenceRequest
    slot: Slot
    target: NDArray[np.int32]
    prefix: Prefix
    belonging: Belonging
    adapters: AdapterPlan
    sampler: Sampler
    answer: Answer
    arrival: int
    served_step: int
    replayed_end: Ended | None = None
    replay: deque[int] = field(default_factory=deque)
    phase: Phase = Phase.WAITING
    has_leader: bool = False
    next_token: int = -1
    cached_tokens: int = 0
    was_shifted: bool = False
    clock: SequenceClock = field(default_factory=SequenceClock)
    row: Row = field(init=False)

    def __post_init__(self) -> None:
        params = self.request.sampling
        self.row = Row(self.sampler, params.num_probs, params.post_sampling_probs)

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.tokens)

    @property
    def remaining(self) -> int:
        """Tokens of `target` that aren't in the context yet."""
        return len(self.target) - self.slot.length

    @property
    def piece_len(self) -> int:
        """How many of those may be computed at once: not those before an activation and behind."""
        before = self.adapters.start - self.slot.length
        return min(self.remaining, before) if before > 0 else self.remaining

    @property
    def scales(self) -> Scales:
        """The adapters of what is computed next."""
        is_before = self.phase is Phase.PREFILL and self.slot.length < self.adapters.start
        return self.adapters.before if is_before else self.adapters.after

    @property
    def lane_rank(self) -> int:
        """0 goes before 1."""
        return LANE_RANK[self.request.lane]

    def is_late(self, clock: Clock) -> bool:
        """Whether its time is over; the clock is read only where there is a limit."""
        limit_ms, since = self.request.limits.max_predict_ms, self.clock.first_token_ts
        return bool(limit_ms and since is not None and (clock.monotonic() - since) * 1e3 > limit_ms)

    def usage(self) -> Usage:
        """Counts so far; tokens of an earlier engine are in them once."""
        return Usage(self.prompt_len, self.answer.num_tokens, self.cached_tokens)
