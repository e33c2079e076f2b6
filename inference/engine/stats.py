"""Counters of an engine since its start."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from inference.protocol.events import Failed, Finished, Terminal


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step: rows by kind, passes over the weights, duration of the decode."""

    num_decode: int = 0
    num_prompt: int = 0
    num_ubatches: int = 0
    elapsed_s: float = 0.0


@dataclass(slots=True)
class CacheStats:
    """How prefixes came into slots (tokens by tier and way), and what happened to stored states."""

    copies: int = 0
    state_copies: int = 0
    moves: int = 0
    stores: int = 0
    restores: int = 0
    evicted: int = 0
    slot_hit_tokens: int = 0
    copy_hit_tokens: int = 0
    host_hit_tokens: int = 0
    missed_tokens: int = 0
    checks: int = 0
    check_failures: int = 0
    worst_check_gap: float = 0.0

    def as_mapping(self) -> dict[str, float | int]:
        """Counters by name: `cache_…`."""
        return {f"cache_{name}": value for name, value in asdict(self).items()}


@dataclass(slots=True)
class EngineStats:
    """`decode_*` count steps in which nothing but generated tokens was computed."""

    steps: int = 0
    ubatches: int = 0
    decode_steps: int = 0
    decode_ubatches: int = 0
    batch_rows: int = 0
    batch_room: int = 0
    step_s: float = 0.0
    decode_step_s: float = 0.0
    longest_step_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    busy_s: float = 0.0
    shrunk_steps: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0

    def add_step(self, record: StepRecord, batch_len: int) -> None:
        """Count a decode."""
        self.batch_rows += record.num_decode + record.num_prompt
        self.batch_room += batch_len
        self.steps += 1
        self.ubatches += record.num_ubatches
        self.prompt_tokens += record.num_prompt
        self.busy_s += record.elapsed_s
        if record.num_prompt == 0:
            self.decode_steps += 1
            self.decode_ubatches += record.num_ubatches

    def add_time(self, record: StepRecord, elapsed_s: float) -> None:
        """Count the whole step around a decode."""
        self.step_s += elapsed_s
        if elapsed_s > self.longest_step_s:
            self.longest_step_s = elapsed_s
        if record.num_prompt == 0:
            self.decode_step_s += elapsed_s

    def count_end(self, event: Terminal) -> None:
        """Count an end by its kind."""
        if isinstance(event, Finished):
            self.finished += 1
        elif isinstance(event, Failed):
            self.failed += 1
        else:
            self.cancelled += 1

    def as_mapping(self, **gauges: float | int) -> dict[str, float | int]:
        """Counters and gauges under their names."""
        return {**asdict(self), **gauges}
