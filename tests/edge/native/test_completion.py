"""Shapes of /completion: every key of the chunks, the result, and what may be asked of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.native.render import ANY_SLOT, chosen_fields
from inference.edge.native.settings import BREAKERS, DEFAULTS, SAMPLERS
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.sampling import resolve_chain
from inference.protocol.events import Delta, Finished, Progress, Started, Usage
from inference.protocol.params import SamplingParams
from inference.protocol.requests import InfillFile, InfillPrompt, TextPrompt, TokenPrompt
from tests.edge.events import STARTED, TIMINGS, USAGE, answer, delta, finished, logprobs
from tests.edge.native.conftest import Speaks
from tests.edge.test_chat_stream import WIRE_TIMINGS
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
PATH = "/completion"
CHUNK = {"index": 0, "stop": False, "id_slot": ANY_SLOT, "tokens_evaluated": 10}
ALL_KEYS = [
    *("index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted"),
    *("tokens_evaluated", "generation_settings", "prompt", "has_new_line", "truncated"),
    *("stop_type", "stopping_word", "tokens_cached", "timings"),
]
SETTINGS = (
    "seed temperature dynatemp_range dynatemp_exponent top_k top_p min_p top_n_sigma"
    " xtc_probability xtc_threshold typical_p repeat_last_n repeat_penalty presence_penalty"
    " frequency_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n"
    " dry_sequence_breakers mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay stop"
    " max_tokens n_predict n_keep n_discard ignore_eos stream logit_bias n_probs min_keep grammar"
    " grammar_lazy grammar_triggers preserved_tokens chat_format reasoning_format"
    " reasoning_in_content generation_prompt samplers speculative.types timings_per_token"
    " post_sampling_probs backend_sampling lora"
)


async def test_stream(says: Says, wire: Wire) -> None:
    says(STARTED, Delta("Hi", (7, 8)), Delta(" there", (9,)), finished())
    got = await wire.stream(PATH)
    first, second, last = got.data
    assert first == {**CHUNK, "content": "Hi", "tokens": [7, 8], "tokens_predicted": 2}
    assert second == {**CHUNK, "content": " there", "tokens": [9], "tokens_predicted": 3}
    assert list(last) == ALL_KEYS
    assert (last["content"], last["tokens"], last["stop"]) == ("", [], True)
    assert got.raw.startswith(b":\n\n")  # the head goes out before the first token
    assert b"[DONE]" not in got.raw


async def test_whole(says: Says, wire: Wire) -> None:
    fake = says(STARTED, Delta("Hi", (7,)), Delta("\nthere", (8, 9)), finished())
    status, body = await wire.post(PATH, seed=5)
    assert status == 200
    assert list(body) == ALL_KEYS
    settings = body.pop("generation_settings")
    assert body == {
        "index": 0,
        "content": "Hi\nthere",
        "tokens": [],
        "id_slot": ANY_SLOT,
        "stop": True,
        "model": "tiny",
        "tokens_predicted": 3,
        "tokens_evaluated": 10,
        "prompt": "Hello",
        "has_new_line": True,
        "truncated": False,
        "stop_type": "eos",
        "stopping_word": "",
        "tokens_cached": 12,
        "timings": WIRE_TIMINGS,
    }
    assert sorted(settings) == sorted(SETTINGS.split())
    assert (settings["seed"], settings["stream"]) == (fake.submitted[0].seed, False)


@pytest.mark.parametrize(
    ("end", "kind", "word"),
    [
        (finished("stop"), "eos", ""),
        (finished("length"), "limit", ""),
        (finished("stop", stop="\n"), "word", "\n"),
    ],
)
async def test_why_it_ended(says: Says, wire: Wire, end: Finished, kind: str, word: str) -> None:
    says(STARTED, delta("x"), end)
    _, body = await wire.post(PATH)
    assert (body["stop_type"], body["stopping_word"]) == (kind, word)


async def test_a_full_context_is_told(says: Says, wire: Wire) -> None:
    says(STARTED, delta("x"), Finished("length", USAGE, TIMINGS, truncated=True))
    _, body = await wire.post(PATH)
    assert (body["truncated"], body["stop_type"]) == (True, "limit")


async def test_tokens_that_said_nothing_come_before_the_end(says: Says, wire: Wire) -> None:
    """Those of a stop string: llama-server sends a chunk without text for each."""
    says(STARTED, Delta("x", (1,)), Delta("", (2, 3)), finished("stop", stop="yz"))
    got = await wire.stream(PATH)
    assert [(c["content"], c["tokens"]) for c in got.data] == [("x", [1]), ("", [2, 3]), ("", [])]
    _, body = await wire.post(PATH, return_tokens=True)
    assert (body["content"], body["tokens"]) == ("x", [1, 2, 3])


async def test_probabilities(says: Says, wire: Wire) -> None:
    log = (STARTED, Delta("a", (7,), logprobs=(logprobs("a"),)), finished())
    fake = says(*log)
    _, body = await wire.post(PATH, n_probs=1)
    one = {"id": 7, "token": "a", "bytes": [97], "logprob": -0.5}
    assert body["completion_probabilities"] == [{**one, "top_logprobs": [one]}]
    assert fake.submitted[0].sampling.num_probs == 1
    got = await wire.stream(PATH, logprobs=1)
    assert got.data[0]["completion_probabilities"] == body["completion_probabilities"]
    assert "completion_probabilities" not in got.data[-1]
    _, body = await wire.post(PATH, n_probs=1, post_sampling_probs=True)
    prob = {"id": 7, "token": "a", "bytes": [97], "prob": math.exp(-0.5)}
    assert body["completion_probabilities"] == [{**prob, "top_probs": [prob]}]


async def test_progress(says: Says, wire: Wire) -> None:
    says(Started(10, 4), Progress(4, 10), Progress(10, 10), delta("x"), finished())
    got = await wire.stream(PATH, return_progress=True)
    found = [c["prompt_progress"] for c in got.data if "prompt_progress" in c]
    assert found == [
        {"total": 10, "cache": 4, "processed": 4},
        {"total": 10, "cache": 4, "processed": 10},
    ]
    assert not any("prompt_progress" in c for c in (await wire.stream(PATH)).data)


async def test_fields_that_are_wanted(says: Says, wire: Wire) -> None:
    says(*answer("Hi"))
    fields = ["content", "timings/prompt_n", "generation_settings/top_k", "absent", "timings/x/y"]
    wanted = {"timings/prompt_n": 6, "generation_settings/top_k": 40}
    assert await wire.post(PATH, response_fields=fields) == (200, {"content": "Hi", **wanted})
    got = await wire.stream(PATH, response_fields=fields)
    assert got.data[0]["content"] == "Hi"
    assert got.data[-1] == {"content": "", **wanted}


def test_null_is_a_value_of_a_field() -> None:
    body = {"a": {"b": None}, "c": 1}
    assert chosen_fields(body, ["a/b", "c/d", "e"]) == {"a/b": None}
    assert chosen_fields(body, []) == body


async def test_several_prompts_are_a_list(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    _, bodies = await wire.post(PATH, prompt=["a", [1, 2]], n=2, seed=1)
    assert [body["index"] for body in bodies] == [0, 1, 2, 3]
    assert [body["prompt"] for body in bodies] == ["a", "a", "", ""]
    assert [body["generation_settings"]["seed"] for body in bodies] == [1, 2, 1, 2]
    assert [r.prompt for r in fake.submitted][::2] == [TextPrompt("a"), TokenPrompt((1, 2))]
    _, body = await wire.post(PATH, prompt=["a"])
    assert body["content"] == "x"
    got = await wire.stream(PATH, prompt=["a", "b"])
    assert {chunk["index"] for chunk in got.data} == {0, 1}


async def test_what_was_asked_for_is_in_the_settings(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fake.num_adapters = 2
    _, body = await wire.post(
        PATH,
        temperature=0,
        top_k=1,
        samplers=["top_k"],
        stop=["\n"],
        n_predict=5,
        logit_bias=[[7, 1.5], ["a", False]],
        grammar='root ::= "x"',
        grammar_lazy=True,
        grammar_triggers=[{"type": 1, "value": "w"}, {"type": 0, "token": 3}],
        preserved_tokens=["<t>"],
        lora=[{"id": 1, "scale": 0.5}],
        n_keep=3,
    )
    settings = body["generation_settings"]
    assert {
        "temperature": 0.0,
        "top_k": 1,
        "samplers": ["top_k"],
        "stop": ["\n"],
        "n_predict": 5,
        "max_tokens": 5,
        "logit_bias": [{"bias": 1.5, "token": 7}, {"bias": None, "token": "a"}],
        "grammar": 'root ::= "x"',
        "grammar_lazy": True,
        "grammar_triggers": [
            {"type": 1, "value": "w"},
            {"type": 0, "token": 3, "value": ""},
        ],
        "preserved_tokens": ["<t>"],
        "lora": [{"id": 1, "scale": 0.5}],
        "n_keep": 3,
    }.items() <= settings.items()


def test_defaults_are_the_engines() -> None:
    chain = resolve_chain(SamplingParams(), MockTokenizer(), max_context=10**6)
    assert {name: getattr(chain, name) for name in DEFAULTS} == DEFAULTS
    assert (chain.order, chain.dry_sequence_breakers) == (SAMPLERS, BREAKERS)


async def test_infill(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fields: dict[str, Any] = {"input_prefix": "a", "input_suffix": "b", "prompt": "c"}
    extra = [{"text": "d"}, {"text": "e", "filename": "e.py"}]
    _, body = await wire.post("/infill", **fields, input_extra=extra)
    files = (InfillFile("tmp", "d"), InfillFile("e.py", "e"))
    assert fake.submitted[0].prompt == InfillPrompt("a", "b", "c", files)
    assert list(body) == ALL_KEYS


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": None}, "input_suffix"),
        ({"input_prefix": 7}, "input_prefix"),
        ({"prompt": ["a"]}, "prompt"),
        ({"input_extra": "x"}, "input_extra"),
        ({"input_extra": [{"filename": "a"}]}, "input_extra[0].text"),
        ({"input_extra": [{"text": "a", "filename": 7}]}, "input_extra[0].filename"),
        ({"input_extra": [{"text": "a"}] * 257}, "input_extra"),
        ({"input_prefix": "x" * (4 * 1024 * 1024)}, "input_prefix"),
        ({"id_slot": "1"}, "id_slot"),
        ({"response_fields": "content"}, "response_fields"),
        ({"tools": [{}]}, "tools"),
    ],
)
async def test_a_gap_that_is_none(
    says: Says, wire: Wire, fields: dict[str, Any], param: str
) -> None:
    fake = says(*answer("x"))
    gap = {"input_prefix": "a", "input_suffix": "b", "prompt": ""}
    status, body = await wire.post("/infill", **{**gap, **fields})
    assert (status, body["error"]["param"]) == (400, param)
    assert fake.submitted == []


async def test_a_gap_is_filled_between_the_vocabularys_marks(speaks: Speaks, wire: Wire) -> None:
    """The mock says its prompt again."""
    speaks()
    marked = "\x04repository\n\x05file\n\x01def f(\x02):\x03"
    _, body = await wire.post("/infill", input_prefix="def f(", input_suffix="):", prompt="")
    assert body["content"] == marked
    status, body = await wire.post("/v1/completions", prompt="def f(", suffix="):", echo=True)
    assert (status, body["choices"][0]["text"]) == (200, "def f(" + marked)


async def test_usage_of_an_answer_without_tokens(says: Says, wire: Wire) -> None:
    says(STARTED, Finished("length", Usage(0, 0, 0), TIMINGS))
    _, body = await wire.post(PATH)
    assert (body["tokens_cached"], body["content"]) == (0, "")
