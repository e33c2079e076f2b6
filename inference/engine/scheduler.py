"""Whose prompt is computed in this step.

Rules: a prompt that got nothing for `age_steps` goes first; then interactive before background;
then the owner served longest ago; among an owner's prompts the one with least left to do, and of
about as much the oldest: else newcomers would overtake it in an endless row. So a long prompt never
blocks others, and nobody waits for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TypeAlias

from inference.engine.adapters import Scales
from inference.engine.config import EngineConfig
from inference.engine.contract import Task
from inference.engine.sequence import Sequence

NEVER = -1


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes of one sequence: `num` tokens; `wants_token`: one is sampled after."""

    sequence: Sequence
    num: int
    wants_token: bool


Group: TypeAlias = tuple[Task, Scales]


def group_of(sequence: Sequence) -> Group:
    """Who may share its next batch: the same kind of task, under the same adapters and scales."""
    return sequence.request.task, sequence.scales


def groups_of(sequence: Sequence) -> set[Group]:
    """Every group that it is in at some time."""
    plan, task = sequence.adapters, sequence.request.task
    return {(task, plan.before), (task, plan.after)}


class GroupTurns:
    """Whose turn it is among groups that can't share a batch: the one that waited longest."""

    def __init__(self) -> None:
        self._num_members: Counter[Group] = Counter()
        self._served_step: dict[Group, int] = {}

    @property
    def is_one(self) -> bool:
        """Whether all that are here may share a batch."""
        return len(self._num_members) <= 1

    def join(self, sequence: Sequence) -> None:
        """A sequence is here; pair of `leave`."""
        self._num_members.update(groups_of(sequence))

    def leave(self, sequence: Sequence) -> None:
        """It is gone."""
        for group in groups_of(sequence):
            self._num_members[group] -= 1
            if not self._num_members[group]:
                del self._num_members[group]

    def choose(self, sequences: Seq[Sequence], *, step: int) -> list[Sequence]:
        """Those of one group; each group comes once before any comes twice."""
        groups: dict[Group, int] = {}
        for seq in sequences:
            group = group_of(seq)
            groups[group] = min(groups.get(group, seq.arrival), seq.arrival)
        self._served_step = {
            group: served for group, served in self._served_step.items() if group in groups
        }
        chosen = min(groups, key=lambda g: (self._served_step.get(g, NEVER), groups[g]))
        self._served_step[chosen] = step
        return [seq for seq in sequences if group_of(seq) == chosen]


class PrefillScheduler:
    """Remembers when each owner was served; forgets owners that have no prompt left."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._served_step: dict[str, int] = {}

    def choose(
        self, waiting: Seq[Sequence], *, budget: int, step: int, slack: int = 0
    ) -> list[tuple[Sequence, int]]:
        """Pieces (sequence, number of tokens) for this step, at most `budget` tokens together; a
        rest of at most `slack` tokens of the first prompt comes along."""
        self._forget(waiting)
        pieces: list[tuple[Sequence, int]] = []
        for sequence in sorted(waiting, key=lambda seq: self._rank(seq, step)):
            num = min(sequence.piece_len, budget)
            if not pieces and sequence.piece_len <= budget + slack:
                num = sequence.piece_len
            is_crumb = num < sequence.piece_len and num < self._config.min_piece_len
            if num <= 0 or (is_crumb and pieces):
                break
            pieces.append((sequence, num))
            budget -= num
            sequence.served_step = step
            self._served_step[sequence.request.owner_key] = step
        return pieces

    def _rank(self, sequence: Sequence, step: int) -> tuple[int, int, int, int]:
        if step - sequence.served_step >= self._config.age_steps:
            return NEVER, sequence.served_step, 0, sequence.arrival
        owner_step = self._served_step.get(sequence.request.owner_key, NEVER)
        about = sequence.remaining.bit_length()  # within a factor of two
        return sequence.lane_rank, owner_step, about, sequence.arrival

    def _forget(self, waiting: Iterable[Sequence]) -> None:
        owners = {sequence.request.owner_key for sequence in waiting}
        for owner in self._served_step.keys() - owners:
            del self._served_step[owner]
