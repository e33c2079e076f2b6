"""Texts whose vectors or scores another server is asked for, and its answer."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from inference.engine.upstream.events import UnreadableError
from inference.engine.upstream.params import Fields
from inference.engine.upstream.tokens import estimated_tokens
from inference.engine.vector_requests import check_numbers
from inference.engine.vectors import Vectors, encoded, normalized
from inference.protocol.events import Snapshot
from inference.protocol.requests import EmbedRequest, RerankRequest, TextPrompt
from inference.protocol.results import EmbedResult, RerankResult
from inference.protocol.vectors import UNCHANGED
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

EMBED_PATH, RERANK_PATH = "/embeddings", "/rerank"
MAX_TOKENS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class VectorsAsked:
    """What is sent: `fields` to the server's address and `path`, about `num_texts` texts.

    `prompt_tokens`: estimated. `norm`: what vectors that come are divided by.
    """

    generation_id: str
    path: str
    fields: Fields
    deadline_at: float
    prompt_tokens: int
    num_texts: int
    norm: int = UNCHANGED
    accept: ClassVar[str] = "application/json"

    @property
    def param(self) -> str:
        """The field that has the texts."""
        return "documents" if self.path == RERANK_PATH else "input"

    def after(self, log: Snapshot | None, *, alone: bool) -> VectorsAsked:
        """See `Prepared.after`: nothing of it can be gone on from."""
        return self

    def body(self, length_field: str = "") -> bytes:
        """JSON text; nothing in it has a length."""
        return json.dumps(self.fields, allow_nan=False, separators=(",", ":")).encode()


def vectors_asked(request: EmbedRequest | RerankRequest, model: str) -> VectorsAsked:
    """What to send for `request`; what is too long is that server's to refuse, or to cut.

    Raises:
        InvalidError: there is no text, or there are token ids.
    """
    fields: Fields = {"model": model}
    norm = UNCHANGED
    if isinstance(request, RerankRequest):
        path, texts = RERANK_PATH, list(map(valid_text, request.documents))
        query = fields["query"] = valid_text(request.query)
        fields["documents"] = texts
        num_tokens = sum(estimated_tokens(query) + estimated_tokens(text) for text in texts)
    else:
        path, texts = EMBED_PATH, [_text(item) for item in request.inputs]
        fields |= {"input": texts, "encoding_format": "float"}
        if request.dimensions is not None:
            fields["dimensions"] = request.dimensions
        if request.normalize is not None:
            norm = request.normalize
        num_tokens = sum(map(estimated_tokens, texts))
    asked = VectorsAsked(
        generation_id=request.generation_id,
        path=path,
        fields=fields,
        deadline_at=request.deadline_at,
        prompt_tokens=num_tokens,
        num_texts=len(texts),
        norm=norm,
    )
    if not texts:
        raise InvalidError(f'"{asked.param}" must not be empty', param=asked.param)
    return asked


def _text(item: object) -> str:
    if not isinstance(item, TextPrompt):
        raise InvalidError(
            "token ids can't be served: this model's tokens are known to another server only",
            param="input",
        )
    return valid_text(item.text)


def result_in(body: bytes, asked: VectorsAsked) -> EmbedResult | RerankResult:
    """What the server answers.

    Raises:
        UnreadableError: it isn't one vector or score for each text.
        InvalidError: more numbers than an answer may hold, or others than were asked for.
    """
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableError("the answer is no JSON") from None
    usage = told.get("usage") if isinstance(told, dict) else None
    num_tokens = _num_tokens(usage if isinstance(usage, dict) else {}, asked.prompt_tokens)
    if asked.path == RERANK_PATH:
        items = told.get("results") if isinstance(told, dict) else told  # TEI answers with the list
        scores = [_score(item) for item in _in_order(items, asked.num_texts)]
        return RerankResult(tuple(scores), num_tokens)
    items = told.get("data") if isinstance(told, dict) else None
    rows = [_row(item.get("embedding")) for item in _in_order(items, asked.num_texts)]
    dimensions = len(rows[0][0])
    if not dimensions or any(len(row[0]) != dimensions for row in rows):
        raise UnreadableError("the vectors are of several lengths, or empty")
    wanted = asked.fields.get("dimensions", dimensions)
    if dimensions != wanted:  # servers that don't know the field answer all the same
        raise InvalidError(
            f"dimensions is {wanted}; the server behind this model gives vectors of {dimensions}",
            param="dimensions",
        )
    check_numbers(len(rows), dimensions)
    vectors = tuple(encoded(normalized(row, asked.norm)) for row in rows)
    return EmbedResult(vectors, dimensions, num_tokens)


def _in_order(items: Any, num_texts: int) -> Sequence[Mapping[str, Any]]:
    """By the texts' places; where it says none, as they come."""
    if not isinstance(items, list) or len(items) != num_texts:
        raise UnreadableError("there isn't one result for each text")
    placed: dict[int, Mapping[str, Any]] = {}
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise UnreadableError("a result is no object")
        index = item.get("index", position)
        if type(index) is int and 0 <= index < num_texts:
            placed[index] = item
    if len(placed) != num_texts:
        raise UnreadableError("there isn't one result for each text")
    return [placed[index] for index in range(num_texts)]


def _row(value: Any) -> Vectors:
    """Of numbers, or of base64 where the server takes no notice of what was asked."""
    try:
        if isinstance(value, str):
            numbers = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
        elif isinstance(value, list) and all(type(number) in (int, float) for number in value):
            with np.errstate(over="ignore"):
                numbers = np.array(value, np.float32)
        else:
            raise UnreadableError("a vector is no list of numbers")
    except (binascii.Error, ValueError, OverflowError):
        raise UnreadableError("a vector can't be read") from None
    if not np.isfinite(numbers).all():
        raise UnreadableError("a vector has numbers that aren't finite")
    return numbers.reshape(1, -1)


def _score(item: Mapping[str, Any]) -> float:
    told = item.get("relevance_score", item.get("score"))
    try:
        score = float(told) if type(told) in (int, float) else math.nan
    except OverflowError:
        score = math.nan
    if not math.isfinite(score):
        raise UnreadableError("a score is no number")
    return score


def _num_tokens(usage: Mapping[str, Any], estimated: int) -> int:
    """What was read; servers of scores often tell the total only."""
    told = usage.get("prompt_tokens", usage.get("total_tokens"))
    return min(MAX_TOKENS, max(0, told)) if type(told) is int else estimated
