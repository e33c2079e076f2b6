"""A GGUF's vocabulary."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp

from inference.text.special_cuts import SpecialCuts
from inference.text.tokenizer import InfillTokens
from llamaweb.lib.errors import TooLongError

PIECE_BYTES = 64  # nearly every piece fits; longer ones are asked for again
# A text of more bytes than this for each token of the context is probed: its beginning of that
# length is tokenised first, and the text refused if that alone has twice the context's tokens.
# (What follows a text can change its tokens only around the end, so half is ample margin.)
PROBE_BYTES = 16
PROBE_MARGIN = 2
_STRIP = llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP | llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP
_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
# Vocabularies whose tokens are pieces of the text: no token is longer than the longest piece.
_PIECEWISE = (llama_cpp.LLAMA_VOCAB_TYPE_SPM, llama_cpp.LLAMA_VOCAB_TYPE_BPE)


class LlamaTokenizer:
    """See `Tokenizer`. Reads only; llama.cpp's vocabulary calls are safe from any thread.

    A prompt of `max_context` tokens or more is refused, mostly before it is tokenised whole.
    """

    def __init__(self, model: Any, *, max_context: int) -> None:
        self._max_context = max_context
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.vocab_len = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self.end_tokens = tuple(
            token
            for token in range(self.vocab_len)
            if llama_cpp.llama_vocab_is_eog(self._vocab, token)
        )
        self._ends = frozenset(self.end_tokens)
        self.suppressed_tokens = _suppressed(self._vocab)
        self._read_specials()
        self.bos_token = self._special_text(llama_cpp.llama_vocab_bos(self._vocab))
        self.eos_token = self._special_text(llama_cpp.llama_vocab_eos(self._vocab))
        self.infill_tokens = _infill_tokens(self._vocab)
        template = llama_cpp.llama_model_chat_template(model, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        """See `Tokenizer.tokenize`. The time is about linear in the text's length."""
        data = text.encode("utf-8", "replace")
        if as_prompt and self._longest_piece:
            self._refuse_from(len(data) // self._longest_piece, at_least=True)
        cuts = self._cuts if parse_special else self._plain_cuts
        front, back = self._around if add_special else ([], [])
        tokens = list(front)
        for piece in cuts.pieces(data):
            if as_prompt:
                self._refuse_from(len(tokens), at_least=True)
                self._probe(piece, parse_special)
            tokens += self._call(piece, False, parse_special)
        tokens += back
        if as_prompt:
            self._refuse_from(len(tokens), at_least=False)
        return tokens

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        """See `Tokenizer.piece`; each is asked for once."""
        key = (token_id, special)
        piece = self._pieces.get(key)
        if piece is None:
            piece = self._pieces[key] = self._read_piece(token_id, special)
        return piece

    def is_end(self, token_id: int) -> bool:
        """See `Tokenizer.is_end`."""
        return token_id in self._ends

    def _call(self, data: bytes, add_special: bool, parse_special: bool) -> list[int]:
        capacity = len(data) + 8  # a token is at least a byte, specials around them aside
        for _ in range(2):
            tokens = (llama_cpp.llama_token * capacity)()
            num = llama_cpp.llama_tokenize(
                self._vocab, data, len(data), tokens, capacity, add_special, parse_special
            )
            if num >= 0:
                return tokens[:num]
            capacity = -num
        raise ValueError("the text has too many tokens")

    def _refuse_from(self, num_tokens: int, *, at_least: bool) -> None:
        if num_tokens >= self._max_context:
            raise TooLongError(
                prompt_tokens=num_tokens, max_context=self._max_context, at_least=at_least
            )

    def _probe(self, piece: bytes, parse_special: bool) -> None:
        probe_bytes = PROBE_BYTES * self._max_context
        if len(piece) > probe_bytes:
            begin = piece[:probe_bytes].decode("utf-8", "ignore").encode()
            num = len(self._call(begin, False, parse_special))
            self._refuse_from(num // PROBE_MARGIN, at_least=True)

    def _read_specials(self) -> None:
        """What llama.cpp looks for before it tokenises, and what it adds around a text."""
        vocab = self._vocab
        found: dict[bytes, int] = {}
        special = _CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
        for token in range(self.vocab_len):
            attr = llama_cpp.llama_vocab_get_attr(vocab, token)
            if attr & special:
                found[llama_cpp.llama_vocab_get_text(vocab, token)] = attr
        strips = {text for text, attr in found.items() if attr & _STRIP}
        self._cuts = SpecialCuts(found, strips)
        self._plain_cuts = SpecialCuts(
            (text for text, attr in found.items() if not attr & _CONTROL), strips
        )
        self._longest_piece = 0  # unknown: a token may stand for any length
        if llama_cpp.llama_vocab_type(vocab) in _PIECEWISE and not strips:
            self._longest_piece = max(
                len(self._read_piece(token, True)) for token in range(self.vocab_len)
            )
        added = self._call(b"", True, False)
        num_front = int(bool(llama_cpp.llama_vocab_get_add_bos(vocab)))
        self._around = added[:num_front], added[num_front:]

    def _read_piece(self, token_id: int, special: bool) -> bytes:
        size = PIECE_BYTES
        for _ in range(2):
            buffer = ctypes.create_string_buffer(size)
            num = llama_cpp.llama_token_to_piece(self._vocab, token_id, buffer, size, 0, special)
            if num >= 0:
                return buffer.raw[:num]
            size = -num
        return b""

    def _special_text(self, token_id: int) -> str:
        return (
            self.piece(token_id, special=True).decode("utf-8", "replace") if token_id >= 0 else ""
        )


def _infill_tokens(vocab: Any) -> InfillTokens | None:
    prefix = llama_cpp.llama_vocab_fim_pre(vocab)
    suffix = llama_cpp.llama_vocab_fim_suf(vocab)
    middle = llama_cpp.llama_vocab_fim_mid(vocab)
    if min(prefix, suffix, middle) < 0:
        return None
    repository, file = llama_cpp.llama_vocab_fim_rep(vocab), llama_cpp.llama_vocab_fim_sep(vocab)
    return InfillTokens(
        prefix,
        suffix,
        middle,
        repository=repository if repository >= 0 else None,
        file=file if file >= 0 else None,
    )


def _suppressed(vocab: Any) -> tuple[int, ...]:
    count = ctypes.c_int32(0)
    tokens = llama_cpp.llama_vocab_get_suppress_tokens(vocab, ctypes.byref(count))
    return tuple(tokens[index] for index in range(count.value)) if tokens else ()
