"""Shapes of text completions."""

from __future__ import annotations

import math
from collections.abc import Callable

from inference.protocol.events import Delta
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
