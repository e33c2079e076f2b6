"""Prompts to token ids, with the length of the part that is the server's own text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from inference.protocol.requests import (
    ChatPrompt,
    InfillPrompt,
    Message,
    MixedPrompt,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from inference.text.infill import infill_tokens
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError, TooLongError

DEFAULT_CONTEXT_LEN = 4096
MAX_TEXT_BYTES = 512 * 1024  # to or from tokens in one request, while the next ones wait


class PromptRenderer(Protocol):
    """See `inference.text.chat_renderer.ChatRenderer.render`."""

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The prompt's text."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """`tokens` is the whole prompt, its first `public_len` tokens are the server's own text.

    `text`: what the tokens were made from, "" for a prompt of token ids.
    """

    tokens: tuple[int, ...]
    public_len: int = 0
    text: str = ""


class TextPipeline:
    """The text side of one model. Safe to call from several threads."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        renderer: PromptRenderer,
        *,
        max_context: int = DEFAULT_CONTEXT_LEN,
    ) -> None:
        """`max_context`: tokens that prompts which may be cut are cut to."""
        self.tokenizer = self._tokenizer = tokenizer
        self._renderer = renderer
        self._max_context = max_context

    def prepare(
        self, prompt: Prompt, *, now_at: float = 0.0, max_tokens: int | None = None
    ) -> PreparedPrompt:
        """The prompt as tokens; `now_at` is the present for templates that write the date,
        `max_tokens` the length of the answer that a prompt which may be cut leaves room for.

        The same arguments give the same tokens: a request is prepared again after an engine died.

        Raises:
            InvalidError: refused by the template, no tokens at all, or ids out of range.
            TooLongError: it certainly doesn't fit the model's context.
            NotSupportedError: the vocabulary has no tokens for it.
        """
        if isinstance(prompt, InfillPrompt):
            return PreparedPrompt(
                infill_tokens(
                    _valid(prompt),
                    self._tokenizer,
                    max_context=self._max_context,
                    max_tokens=max_tokens,
                )
            )
        if isinstance(prompt, TokenPrompt):
            return self._checked(prompt)
        if isinstance(prompt, MixedPrompt):
            return self._checked(TokenPrompt(self._mixed_tokens(prompt.parts)))
        if isinstance(prompt, TextPrompt):
            prepared = PreparedPrompt(tuple(self._prompt_tokens(prompt.text)), 0, prompt.text)
        else:
            prepared = self._prepare_chat(prompt, now_at)
        if not prepared.tokens:
            raise InvalidError("the prompt is empty", param="prompt")
        return prepared

    def count(self, prompt: Prompt, *, now_at: float = 0.0) -> int:
        """Length of the prompt in tokens; raises like `prepare`."""
        if isinstance(prompt, ChatPrompt):
            return len(self._prompt_tokens(self.render(prompt, now_at=now_at)))
        return len(self.prepare(prompt).tokens)

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The chat as the template writes it; raises like `prepare`."""
        return valid_text(self._renderer.render(prompt, now_at=now_at))

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Tokenizer.tokenize`; what isn't valid Unicode becomes U+FFFD first."""
        return self._tokenizer.tokenize(
            valid_text(text), add_special=add_special, parse_special=parse_special
        )

    def pieces(self, tokens: Sequence[int]) -> tuple[str | tuple[int, ...], ...]:
        """The text of each token, or its bytes where those are none; special tokens too."""
        return tuple(map(_text_or_bytes, self._bytes(tokens)))

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The tokens' text, that of special ones too; what isn't valid becomes U+FFFD.

        Raises:
            InvalidError: ids out of range, or over `MAX_TEXT_BYTES` of text.
        """
        if tokens and not 0 <= min(tokens) <= max(tokens) < self._tokenizer.vocab_len:
            raise InvalidError(
                f"token ids must be between 0 and {self._tokenizer.vocab_len - 1}", param="tokens"
            )
        found = list(self._bytes(tokens))
        if sum(map(len, found)) > MAX_TEXT_BYTES:
            raise InvalidError(
                f"the tokens' text is longer than {MAX_TEXT_BYTES} bytes", param="tokens"
            )
        return b"".join(found).decode("utf-8", "replace")

    def _bytes(self, tokens: Sequence[int]) -> Iterator[bytes]:
        return (self._tokenizer.piece(token, special=True) for token in tokens)

    def _prepare_chat(self, prompt: ChatPrompt, now_at: float) -> PreparedPrompt:
        text = self.render(prompt, now_at=now_at)
        tokens = self._prompt_tokens(text)
        try:
            other = self._prompt_tokens(self.render(_with_other_words(prompt), now_at=now_at))
        except (InvalidError, TooLongError):  # the template is choosy about words: share nothing
            other = []
        return PreparedPrompt(tuple(tokens), common_prefix_len(tokens, other), text)

    def _prompt_tokens(self, text: str) -> list[int]:
        # A template that writes the beginning-of-text token itself must not get a second one.
        bos = self._tokenizer.bos_token
        has_bos = bool(bos) and text.startswith(bos)
        return self._tokenizer.tokenize(
            valid_text(text), add_special=not has_bos, parse_special=True, as_prompt=True
        )

    def _mixed_tokens(self, parts: Sequence[int | str]) -> tuple[int, ...]:
        tokens: list[int] = []
        for index, part in enumerate(parts):
            if isinstance(part, int):
                tokens.append(part)
            elif index == 0:
                tokens += self._prompt_tokens(part)
            else:
                tokens += self._tokenizer.tokenize(
                    valid_text(part), add_special=False, parse_special=True, as_prompt=True
                )
        return tuple(tokens)

    def preserved_tokens(self, texts: Sequence[str]) -> frozenset[int]:
        """Those of `texts` that are one token each; the others mean nothing."""
        found = (self.tokenize(text, add_special=False, parse_special=True) for text in texts)
        return frozenset(tokens[0] for tokens in found if len(tokens) == 1)

    def special_token(self, text: str) -> int | None:
        """The token that `text` is, if that is one which other text can't be made of."""
        tokens = self.tokenize(text, add_special=False, parse_special=True)
        is_special = len(tokens) == 1 and not self._tokenizer.piece(tokens[0])
        return tokens[0] if is_special else None

    def _checked(self, prompt: TokenPrompt) -> PreparedPrompt:
        if not prompt.tokens:
            raise InvalidError("the prompt is empty", param="prompt")
        if min(prompt.tokens) < 0 or max(prompt.tokens) >= self._tokenizer.vocab_len:
            raise InvalidError("Prompt contains invalid tokens", param="prompt")
        return PreparedPrompt(prompt.tokens, min(prompt.public_len, len(prompt.tokens)))


def common_prefix_len(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def valid_text(text: str) -> str:
    """`text` with lone surrogates (half an emoji, cut by a client) as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _text_or_bytes(data: bytes) -> str | tuple[int, ...]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return tuple(data)


def _valid(prompt: InfillPrompt) -> InfillPrompt:
    extra = (replace(f, name=valid_text(f.name), text=valid_text(f.text)) for f in prompt.extra)
    return InfillPrompt(
        valid_text(prompt.prefix),
        valid_text(prompt.suffix),
        valid_text(prompt.begun),
        tuple(extra),
    )


def _with_other_words(prompt: ChatPrompt) -> ChatPrompt:
    """The same chat from somebody who writes something else: where the two prompts part, the
    user's own text begins. Tool definitions count as the user's, as do template variables but those
    of the server."""
    messages = tuple(
        m if index < prompt.public_messages else _other_message(m)
        for index, m in enumerate(prompt.messages)
    )
    other_tools = _OTHER_TOOLS if prompt.tools_json else None
    return replace(
        prompt,
        messages=messages,
        tools_json=other_tools,
        template_kwargs_json=prompt.public_kwargs_json,
    )


_OTHER_TOOLS = json.dumps(
    [{"type": "function", "function": {"name": "-", "description": "-", "parameters": {}}}]
)


def _other_message(message: Message) -> Message:
    calls = tuple(
        replace(c, id=_other(c.id), name=_other(c.name), arguments="{}") for c in message.tool_calls
    )
    call_id = None if message.tool_call_id is None else _other(message.tool_call_id)
    return replace(
        message,
        content=_other(message.content),
        reasoning=_other(message.reasoning) if message.reasoning else "",
        tool_calls=calls,
        tool_call_id=call_id,
        name=None if message.name is None else _other(message.name),
    )


def _other(text: str) -> str:
    """A text that differs from `text` in its first visible character."""
    return "1" if text.lstrip()[:1] == "0" else "0"
