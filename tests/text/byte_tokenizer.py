"""A vocabulary for the tests: one token a byte, then BOS, EOS and one merged token."""

from __future__ import annotations

from inference.text.tokenizer import InfillTokens

BOS, EOS, MERGED = 256, 257, 258
MERGED_BYTES = b"\nHe"  # a token that spans the border between template and message


class ByteTokenizer:
    """Implements `inference.text.tokenizer.Tokenizer`."""

    vocab_len = 259
    end_tokens = (EOS,)
    suppressed_tokens: tuple[int, ...] = ()
    bos_token = "<s>"
    eos_token = "</s>"
    infill_tokens: InfillTokens | None = InfillTokens(1, 2, 3)

    def __init__(self, chat_template: str | None = None) -> None:
        self.chat_template = chat_template

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        ids = [BOS] if add_special else []
        data = text.encode()
        while data:
            if parse_special and data.startswith(b"<s>"):
                ids.append(BOS)
                data = data[3:]
            elif data.startswith(MERGED_BYTES):
                ids.append(MERGED)
                data = data[len(MERGED_BYTES) :]
            else:
                ids.append(data[0])
                data = data[1:]
        return ids

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        if token_id == MERGED:
            return MERGED_BYTES
        if token_id < 256:
            return bytes([token_id])
        return {BOS: b"<s>", EOS: b"</s>"}[token_id] if special else b""

    def is_end(self, token_id: int) -> bool:
        return token_id == EOS
