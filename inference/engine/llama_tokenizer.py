"""A GGUF's vocabulary."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp

PIECE_BYTES = 64  # nearly every piece fits; longer ones are asked for again


class LlamaTokenizer:
    """See `Tokenizer`. Reads only; llama.cpp's vocabulary calls are safe from any thread."""

    def __init__(self, model: Any) -> None:
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.vocab_len = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self._ends = frozenset(
            token
            for token in range(self.vocab_len)
            if llama_cpp.llama_vocab_is_eog(self._vocab, token)
        )
        self.bos_token = self._special_text(llama_cpp.llama_vocab_bos(self._vocab))
        self.eos_token = self._special_text(llama_cpp.llama_vocab_eos(self._vocab))
        template = llama_cpp.llama_model_chat_template(model, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Tokenizer.tokenize`."""
        data = text.encode("utf-8", "replace")
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
