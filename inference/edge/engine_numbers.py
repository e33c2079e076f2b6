"""The numbers of an engine's heartbeat as metrics: `Engine.stats()` by name.

A test holds the two together, and docs/metrics.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llamaweb.lib.instrument import PREFIX, Instrument

Kind = Literal["counter", "gauge"]
LABELS = ("model", "engine")


@dataclass(frozen=True, slots=True)
class EngineNumber:
    """`name` in `Engine.stats()`; `metric`: its name outside, without prefix and `_total`."""

    name: str
    metric: str
    kind: Kind
    help: str

    @property
    def instrument(self) -> Instrument:
        """How it is documented and exported."""
        end = "_total" if self.kind == "counter" else ""
        return Instrument(f"{PREFIX}_engine_{self.metric}{end}", self.kind, self.help, LABELS)


def _counter(name: str, help_text: str, metric: str = "") -> EngineNumber:
    return EngineNumber(name, metric or name, "counter", help_text)


def _gauge(name: str, help_text: str, metric: str = "") -> EngineNumber:
    return EngineNumber(name, metric or name, "gauge", help_text)


ENGINE_NUMBERS = (
    _counter("steps", "Batches computed.", "batches"),
    _counter("ubatches", "Passes over the weights; with `batches` the passes a step."),
    _counter("decode_steps", "Steps in which nothing but answers was computed."),
    _counter("decode_ubatches", "Passes of those; more than one each: ids were not dense."),
    _counter("graphs_reused", "Passes that took the last one's graph again."),
    _counter("batch_rows", "Rows computed; over `batch_room_total` it is the batches' fill."),
    _counter("batch_room", "Rows that would have had room in the batches computed."),
    _counter("step_s", "Time in steps, all of it.", "step_seconds"),
    _counter("busy_s", "Time in the library's decode.", "decode_seconds"),
    _counter("decode_step_s", "Time in steps without prompt work.", "decode_step_seconds"),
    _gauge("longest_step_s", "The longest step so far: the worst stall.", "longest_step_seconds"),
    _counter("prompt_tokens", "Prompt tokens computed."),
    _counter("cached_tokens", "Prompt tokens that were there already."),
    _counter("generated_tokens", "Tokens generated."),
    _counter("shifts", "Full contexts that gave their older part up."),
    _counter("shrunk_steps", "Steps made smaller because the shared pool was full."),
    _counter("finished", "Sequences that ended by themselves."),
    _counter("failed", "Sequences that failed."),
    _counter("cancelled", "Sequences that were cancelled."),
    _gauge("running", "Sequences being computed."),
    _gauge("waiting", "Sequences in a slot that wait for somebody's prefix, or for room."),
    _gauge("free_slots", "Slots that can be taken."),
    _gauge("threads", "CPU threads of a decode now; fewer while others need the cores."),
    _gauge(
        "prefill_rate", "Prompt tokens a second, as last measured.", "prefill_tokens_per_second"
    ),
    _counter("cache_slot_hit_tokens", "Tokens gone on from in the same slot."),
    _counter("cache_copy_hit_tokens", "Tokens brought from another slot."),
    _counter("cache_host_hit_tokens", "Tokens brought from the second tier."),
    _counter("cache_missed_tokens", "Tokens that had to be computed."),
    _counter("cache_copies", "Copies from slot to slot."),
    _counter("cache_state_copies", "Copies from slot to slot by way of a state."),
    _counter("cache_moves", "Sequences moved to make ids dense again."),
    _counter("cache_stores", "States put into the second tier."),
    _counter("cache_restores", "States brought back from it."),
    _counter("cache_evicted", "Contents that had to go for others."),
    _counter("cache_checks", "Reused prefixes computed again for comparison."),
    _counter("cache_check_failures", "Comparisons that failed."),
    _gauge("cache_worst_check_gap", "The largest difference of a logit in a comparison."),
    _gauge("cache_slot_tokens", "Tokens held by idle slots."),
    _gauge("cache_slot_bytes", "Bytes of those, estimated from states saved."),
    _gauge("cache_host_entries", "States in the second tier."),
    _gauge("cache_host_bytes", "Bytes of the second tier."),
    _gauge("cache_host_budget_bytes", "Bytes it may take."),
)
