"""llama.cpp as a `Backend`. Only files named llama_* import `llama_cpp`.

llama.cpp aborts the process on a call it doesn't support (a partial copy between streams, a stream
that isn't there), so everything is checked here first.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from dataclasses import replace
from typing import Any

import llama_cpp
import numpy as np

from inference.engine.adapters import Adapter, Scales
from inference.engine.batch import Batch
from inference.engine.constraints import Constraint
from inference.engine.contract import SequenceRequest
from inference.engine.errors import BackendError, NoRoomError
from inference.engine.host_cache import State
from inference.engine.llama_adapters import LlamaAdapters
from inference.engine.llama_candidates import Candidates
from inference.engine.llama_grammar import LlamaGrammar
from inference.engine.llama_load import (
    context_len,
    fingerprint,
    init_library,
    load_model,
    make_context,
)
from inference.engine.llama_sampler import DrySamplers, LlamaSampler
from inference.engine.llama_tokenizer import LlamaTokenizer
from inference.engine.loading import OnLoad, go_on
from inference.engine.picks import Logits, Sampler
from inference.engine.sampling import Chain
from inference.protocol.spec import EngineSpec

logger = logging.getLogger(__name__)

WARM_UP_LEN = 33  # enough rows for the kernels of prompts, which are others than those of decode
NO_ROOM = 1
DECODE_ERRORS = {2: "aborted", -1: "invalid batch"}


class LlamaBackend:
    """See `Backend`. Owns `model`, `adapters` and `context`, and frees them in `close`."""

    @classmethod
    def load(cls, spec: EngineSpec, on_load: OnLoad = go_on) -> LlamaBackend:
        """Load the model of `spec`.

        Raises:
            FailedError, InvalidError, LoadStoppedError: see `load_model`, `LlamaAdapters` and
                `make_context`.
        """
        init_library()
        return cls.on(load_model(spec, on_load), spec)

    @classmethod
    def on(cls, model: Any, spec: EngineSpec) -> LlamaBackend:
        """As `load`, of a model that is loaded; it is freed if that fails."""
        adapters: LlamaAdapters | None = None
        try:
            adapters = LlamaAdapters(model, spec.adapters)
            context = make_context(model, spec)
        except Exception:
            if adapters is not None:
                adapters.close()
            llama_cpp.llama_model_free(model)
            raise
        return cls(
            model,
            context,
            adapters=adapters,
            max_context=context_len(model, spec),
            is_unified=spec.kv_unified,
            fingerprint=fingerprint(model, spec),
        )

    def __init__(
        self,
        model: Any,
        context: Any,
        *,
        adapters: LlamaAdapters | None = None,
        max_context: int,
        is_unified: bool = False,
        fingerprint: str = "",
    ) -> None:
        self._model: Any = model
        self._context: Any = context
        self._adapters = adapters or LlamaAdapters(model, ())
        self._memory = llama_cpp.llama_get_memory(context)
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.name = _describe(model)
        self.num_seqs = int(llama_cpp.llama_n_seq_max(context))
        self.max_context = min(max_context, int(llama_cpp.llama_n_ctx_seq(context)))
        self.pool_len = int(llama_cpp.llama_n_ctx(context))
        self.tokenizer = LlamaTokenizer(model, max_context=self.max_context)
        self.adapters = tuple(map(self._with_text, self._adapters.infos))
        self.batch_len = int(llama_cpp.llama_n_batch(context))
        self.ubatch_len = int(llama_cpp.llama_n_ubatch(context))
        self._window_len = int(llama_cpp.llama_model_n_swa(model))
        self.can_share = not (
            llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
        )
        self.can_shift = bool(llama_cpp.llama_memory_can_shift(self._memory))
        self.is_unified = is_unified
        self.num_threads = int(llama_cpp.llama_n_threads(context))
        self.fingerprint = fingerprint
        self._threads_own = threading.local()
        self._dry = DrySamplers(self._vocab)
        self._make_batch()
        self._num_outputs = 0
        self._rows: Logits | None = None  # of this decode
        self._logits: Logits = np.empty((0, 0), np.float32)
        self._logits_key = (0, 0)

    def begin(self, seq_id: int, request: SequenceRequest) -> None:
        """See `Backend.begin`; a stream needs no preparation."""

    @property
    def graphs_reused(self) -> int:
        """See `Backend.graphs_reused`."""
        return int(llama_cpp.llama_perf_context(self._context).n_reused)

    def _with_text(self, adapter: Adapter) -> Adapter:
        pieces = (self.tokenizer.piece(token, special=True) for token in adapter.invocation)
        return replace(adapter, invocation_text=b"".join(pieces).decode("utf-8", "replace"))

    def use_adapters(self, scales: Scales) -> None:
        """See `Backend.use_adapters`."""
        self._adapters.use(self._context, scales)

    def use_threads(self, num: int) -> None:
        """See `Backend.use_threads`."""
        llama_cpp.llama_set_n_threads(self._context, num, num)

    def decode(self, batch: Batch) -> None:
        """See `Backend.decode`."""
        num = batch.num_rows
        if num > self.batch_len or len(batch.outputs) > self.num_seqs:
            raise BackendError("the batch is larger than the context allows")
        np.take(self._seq_addresses, batch.seq_ids[:num], out=self._row_addresses[:num])
        raw = self._batch
        raw.n_tokens = num
        raw.token = batch.tokens.ctypes.data_as(llama_cpp.llama_token_p)
        raw.pos = ctypes.cast(batch.positions.ctypes.data, ctypes.POINTER(llama_cpp.llama_pos))
        raw.logits = ctypes.cast(batch.wants_logits.ctypes.data, ctypes.POINTER(ctypes.c_int8))
        self._num_outputs, self._rows = 0, None
        code = llama_cpp.llama_decode(self._context, raw)
        if code == NO_ROOM:
            raise NoRoomError("no room in the KV cache")
        if code != 0:
            raise BackendError(f"llama_decode: {DECODE_ERRORS.get(code, 'fatal error')} ({code})")
        self._num_outputs = len(batch.outputs)

    def logits(self, output: int) -> Logits:
        """See `Backend.logits`."""
        if not 0 <= output < self._num_outputs:
            raise BackendError("these logits weren't asked for")
        if self._rows is None:
            self._rows = self._read_rows()
        row: Logits = self._rows[output]
        return row

    def _read_rows(self) -> Logits:
        """All logits of the last decode, in place; the call waits until they are computed."""
        base = ctypes.cast(llama_cpp.llama_get_logits(self._context), ctypes.c_void_p).value
        if not base:
            raise BackendError("there are no logits")
        key = (base, self._num_outputs)
        if key != self._logits_key:
            shape = (self._num_outputs, self.tokenizer.vocab_len)
            cells: Any = (ctypes.c_float * (shape[0] * shape[1])).from_address(base)
            self._logits = np.frombuffer(cells, np.float32).reshape(shape)
            self._logits_key = key
        return self._logits

    def sampler(self, chain: Chain, seed: int) -> Sampler:
        """See `Backend.sampler`."""
        return LlamaSampler(
            chain,
            seed,
            vocab=self._vocab,
            vocab_len=self.tokenizer.vocab_len,
            candidates=self._candidates,
            dry=self._dry,
        )

    def grammar(self, text: str) -> Constraint:
        """See `Backend.grammar`."""
        return LlamaGrammar(text, vocab=self._vocab, candidates=self._candidates)

    def _candidates(self) -> Candidates:
        """The calling thread's buffer, made at its first use."""
        own = self._threads_own
        if not hasattr(own, "candidates"):
            own.candidates = Candidates(self.tokenizer.vocab_len)
        candidates: Candidates = own.candidates
        return candidates

    def can_reuse(self, seq_id: int, length: int) -> bool:
        """See `Backend.can_reuse`.

        A recurrent state can't go back, only on from its end. Behind a sliding window the cells
        may be gone although removing the rest succeeds, so the oldest cell must reach back a
        whole window.
        """
        first = llama_cpp.llama_memory_seq_pos_min(self._memory, seq_id)
        last = llama_cpp.llama_memory_seq_pos_max(self._memory, seq_id)
        if not self.can_share:
            return bool(first >= 0 and last == length - 1)
        oldest_needed = max(0, length - self._window_len) if self._window_len else 0
        return bool(0 <= first <= oldest_needed and last >= length - 1)

    def copy(self, source: int, target: int, length: int) -> None:
        """See `Backend.copy`; between streams only whole ones can be copied."""
        self._check_seq(source)
        self._check_seq(target)
        if source == target:
            raise BackendError("a stream was copied to itself")
        if not self.is_unified:
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)
            return
        llama_cpp.llama_memory_seq_rm(self._memory, target, -1, -1)
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def trim(self, seq_id: int, length: int) -> bool:
        """See `Backend.trim`."""
        self._check_seq(seq_id)
        if llama_cpp.llama_memory_seq_rm(self._memory, seq_id, length, -1):
            return True
        llama_cpp.llama_memory_seq_rm(self._memory, seq_id, -1, -1)
        return False

    def move(self, source: int, target: int, length: int) -> None:
        """See `Backend.move`."""
        self.copy(source, target, length)

    def state_bytes(self, seq_id: int) -> int:
        """See `Backend.state_bytes`."""
        self._check_seq(seq_id)
        return int(llama_cpp.llama_state_seq_get_size(self._context, seq_id))

    def save(self, seq_id: int) -> State | None:
        """See `Backend.save`."""
        size = self.state_bytes(seq_id)
        if size <= 0:
            return None
        try:
            state: State = np.empty(size, np.uint8)
        except MemoryError:
            return None
        written = llama_cpp.llama_state_seq_get_data(self._context, _bytes(state), size, seq_id)
        return state if written == size else None

    def restore(self, seq_id: int, state: State) -> bool:
        """See `Backend.restore`; `state` is one that `save` of this process returned."""
        self._check_seq(seq_id)
        size = state.nbytes
        if llama_cpp.llama_state_seq_set_data(self._context, _bytes(state), size, seq_id):
            return True
        llama_cpp.llama_memory_seq_rm(self._memory, seq_id, -1, -1)
        return False

    def cut(self, seq_id: int, start: int, end: int) -> None:
        """See `Backend.cut`; llama.cpp turns the keys at the next decode."""
        self._check_seq(seq_id)
        if not self.can_shift or not 0 <= start < end:
            raise BackendError("this memory can't be shifted")
        llama_cpp.llama_memory_seq_rm(self._memory, seq_id, start, end)
        llama_cpp.llama_memory_seq_add(self._memory, seq_id, end, -1, start - end)

    def warm_up(self) -> None:
        """See `Backend.warm_up`; the memory is empty afterwards."""
        batch = Batch(WARM_UP_LEN)
        piece = np.zeros(min(WARM_UP_LEN, self.batch_len, self.max_context - 1), np.int32)
        batch.add_piece(0, piece, 0, output=True)
        self.decode(batch)
        batch.clear()
        batch.add_token(0, 0, len(piece))
        self.decode(batch)
        self.logits(0)
        llama_cpp.llama_memory_clear(self._memory, True)

    def close(self) -> None:
        """See `Backend.close`; may be called again."""
        self._dry.close()
        if self._context:
            llama_cpp.llama_free(self._context)
            self._context = None
        self._adapters.close()
        if self._model:
            llama_cpp.llama_model_free(self._model)
            self._model = None

    def _make_batch(self) -> None:
        """The constant parts of llama_batch: each row names one stream by pointer."""
        self._seq_cells = np.arange(self.num_seqs, dtype=np.int32)
        base = self._seq_cells.ctypes.data
        self._seq_addresses = base + 4 * np.arange(self.num_seqs, dtype=np.uint64)
        self._row_addresses = np.zeros(self.batch_len, np.uint64)
        self._num_seq_ids = np.ones(self.batch_len, np.int32)
        batch: Any = llama_cpp.llama_batch()
        batch.n_seq_id = ctypes.cast(self._num_seq_ids.ctypes.data, ctypes.POINTER(ctypes.c_int32))
        batch.seq_id = ctypes.cast(
            self._row_addresses.ctypes.data,
            ctypes.POINTER(ctypes.POINTER(llama_cpp.llama_seq_id)),
        )
        self._batch = batch

    def _check_seq(self, seq_id: int) -> None:
        if not 0 <= seq_id < self.num_seqs:
            raise BackendError(f"there is no stream {seq_id}")


def _bytes(state: State) -> Any:
    return ctypes.cast(state.ctypes.data, ctypes.POINTER(ctypes.c_uint8))


def _describe(model: Any) -> str:
    buffer = ctypes.create_string_buffer(128)
    llama_cpp.llama_model_desc(model, buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace")
