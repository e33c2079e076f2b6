"""Shapes of chat streams, and that streamed and whole replies say the same."""

from __future__ import annotations

from collections.abc import Callable

from inference.protocol.events import Delta, Failed, Progress, Snapshot, Started
from inference.queues.contract import Cursor, Position, Read
from tests.edge.events import STARTED, TIMINGS, USAGE, answer, delta, finished, logprobs
from tests.edge.wire import CHAT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
WIRE_USAGE = {
    "completion_tokens": 3,
    "prompt_tokens": 10,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 4},
}
WIRE_TIMINGS = {
    "cache_n": 4,
    "prompt_n": 6,
    "prompt_ms": 60.0,
    "prompt_per_token_ms": 10.0,
    "prompt_per_second": 100.0,
    "predicted_n": 3,
    "predicted_ms": 50.0,
    "predicted_per_token_ms": 25.0,
    "predicted_per_second": 40.0,
}


async def test_stream(says: Says, wire: Wire) -> None:
    fake = says(Position(0, 1), *answer("Hi", " there"))
    got = await wire.stream(CHAT)
    assert [chunk["choices"] for chunk in got.data] == [
        [{"finish_reason": None, "index": 0, "delta": {"role": "assistant", "content": None}}],
        [{"finish_reason": None, "index": 0, "delta": {"content": "Hi"}}],
        [{"finish_reason": None, "index": 0, "delta": {"content": " there"}}],
        [{"finish_reason": "stop", "index": 0, "delta": {}}],
    ]
    assert got.is_done
    generation_id = fake.submitted[0].generation_id
    assert got.ids == [f"{generation_id}:{seq}.0" for seq in range(4)]
    heads = [{k: v for k, v in c.items() if k not in ("choices", "timings")} for c in got.data]
    reply = fake.submitted[0].reply
    assert all(head == heads[0] for head in heads)
    assert heads[0] == {
        "created": reply.created_at,
        "id": reply.reply_id,
        "model": "tiny",
        "system_fingerprint": reply.fingerprint,
        "object": "chat.completion.chunk",
    }
    assert reply.reply_id.startswith("chatcmpl-")
    assert got.data[-1]["timings"] == WIRE_TIMINGS
    assert not any("timings" in chunk or "usage" in chunk for chunk in got.data[:-1])
    assert fake.cancelled == []


async def test_t10_usage_only_if_asked(says: Says, wire: Wire) -> None:
    says(*answer("Hi"))
    asked = await wire.stream(CHAT, stream_options={"include_usage": True})
    *others, last = asked.data
    assert last["choices"] == []
    assert last["usage"] == WIRE_USAGE
    assert last["timings"] == WIRE_TIMINGS
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in others)
    assert not any("timings" in chunk for chunk in others)
    for options in ({"include_usage": False}, {}, None):
        plain = await wire.stream(CHAT, stream_options=options)
        assert all(chunk["choices"] and "usage" not in chunk for chunk in plain.data)


async def test_whole_reply(says: Says, wire: Wire) -> None:
    fake = says(*answer("Hi", " there"))
    status, body = await wire.post(CHAT)
    reply = fake.submitted[0].reply
    assert status == 200
    assert body == {
        "choices": [
            {
                "finish_reason": "stop",
                "index": 0,
                "message": {"role": "assistant", "content": "Hi there"},
            }
        ],
        "created": reply.created_at,
        "id": reply.reply_id,
        "model": "tiny",
        "system_fingerprint": reply.fingerprint,
        "object": "chat.completion",
        "usage": WIRE_USAGE,
        "timings": WIRE_TIMINGS,
    }


async def test_empty_answer(says: Says, wire: Wire) -> None:
    says(STARTED, finished("length"))
    status, body = await wire.post(CHAT, max_tokens=0)
    assert status == 200
    assert body["choices"][0]["message"]["content"] == ""
    assert body["choices"][0]["finish_reason"] == "length"
    got = await wire.stream(CHAT, max_tokens=0)
    assert [c["choices"][0]["delta"] for c in got.data] == [
        {"role": "assistant", "content": None},
        {},
    ]


async def test_reasoning_is_apart(says: Says, wire: Wire) -> None:
    says(STARTED, Delta("Hm", (1,), kind="reasoning"), delta("Hi"), finished())
    got = await wire.stream(CHAT)
    deltas = [c["choices"][0]["delta"] for c in got.data]
    assert deltas[1:] == [{"reasoning_content": "Hm"}, {"content": "Hi"}, {}]
    _, body = await wire.post(CHAT)
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "Hm",
    }


async def test_deltas_are_never_empty(says: Says, wire: Wire) -> None:
    says(STARTED, delta(""), delta("a"), delta(""), finished())
    got = await wire.stream(CHAT)
    assert [c["choices"][0]["delta"] for c in got.data[1:]] == [{"content": "a"}, {}]


async def test_t08_framing_survives_any_text(says: Says, wire: Wire) -> None:
    texts = ("data: x\n\n", "\r", "\u2028\u2029\x85\x0b\x0c\x1c", "id: 1\n\n:")
    says(*answer(*texts))
    got = await wire.stream(CHAT)
    assert got.text == "".join(texts)
    # Some clients split lines as Python does.
    lines = [line for line in got.raw.decode().splitlines() if line]
    assert all(line.startswith(("data: ", "id: ")) for line in lines)
    assert len(lines) == 2 * len(got.data) + 1


async def test_t11_failure_in_the_middle(says: Says, wire: Wire) -> None:
    says(STARTED, *(delta(str(n)) for n in range(10)), Failed("engine_failed", "it broke"))
    got = await wire.stream(CHAT)
    assert got.text == "0123456789"
    assert got.data[-1] == {
        "error": {"message": "it broke", "type": "server_error", "param": None, "code": 500}
    }
    assert not got.is_done
    status, body = await wire.post(CHAT)
    assert (status, body["error"]["message"]) == (500, "it broke")


async def test_progress(says: Says, wire: Wire) -> None:
    says(STARTED, Progress(6, 10), Progress(10, 10), delta("x"), finished())
    got = await wire.stream(CHAT, return_progress=True)
    progress = [c for c in got.data if "prompt_progress" in c]
    assert [c["prompt_progress"] for c in progress] == [
        {"total": 10, "cache": 4, "processed": 6},
        {"total": 10, "cache": 4, "processed": 10},
    ]
    role = {"role": "assistant", "content": None}
    assert all(c["choices"][0]["delta"] == role for c in progress)
    assert not any("prompt_progress" in c for c in (await wire.stream(CHAT)).data)


async def test_logprobs(says: Says, wire: Wire) -> None:
    def piece(text: str, of: str) -> Delta:
        return Delta(text, (1,), logprobs=(logprobs(of),))

    fake = says(STARTED, piece("a", "a"), piece("", "b"), piece("bc", "c"), finished())
    got = await wire.stream(CHAT, logprobs=True, top_logprobs=1)
    assert fake.submitted[0].sampling.num_probs == 1
    items = [c["choices"][0].get("logprobs") for c in got.data]
    one = {"id": 7, "token": "a", "bytes": [97], "logprob": -0.5}
    assert items[1] == {"content": [{**one, "top_logprobs": [one]}]}
    assert [item["token"] for item in items[2]["content"]] == ["b", "c"]
    assert items[0] is items[3] is None
    _, body = await wire.post(CHAT, logprobs=True, top_logprobs=0)
    whole = body["choices"][0]["logprobs"]["content"]
    assert [item["token"] for item in whole] == ["a", "b", "c"]
    assert all(item["top_logprobs"] == [] for item in whole)
    _, other = await wire.post(CHAT, n_probs=1)
    assert other["choices"][0]["logprobs"]["content"][0] == {**one, "top_logprobs": [one]}
    _, plain = await wire.post(CHAT)
    assert "logprobs" not in plain["choices"][0]


async def test_several_choices(says: Says, wire: Wire) -> None:
    fake = says(*answer("Hi"))
    got = await wire.stream(CHAT, n=3, seed=5, stream_options={"include_usage": True})
    assert [r.seed for r in fake.submitted] == [5, 6, 7]
    assert len({r.generation_id for r in fake.submitted}) == 3
    assert len({c["id"] for c in got.data}) == 1
    indexes = sorted(c["choices"][0]["index"] for c in got.data if c["choices"])
    assert indexes == sorted([0, 1, 2] * 3)
    assert got.data[-1]["usage"]["completion_tokens"] == 9
    assert got.data[-1]["usage"]["prompt_tokens"] == 10
    _, body = await wire.post(CHAT, n=2)
    assert [c["index"] for c in body["choices"]] == [0, 1]
    status, body = await wire.post(CHAT, n=5)
    assert (status, body["error"]["param"]) == (400, "n")


async def test_prefill_is_echoed_only_if_asked(says: Says, wire: Wire) -> None:
    says(*answer(" two"))
    messages = [{"role": "user", "content": "Count"}, {"role": "assistant", "content": "One"}]
    _, plain = await wire.post(CHAT, messages=messages)
    assert plain["choices"][0]["message"]["content"] == " two"
    _, echoed = await wire.post(CHAT, messages=messages, echo=True)
    assert echoed["choices"][0]["message"]["content"] == "One two"


async def test_reset_goes_on_where_the_text_was(says: Says, wire: Wire) -> None:
    snapshot = Snapshot(
        9, started=STARTED, parts=(("content", "Hi there, friend"),), terminal=finished()
    )
    says(STARTED, delta("Hi"), delta(" the"), Read(Cursor(1, 9), reset=snapshot))
    got = await wire.stream(CHAT)
    assert got.text == "Hi there, friend"
    assert got.is_done
    assert got.data[-1]["choices"][0]["finish_reason"] == "stop"


async def test_reset_that_takes_text_back_is_an_error(says: Says, wire: Wire) -> None:
    says(STARTED, delta("Hi"), Read(Cursor(2, 3), reset=Snapshot(3, parts=(("content", "Ho"),))))
    got = await wire.stream(CHAT)
    assert got.data[-1]["error"]["code"] == 500
    assert not got.is_done


async def test_gone_is_an_error(says: Says, wire: Wire) -> None:
    says(STARTED, delta("Hi"), Read(Cursor(1, 1), gone=True))
    got = await wire.stream(CHAT)
    assert got.data[-1]["error"]["type"] == "server_error"


async def test_an_engines_death_shows_nothing(says: Says, wire: Wire) -> None:
    says(STARTED, delta("a"), Started(11, 10), Progress(11, 11), delta("b"), finished())
    got = await wire.stream(CHAT, return_progress=True)
    assert [c["choices"][0]["delta"] for c in got.data] == [
        {"role": "assistant", "content": None},
        {"content": "a"},
        {"content": "b"},
        {},
    ]


def test_figures_of_the_fixtures_differ() -> None:
    assert len({USAGE.prompt_tokens, USAGE.completion_tokens, USAGE.cached_tokens}) == 3
    assert TIMINGS.prefill_ms != TIMINGS.decode_ms
