"""From an `EngineSpec` to all that a model can do: answers, vectors, or both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inference.engine.contract import StepEngine
from inference.engine.embedder import Embedder
from inference.engine.embedding import EmbeddingBackend, EmbeddingInfo
from inference.engine.engine import Engine
from inference.engine.factory import (
    build_engine,
    check_spec,
    engine_config,
    llama_engine,
    thread_governor,
    warm_up,
)
from inference.engine.joint import JointEngine, VectorEngine
from inference.engine.loading import OnLoad, go_on
from inference.engine.mock_backend import mock_load
from inference.engine.mock_embedding import MockEmbedding
from inference.engine.mock_tokenizer import MockTokenizer
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Built:
    """An engine and its vocabulary. `vectors`: what it makes of texts, None if nothing; `answers`:
    whether it writes any."""

    engine: StepEngine[Any]
    tokenizer: Tokenizer
    vectors: EmbeddingInfo | None = None
    answers: bool = True


def build_whole(spec: EngineSpec, on_load: OnLoad = go_on) -> Built:
    """Load what `spec` names, whatever it can do; as `build_engine`, which is for answers only."""
    check_spec(spec)
    if spec.engine_class == "mock":
        return _mock(spec, on_load)
    if spec.engine_class == "llama":
        return _llama(spec, on_load)
    return Built(*build_engine(spec, on_load))


def _mock(spec: EngineSpec, on_load: OnLoad) -> Built:
    vectors = MockEmbedding(spec)
    if spec.mock.only:
        mock_load(spec.mock, on_load)
        return _only_vectors(spec, vectors, MockTokenizer())
    return _both(spec, *build_engine(spec, on_load), vectors)


def _llama(spec: EngineSpec, on_load: OnLoad) -> Built:
    # Only here: the mock must run where the library isn't built.
    from inference.engine.llama_embedding import LlamaEmbedding, embeds_only
    from inference.engine.llama_load import init_library, load_model, num_threads
    from inference.engine.llama_tokenizer import LlamaTokenizer

    init_library()
    model = load_model(spec, on_load)
    governor = thread_governor(spec, num_threads(spec))
    threads = None if governor is None else lambda: governor.num_threads
    if not embeds_only(model, spec):
        engine, tokenizer = llama_engine(spec, model, on_load, governor)
        return _both(spec, engine, tokenizer, LlamaEmbedding(model, spec, threads=threads))
    vectors = LlamaEmbedding(model, spec, threads=threads, owns_model=True)
    warm_up(vectors, on_load)
    tokenizer = LlamaTokenizer(model, max_context=vectors.info.max_input_len + 1)
    if governor is not None:
        governor.start()
    return _only_vectors(spec, vectors, tokenizer, None if governor is None else governor.close)


def _both(
    spec: EngineSpec, engine: StepEngine[Any], tokenizer: Tokenizer, vectors: EmbeddingBackend
) -> Built:
    assert isinstance(engine, Engine)
    joint = JointEngine(engine, Embedder(vectors), engine_config(spec))
    return Built(joint, tokenizer, vectors.info)


def _only_vectors(
    spec: EngineSpec,
    vectors: EmbeddingBackend,
    tokenizer: Tokenizer,
    on_close: Callable[[], None] | None = None,
) -> Built:
    engine = VectorEngine(
        Embedder(vectors),
        engine_config(spec),
        max_context=vectors.info.max_input_len,
        num_slots=spec.num_slots,
        on_close=on_close,
    )
    return Built(engine, tokenizer, vectors.info, answers=False)
