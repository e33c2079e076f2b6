"""A plain run straight on llama.cpp: what everything else is compared with.

The simplest loop there is, with nothing of the engine's in it: one context, the prompt in batches
as large as the context takes them, then token by token the largest logit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.engine.llama_load import init_library
from inference.protocol.spec import EngineSpec

FLASH = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A greedy token, and how many logits it was ahead of the next best one."""

    token_id: int
    gap: float


@dataclass(frozen=True, slots=True)
class Shape:
    """How tokens are cut into batches: it changes nothing but how kernels cut and round the work.

    `copies`: the same sequence that many times side by side, in a stream each; the first one
    counts. `piece_len`: tokens of a sequence in a batch, 0: as many as there is room for.
    `first`: lengths of the first pieces, where they are others.
    """

    copies: int = 1
    piece_len: int = 0
    first: tuple[int, ...] = ()


PLAIN = Shape()


class PlainRun:
    """A model and a context, set up as `spec` sets up a slot of an engine.

    `max_copies`: of the shapes that are asked for.
    """

    def __init__(self, spec: EngineSpec, *, max_copies: int = 1) -> None:
        init_library()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        model_params.use_extra_bufts = spec.use_extra_bufts
        path = spec.model_path.encode()
        self._model: Any = llama_cpp.llama_model_load_from_file(path, model_params)
        assert self._model, "the model can't be loaded"
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = spec.context_len * max_copies
        params.n_batch, params.n_ubatch = spec.batch_len, min(spec.ubatch_len, spec.batch_len)
        params.n_seq_max = params.n_outputs_max = max_copies
        params.n_threads = params.n_threads_batch = spec.threads
        params.flash_attn_type = FLASH[spec.flash_attention]
        params.swa_full = True
        self._context: Any = llama_cpp.llama_init_from_model(self._model, params)
        assert self._context, "the context can't be made"
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocab_len = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self._batch_len = spec.batch_len
        self._batch: Any = llama_cpp.llama_batch_init(spec.batch_len, 0, 1)

    def is_end(self, token_id: int) -> bool:
        """Whether the model ends with it."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token_id))

    def greedy(self, prompt: Sequence[int], max_tokens: int) -> list[Choice]:
        """The answer to `prompt`, an end token included."""
        logits = self.logits(prompt)
        chosen: list[Choice] = []
        while True:
            best = int(logits.argmax())
            second = float(np.partition(logits, -2)[-2])
            chosen.append(Choice(best, float(logits[best]) - second))
            if len(chosen) == max_tokens or self.is_end(best):
                return chosen
            logits = self._decode([best], len(prompt) + len(chosen) - 1, 1)

    def logits(
        self, prompt: Sequence[int], answer: Sequence[int] = (), shape: Shape = PLAIN
    ) -> NDArray[np.float32]:
        """Logits behind `prompt`, and `answer` token by token, computed from an empty memory; good
        until the next call."""
        llama_cpp.llama_memory_clear(self._memory, True)
        most = self._batch_len // shape.copies
        first, start = list(shape.first), 0
        while start < len(prompt):
            length = min(first.pop(0) if first else shape.piece_len or most, most)
            logits = self._decode(prompt[start : start + length], start, shape.copies)
            start += length
        for position, token in enumerate(answer, len(prompt)):
            logits = self._decode([token], position, shape.copies)
        return logits

    def close(self) -> None:
        """Free everything."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _decode(self, piece: Sequence[int], start: int, copies: int) -> NDArray[np.float32]:
        batch, row = self._batch, 0
        for seq_id in range(copies):
            for index, token in enumerate(piece):
                batch.token[row], batch.pos[row] = token, start + index
                batch.n_seq_id[row], batch.seq_id[row][0] = 1, seq_id
                batch.logits[row] = index == len(piece) - 1
                row += 1
        batch.n_tokens = row
        code = llama_cpp.llama_decode(self._context, batch)
        assert code == 0, f"llama_decode: {code}"
        address = ctypes.cast(
            llama_cpp.llama_get_logits_ith(self._context, len(piece) - 1), ctypes.c_void_p
        ).value
        assert address
        return np.frombuffer((ctypes.c_float * self._vocab_len).from_address(address), np.float32)
