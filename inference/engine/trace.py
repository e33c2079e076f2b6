"""A Chrome trace of steps and slots: open the file in chrome://tracing or ui.perfetto.dev.

Steps are one row, and each slot is one with the life of its sequences: waiting, prefill, decode.
It holds ids and numbers, never text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from inference.engine.sequence import Phase, Sequence
from inference.engine.stats import StepRecord

MAX_EVENTS = 1_000_000  # some 200 MB; what comes behind isn't written
STEP_ROW = 0
FIRST_SLOT_ROW = 1


class Trace:
    """Writes as it goes; a file without its end is still a trace. Times are monotonic seconds."""

    def __init__(self, path: Path, num_slots: int) -> None:
        """Raises OSError if `path` can't be written."""
        self._file: TextIO = path.open("w", encoding="utf-8")
        self._file.write("[")
        self._num_events = 0
        self._begun: dict[str, tuple[Phase, float]] = {}
        self._name_row(STEP_ROW, "steps")
        for index in range(num_slots):
            self._name_row(FIRST_SLOT_ROW + index, f"slot {index}")

    def step(self, started_ts: float, ended_ts: float, record: StepRecord) -> None:
        """A step from its plan to its events."""
        self._span(
            STEP_ROW,
            "prompt" if record.num_prompt else "decode",
            started_ts,
            ended_ts,
            rows_decode=record.num_decode,
            rows_prompt=record.num_prompt,
            ubatches=record.num_ubatches,
            decode_ms=round(record.elapsed_s * 1e3, 3),
        )

    def phase(self, sequence: Sequence, now: float) -> None:
        """`sequence` entered its phase."""
        self.end(sequence, now)
        self._begun[sequence.request.generation_id] = (sequence.phase, now)

    def end(self, sequence: Sequence, now: float) -> None:
        """It left the phase it was in; unknown ones are ignored."""
        begun = self._begun.pop(sequence.request.generation_id, None)
        if begun is None:
            return
        phase, started_ts = begun
        self._span(
            FIRST_SLOT_ROW + sequence.slot.seq_id,
            phase.name.lower(),
            started_ts,
            now,
            generation=sequence.request.generation_id,
            prompt_tokens=sequence.prompt_len,
            cached_tokens=sequence.cached_tokens,
            completion_tokens=sequence.answer.num_tokens,
        )

    def close(self) -> None:
        """End the file."""
        self._file.write("{}]\n" if self._num_events == 0 else "\n]\n")
        self._file.close()

    def _span(self, row: int, name: str, started_ts: float, ended_ts: float, **args: Any) -> None:
        self._write(
            {
                "name": name,
                "ph": "X",
                "pid": 1,
                "tid": row,
                "ts": round(started_ts * 1e6, 1),
                "dur": round((ended_ts - started_ts) * 1e6, 1),
                "args": args,
            }
        )

    def _name_row(self, row: int, name: str) -> None:
        args = {"name": name}
        self._write({"name": "thread_name", "ph": "M", "pid": 1, "tid": row, "args": args})

    def _write(self, event: dict[str, Any]) -> None:
        if self._num_events >= MAX_EVENTS:
            return
        self._file.write(",\n" if self._num_events else "\n")
        self._file.write(json.dumps(event, separators=(",", ":")))
        self._num_events += 1
