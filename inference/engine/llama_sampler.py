"""llama.cpp's own sampler chain for one sequence, in llama-server's order."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import llama_cpp

from inference.engine.llama_candidates import Candidates
from inference.engine.picks import GreedySampler, Logits, Pick
from inference.engine.sampling import Chain
from llamaweb.lib.errors import InvalidError

RANDOM_SEED = 0xFFFFFFFF  # llama.cpp takes this one as "draw a seed"
MAX_DRY_SAMPLERS = 16  # kept to copy from
MIROSTAT_M = 100  # llama-server's constant of mirostat 1


class LlamaSampler:
    """See `Sampler`. `candidates` gives the calling thread's buffer."""

    def __init__(
        self,
        chain: Chain,
        seed: int,
        *,
        vocab: Any,
        vocab_len: int,
        candidates: Callable[[], Candidates],
        dry: DrySamplers,
    ) -> None:
        self._candidates = candidates
        self._dry = dry
        self._chain = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        self._dist: Any = None
        self._num_after = chain.num_after
        self._history_len = chain.history_len
        self._remembers = chain.history_len > 0 or chain.is_adaptive
        self._fallback = GreedySampler(chain.bias)
        self.replays_by_count = chain.replays_by_count
        try:
            self._build(chain, seed % RANDOM_SEED, vocab, vocab_len)
        except Exception:
            self.close()
            raise

    def pick(self, logits: Logits) -> Pick:
        """See `Sampler.pick`; leaves `logits` as they were."""
        candidates = self._candidates()
        token, prob = candidates.choose(self._chain, logits)
        if not prob > 0.0:  # all was forbidden, or the arithmetic broke down (a temperature near 0)
            token, prob = self._fallback.pick(logits).token_id, 1.0
        after: tuple[tuple[int, float], ...] = ()
        if self._num_after:
            after = ((token, prob), *candidates.best(self._num_after))
        return Pick(token, 1, after)

    def prime(self, tokens: Iterable[int]) -> None:
        """See `Sampler.prime`."""
        if self._history_len:
            for token in tokens:
                llama_cpp.llama_sampler_accept(self._chain, token)

    def accept(self, token_id: int) -> None:
        """See `Sampler.accept`."""
        if self._remembers:
            llama_cpp.llama_sampler_accept(self._chain, token_id)

    def skip(self, draws: int) -> None:
        """See `Sampler.skip`."""
        if self._dist is not None:
            candidates = self._candidates()
            for _ in range(draws):
                candidates.draw(self._dist)

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
            if name == "dry" and not chain.has_dry:
                continue
            if name != "adaptive_p":  # draws the token, so it comes last
                self._add(self._sampler(name, chain, seed, vocab, vocab_len))
        if chain.is_adaptive:
            target, decay = chain.adaptive_target, chain.adaptive_decay
            self._add(llama_cpp.llama_sampler_init_adaptive_p(target, decay, seed))
            return
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
                return self._dry.get(chain)
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
            case "infill":
                return llama_cpp.llama_sampler_init_infill(vocab)
            case _:
                return llama_cpp.llama_sampler_init_temp_ext(
                    chain.temperature, chain.dynatemp_range, chain.dynatemp_exponent
                )


class DrySamplers:
    """Samplers of DRY to copy from: making one looks at the whole vocabulary for each breaker, some
    2 ms for a character and 30 ms for a longer text, and the requests of one client are alike."""

    def __init__(self, vocab: Any) -> None:
        self._vocab = vocab
        self._made: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def get(self, chain: Chain) -> Any:
        """A new sampler; the caller frees it."""
        key = (
            chain.dry_multiplier,
            chain.dry_base,
            chain.dry_allowed_length,
            chain.dry_penalty_last_n,
            chain.dry_sequence_breakers,
        )
        if key not in self._made:
            if len(self._made) >= MAX_DRY_SAMPLERS:
                llama_cpp.llama_sampler_free(self._made.popitem(last=False)[1])
            self._made[key] = _dry(chain, self._vocab)
        self._made.move_to_end(key)
        return llama_cpp.llama_sampler_clone(self._made[key])

    def close(self) -> None:
        """Free what was kept."""
        while self._made:
            llama_cpp.llama_sampler_free(self._made.popitem()[1])


def _dry(chain: Chain, vocab: Any) -> Any:
    breakers = [text.encode("utf-8", "replace") for text in chain.dry_sequence_breakers]
    pointers = (ctypes.c_char_p * len(breakers))(*breakers)
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
