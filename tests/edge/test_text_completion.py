"""Shapes of text completions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from inference.protocol.events import Delta
from inference.protocol.requests import InfillPrompt, TextPrompt
from tests.edge.events import STARTED, answer, finished, logprobs
from tests.edge.test_chat_stream import WIRE_TIMINGS, WIRE_USAGE
from tests.edge.wire import TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]


async def test_stream(says: Says, wire: Wire) -> None:
    fake = says(*answer("Hi", " there"))
    got = await wire.stream(TEXT)
    choices = [chunk["choices"][0] for chunk in got.data]
    base = {"index": 0, "logprobs": None}
    assert choices == [
        {**base, "text": "Hi", "finish_reason": None},
        {**base, "text": " there", "finish_reason": None},
        {**base, "text": "", "finish_reason": "stop"},
    ]
    assert {c["object"] for c in got.data} == {"text_completion"}
    assert got.data[-1]["usage"] == WIRE_USAGE
    assert got.data[-1]["timings"] == WIRE_TIMINGS
    assert not any("usage" in c or "timings" in c for c in got.data[:-1])
    assert got.is_done
    assert fake.submitted[0].reply.reply_id.startswith("chatcmpl-")


async def test_stream_opens_before_the_first_token(says: Says, wire: Wire) -> None:
    says(*answer("Hi"))
    assert (await wire.stream(TEXT)).raw.startswith(b":\n\n")


async def test_whole_reply(says: Says, wire: Wire) -> None:
    says(*answer("Hi", " there"))
    status, body = await wire.post(TEXT)
    assert status == 200
    assert body["choices"] == [
        {"text": "Hi there", "index": 0, "logprobs": None, "finish_reason": "stop"}
    ]
    assert (body["object"], body["usage"]) == ("text_completion", WIRE_USAGE)


async def test_logprobs(says: Says, wire: Wire) -> None:
    fake = says(STARTED, Delta("a", (1,), logprobs=(logprobs("a"),)), finished())
    _, body = await wire.post(TEXT, logprobs=2)
    assert fake.submitted[0].sampling.num_probs == 2
    (item,) = body["choices"][0]["logprobs"]["content"]
    assert (item["token"], len(item["top_logprobs"])) == ("a", 2)


async def test_no_rivals_is_not_no_log_probabilities(says: Says, wire: Wire) -> None:
    fake = says(STARTED, Delta("a", (1,), logprobs=(logprobs("a"),)), finished())
    for zero in ({"logprobs": 0}, {"logprobs": 0, "n_probs": None}):
        _, body = await wire.post(TEXT, **zero)
        assert fake.submitted.pop().sampling.num_probs == 1
        shown = body["choices"][0]["logprobs"]
        assert (shown["tokens"], shown["token_logprobs"]) == (["a"], [-0.5])
        assert (shown["top_logprobs"], shown["content"][0]["top_logprobs"]) == ([{}], [])
    for none in ({"logprobs": None}, {}, {"n_probs": 0}, {"n_probs": 0, "logprobs": 0}):
        _, body = await wire.post(TEXT, **none)
        assert fake.submitted.pop().sampling.num_probs == 0
        assert body["choices"][0]["logprobs"] is None


async def test_probabilities_after_sampling(says: Says, wire: Wire) -> None:
    says(STARTED, Delta("a", (1,), logprobs=(logprobs("a"),)), finished())
    _, body = await wire.post(TEXT, n_probs=1, post_sampling_probs=True)
    (item,) = body["choices"][0]["logprobs"]["content"]
    one = {"id": 7, "token": "a", "bytes": [97], "prob": math.exp(-0.5)}
    assert item == {**one, "top_probs": [one]}


async def test_several_prompts_and_choices(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    _, body = await wire.post(TEXT, prompt=["a", "b"], n=2, seed=1)
    assert [r.prompt.text for r in fake.submitted] == ["a", "a", "b", "b"]  # type: ignore[union-attr]
    assert [r.seed for r in fake.submitted] == [1, 2, 1, 2]
    assert [c["index"] for c in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"]["prompt_tokens"] == 20
    assert body["usage"]["completion_tokens"] == 12
    got = await wire.stream(TEXT, prompt=["a", "b"], n=2)
    assert [c["usage"] for c in got.data if "usage" in c] == [body["usage"]]
    assert got.data[-1]["usage"] == body["usage"]
    assert sum("timings" in c for c in got.data) == 4


async def test_logprobs_in_the_older_form_too(says: Says, wire: Wire) -> None:
    """What OpenAI's client has types for."""
    says(
        STARTED,
        Delta("a", (1,), logprobs=(logprobs("a"),)),
        Delta("é!", (2, 3), logprobs=(logprobs("é"), logprobs("!"))),
        finished(),
    )
    _, body = await wire.post(TEXT, logprobs=2)
    legacy = body["choices"][0]["logprobs"]
    assert legacy.pop("content")
    assert legacy == {
        "tokens": ["a", "é", "!"],
        "token_logprobs": [-0.5, -0.5, -0.5],
        "top_logprobs": [{"a": -0.5, "!": -1.5}, {"é": -0.5, "!": -1.5}, {"!": -0.5}],
        "text_offset": [0, 1, 2],
    }
    got = await wire.stream(TEXT, logprobs=2)
    offsets = [c["choices"][0]["logprobs"] for c in got.data]
    assert [o["text_offset"] for o in offsets if o] == [[0], [1, 2]]


@pytest.mark.parametrize("stream", [True, False])
async def test_echo(says: Says, wire: Wire, stream: bool) -> None:
    says(*answer("Hi", " there"))
    for prompt, texts in (("Well. ", ["Well. "]), (["a", "b"], ["a", "a", "b", "b"])):
        n = 1 if isinstance(prompt, str) else 2
        if stream:
            got = await wire.stream(TEXT, prompt=prompt, echo=True, n=n)
            choices = [choice for chunk in got.data for choice in chunk["choices"]]
        else:
            choices = (await wire.post(TEXT, prompt=prompt, echo=True, n=n))[1]["choices"]
        for index, text in enumerate(texts):
            mine = [c["text"] for c in choices if c["index"] == index]
            assert "".join(mine) == text + "Hi there"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2], "echo": True}, "echo"),
        ({"prompt": ["a", [1]], "suffix": "b"}, "suffix"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"echo": True, "logprobs": 0}, "echo"),
        ({"echo": "yes"}, "echo"),
        ({"suffix": 7}, "suffix"),
    ],
)
async def test_what_cannot_be_repeated_or_filled(
    says: Says, wire: Wire, fields: dict[str, object], param: str
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(TEXT, **fields)
    assert (status, body["error"]["param"]) == (400, param)
    assert fake.submitted == []


async def test_suffix_is_a_gap(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    await wire.post(TEXT, prompt=["a", "b"], suffix="c")
    assert [r.prompt for r in fake.submitted] == [InfillPrompt("a", "c"), InfillPrompt("b", "c")]
    _, body = await wire.post(TEXT, prompt="a", suffix="c", echo=True)
    assert body["choices"][0]["text"] == "ax"
    await wire.post(TEXT, prompt="a", suffix="")
    assert fake.submitted[-1].prompt == TextPrompt("a")
