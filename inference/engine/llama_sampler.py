"""llama.cpp's own sampler chain for one sequence, in llama-server's order."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.engine.sampling import Chain
from llamaweb.lib.errors import InvalidError

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
RANDOM_SEED = 0xFFFFFFFF  # llama.cpp takes this one as "draw a seed"
MIROSTAT_M = 100  # llama-server's constant of mirostat 1


class Candidates:
    """One buffer of (id, logit, p) for the whole vocabulary, shared by all chains of a thread."""

    def __init__(self, vocab_len: int) -> None:
        self._rows = np.zeros(vocab_len, CANDIDATE)
        self._ids = np.arange(vocab_len, dtype=np.int32)
        self._data = self._rows.ctypes.data_as(llama_cpp.llama_token_data_p)
        self._array: Any = llama_cpp.llama_token_data_array()
        self._reference = ctypes.byref(self._array)

    def choose(self, chain: Any, logits: NDArray[np.float32]) -> int:
        """Run `chain` over `logits` and return the token it selected.

        Raises:
            RuntimeError: the chain selected nothing.
        """
        self._rows["id"] = self._ids  # samplers sort in place
        self._rows["logit"] = logits
        self._rows["p"] = 0.0
        self._apply(chain, len(self._rows))
        if not 0 <= self._array.selected < self._array.size:
            raise RuntimeError("the sampler chain selected nothing")
        return int(self._array.data[self._array.selected].id)

    def draw(self, dist: Any) -> None:
        """Let `dist` use up one random number on a single candidate."""
        self._rows["logit"][:1] = 0.0
        self._apply(dist, 1)

    def _apply(self, sampler: Any, size: int) -> None:
        self._array.data = self._data
        self._array.size = size
        self._array.selected = -1
        self._array.sorted = False
        llama_cpp.llama_sampler_apply(sampler, self._reference)


class LlamaSampler:
    """See `Sampler`. Exact in a replay, but for xtc and mirostat: those hold random numbers (and
    mirostat a target) of their own, which a count of draws doesn't restore."""

    draws_per_token = 1

    def __init__(
        self, chain: Chain, seed: int, *, vocab: Any, vocab_len: int, candidates: Candidates
    ) -> None:
        self._candidates = candidates
        self._keep: list[Any] = []  # C strings llama.cpp reads while a sampler is built
        self._chain = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        self._dist: Any = None
        self._uses_history = chain.history_len > 0 or chain.mirostat > 0
        try:
            self._build(chain, seed % RANDOM_SEED, vocab, vocab_len)
        except Exception:
            self.close()
            raise

    def pick(self, logits: NDArray[np.float32]) -> int:
        """See `Sampler.pick`."""
        token = self._candidates.choose(self._chain, logits)
        self.accept(token)
        return token

    def accept(self, token_id: int) -> None:
        """See `Sampler.accept`."""
        if self._uses_history:
            llama_cpp.llama_sampler_accept(self._chain, token_id)

    def skip(self, draws: int) -> None:
        """See `Sampler.skip`."""
        if self._dist is not None:
            for _ in range(draws):
                self._candidates.draw(self._dist)

    def close(self) -> None:
        """See `Sampler.close`."""
        if self._chain:
            llama_cpp.llama_sampler_free(self._chain)
            self._chain = None

    def _build(self, chain: Chain, seed: int, vocab: Any, vocab_len: int) -> None:
        if chain.bias:
            bias: Any = (llama_cpp.llama_logit_bias * len(chain.bias))()
            bias[:] = chain.bias
            self._add(llama_cpp.llama_sampler_init_logit_bias(vocab_len, len(bias), bias))
        if chain.mirostat:
            self._add(llama_cpp.llama_sampler_init_temp(chain.temperature))
            self._add(_mirostat(chain, seed, vocab_len))
            return
        for name in chain.order:
            self._add(self._sampler(name, chain, seed, vocab, vocab_len))
        self._dist = llama_cpp.llama_sampler_init_dist(seed)
        self._add(self._dist)

    def _add(self, sampler: Any) -> None:
        if not sampler:
            raise InvalidError(
                "the samplers can't be built from these parameters", param="samplers"
            )
        llama_cpp.llama_sampler_chain_add(self._chain, sampler)

    def _sampler(self, name: str, chain: Chain, seed: int, vocab: Any, vocab_len: int) -> Any:
        keep = chain.min_keep
        match name:
            case "penalties":
                return llama_cpp.llama_sampler_init_penalties(
                    vocab_len,
                    chain.repeat_last_n,
                    chain.repeat_penalty,
                    chain.frequency_penalty,
                    chain.presence_penalty,
                )
            case "dry":
                return self._dry(chain, vocab)
            case "top_n_sigma":
                return llama_cpp.llama_sampler_init_top_n_sigma(chain.top_n_sigma)
            case "top_k":
                return llama_cpp.llama_sampler_init_top_k(chain.top_k)
            case "typ_p":
                return llama_cpp.llama_sampler_init_typical(chain.typical_p, keep)
            case "top_p":
                return llama_cpp.llama_sampler_init_top_p(chain.top_p, keep)
            case "min_p":
                return llama_cpp.llama_sampler_init_min_p(chain.min_p, keep)
            case "xtc":
                return llama_cpp.llama_sampler_init_xtc(
                    chain.xtc_probability, chain.xtc_threshold, keep, seed
                )
            case _:
                return llama_cpp.llama_sampler_init_temp_ext(
                    chain.temperature, chain.dynatemp_range, chain.dynatemp_exponent
                )

    def _dry(self, chain: Chain, vocab: Any) -> Any:
        breakers = [text.encode("utf-8", "replace") for text in chain.dry_sequence_breakers]
        pointers = (ctypes.c_char_p * len(breakers))(*breakers)
        self._keep.append(pointers)
        return llama_cpp.llama_sampler_init_dry(
            vocab,
            chain.dry_multiplier,
            chain.dry_base,
            chain.dry_allowed_length,
            chain.dry_penalty_last_n,
            pointers,
            len(breakers),
        )


def _mirostat(chain: Chain, seed: int, vocab_len: int) -> Any:
    if chain.mirostat == 1:
        return llama_cpp.llama_sampler_init_mirostat(
            vocab_len, seed, chain.mirostat_tau, chain.mirostat_eta, MIROSTAT_M
        )
    return llama_cpp.llama_sampler_init_mirostat_v2(seed, chain.mirostat_tau, chain.mirostat_eta)
