"""From requests for vectors and scores to token ids: the text side of the embedder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from inference.engine.embedding import EmbeddingInfo, VectorRequest
from inference.protocol.requests import (
    EmbedRequest,
    MixedPrompt,
    RerankRequest,
    TextPrompt,
    TokenPrompt,
)
from inference.protocol.vectors import UNCHANGED
from inference.text.prompts import valid_text
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError, TooLongError, WrongModelError

MAX_NUMBERS: Final = 2 * 1024 * 1024  # of all vectors of an answer, which travels whole
CHARS_PER_TOKEN: Final = 64  # of a text that may be cut, so much for each token it may have
QUERY, DOCUMENT = "{query}", "{document}"

Input: TypeAlias = TextPrompt | TokenPrompt | MixedPrompt


@dataclass(frozen=True, slots=True)
class _Words:
    """A rerank template with its query: token ids up to the last control token before the document,
    the text from there to it, and likewise behind it. What people wrote is never read for control
    tokens; together with the plain words around it, it becomes the tokens that the whole would."""

    front: tuple[int, ...]
    before: str
    after: str
    back: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorPipeline:
    """Of one model; safe to call from several threads."""

    tokenizer: Tokenizer
    info: EmbeddingInfo

    def prepare(self, request: EmbedRequest | RerankRequest) -> VectorRequest:
        """The request as tokens.

        Raises:
            WrongModelError: the model doesn't do that.
            InvalidError: nothing to compute, ids out of range, dimensions that it can't have, or
                more numbers than an answer may hold.
            TooLongError: a text is longer than the model reads; `param` says which.
        """
        if isinstance(request, RerankRequest):
            return VectorRequest(request.generation_id, self._pairs(request), "rerank")
        if not self.info.embeds:
            raise WrongModelError("this model rates texts, it makes no vectors of them")
        is_pooled = self.info.pooling != "none"
        if request.is_pooled and not is_pooled:
            raise WrongModelError("this model makes a vector of each token, none of a whole text")
        dimensions = self._dimensions(request.dimensions)
        inputs = self._inputs(request)
        num_vectors = len(inputs) if is_pooled else sum(map(len, inputs))
        check_numbers(num_vectors, dimensions)
        norm = self.info.norm if request.normalize is None else request.normalize
        return VectorRequest(
            request.generation_id,
            inputs,
            normalize=norm if is_pooled else UNCHANGED,
            dimensions=dimensions,
        )

    # --- texts

    def _inputs(self, request: EmbedRequest) -> tuple[tuple[int, ...], ...]:
        inputs = request.inputs
        if not inputs:
            raise InvalidError('"input" must not be empty', param="input")
        paths = ["input"] if len(inputs) == 1 else [f"input[{i}]" for i in range(len(inputs))]
        return tuple(
            self._input(item, path, truncates=request.truncates)
            for item, path in zip(inputs, paths, strict=True)
        )

    def _input(self, item: Input, path: str, *, truncates: bool) -> tuple[int, ...]:
        front, back = self.info.front, self.info.back
        if isinstance(item, TokenPrompt):
            self._check_ids(item.tokens, path)
            front, back, middle = (), (), list(item.tokens)
        elif isinstance(item, MixedPrompt):
            if item.parts and not isinstance(item.parts[0], str):
                front = ()
            middle = self._mixed(item.parts, path)
        else:
            middle = self._tokens(item.text, path, truncates=truncates)
        most = self.info.max_input_len - len(front) - len(back)
        if truncates:
            middle = middle[:most]
        tokens = (*front, *middle, *back)
        if not tokens:
            raise InvalidError("Input content cannot be empty", param=path)
        self._check_len(len(tokens), path)
        return tokens

    def _mixed(self, parts: Sequence[int | str], path: str) -> list[int]:
        tokens: list[int] = []
        for part in parts:
            if isinstance(part, str):
                tokens += self._tokens(part, path, truncates=False)
            else:
                self._check_ids((part,), path)
                tokens.append(part)
        return tokens

    def _tokens(
        self, text: str, path: str, *, truncates: bool, parse_special: bool = True
    ) -> list[int]:
        """Of a text without what the model wants around it; one that is hopelessly long is refused
        before all of it was looked at, or cut."""
        text = valid_text(text)
        if truncates:
            text = text[: self.info.max_input_len * CHARS_PER_TOKEN]
        try:
            return self.tokenizer.tokenize(
                text, add_special=False, parse_special=parse_special, as_prompt=not truncates
            )
        except TooLongError as error:
            raise TooLongError(
                prompt_tokens=error.prompt_tokens,
                max_context=self.info.max_input_len,
                at_least=error.at_least,
                param=path,
            ) from None

    def _check_ids(self, tokens: Sequence[int], path: str) -> None:
        num = self.tokenizer.vocab_len
        if not all(0 <= token < num for token in tokens):
            raise InvalidError(f"token ids must be between 0 and {num - 1}", param=path)

    def _check_len(self, num_tokens: int, path: str) -> None:
        most = self.info.max_input_len
        if num_tokens > most:
            raise TooLongError(prompt_tokens=num_tokens, max_context=most, param=path)

    def _dimensions(self, wanted: int | None) -> int:
        most = self.info.dimensions
        if wanted is None or wanted == most:
            return most
        if not self.info.is_nested:
            raise InvalidError(
                f"this model's vectors have {most} dimensions and can't be shortened",
                param="dimensions",
            )
        if not 1 <= wanted <= most:
            raise InvalidError(f"must be between 1 and {most}", param="dimensions")
        return wanted

    # --- pairs

    def _pairs(self, request: RerankRequest) -> tuple[tuple[int, ...], ...]:
        if not self.info.ranks:
            raise WrongModelError("this model can't rate documents; a reranking model can")
        if not request.documents:
            raise InvalidError("documents must not be empty", param="documents")
        if self.info.pair_template:
            return self._in_words(request)
        query = self._tokens(request.query, "query", truncates=False, parse_special=False)
        before = (*self.info.front, *query, *self.info.between)
        self._check_len(len(before) + len(self.info.back), "query")
        return tuple(
            self._joined(before, document, f"documents[{index}]", truncates=request.truncates)
            for index, document in enumerate(request.documents)
        )

    def _joined(
        self, before: tuple[int, ...], document: str, path: str, *, truncates: bool
    ) -> tuple[int, ...]:
        middle = self._tokens(document, path, truncates=truncates, parse_special=False)
        if truncates:
            middle = middle[: self.info.max_input_len - len(before) - len(self.info.back)]
        tokens = (*before, *middle, *self.info.back)
        self._check_len(len(tokens), path)
        return tokens

    def _in_words(self, request: RerankRequest) -> tuple[tuple[int, ...], ...]:
        """Pairs in the model's own words; a document that may be cut loses tokens at its end."""
        words = self._words(request.query)
        bare = self._tokens(
            words.before + words.after, "query", truncates=False, parse_special=False
        )
        self._check_len(len(words.front) + len(bare) + len(words.back), "query")
        return tuple(
            self._written(words, document, f"documents[{index}]", truncates=request.truncates)
            for index, document in enumerate(request.documents)
        )

    def _words(self, query: str) -> _Words:
        head, _, tail = self.info.pair_template.partition(DOCUMENT)
        *firsts, (before, _) = self._parts(head, query)
        (after, _), *lasts = self._parts(tail, query)
        return _Words(self._read(firsts), before, after, self._read(lasts))

    def _parts(self, words: str, query: str) -> list[tuple[str, bool]]:
        """Words of the template with the query in them, and whether they are a control token; the
        first and the last part are none."""
        tokens = self.tokenizer.tokenize(words, add_special=False, parse_special=True)
        controls = {
            self.tokenizer.piece(token, special=True).decode("utf-8", "replace")
            for token in tokens
            if not self.tokenizer.piece(token)
        } - {""}
        if not controls:
            return [(words.replace(QUERY, query), False)]
        longest_first = sorted(controls, key=len, reverse=True)
        found = re.split(f"({'|'.join(map(re.escape, longest_first))})", words)
        return [(part.replace(QUERY, query), index % 2 == 1) for index, part in enumerate(found)]

    def _read(self, parts: Sequence[tuple[str, bool]]) -> tuple[int, ...]:
        return tuple(
            token
            for text, is_control in parts
            for token in self._tokens(text, "query", truncates=False, parse_special=is_control)
        )

    def _written(
        self, words: _Words, document: str, path: str, *, truncates: bool
    ) -> tuple[int, ...]:
        text = words.before + document + words.after
        try:
            middle = self._tokens(text, path, truncates=False, parse_special=False)
            tokens = (*words.front, *middle, *words.back)
            self._check_len(len(tokens), path)
        except TooLongError:
            if not truncates:
                raise
            after = self._tokens(words.after, path, truncates=False, parse_special=False)
            end = (*after, *words.back)
            start = self._tokens(words.before + document, path, truncates=True, parse_special=False)
            room = max(0, self.info.max_input_len - len(end))
            tokens = (*words.front, *start)[:room] + end
            self._check_len(len(tokens), path)
        return tokens


def check_numbers(num_vectors: int, dimensions: int) -> None:
    """Raise InvalidError where an answer would hold more numbers than it may."""
    if num_vectors * dimensions > MAX_NUMBERS:
        raise InvalidError(
            f"input gives {num_vectors} vectors of {dimensions} numbers, at most "
            f"{MAX_NUMBERS // dimensions} are allowed in one request",
            param="input",
        )
