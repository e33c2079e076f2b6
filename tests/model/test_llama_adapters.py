"""LoRA adapters on a real model: what they change, and what they must never touch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.spec import AdapterSpec
from llamaweb.lib.errors import FailedError, InvalidError
from tests.engine.driving import ids_of, run, run_one, started
from tests.model.conftest import AskChat, starter_spec
from tests.model.lora_files import write_adapter
from tests.model.test_llama_engine import assert_same_choices

pytestmark = pytest.mark.model

GREEDY = SamplingParams(temperature=0.0, num_probs=2)
FEW = Limits(max_tokens=8)
QUESTION = "Here is a list of words: " + "apple river stone cloud " * 12 + ". Which came first?"
INVOCATION = "<|im_start|>assistant"
ONE, HALF, OTHER, ACTIVATED = ((0, 1.0),), ((0, 0.5),), ((1, 1.0),), ((2, 1.0),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(scope="module")
def loaded(folder: Path, loaded_engine: Engine) -> Iterator[Engine]:
    """Two adapters, and a third that its invocation wakes."""
    tokenizer = loaded_engine._backend.tokenizer
    invocation = tokenizer.tokenize(INVOCATION, add_special=False, parse_special=True)
    paths = (
        write_adapter(folder / "one.gguf", seed=1),
        write_adapter(folder / "other.gguf", seed=2),
        write_adapter(folder / "activated.gguf", seed=1, invocation=tuple(invocation)),
    )
    specs = (
        AdapterSpec(str(paths[0])),
        AdapterSpec(str(paths[1]), scale=0.0, name="second"),
        AdapterSpec(str(paths[2]), scale=0.0),
    )
    engine, _ = build_engine(starter_spec(num_slots=4, adapters=specs, verify_cache=True))
    assert isinstance(engine, Engine)
    yield engine
    engine.close()


@pytest.fixture
def engine(loaded: Engine) -> Iterator[Engine]:
    """Every prefix that is reused is computed again and compared."""
    assert not loaded.has_work
    loaded.purge()
    yield loaded
    assert loaded.stats()["cache_check_failures"] == 0


@pytest.fixture
def question(ask_chat: AskChat) -> AskChat:
    def make(generation_id: str, text: str = QUESTION, **fields: object) -> SequenceRequest:
        return ask_chat(generation_id, text, **{"sampling": GREEDY, "limits": FEW} | fields)

    return make


def test_they_are_told_as_loaded(engine: Engine) -> None:
    one, other, activated = engine.adapters
    assert (one.name, one.scale, one.task_name, one.invocation) == ("one", 1.0, "rhymes", ())
    assert (other.name, other.scale) == ("second", 0.0)
    tokens = engine._backend.tokenizer.tokenize(INVOCATION, add_special=False, parse_special=True)
    assert activated.invocation == tuple(tokens)
    assert activated.invocation_text == INVOCATION
    assert len({one.digest, other.digest, activated.digest}) == 3


def test_an_adapter_changes_the_answer_and_leaves_nothing_behind(
    engine: Engine, loaded_engine: Engine, question: AskChat
) -> None:
    plain = run_one(loaded_engine, question("without any loaded"))
    said = {"plain": plain}
    for name, adapters in [("one", ONE), ("half", HALF), ("other", OTHER), ("both", ONE + OTHER)]:
        said[name] = run_one(engine, question(name, adapters=adapters))
        engine.purge()
        assert_same_choices(plain, run_one(engine, question(f"plain after {name}")))
        engine.purge()
    assert len({ids_of(events) for events in said.values()}) == 5
    assert_same_choices(said["one"], run_one(engine, question("again", adapters=ONE)))


def test_side_by_side_each_says_what_it_says_alone(engine: Engine, question: AskChat) -> None:
    wanted = {"plain": (), "one": ONE, "half": HALF, "other": OTHER}
    alone = {}
    for name, adapters in wanted.items():
        engine.purge()
        alone[name] = run_one(engine, question(name, adapters=adapters))
    engine.purge()
    for name, adapters in wanted.items():
        engine.add(question(name, adapters=adapters))
    together = run(engine)
    for name, events in alone.items():
        assert_same_choices(events, together[name])
        assert started(together[name]).cached_tokens == 0


def test_a_prefix_is_reused_only_under_the_same_adapters(engine: Engine, question: AskChat) -> None:
    first = run_one(engine, question("a", adapters=ONE))
    for name, adapters in [("plain", ()), ("half", HALF), ("other", OTHER)]:
        assert started(run_one(engine, question(name, adapters=adapters))).cached_tokens == 0
    again = run_one(engine, question("b", adapters=ONE))
    assert started(again).cached_tokens == started(first).prompt_tokens - 1
    assert_same_choices(first, again)


def test_an_activated_one_acts_from_its_invocation_on(engine: Engine, question: AskChat) -> None:
    """It has the matrices of the first adapter, so the two differ by where they act."""
    request = question("alone", adapters=ACTIVATED)
    tokenizer = engine._backend.tokenizer
    end = tokenizer.tokenize(INVOCATION + "\n", add_special=False, parse_special=True)
    before_len = len(request.tokens) - len(end)
    alone = run_one(engine, request)
    assert started(alone).cached_tokens == 0
    again = run_one(engine, question("again", adapters=ACTIVATED))
    assert started(again).cached_tokens == len(request.tokens) - 1
    assert_same_choices(alone, again)
    # Before it, all is as without: what is there is of use to others, and theirs is to it.
    plain = run_one(engine, question("plain"))
    assert started(plain).cached_tokens == before_len
    engine.purge()
    assert_same_choices(plain, run_one(engine, question("plain again")))
    behind_plain = run_one(engine, question("behind", adapters=ACTIVATED))
    assert started(behind_plain).cached_tokens == before_len
    assert_same_choices(alone, behind_plain)
    engine.purge()
    all_the_way = run_one(engine, question("all", adapters=ONE))
    assert len({ids_of(plain), ids_of(alone), ids_of(all_the_way)}) == 3


def test_without_its_invocation_it_does_nothing(engine: Engine, question: AskChat) -> None:
    tokens = engine._backend.tokenizer.tokenize(QUESTION, add_special=False, parse_special=False)
    answers = []
    for name, adapters in [("plain", ()), ("activated", ACTIVATED)]:
        engine.purge()
        request = dataclasses.replace(question(name, adapters=adapters), tokens=tuple(tokens))
        answers.append(run_one(engine, request))
    assert_same_choices(*answers)


def test_an_extreme_scale_ends_no_engine(engine: Engine, question: AskChat) -> None:
    warm = SamplingParams(temperature=1.0)
    for adapters in [((0, 100.0),), ((0, -100.0), (1, 100.0))]:
        for sampling in (GREEDY, warm):
            run_one(engine, question("extreme", adapters=adapters, sampling=sampling))
    engine.purge()
    with pytest.raises(InvalidError, match="100"):
        engine.add(question("more", adapters=((0, 100.5),)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"architecture": "qwen2"}, "made for another model"),
        ({"embed_len": 512}, "made for another model: .*shape"),
        ({"kind": "model"}, "not a LoRA adapter"),
    ],
)
def test_what_is_no_adapter_of_this_model_is_refused(
    tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    path = write_adapter(tmp_path / "wrong.gguf", **fields)  # type: ignore[arg-type]
    with pytest.raises(FailedError, match=rf"wrong\.gguf.*{said}"):
        build_engine(starter_spec(adapters=(AdapterSpec(str(path)),)))


@pytest.mark.parametrize("keep_bytes", [0, 30, 500, 100_000])
def test_a_damaged_adapter_is_named(tmp_path: Path, keep_bytes: int) -> None:
    path = write_adapter(tmp_path / "damaged.gguf")
    path.write_bytes(path.read_bytes()[:keep_bytes])
    with pytest.raises(FailedError, match=r"damaged\.gguf.*damaged"):
        build_engine(starter_spec(adapters=(AdapterSpec(str(path)),)))


def test_a_missing_adapter_is_named(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match=r"absent\.gguf.*doesn't exist"):
        build_engine(starter_spec(adapters=(AdapterSpec(str(tmp_path / "absent.gguf")),)))


def test_an_invocation_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "far.gguf", invocation=(1, 10_000_000))
    with pytest.raises(FailedError, match="vocabulary"):
        build_engine(starter_spec(adapters=(AdapterSpec(str(path)),)))
