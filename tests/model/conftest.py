"""One engine on the starter model for all tests here; each test starts with an empty cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.starter import find_starter_model
from inference.protocol.spec import EngineSpec
from tests.engine.driving import ask

CHAT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
EXACT_ROWS = 63
AskChat = Callable[..., SequenceRequest]


def starter_spec(**fields: object) -> EngineSpec:
    """A small context on one thread, computed so that results can be compared exactly.

    With flash attention, and less than 64 rows of a sequence in a batch, the CPU kernels round the
    same way however a prompt is cut and whoever shares the batch. With other settings the logits of
    this small quantised model move by up to 1.
    """
    path = find_starter_model()
    assert path is not None, "the starter model's package isn't installed"
    values: dict[str, object] = {"model_path": str(path), "threads": 1, "context_len": 1024}
    values |= {"flash_attention": "on", "batch_len": EXACT_ROWS, "ubatch_len": EXACT_ROWS}
    return EngineSpec(
        model="starter",
        engine_id="test",
        redis_url="",
        redis_prefix="",
        **{**values, **fields},  # type: ignore[arg-type]
    )


@pytest.fixture(scope="session")
def loaded_engine() -> Iterator[Engine]:
    engine, _ = build_engine(starter_spec())
    assert isinstance(engine, Engine)
    yield engine
    engine.close()


@pytest.fixture
def engine(loaded_engine: Engine) -> Engine:
    assert not loaded_engine.has_work
    loaded_engine.purge()
    return loaded_engine


@pytest.fixture
def ask_chat(loaded_engine: Engine) -> AskChat:
    """Like `ask`, with the text as the user's message of a chat."""
    tokenizer = loaded_engine._backend.tokenizer

    def make(generation_id: str, text: str, **fields: object) -> SequenceRequest:
        request = ask(generation_id, "-", **fields)  # type: ignore[arg-type]
        tokens = tokenizer.tokenize(CHAT.format(text), add_special=True, parse_special=True)
        return dataclasses.replace(request, tokens=tuple(tokens))

    return make
