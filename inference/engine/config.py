"""Numbers that shape a step. Lengths in tokens, durations in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the engine divides its time and its memory.

    `step_target_s`: what a step with prompt work may take while somebody else is decoding, the
    longest stall a reader sees and the wait of a cancel; twice that while nobody decodes.
    `min_piece_len`: the smallest piece of a prompt, also the first one, which measures the rate.
    `copy_min_len`: a shared prefix is copied (or waited for) only when it spares that many tokens:
    a copy between sequences moves a whole stream of the KV cache.
    `age_steps`: a prompt that got nothing for that many steps goes first, whatever its lane.
    `large_vocab_len`: from that many tokens on, rows are sampled by `sample_threads` threads
    (0: as many as there are cores, 4 at most).
    `host_cache_bytes`: states of evicted sequences kept in ordinary memory.
    `context_shift`: a full context drops its older half instead of ending the answer.
    `special_tokens`: answers show the text of special tokens.
    `verify_cache`: compute every reused prefix again and compare (slow, for finding mistakes).
    """

    step_target_s: float = 0.2
    min_piece_len: int = 32
    copy_min_len: int = 64
    age_steps: int = 32
    large_vocab_len: int = 100_000
    sample_threads: int = 0
    host_cache_bytes: int = 0
    verify_cache: bool = False
    context_shift: bool = False
    special_tokens: bool = False
