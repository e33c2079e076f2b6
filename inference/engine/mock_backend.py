"""A backend without a model: scripted answers, delays and faults, on an emulated KV memory.

The memory keeps the tokens themselves, and a sequence is answered only if its stream holds exactly
its prompt and answer: a mistake in slots, prompt cache or batches shows as a failure, not as luck.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inference.engine.adapters import Adapter, AdapterPlan, Scales, adapter_plan
from inference.engine.batch import Batch
from inference.engine.constraints import Constraint
from inference.engine.contract import SequenceRequest
from inference.engine.errors import BackendError, NoRoomError
from inference.engine.host_cache import State
from inference.engine.loading import OnLoad, say
from inference.engine.mock_grammar import MockGrammar
from inference.engine.mock_sampler import NumpySampler
from inference.engine.mock_tokenizer import END_TOKEN, VOCAB_LEN, MockTokenizer, encode_text
from inference.engine.picks import Logits, Sampler
from inference.engine.sampling import Chain
from inference.protocol.spec import AdapterSpec, MockSpec

DEFAULT_CONTEXT_LEN = 40_000
SCRIPT_LOGIT = 30.0  # noise is within 0..1, so that ordinary temperatures keep to the script
MAX_PREFILL_SLEEP_S = 0.25  # a step, so that a cancel is never late
MAX_DELAY_S = 1.0
LOAD_PARTS = 100
LAST_USER = re.compile(rb"<\|im_start\|>user\n((?:(?!<\|im_start\|>).)*?)<\|im_end\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Script:
    """What a sequence is to say behind its prompt."""

    prompt: bytes
    prompt_len: int
    reply: bytes
    num_cut: int = 0  # said tokens that a shift took out


def mock_load(spec: MockSpec, on_load: OnLoad, sleep: Callable[[float], None] = time.sleep) -> None:
    """Take as long as `spec` says, and tell of it.

    Raises:
        LoadStoppedError: `on_load` said so.
    """
    num_parts = LOAD_PARTS if spec.load_ms else 0
    for part in range(num_parts):
        say(on_load, part / num_parts)
        sleep(spec.load_ms / 1e3 / num_parts)
    say(on_load, 1.0)


class MockBackend:
    """See `Backend`. `fault` is called before each batch and may raise. `pool_len` 0: as many cells
    as one context has."""

    name = "mock"

    def __init__(
        self,
        spec: MockSpec | None = None,
        *,
        num_seqs: int = 4,
        max_context: int = DEFAULT_CONTEXT_LEN,
        batch_len: int = 2048,
        ubatch_len: int = 512,
        window_len: int = 0,
        is_recurrent: bool = False,
        is_unified: bool = False,
        pool_len: int = 0,
        adapters: tuple[Adapter, ...] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec = spec or MockSpec()
        self.tokenizer = MockTokenizer()
        self.num_seqs = num_seqs
        self.max_context = max_context
        self.batch_len = batch_len
        self.ubatch_len = ubatch_len
        self.can_share = not is_recurrent
        self.can_shift = not is_recurrent
        self.is_unified = is_unified
        self.pool_len = pool_len or max_context
        self.adapters = adapters
        self.num_threads = 1
        self.graphs_reused = 0
        self.fingerprint = "mock"
        self.fault: Callable[[Batch], None] | None = None
        self.num_evaluated = 0
        self._sleep = sleep
        self._cells = np.full((num_seqs, max_context), -1, np.int32)
        self._lengths = [0] * num_seqs
        self._window_len = window_len
        self._oldest = [0] * num_seqs  # with a window: the oldest cell that is still there
        self._scripts: dict[int, Script] = {}
        self._plans: dict[int, AdapterPlan] = {}
        self._scales: Scales = ()  # in use
        self._copies: list[tuple[int, int]] = []
        self._outputs: list[int] = []
        self._num_generated = 0
        noise = np.random.Generator(np.random.PCG64(0)).random((VOCAB_LEN, VOCAB_LEN))
        self._noise = noise.astype(np.float32)

    def begin(self, seq_id: int, request: SequenceRequest) -> None:
        """See `Backend.begin`."""
        prompt = np.array(request.tokens, np.int32)
        reply = encode_text(self.spec.reply) or _last_message(request.tokens)
        self._scripts[seq_id] = Script(prompt.tobytes(), len(prompt), reply)
        self._plans[seq_id] = adapter_plan(self.adapters, request.adapters, request.tokens)

    def use_threads(self, num: int) -> None:
        """See `Backend.use_threads`; it has none."""

    def use_adapters(self, scales: Scales) -> None:
        """See `Backend.use_adapters`; `decode` refuses rows of other ones."""
        self._scales = scales

    def decode(self, batch: Batch) -> None:
        """See `Backend.decode`."""
        self._outputs = []
        self._do_copies()
        if self.fault is not None:
            self.fault(batch)
        if self.is_unified and sum(self._lengths) + batch.num_rows > self.pool_len:
            raise NoRoomError("no room in the KV cache")
        num_output = len(batch.outputs)
        self._check_layout(batch)
        self._wait(batch.num_rows - num_output, num_output)
        first = 0
        for seq_id, num in batch.runs:
            self._write(batch, first, num, seq_id)
            first += num
        self.num_evaluated += batch.num_rows
        self._outputs = [int(batch.seq_ids[row]) for row in batch.outputs]
        self._num_generated += num_output
        self._maybe_crash()

    def logits(self, output: int) -> Logits:
        """See `Backend.logits`; raises BackendError where the script ends in a failure."""
        seq_id = self._outputs[output]
        script, length = self._scripts[seq_id], self._lengths[seq_id]
        cells = self._cells[seq_id, :length]
        if cells[: script.prompt_len].tobytes() != script.prompt:
            raise BackendError("the stream doesn't hold the sequence's prompt")
        num_said = length - script.prompt_len + script.num_cut
        if self.spec.fail_after and num_said >= self.spec.fail_after:
            raise BackendError("the script fails here")
        logits: Logits = self._noise[cells[-1]].copy()
        if script.reply:
            logits[script.reply[num_said % len(script.reply)]] += SCRIPT_LOGIT
        if num_said >= len(script.reply):
            logits[END_TOKEN] += 2 * SCRIPT_LOGIT
        return logits

    def sampler(self, chain: Chain, seed: int) -> Sampler:
        """See `Backend.sampler`."""
        return NumpySampler(chain, seed)

    def grammar(self, text: str) -> Constraint:
        """See `Backend.grammar`."""
        return MockGrammar(text)

    def can_reuse(self, seq_id: int, length: int) -> bool:
        """See `Backend.can_reuse`."""
        if not self.can_share:
            return length == self._lengths[seq_id]
        if not self._window_len:
            return True
        return self._oldest[seq_id] <= max(0, length - self._window_len)

    def copy(self, source: int, target: int, length: int) -> None:
        """See `Backend.copy`: lengths now, tokens at the next decode, as llama.cpp does it."""
        if source == target:
            raise BackendError("a stream was copied to itself")
        self._copies.append((source, target))
        self._lengths[target] = self._lengths[source]
        self._oldest[target] = self._oldest[source]
        if self.is_unified:
            self._do_copies()

    def trim(self, seq_id: int, length: int) -> bool:
        """See `Backend.trim`."""
        if length > self._lengths[seq_id]:
            raise BackendError(f"{length} tokens are to stay of {self._lengths[seq_id]}")
        if not self.can_share and 0 < length < self._lengths[seq_id]:
            self._lengths[seq_id] = 0
            return False
        self._lengths[seq_id] = length
        if length == 0:
            self._oldest[seq_id] = 0
        return True

    def move(self, source: int, target: int, length: int) -> None:
        """See `Backend.move`."""
        self.copy(source, target, length)
        self._scripts[target] = self._scripts.pop(source)
        self._plans[target] = self._plans.pop(source)

    def state_bytes(self, seq_id: int) -> int:
        """See `Backend.state_bytes`."""
        return 4 * (self._lengths[seq_id] + 1)

    def save(self, seq_id: int) -> State | None:
        """See `Backend.save`."""
        if any(seq_id == target for _, target in self._copies):
            raise BackendError("a state was read before the copy to its stream")
        head = np.array([self._oldest[seq_id]], np.int32)
        return np.concatenate((head, self._cells[seq_id, : self._lengths[seq_id]])).view(np.uint8)

    def restore(self, seq_id: int, state: State) -> bool:
        """See `Backend.restore`."""
        if any(seq_id in pair for pair in self._copies):
            raise BackendError("a state was written under a pending copy")
        cells = state.view(np.int32)
        self._oldest[seq_id], self._lengths[seq_id] = int(cells[0]), len(cells) - 1
        self._cells[seq_id, : len(cells) - 1] = cells[1:]
        return True

    def cut(self, seq_id: int, start: int, end: int) -> None:
        """See `Backend.cut`."""
        length = self._lengths[seq_id]
        if not (self.can_shift and 0 <= start < end <= length):
            raise BackendError(f"{start}..{end} can't be cut out of {length}")
        self._cells[seq_id, start : start + length - end] = self._cells[seq_id, end:length].copy()
        self._lengths[seq_id] = length - (end - start)
        plan = self._plans.get(seq_id)
        if plan is not None:
            gone = max(0, min(end, plan.start) - start)
            self._plans[seq_id] = replace(plan, start=plan.start - gone)
        script = self._scripts.get(seq_id)
        if script is not None:
            self._scripts[seq_id] = _without(script, start, end)

    def warm_up(self) -> None:
        """Nothing to warm."""

    def close(self) -> None:
        """Nothing to free."""

    def _do_copies(self) -> None:
        for source, target in self._copies:
            self._cells[target] = self._cells[source]
        self._copies.clear()

    def _check_layout(self, batch: Batch) -> None:
        for seq_id, num in batch.runs:
            plan, start = self._plans.get(seq_id, AdapterPlan()), self._lengths[seq_id]
            if (plan.before if start < plan.start else plan.after) != self._scales:
                raise BackendError("a sequence is computed with somebody else's adapters")
            if start < plan.start < start + num:
                raise BackendError("an adapter is activated within a batch")
        seq_ids = batch.seq_ids[: batch.num_rows]
        outputs = [int(batch.seq_ids[row]) for row in batch.outputs]
        if (np.diff(seq_ids) < 0).any() or len(set(outputs)) != len(outputs):
            raise BackendError("rows aren't ascending or a sequence has two outputs")

    def _write(self, batch: Batch, first: int, num: int, seq_id: int) -> None:
        start, end = self._lengths[seq_id], self._lengths[seq_id] + num
        positions = batch.positions[first : first + num]
        if not (positions == np.arange(start, end)).all() or end > self.max_context:
            raise BackendError(f"positions aren't {start}..{end - 1}")
        if self._window_len and self._oldest[seq_id] > max(0, start - self._window_len):
            raise BackendError("cells inside the window are gone")
        self._cells[seq_id, start:end] = batch.tokens[first : first + num]
        self._lengths[seq_id] = end
        if self._window_len:
            self._oldest[seq_id] = max(self._oldest[seq_id], end - self._window_len)

    def _wait(self, num_prompt: int, num_output: int) -> None:
        prefill_s = min(num_prompt * self.spec.prefill_ms_per_token / 1e3, MAX_PREFILL_SLEEP_S)
        delay_s = min(self.spec.delay_ms / 1e3, MAX_DELAY_S) if num_output else 0.0
        if prefill_s + delay_s > 0.0:
            self._sleep(prefill_s + delay_s)

    def _maybe_crash(self) -> None:
        if self.spec.crash_after and self._num_generated > self.spec.crash_after:
            os.kill(os.getpid(), signal.Signals[self.spec.crash_signal])


def mock_adapters(specs: Sequence[AdapterSpec]) -> tuple[Adapter, ...]:
    """Adapters that nothing is read for and that change no answer."""
    return tuple(Adapter(spec.name or spec.path, spec.path, spec.scale) for spec in specs)


def _without(script: Script, start: int, end: int) -> Script:
    """What is to be found in a stream that lost the positions `start`..`end`-1."""
    prompt = np.frombuffer(script.prompt, np.int32)
    left = np.concatenate((prompt[:start], prompt[end:]))
    num_cut = script.num_cut + (end - start) - (len(prompt) - len(left))
    return Script(left.tobytes(), len(left), script.reply, num_cut)


def _last_message(tokens: tuple[int, ...]) -> bytes:
    """The last user message of a ChatML prompt, or all of a raw one."""
    text = bytes(token for token in tokens if token < END_TOKEN)
    messages = LAST_USER.findall(text)
    return messages[-1] if messages else text
