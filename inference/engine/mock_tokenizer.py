"""A byte-level vocabulary: one token a byte, then one end token."""

from __future__ import annotations

from inference.text.tokenizer import InfillTokens

END_TOKEN = 256
VOCAB_LEN = 257


class MockTokenizer:
    """Every character of more than one byte spans tokens, so nothing can rely on whole ones.

    Texts may carry arbitrary bytes as lone surrogates (Python's "surrogateescape"). Five control
    characters are its marks of a gap.
    """

    vocab_len = VOCAB_LEN
    end_tokens = (END_TOKEN,)
    suppressed_tokens: tuple[int, ...] = ()
    bos_token = ""
    eos_token = ""
    infill_tokens: InfillTokens | None = InfillTokens(1, 2, 3, repository=4, file=5)
    chat_template: str | None = None

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        """See `Tokenizer.tokenize`; there is nothing special to add or parse, nor to refuse."""
        return list(encode_text(text))

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        """See `Tokenizer.piece`."""
        if token_id == END_TOKEN:
            return b"<|end|>" if special else b""
        return bytes((token_id,))

    def is_end(self, token_id: int) -> bool:
        """See `Tokenizer.is_end`."""
        return token_id == END_TOKEN


def encode_text(text: str) -> bytes:
    """UTF-8 with surrogate escapes; other lone surrogates become "?"."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
