"""Texts to tokens for the embedder: what is refused, cut, and laid out how."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference.engine.embedding import EmbeddingInfo
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer, encode_text
from inference.engine.vector_requests import MAX_NUMBERS, VectorPipeline
from inference.protocol.requests import (
    EmbedRequest,
    MixedPrompt,
    RerankRequest,
    TextPrompt,
    TokenPrompt,
)
from llamaweb.lib.errors import InvalidError, TooLongError, WrongModelError

INFO = EmbeddingInfo(
    "mean", 64, 20, embeds=True, ranks=True, front=(1,), between=(2, 2), back=(3,), is_nested=True
)


class Marking(MockTokenizer):
    """Reads <|end|> as the end token, and refuses texts as a model's vocabulary does."""

    def tokenize(
        self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
    ) -> list[int]:
        tokens: list[int] = []
        for index, part in enumerate(text.split("<|end|>") if parse_special else [text]):
            tokens += [END_TOKEN] * bool(index) + list(encode_text(part))
        if as_prompt and len(tokens) > INFO.max_input_len:
            raise TooLongError(prompt_tokens=len(tokens), max_context=INFO.max_input_len)
        return tokens


def pipeline(**fields: Any) -> VectorPipeline:
    return VectorPipeline(MockTokenizer(), replace(INFO, **fields))


def embed(*inputs: Any, **fields: Any) -> EmbedRequest:
    prompts = tuple(TextPrompt(item) if isinstance(item, str) else item for item in inputs)
    return EmbedRequest("e", "m", "u", 0.0, 0.0, inputs=prompts, **fields)


def rerank(query: str, *documents: str, **fields: Any) -> RerankRequest:
    return RerankRequest("r", "m", "u", 0.0, 0.0, query=query, documents=documents, **fields)


def test_what_stands_around_texts() -> None:
    made = pipeline().prepare(
        embed("ab", TokenPrompt((7, 8)), MixedPrompt(("a", 9)), MixedPrompt((9, "a")))
    )
    assert made.inputs == ((1, 97, 98, 3), (7, 8), (1, 97, 9, 3), (9, 97, 3))
    assert (made.task, made.dimensions, made.normalize) == ("embed", 64, 2)


def test_the_norm_is_the_requests_or_the_models() -> None:
    assert pipeline(norm=1).prepare(embed("a")).normalize == 1
    assert pipeline(norm=1).prepare(embed("a", normalize=-1)).normalize == -1
    assert pipeline(norm=1, pooling="none").prepare(embed("a")).normalize == -1


def test_an_empty_text_is_what_stands_around_it_or_nothing() -> None:
    assert pipeline().prepare(embed("")).inputs == ((1, 3),)
    with pytest.raises(InvalidError, match="Input content cannot be empty"):
        pipeline(front=(), back=()).prepare(embed("a", ""))


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (embed(), "input"),
        (embed(TokenPrompt((1, 257))), "input"),
        (embed("a", TokenPrompt((-1,))), "input[1]"),
        (embed("a", MixedPrompt(("a", 999))), "input[1]"),
        (embed("a", dimensions=65), "dimensions"),
        (embed("a", dimensions=0), "dimensions"),
        (rerank("q"), "documents"),
    ],
)
def test_refused_by_name(request_: Any, param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        pipeline().prepare(request_)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("request_", "num", "param"),
    [
        (embed("x" * 19), 21, "input"),
        (embed("a", "x" * 30), 32, "input[1]"),
        (embed(TokenPrompt((5,) * 21)), 21, "input"),
        (rerank("q" * 17, "d"), 21, "query"),
        (rerank("qq", "d", "d" * 14), 20 + 0, None),
        (rerank("qq", "d", "d" * 15), 21, "documents[1]"),
        (rerank("qq", "d", "d" * 15, truncates=True), 20, None),
        (embed("x" * 30, truncates=True), 20, None),
    ],
)
def test_too_long_names_both_numbers_and_the_text(
    request_: Any, num: int, param: str | None
) -> None:
    if param is None:
        assert len(pipeline().prepare(request_).inputs[-1]) == num
        return
    with pytest.raises(TooLongError) as caught:
        pipeline().prepare(request_)
    assert (caught.value.prompt_tokens, caught.value.max_context) == (num, 20)
    assert caught.value.param == param
    assert param in caught.value.message


def test_a_cut_text_keeps_what_stands_behind_it() -> None:
    (tokens,) = pipeline().prepare(embed("abcdefghijklmnopqrstuvwxyz", truncates=True)).inputs
    assert tokens == (1, *encode_text("abcdefghijklmnopqr"), 3)


def test_pairs() -> None:
    made = pipeline().prepare(rerank("q", "d", "e"))
    assert made.inputs == ((1, 113, 2, 2, 100, 3), (1, 113, 2, 2, 101, 3))
    assert made.task == "rerank"


def test_pairs_in_the_models_own_words() -> None:
    words = pipeline(pair_template="<{query}|{document}>", front=(), back=())
    assert words.prepare(rerank("{document}", "{query}")).inputs == (
        tuple(encode_text("<{document}|{query}>")),
    )
    cut = words.prepare(rerank("q", "d" * 40, truncates=True)).inputs[0]
    assert cut == tuple(encode_text("<q|" + "d" * 16 + ">"))


def words(template: str, max_input_len: int = 20) -> VectorPipeline:
    info = replace(
        INFO, pair_template=template, front=(), between=(), back=(), max_input_len=max_input_len
    )
    return VectorPipeline(Marking(), info)


def test_a_document_among_words_is_cut_and_keeps_what_stands_behind_it() -> None:
    ask = rerank("q", "d" * 400, "d" * 15, truncates=True)
    made = words("<|end|>{query}|{document}!<|end|>?").prepare(ask)
    cut = (END_TOKEN, *encode_text("q|" + "d" * 14 + "!"), END_TOKEN, ord("?"))
    assert made.inputs == (cut, cut)
    with pytest.raises(TooLongError) as caught:
        words("{query}|{document}!<|end|>").prepare(replace(ask, truncates=False))
    assert caught.value.param == "documents[0]"
    with pytest.raises(TooLongError) as caught:
        words("<|end|>{query}|{document}").prepare(rerank("q" * 19, "d", truncates=True))
    assert (caught.value.param, caught.value.prompt_tokens) == ("query", 21)


def test_nobody_writes_control_tokens_into_the_models_words() -> None:
    made = words("<|end|>{query}<|end|>{document}<|end|>", 40).prepare(rerank("<|end|>", "<|end|>"))
    (tokens,) = made.inputs
    said = tuple(encode_text("<|end|>"))
    assert tokens == (END_TOKEN, *said, END_TOKEN, *said, END_TOKEN)


def test_no_more_numbers_than_an_answer_holds() -> None:
    wide = pipeline(dimensions=MAX_NUMBERS // 2)
    assert len(wide.prepare(embed("a", "b")).inputs) == 2
    with pytest.raises(InvalidError, match="at most 2 are allowed"):
        wide.prepare(embed("a", "b", "c"))


def test_what_a_model_does_not_do() -> None:
    with pytest.raises(WrongModelError):
        pipeline(embeds=False).prepare(embed("a"))
    with pytest.raises(WrongModelError):
        pipeline(ranks=False).prepare(rerank("q", "d"))
    with pytest.raises(WrongModelError):
        pipeline(pooling="none").prepare(embed("a", is_pooled=True))
    with pytest.raises(InvalidError, match="64 dimensions"):
        pipeline(is_nested=False).prepare(embed("a", dimensions=32))
    assert pipeline(pooling="none").prepare(embed("a")).normalize == -1
