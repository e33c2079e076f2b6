"""An engine is built from its spec, or the reason why not is told."""

from __future__ import annotations

import pytest

from inference.engine.contract import StepEngine
from inference.engine.factory import build_engine
from inference.engine.loading import LoadStoppedError
from inference.protocol.spec import EngineSpec, MockSpec
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, make_engine, run_one, text_of


def spec_of(engine_class: str, **fields: object) -> EngineSpec:
    return EngineSpec(
        model="m",
        engine_id="e",
        redis_url="",
        redis_prefix="",
        engine_class=engine_class,
        **fields,  # type: ignore[arg-type]
    )


def build_custom(spec: EngineSpec) -> tuple[StepEngine, Tokenizer]:
    engine = make_engine("custom")
    return engine, engine._backend.tokenizer


def test_the_mock() -> None:
    engine, tokenizer = build_engine(spec_of("mock", mock=MockSpec(reply="hi"), num_slots=3))
    assert (engine.free_slots, engine.max_context) == (3, 40_000)
    assert tokenizer.tokenize("é", add_special=True, parse_special=True) == [0xC3, 0xA9]
    assert text_of(run_one(engine, ask("a"))) == "hi"  # type: ignore[arg-type]


def test_the_mock_echoes_the_last_user_message_of_a_chat() -> None:
    engine, _ = build_engine(spec_of("mock"))
    chat = (
        "<|im_start|>system\nbe good<|im_end|>\n<|im_start|>user\nfirst<|im_end|>\n"
        "<|im_start|>assistant\nyes<|im_end|>\n<|im_start|>user\nsecond 漢字<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert text_of(run_one(engine, ask("a", chat))) == "second 漢字"  # type: ignore[arg-type]


def test_the_context_of_the_mock_can_be_set() -> None:
    assert build_engine(spec_of("mock", context_len=100))[0].max_context == 100


def test_a_load_is_told_and_can_be_broken_off() -> None:
    spec, shares = spec_of("mock", mock=MockSpec(load_ms=1.0)), []

    def on_load(share: float) -> bool:
        shares.append(share)
        return len(shares) < 3

    with pytest.raises(LoadStoppedError):
        build_engine(spec, on_load)
    assert len(shares) == 3
    shares.clear()
    build_engine(spec, lambda share: not shares.append(share))
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


def test_a_dotted_path() -> None:
    engine, _ = build_engine(spec_of("tests.engine.test_factory.build_custom"))
    assert text_of(run_one(engine, ask("a"))) == "custom"  # type: ignore[arg-type]


def test_a_batch_must_hold_a_row_of_every_slot() -> None:
    with pytest.raises(InvalidError) as caught:
        build_engine(spec_of("mock", batch_len=4, num_slots=4))
    assert caught.value.param == "batch_len"


@pytest.mark.parametrize("name", ["nothing", "no.such.module", "json.nothing", ""])
def test_an_unknown_class_is_named(name: str) -> None:
    with pytest.raises(InvalidError, match="there is no engine class"):
        build_engine(spec_of(name))
