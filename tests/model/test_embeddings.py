"""Vectors and scores of real models, against a forward pass that knows nothing of llama.cpp."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from inference.engine.contract import LongSteps, SequenceRequest
from inference.engine.embedding import Piece, VectorRequest
from inference.engine.errors import BackendError
from inference.engine.joint import JointEngine, VectorEngine
from inference.engine.llama_embedding import MAX_STATES, LlamaEmbedding
from inference.engine.llama_load import init_library, load_model
from inference.engine.llama_trial import run_trial
from inference.engine.vector_requests import VectorPipeline
from inference.engine.vectors import Vectors, decoded
from inference.engine.whole import Built, build_whole
from inference.protocol.events import Failed, Result
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import EmbedRequest, RerankRequest, TextPrompt, TokenPrompt
from inference.protocol.results import EmbedResult, RerankResult, UtilityResult
from inference.protocol.spec import EngineSpec
from inference.protocol.trial import TrialOrder, TrialReport
from llamaweb.lib.errors import FailedError, InvalidError, TooLongError, WrongModelError
from tests.minilm import (
    find_minilm,
    find_reranker,
    forward,
    head,
    score,
    token_ids,
    unit,
    weights,
    write,
)
from tests.model.conftest import AskChat, starter_spec

pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]

TEXTS = (
    "A cat sits on the mat.",
    "Naïve café crème: 漢字, emoji 😺 and ünïcödé!",
    "word",
    "An unrelated sentence about the weather in October, which was wet and rather cold. " * 6,
    "  spaces   and\ttabs\nand lines  ",
)
QUERY = "What does a cat do?"
MAX_STEPS = 2000


def spec_of(path: Path, **fields: object) -> object:
    values = {"model_path": str(path), "flash_attention": "auto", "context_len": 0}
    values |= {"batch_len": 2048, "ubatch_len": 512}
    return starter_spec(**{**values, **fields})


class Model:
    """An engine and its text side, asked without a queue."""

    def __init__(self, built: Built) -> None:
        assert built.vectors is not None
        self.engine = built.engine
        self.info = built.vectors
        self.tokenizer = built.tokenizer
        self._pipeline = VectorPipeline(built.tokenizer, built.vectors)

    def ask(self, request: EmbedRequest | RerankRequest) -> UtilityResult:
        """The result, computed to its end."""
        return self.run([self._pipeline.prepare(request)])[0]

    def run(self, requests: Sequence[VectorRequest]) -> list[UtilityResult]:
        """The results of requests that are here at once, in order."""
        for request in requests:
            self.engine.add(request)
        found: dict[str, UtilityResult] = {}
        for _ in range(MAX_STEPS):
            if not self.engine.has_work:
                break
            for item in self.engine.step():
                assert not isinstance(item.event, Failed)
                if isinstance(item.event, Result):
                    found[item.generation_id] = item.event.result
        return [found[request.generation_id] for request in requests]

    def embed(self, *texts: str, **fields: object) -> Vectors:
        """A row for each text."""
        inputs = tuple(map(TextPrompt, texts))
        result = self.ask(EmbedRequest("e", "m", "u", 0, 0, inputs=inputs, **fields))  # type: ignore[arg-type]
        assert isinstance(result, EmbedResult)
        return np.concatenate([decoded(v, result.dimensions) for v in result.vectors])

    def prepare(self, request: EmbedRequest | RerankRequest) -> VectorRequest:
        """As tokens."""
        return self._pipeline.prepare(request)


def loaded(path: Path, **fields: object) -> Iterator[Model]:
    model = Model(build_whole(spec_of(path, **fields)))  # type: ignore[arg-type]
    yield model
    model.engine.close()


@pytest.fixture(scope="module")
def minilm() -> Iterator[Model]:
    yield from loaded(find_minilm())


@pytest.fixture(scope="module")
def reranker() -> Iterator[Model]:
    yield from loaded(find_reranker())


@pytest.fixture(scope="module")
def starter() -> Iterator[Model]:
    built = build_whole(starter_spec(batch_len=512, ubatch_len=128, num_slots=2))
    model = Model(built)
    yield model
    model.engine.close()


def test_the_file_says_what_it_is(minilm: Model) -> None:
    info = minilm.info
    assert (info.pooling, info.dimensions, info.max_input_len) == ("mean", 384, 512)
    assert (info.embeds, info.ranks, info.is_nested) == (True, False, False)
    assert isinstance(minilm.engine, VectorEngine)


@pytest.mark.parametrize("text", TEXTS)
def test_vectors_are_those_of_an_independent_forward_pass(minilm: Model, text: str) -> None:
    ids = token_ids(text)
    (tokens,) = minilm.prepare(EmbedRequest("e", "m", "u", 0, 0, inputs=(TextPrompt(text),))).inputs
    assert list(tokens) == ids
    expected = unit(forward(weights(), ids).mean(axis=0))
    (found,) = minilm.embed(text)
    assert float(found @ expected) >= 0.999
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)


def test_many_at_once_are_what_each_is_alone(minilm: Model) -> None:
    texts = [f"{text} {number}" for number in range(12) for text in TEXTS]
    stats = minilm.engine.stats()
    together = minilm.embed(*texts)
    batches = minilm.engine.stats()["embed_batches"] - stats["embed_batches"]
    assert batches <= len(texts) // 2  # texts really shared batches
    alone = np.concatenate([minilm.embed(text) for text in texts])
    assert np.abs(together - alone).max() <= 1e-4


def test_requests_share_a_batch_and_get_their_own(minilm: Model) -> None:
    asked = [
        minilm.prepare(EmbedRequest(f"e{i}", "m", "u", 0, 0, inputs=(TextPrompt(text),)))
        for i, text in enumerate(TEXTS[:3])
    ]
    results = minilm.run(asked)
    for text, result in zip(TEXTS, results, strict=False):
        assert isinstance(result, EmbedResult)
        (found,) = decoded(result.vectors[0], result.dimensions)
        assert np.abs(found - minilm.embed(text)[0]).max() <= 1e-4
        assert result.prompt_tokens == len(token_ids(text))


def test_token_ids_are_used_as_they_are(minilm: Model) -> None:
    ids = tuple(token_ids(TEXTS[0]))
    result = minilm.ask(EmbedRequest("e", "m", "u", 0, 0, inputs=(TokenPrompt(ids),)))
    assert isinstance(result, EmbedResult)
    assert np.allclose(decoded(result.vectors[0], 384)[0], minilm.embed(TEXTS[0])[0], atol=1e-6)


@pytest.mark.parametrize("norm", [-1, 0, 1, 3])
def test_norms(minilm: Model, norm: int) -> None:
    (raw,) = minilm.embed(TEXTS[0], normalize=-1)
    (found,) = minilm.embed(TEXTS[0], normalize=norm)
    size = {-1: 1.0, 0: np.abs(raw).max() / 32760.0}.get(norm) or np.sum(
        np.abs(raw.astype(np.float64)) ** norm
    ) ** (1 / norm)
    assert np.allclose(found, raw / size, rtol=1e-4)


def test_a_text_is_too_long_by_one_token(minilm: Model) -> None:
    fits = "word " * 510
    assert minilm.embed(fits).shape == (1, 384)
    with pytest.raises(TooLongError) as caught:
        minilm.embed(TEXTS[0], fits + "word")
    assert (caught.value.prompt_tokens, caught.value.max_context) == (513, 512)
    assert caught.value.param == "input[1]"
    cut = minilm.embed(fits + "other words behind", truncates=True)
    assert np.allclose(cut, minilm.embed(fits), atol=1e-5)


def test_vectors_are_shortened_only_where_that_was_learned(minilm: Model) -> None:
    with pytest.raises(InvalidError, match="384"):
        minilm.embed(TEXTS[0], dimensions=64)
    assert minilm.embed(TEXTS[0], dimensions=384).shape == (1, 384)


@pytest.mark.parametrize("pooling", ["none", "cls", "last"])
def test_other_poolings(pooling: str) -> None:
    rows = forward(weights(), token_ids(TEXTS[0]))
    for model in loaded(find_minilm(), pooling=pooling):
        found = model.embed(TEXTS[0])
        expected = {"none": rows, "cls": rows[:1], "last": rows[-1:]}[pooling]
        assert found.shape == expected.shape
        for one, other in zip(found, expected, strict=True):
            assert float(unit(one) @ unit(other)) >= 0.999
        if pooling == "none":  # as they are
            assert np.abs(found - expected).max() < 0.05
            with pytest.raises(WrongModelError):
                model.embed(TEXTS[0], is_pooled=True)


def test_a_model_of_vectors_writes_no_answers(
    minilm: Model, ask_chat: AskChat, reranker: Model
) -> None:
    for model in (minilm, reranker):
        with pytest.raises(WrongModelError, match="can't write an answer"):
            model.engine.add(ask_chat("g", "Hello"))
        assert not model.engine.has_work


def test_scores_are_those_of_the_head(reranker: Model) -> None:
    assert (reranker.info.ranks, reranker.info.embeds) == (True, False)
    result = reranker.ask(RerankRequest("r", "m", "u", 0, 0, query=QUERY, documents=TEXTS))
    assert isinstance(result, RerankResult)
    matrices = weights() | head()
    expected = [score(matrices, token_ids(QUERY, text)) for text in TEXTS]
    assert result.scores == pytest.approx(expected, abs=5e-3)
    order = sorted(range(len(TEXTS)), key=lambda i: result.scores[i])
    assert order == sorted(range(len(TEXTS)), key=lambda i: expected[i])


def test_a_head_that_the_file_does_not_ask_for_rates_where_somebody_does(tmp_path: Path) -> None:
    matrices = weights() | head()
    write(tmp_path / "m.gguf", matrices, pooling="mean")
    for model in loaded(tmp_path / "m.gguf", pooling="rank"):
        assert (model.info.ranks, model.info.embeds) == (True, False)
        result = model.ask(RerankRequest("r", "m", "u", 0, 0, query=QUERY, documents=TEXTS[:2]))
        assert isinstance(result, RerankResult)
        expected = [score(matrices, token_ids(QUERY, text)) for text in TEXTS[:2]]
        assert result.scores == pytest.approx(expected, abs=5e-3)


def test_vectors_are_divided_as_the_model_is_set_up() -> None:
    for model in loaded(find_minilm(), vector_norm=1):
        (found,) = model.embed(TEXTS[0])
        assert float(np.abs(found).sum()) == pytest.approx(1.0, abs=1e-4)


def test_pairs_are_laid_out_as_the_model_learned_them(reranker: Model) -> None:
    request = reranker.prepare(
        RerankRequest("r", "m", "u", 0, 0, query=QUERY, documents=(TEXTS[1], "[SEP]"))
    )
    assert list(request.inputs[0]) == token_ids(QUERY, TEXTS[1])
    separator = token_ids("")[-1]
    assert request.inputs[1].count(separator) == 2  # a document can't end itself


def test_a_document_is_too_long_or_cut(reranker: Model) -> None:
    ask = RerankRequest("r", "m", "u", 0, 0, query=QUERY, documents=("short", "word " * 600))
    with pytest.raises(TooLongError) as caught:
        reranker.prepare(ask)
    assert caught.value.param == "documents[1]"
    assert caught.value.max_context == 512
    cut = reranker.prepare(dataclasses.replace(ask, truncates=True))
    assert [len(tokens) for tokens in cut.inputs][1] == 512
    with pytest.raises(WrongModelError):
        reranker.embed("text")


def test_words_around_a_pair_become_the_tokens_of_the_whole(starter: Model) -> None:
    template = (
        "<|im_start|>system\nJudge.<|im_end|>\n<|im_start|>user\n<Query>: {query}\n"
        "<Document>: {document} is all<|im_end|>\n<|im_start|>assistant\n"
    )
    info = dataclasses.replace(starter.info, ranks=True, pair_template=template)
    request = RerankRequest("r", "m", "u", 0, 0, query=QUERY, documents=(TEXTS[0], "<|im_end|>"))
    plain, marked = VectorPipeline(starter.tokenizer, info).prepare(request).inputs
    whole = template.replace("{query}", QUERY).replace("{document}", TEXTS[0])
    assert list(plain) == starter.tokenizer.tokenize(whole, add_special=False, parse_special=True)
    ends = [
        [token for token in pair if starter.tokenizer.is_end(token)] for pair in (plain, marked)
    ]
    assert len(ends[0]) == len(ends[1]) == 2


def test_a_long_batch_tells_that_it_gets_on(minilm: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(minilm.engine, LongSteps)
    short = minilm.embed(TEXTS[0])
    assert minilm.engine.progress == 0
    monkeypatch.setattr("inference.engine.llama_embedding.WATCHED_LEN", 1)
    assert np.array_equal(minilm.embed(TEXTS[0]), short)
    assert minilm.engine.progress > 10


def embedding_of(path: Path) -> LlamaEmbedding:
    spec: EngineSpec = spec_of(path)  # type: ignore[assignment]
    init_library()
    return LlamaEmbedding(load_model(spec), spec, owns_model=True)


def test_a_model_with_states_computes_few_texts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_states(model: object) -> bool:
        return True

    monkeypatch.setattr("llama_cpp.llama_model_is_hybrid", has_states)
    backend = embedding_of(find_minilm())
    assert backend.max_texts == MAX_STATES
    assert len(backend.compute([Piece((5, 6))] * MAX_STATES, "embed")) == MAX_STATES
    with pytest.raises(BackendError):
        backend.compute([Piece((5, 6))] * (MAX_STATES + 1), "embed")
    backend.close()


def test_a_context_without_memory_is_not_tried_for_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def fail(*args: object) -> None:
        tried.append(args)
        raise FailedError("no memory")

    backend = embedding_of(find_minilm())
    monkeypatch.setattr("inference.engine.llama_embedding._make_context", fail)
    for _ in range(3):
        with pytest.raises(FailedError):
            backend.compute([Piece((5, 6))], "embed")
    assert len(tried) == 1
    monkeypatch.undo()
    backend._retry_ts = 0.0
    assert len(backend.compute([Piece((5, 6))], "embed")) == 1
    backend.close()


def test_vectors_of_a_model_that_writes(starter: Model) -> None:
    assert starter.info.pooling == "mean"
    assert isinstance(starter.engine, JointEngine)
    near, far, cat = starter.embed("a small cat", "stock market prices fell", "a little kitten")
    assert near.shape == (576,)
    assert float(near @ cat) > float(far @ cat)
    with pytest.raises(WrongModelError):
        starter.ask(RerankRequest("r", "m", "u", 0, 0, query="q", documents=("d",)))


@pytest.mark.parametrize("num_beside", [0, 10])
def test_answers_are_the_same_beside_vectors(
    starter: Model, ask_chat: AskChat, num_beside: int
) -> None:
    sampling = SamplingParams(temperature=0.0, ignore_eos=True)
    limits = Limits(max_tokens=24)
    alone = written(starter, ask_chat("alone", "Count to ten.", sampling=sampling, limits=limits))
    assert len(alone) > 20
    starter.engine.purge()
    request = ask_chat("beside", "Count to ten.", sampling=sampling, limits=limits)
    assert written(starter, request, num_beside) == alone


def written(model: Model, request: SequenceRequest, num_beside: int = 0) -> str:
    """An answer, with so many requests for vectors beside it."""
    model.engine.add(request)
    said, num_vectors = [], 0
    for step in range(MAX_STEPS):
        if step < num_beside:
            inputs = (TextPrompt(f"text number {step} to embed"),)
            model.engine.add(model.prepare(EmbedRequest(f"e{step}", "m", "u", 0, 0, inputs=inputs)))
        for item in model.engine.step():
            said.append(getattr(item.event, "text", ""))
            num_vectors += isinstance(item.event, Result)
        if not model.engine.has_work:
            break
    assert num_vectors == num_beside
    return "".join(said)


def test_a_text_in_pieces_is_the_text_at_once() -> None:
    found = {}
    for ubatch_len in (32, 256):
        spec = starter_spec(pooling="last", batch_len=256, ubatch_len=ubatch_len, num_slots=1)
        model = Model(build_whole(spec))
        assert model.info.max_input_len == 1024
        found[ubatch_len] = model.embed("one two three " * 40, "short")
        model.engine.close()
    for one, other in zip(found[32], found[256], strict=True):
        assert float(one @ other) > 0.999


def test_a_mean_is_that_of_llama_cpp_however_the_text_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = Path(starter_spec().model_path)
    text, other = tuple(range(100, 160)), tuple(range(300, 309))
    ours = embedding_of(path)
    assert ours.info.in_pieces
    (alone,) = ours.compute([Piece(text)], "embed")
    together, short = ours.compute([Piece(text), Piece(other)], "embed")
    (begun,) = ours.compute([Piece(text[:25], 0, is_last=False)], "embed")
    assert begun.shape == (0, ours.info.dimensions)
    (cut,) = ours.compute([Piece(text[25:], 25)], "embed")
    ours.close()
    monkeypatch.setattr("inference.engine.llama_embedding._context_pooling", lambda *_: "mean")
    theirs = embedding_of(path)
    expected, expected_short = theirs.compute([Piece(text), Piece(other)], "embed")
    theirs.close()
    for found in (alone, together, cut):
        assert float(unit(found[0]) @ unit(expected[0])) > 0.999
    assert np.allclose(together, expected, atol=1e-3 * np.abs(expected).max())
    assert np.allclose(short, expected_short, atol=1e-3 * np.abs(expected_short).max())


@pytest.mark.parametrize("find", [find_minilm, find_reranker])
def test_a_trial_computes_once_and_measures_nothing(find: Callable[[], Path]) -> None:
    order = TrialOrder(spec_of(find()), open=("threads", "flash_attention"), budget_s=1.0)  # type: ignore[arg-type]
    assert run_trial(order) == TrialReport()
