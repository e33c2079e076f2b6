"""How weights get into memory changes nothing of what a model says."""

from __future__ import annotations

import llama_cpp
import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.load_options import LOAD_MODES, SPLIT_MODES
from inference.protocol.params import Limits
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import GREEDY, run_one, text_of
from tests.model.conftest import AskChat, starter_spec

pytestmark = pytest.mark.model


@pytest.fixture
def said(engine: Engine, ask_chat: AskChat) -> str:
    """What the model says where nothing is set."""
    request = ask_chat("a", "Name a colour.", sampling=GREEDY, limits=Limits(max_tokens=8))
    return text_of(run_one(engine, request))


# Locking may be forbidden to a process; llama.cpp warns then, and goes on.
@pytest.mark.parametrize("fields", [{"load_mode": mode} for mode in LOAD_MODES[1:]])
def test_every_mode_serves(fields: dict[str, object], said: str, ask_chat: AskChat) -> None:
    other, _ = build_engine(starter_spec(**fields, context_len=256, num_slots=1))
    assert isinstance(other, Engine)
    request = ask_chat("a", "Name a colour.", sampling=GREEDY, limits=Limits(max_tokens=8))
    assert text_of(run_one(other, request)) == said
    other.close()


@pytest.mark.skipif(
    llama_cpp.llama_supports_gpu_offload(), reason="about libraries that know no GPU"
)
def test_without_gpus_there_is_nothing_to_split(said: str, ask_chat: AskChat) -> None:
    with pytest.raises(InvalidError, match="needs a GPU"):
        build_engine(starter_spec(split_mode="tensor"))
    for mode in set(SPLIT_MODES) - {"tensor"}:
        other, _ = build_engine(starter_spec(split_mode=mode, context_len=256, num_slots=1))
        assert isinstance(other, Engine)
        request = ask_chat("a", "Name a colour.", sampling=GREEDY, limits=Limits(max_tokens=8))
        assert text_of(run_one(other, request)) == said
        other.close()


@pytest.mark.parametrize("param", ["load_mode", "split_mode"])
def test_another_word_is_named(param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        build_engine(starter_spec(**{param: "magic"}))
    assert caught.value.param == param
