"""llama-server's routes on the starter model: what they say agrees with itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.edge.conftest import as_alice, fake  # noqa: F401
from tests.edge.wire import HELLO, TEXT, Wire
from tests.fakes.inference_api import FakeInference
from tests.model.conftest import starter_spec
from tests.model.served import exact_worker, serve_by
from tests.worker.conftest import Bench

pytestmark = pytest.mark.model

PATH = "/completion"
CONTEXT_LEN = 512
PROMPT = "The quick brown fox"
GREEDY = {"temperature": 0, "n_predict": 12}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A worker with the starter model."""
    with exact_worker(starter_spec().model_path, CONTEXT_LEN) as made:
        yield made


@pytest.fixture
def wire(bench: Bench, fake: FakeInference) -> Wire:  # noqa: F811
    """A client whose requests that worker answers."""
    serve_by(bench, fake, CONTEXT_LEN)
    return Wire()


async def ok(wire: Wire, path: str, **fields: Any) -> Any:
    """The body of a 200."""
    status, body = await wire.post(path, **fields)
    assert status == 200, body
    return body


async def test_streamed_and_whole_say_the_same(wire: Wire) -> None:
    whole = await ok(wire, PATH, prompt=PROMPT, return_tokens=True, n_probs=2, **GREEDY)
    streamed = await wire.stream(PATH, prompt=PROMPT, n_probs=2, **GREEDY)
    *chunks, last = streamed.data
    assert whole["content"] == "".join(chunk["content"] for chunk in chunks) != ""
    assert whole["tokens"] == [token for chunk in chunks for token in chunk["tokens"]]
    assert len(whole["tokens"]) == whole["tokens_predicted"] == last["tokens_predicted"] == 12
    assert (whole["stop_type"], whole["prompt"]) == ("limit", PROMPT)
    probs = whole["completion_probabilities"]
    assert [item["id"] for item in probs] == whole["tokens"]
    assert all(len(item["top_logprobs"]) == 2 for item in probs)
    assert all(item["top_logprobs"][0]["id"] == item["id"] for item in probs)  # greedy


async def test_tokens_and_text_are_the_same_prompt(wire: Wire) -> None:
    ids = (await ok(wire, "/tokenize", content=PROMPT, add_special=True))["tokens"]
    by_text = await ok(wire, PATH, prompt=PROMPT, **GREEDY)
    by_ids = await ok(wire, PATH, prompt=ids, **GREEDY)
    assert by_text["tokens_evaluated"] == by_ids["tokens_evaluated"] == len(ids)
    assert by_text["content"] == by_ids["content"]
    openai = await ok(wire, TEXT, prompt=PROMPT, temperature=0, max_tokens=12)
    assert openai["choices"][0]["text"] == by_text["content"]


@pytest.mark.parametrize("text", ["Hello, world", "naïve 漢字 😺", "<|im_start|>user", ""])
async def test_text_survives_its_tokens(wire: Wire, text: str) -> None:
    body = await ok(wire, "/tokenize", content=text, with_pieces=True)
    ids = [item["id"] for item in body["tokens"]]
    assert (await ok(wire, "/detokenize", tokens=ids))["content"] == text
    data = b"".join(
        p.encode() if isinstance(p, str) else bytes(p) for p in (i["piece"] for i in body["tokens"])
    )
    assert data.decode() == text


async def test_special_tokens_are_parsed_unless_they_are_text(wire: Wire) -> None:
    marked = await ok(wire, "/tokenize", content="<|im_start|>")
    plain = await ok(wire, "/tokenize", content="<|im_start|>", parse_special=False)
    assert len(marked["tokens"]) == 1 < len(plain["tokens"])


async def test_the_counted_chat_is_the_rendered_one(wire: Wire) -> None:
    prompt = (await ok(wire, "/apply-template", messages=HELLO))["prompt"]
    assert prompt.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    ids = (await ok(wire, "/tokenize", content=prompt, add_special=True))["tokens"]
    counted = await ok(wire, "/v1/chat/completions/input_tokens", messages=HELLO)
    assert counted["input_tokens"] == len(ids)
    answer = await ok(wire, "/v1/chat/completions", messages=HELLO, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == len(ids)


async def test_a_stop_string_is_named(wire: Wire) -> None:
    whole = (await ok(wire, PATH, prompt=PROMPT, **GREEDY))["content"]
    stop = whole[6:9]
    body = await ok(wire, PATH, prompt=PROMPT, stop=[stop], **GREEDY)
    assert body["content"] == whole.partition(stop)[0]
    assert (body["stop_type"], body["stopping_word"]) == ("word", stop)


async def test_a_model_without_marks_for_gaps_says_so(wire: Wire) -> None:
    for path, fields in (
        ("/infill", {"input_prefix": "a", "input_suffix": "b", "prompt": ""}),
        (TEXT, {"prompt": "a", "suffix": "b"}),
    ):
        status, body = await wire.post(path, **fields)
        assert (status, body["error"]["type"]) == (501, "not_supported_error")
        assert "Infill is not supported by this model" in body["error"]["message"]


async def test_p11_too_long(wire: Wire) -> None:
    status, body = await wire.post(PATH, prompt="word " * 600, stream=True)
    assert (status, body["error"]["type"]) == (400, "exceed_context_size_error")
    assert body["error"]["n_ctx"] == 512


async def test_properties(wire: Wire) -> None:
    body = (await wire.client.get("/props")).json()
    assert "im_start" in body["chat_template"]
    assert body["chat_template_caps"]["supports_system_role"]
    assert (body["bos_token"], body["eos_token"]) == ("<|im_start|>", "<|im_end|>")
