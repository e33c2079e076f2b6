"""What an engine's taken slots do, as its heartbeat tells administrators: counts, and whose."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, Literal, TypeAlias, get_args

SlotState: TypeAlias = Literal["waiting", "prefill", "decode"]
STATES: tuple[SlotState, ...] = get_args(SlotState)
MAX_TOLD = 64  # the most slots an engine has
OWNER_LEN = 64


@dataclass(frozen=True, slots=True)
class SlotUse:
    """One taken slot. `state` "waiting": for its prompt to be prepared, or somebody else's prefix.

    `prompt_tokens`, and `done_tokens` of them in the context; `cached_tokens` needn't be computed.
    `generated_tokens`: of the answer so far.
    """

    state: SlotState
    owner_key: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    done_tokens: int = 0
    generated_tokens: int = 0

    @property
    def context_tokens(self) -> int:
        """Held in the context now."""
        return self.done_tokens + self.generated_tokens


def encode_slot_uses(uses: Iterable[SlotUse]) -> str:
    """A short text: a list for each, without names."""
    rows = [(use.state, use.owner_key[:OWNER_LEN], *astuple(use)[2:]) for use in uses]
    return json.dumps(rows[:MAX_TOLD], separators=(",", ":"))


def decode_slot_uses(text: object) -> tuple[SlotUse, ...]:
    """What `encode_slot_uses` made; of anything else what can be told."""
    try:
        rows = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return ()
    found = [_use(row) for row in rows[:MAX_TOLD]] if isinstance(rows, list) else []
    return tuple(use for use in found if use is not None)


def _use(row: Any) -> SlotUse | None:
    if not isinstance(row, list) or len(row) < 6 or row[0] not in STATES:
        return None
    owner, counts = row[1], row[2:6]
    if not isinstance(owner, str) or not all(isinstance(count, int) for count in counts):
        return None
    return SlotUse(row[0], owner[:OWNER_LEN], *counts)
