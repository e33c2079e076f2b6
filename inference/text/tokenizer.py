"""What the text layer needs of a vocabulary; backends provide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class InfillTokens:
    """What a vocabulary marks a gap with: in front of the text before it, of the text behind it,
    and of what fills it. `repository`, `file`: in front of names, None without such."""

    prefix: int
    suffix: int
    middle: int
    repository: int | None = None
    file: int | None = None


class Tokenizer(Protocol):
    """A model's vocabulary. Safe to call from several threads."""

    @property
    def vocab_len(self) -> int:
        """Number of token ids; valid ids are 0..vocab_len-1."""
        ...

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """Tokens that end a generation."""
        ...

    @property
    def suppressed_tokens(self) -> tuple[int, ...]:
        """Tokens that the model's file says must never be generated."""
        ...

    @property
    def bos_token(self) -> str:
        """Text of the beginning-of-text token, "" without one."""
        ...

    @property
    def eos_token(self) -> str:
        """Text of the end-of-text token, "" without one."""
        ...

    @property
    def infill_tokens(self) -> InfillTokens | None:
        """None: the vocabulary has no marks for a gap."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The Jinja template in the model's metadata."""
        ...

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        """Token ids of `text`; `add_special` adds what the model wants around it (BOS).

        Raises:
            TooLongError: with `as_prompt`, as soon as it is clear that the text can't be a prompt
                of this model. Others may come back whole: the engine refuses them.
        """
        ...

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        """Bytes of one token; control tokens are b"" unless `special`."""
        ...

    def is_end(self, token_id: int) -> bool:
        """Whether this token is one of `end_tokens`."""
        ...
