"""Measuring variants of a context on a loaded model: small contexts, seconds in all."""

from __future__ import annotations

import dataclasses
import logging
import statistics
import time
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.engine.batch import Batch
from inference.engine.calibration import OutOfTimeError, Sample, VariantError
from inference.engine.errors import BackendError
from inference.engine.llama_backend import LlamaBackend
from inference.engine.llama_load import make_context
from inference.protocol.spec import EngineSpec
from inference.protocol.trial import Choice, Rates
from llamaweb.lib.errors import LlamawebError

logger = logging.getLogger(__name__)

DEPTH_LEN = 256  # tokens that lie in the cache while decoding is measured, on a fast machine
MIN_LEN = 32  # the least that is read in one go: fewer rows take other kernels
FILL_S, PIECE_S, DECODE_S = 0.6, 0.3, 0.2  # a machine that needs longer reads and writes less
MIN_STEPS, MAX_STEPS = 3, 12
SEQ_STEP_LEN = 256  # llama.cpp rounds contexts to that
MAX_SEQS = 16  # more streams behave like these
MAX_CONTEXTS = 2  # kept: the best so far, and what is compared with it
TOKEN_STRIDE = 7919  # spreads the tokens over the vocabulary: experts and embeddings differ


class Variant:
    """A context of its own for one choice. Free it with `close`; the model stays.

    Raises:
        VariantError: no such context could be made.
    """

    def __init__(self, model: Any, spec: EngineSpec, choice: Choice, *, seq_len: int) -> None:
        num_seqs = spec.num_slots
        small = dataclasses.replace(
            spec,
            context_len=-(-seq_len // SEQ_STEP_LEN) * SEQ_STEP_LEN,
            pool_contexts=num_seqs,
            threads=choice.threads,
            flash_attention=choice.flash_attention,
            kv_unified=choice.kv_unified,
            ubatch_len=choice.ubatch_len,
        )
        try:
            self._context = make_context(model, small)
        except LlamawebError as error:
            raise VariantError(error.message) from error
        self._backend = LlamaBackend(
            model, self._context, max_context=seq_len, is_unified=choice.kv_unified
        )
        self._batch = Batch(self._backend.batch_len)
        self._vocab_len = self._backend.tokenizer.vocab_len
        self._lengths = [0] * num_seqs

    def close(self) -> None:
        """Free the context."""
        llama_cpp.llama_free(self._context)

    def use_threads(self, num: int) -> None:
        """What the next decodes are computed with."""
        llama_cpp.llama_set_n_threads(self._context, num, num)

    def warm_up(self) -> None:
        """First use of every kernel."""
        self.read(MIN_LEN + 1)
        self.step(1)
        self.cut_back(0)

    def read(self, num: int) -> float:
        """Seconds to read `num` more tokens into the first sequence."""
        started_ts = time.perf_counter()
        for start in range(0, num, self._backend.batch_len):
            length = min(num - start, self._backend.batch_len)
            self._batch.clear()
            tokens = self._tokens(length, self._lengths[0])
            self._batch.add_piece(0, tokens, self._lengths[0], output=True)
            self._decode()
            self._lengths[0] += length
        return time.perf_counter() - started_ts

    def spread(self) -> None:
        """Give every sequence cells of its own with what the first one has read."""
        state = self._backend.save(0)
        for seq_id in range(1, len(self._lengths)):
            if state is None or not self._backend.restore(seq_id, state):
                raise VariantError("the first sequence's state couldn't be copied")
            self._lengths[seq_id] = self._lengths[0]

    def step(self, num_seqs: int) -> float:
        """Seconds for one token of each of the first `num_seqs` sequences."""
        started_ts = time.perf_counter()
        self._batch.clear()
        for seq_id in range(num_seqs):
            length = self._lengths[seq_id]
            self._batch.add_token(seq_id, int(self._tokens(1, length)[0]), length)
            self._lengths[seq_id] += 1
        self._decode()
        return time.perf_counter() - started_ts

    def cut_back(self, length: int) -> None:
        """Forget what sequences hold beyond `length` tokens."""
        for seq_id, held in enumerate(self._lengths):
            if held > length:
                if not self._backend.trim(seq_id, length) and length:
                    raise VariantError("this memory can't go back")
                self._lengths[seq_id] = length

    def _tokens(self, num: int, start: int) -> NDArray[np.int32]:
        numbers = TOKEN_STRIDE * np.arange(start, start + num, dtype=np.int64)
        return (numbers % self._vocab_len).astype(np.int32)

    def _decode(self) -> None:
        try:
            self._backend.decode(self._batch)
            self._backend.logits(0)  # waits until they are computed
        except BackendError as error:
            raise VariantError(error.message) from error


class LlamaMeter:
    """See `Meter`. Owns contexts, not `model`; close it first."""

    def __init__(self, model: Any, spec: EngineSpec) -> None:
        self._model = model
        self._spec = dataclasses.replace(spec, num_slots=min(spec.num_slots, MAX_SEQS))
        self._variants: dict[tuple[Choice, Sample], Variant] = {}
        self._depth_len = self._piece_len = 0

    def probe(self, choice: Choice) -> None:
        """Compute once; a machine that can't do it ends the process here.

        Raises:
            VariantError: no context, or the model failed.
        """
        variant = Variant(self._model, self._spec, choice, seq_len=2 * (MIN_LEN + 1))
        try:
            variant.warm_up()
        finally:
            variant.close()

    def measure(self, choice: Choice, sample: Sample, deadline_ts: float) -> Rates:
        """See `Meter.measure`."""
        variant = self._variant(choice, sample, deadline_ts)
        try:
            return self._rates(variant, choice, sample, deadline_ts)
        except (VariantError, OutOfTimeError):
            self.close()  # nobody knows what it holds
            raise

    def close(self) -> None:
        """Free all contexts."""
        while self._variants:
            self._variants.popitem()[1].close()

    def _rates(self, variant: Variant, choice: Choice, sample: Sample, deadline_ts: float) -> Rates:
        variant.use_threads(choice.threads)
        if not sample.decodes:
            rates = Rates(prefill=sample.prompt_len / variant.read(sample.prompt_len))
            variant.cut_back(0)
            return rates
        piece_len = min(sample.prompt_len, self._piece_len)
        prefill = piece_len / variant.read(piece_len)
        variant.cut_back(self._depth_len)
        _check(deadline_ts)
        num_seqs = self._spec.num_slots
        one = self._step_s(variant, 1, deadline_ts)
        together = self._step_s(variant, num_seqs, deadline_ts) if num_seqs > 1 else one
        return Rates(prefill, 1 / one, num_seqs / together)

    def _variant(self, choice: Choice, sample: Sample, deadline_ts: float) -> Variant:
        """A filled context, kept for the next repeat; another number of threads can share it."""
        key = (dataclasses.replace(choice, threads=0), sample)
        if key in self._variants:
            variant = self._variants.pop(key)
            self._variants[key] = variant  # the last one used
            return variant
        while len(self._variants) >= MAX_CONTEXTS:
            self._variants.pop(next(iter(self._variants))).close()
        spec, seq_len = self._spec, DEPTH_LEN + max(sample.prompt_len, MAX_STEPS + 1) + MIN_LEN + 1
        if not sample.decodes:
            spec, seq_len = dataclasses.replace(spec, num_slots=1), sample.prompt_len + MIN_LEN
        variant = Variant(self._model, spec, choice, seq_len=seq_len)
        try:
            variant.warm_up()
            if sample.decodes:
                self._fill(variant, deadline_ts)
        except Exception:
            variant.close()
            raise
        self._variants[key] = variant
        return variant

    def _fill(self, variant: Variant, deadline_ts: float) -> None:
        """Put every sequence at the depth at which decoding is measured."""
        if not self._depth_len:
            rate = MIN_LEN / variant.read(MIN_LEN)
            variant.cut_back(0)
            self._depth_len = _whole(rate * FILL_S, DEPTH_LEN)
            self._piece_len = _whole(rate * PIECE_S, DEPTH_LEN)
            logger.info("measured at a depth of %d tokens", self._depth_len)
        for _ in range(0, self._depth_len, MIN_LEN):
            _check(deadline_ts)
            variant.read(MIN_LEN)
        variant.spread()

    def _step_s(self, variant: Variant, num_seqs: int, deadline_ts: float) -> float:
        """Median seconds of a step."""
        variant.step(num_seqs)  # builds the graph
        taken: list[float] = []
        while len(taken) < MIN_STEPS or (sum(taken) < DECODE_S and len(taken) < MAX_STEPS):
            _check(deadline_ts)
            taken.append(variant.step(num_seqs))
        variant.cut_back(self._depth_len)
        return statistics.median(taken)


def _whole(length: float, most: int) -> int:
    """A multiple of MIN_LEN from MIN_LEN to `most`."""
    return max(MIN_LEN, min(most, int(length) // MIN_LEN * MIN_LEN))


def _check(deadline_ts: float) -> None:
    if time.monotonic() > deadline_ts:
        raise OutOfTimeError
