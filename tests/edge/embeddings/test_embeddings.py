"""Vectors on the wire: forms of texts, shapes of answers, bounds."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.embeddings.inputs import MAX_INPUTS
from inference.protocol.events import Finished, Result
from inference.protocol.results import EmbedResult
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

V1, NATIVE = "/v1/embeddings", "/embeddings"
Use = Callable[..., FakeInference]


async def post(wire: Wire, path: str, **body: Any) -> tuple[int, Any]:
    response = await wire.raw(path, json.dumps(body).encode())
    return response.status_code, json.loads(response.content)


async def vectors(wire: Wire, **body: Any) -> list[list[float]]:
    status, answer = await post(wire, V1, **body)
    assert status == 200, answer
    assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
    return [item["embedding"] for item in answer["data"]]


async def test_openais_shape(engine: Use, wire: Wire) -> None:
    engine()
    status, body = await post(wire, V1, model="tiny", input=["hello", "you"])
    assert status == 200
    assert (body["object"], body["model"]) == ("list", "tiny")
    assert body["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
    for index, item in enumerate(body["data"]):
        assert item.keys() == {"object", "index", "embedding"}
        assert (item["object"], item["index"]) == ("embedding", index)
        assert len(item["embedding"]) == 64
        assert math.hypot(*item["embedding"]) == pytest.approx(1.0, abs=1e-5)


async def test_base64_is_the_same_numbers(engine: Use, wire: Wire) -> None:
    engine()
    (numbers,) = await vectors(wire, input="hello")
    _, body = await post(wire, V1, input="hello", encoding_format="base64")
    item = body["data"][0]
    assert item["encoding_format"] == "base64"
    unpacked = struct.unpack("<64f", base64.b64decode(item["embedding"]))
    assert unpacked == pytest.approx(numbers, abs=1e-7)


async def test_llama_servers_shape(engine: Use, wire: Wire) -> None:
    engine()
    (numbers,) = await vectors(wire, input="hello")
    for path, field in ((NATIVE, "input"), ("/embedding", "content"), (V1, "content")):
        status, body = await post(wire, path, **{field: "hello"})
        assert status == 200
        assert body == [{"index": 0, "embedding": [pytest.approx(numbers, abs=1e-6)]}]


async def test_a_vector_a_token(engine: Use, wire: Wire) -> None:
    engine(pooling="none")
    _, body = await post(wire, NATIVE, input=["abc", "a"])
    assert [len(item["embedding"]) for item in body] == [3, 1]
    assert body[0]["embedding"][0] == body[1]["embedding"][0]
    assert math.hypot(*body[1]["embedding"][0]) > 2  # as they are
    status, body = await post(wire, V1, input="abc")
    assert (status, body["error"]["param"]) == (400, "model")


@pytest.mark.parametrize(
    "text",
    [
        [104, 101, 108, 108, 111],
        ["hello"],
        [[104, 101, 108, 108, 111]],
        ["he", 108, 108, "o"],
        {"prompt_string": "hello"},
        {"content": "hello"},
        {"content": [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]},
        [{"content": [{"type": "text", "text": "hello"}]}],
    ],
)
async def test_forms_of_one_text(engine: Use, wire: Wire, text: Any) -> None:
    engine()
    assert await vectors(wire, input=text) == await vectors(wire, input="hello")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "x", "dimensions": 0}, "dimensions"),
        ({"input": "x", "dimensions": 65}, "dimensions"),
        ({"input": "x", "dimensions": "64"}, "dimensions"),
        ({"input": "x", "embd_normalize": -2}, "embd_normalize"),
        ({"input": "x", "embd_normalize": 1.5}, "embd_normalize"),
        ({"content": "x", "encoding_format": "base64"}, "encoding_format"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", []]}, "input[1]"),
        ({"input": ["a", [1, 999]]}, "input[1]"),
        ({"input": [[1, True]]}, "input[0]"),
        ({"input": {"a": 1}}, "input"),
        ({"input": [{"content": []}]}, "input[0]"),
        ({"input": {"prompt_string": "x", "multimodal_data": ["a"]}}, "input.multimodal_data"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input"),
        ({"input": ["x" * 3_000_000, "x" * 3_000_000]}, "input"),
        ({"content": [None]}, "content[0]"),
        ({}, "input"),
    ],
)
async def test_refused_by_name(engine: Use, wire: Wire, fields: dict[str, Any], param: str) -> None:
    engine()
    status, body = await post(wire, V1, **fields)
    assert status == 400
    assert body["error"]["param"] == param


async def test_norms_and_fewer_dimensions(engine: Use, wire: Wire) -> None:
    engine()
    (whole,) = await vectors(wire, input="hello", embd_normalize=-1)
    (short,) = await vectors(wire, input="hello", dimensions=16)
    length = math.hypot(*whole[:16])
    assert short == pytest.approx([number / length for number in whole[:16]], abs=1e-5)
    (taxicab,) = await vectors(wire, input="hello", embd_normalize=1)
    assert sum(map(abs, taxicab)) == pytest.approx(1.0, abs=1e-4)
    (by_largest,) = await vectors(wire, input="hello", embd_normalize=0)
    assert max(map(abs, by_largest)) == pytest.approx(32_760)


async def test_the_norm_of_a_model_is_that_of_requests_without_one(engine: Use, wire: Wire) -> None:
    engine(vector_norm=1)
    for fields in ({}, {"embd_normalize": None}):
        (taxicab,) = await vectors(wire, input="hello", **fields)
        assert sum(map(abs, taxicab)) == pytest.approx(1.0, abs=1e-4)
    (own,) = await vectors(wire, input="hello", embd_normalize=2)
    assert math.hypot(*own) == pytest.approx(1.0, abs=1e-5)


async def test_a_million_numbers(fake: FakeInference, wire: Wire) -> None:
    row = base64.b64encode(struct.pack("<1024f", *[0.25] * 1024)).decode()
    result = EmbedResult((row,) * 1000, 1024, 1000)

    async def script(_request: Any) -> Any:
        yield Result(result)
        yield Finished("stop")

    fake.script = script
    found = await vectors(wire, input=["x"] * 1000)
    assert (len(found), len(found[0]), found[999][1023]) == (1000, 1024, 0.25)


# --- reported by people who do this job


async def test_p06_null_is_not_given(engine: Use, wire: Wire) -> None:
    engine()
    nulls = dict.fromkeys(("dimensions", "encoding_format", "embd_normalize", "content", "user"))
    assert await vectors(wire, input="hello", model=None, **nulls) == await vectors(
        wire, input="hello"
    )


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "text", "text": None}, "input.content[0].text"),
        ({"type": "image_url", "image_url": {"url": ""}}, "input.content[0]"),
        ({"type": "something"}, "input.content[0]"),
        (None, "input.content[0]"),
    ],
)
async def test_p08_parts_that_are_no_text(engine: Use, wire: Wire, part: Any, param: str) -> None:
    engine()
    status, body = await post(wire, V1, input={"content": [part]})
    assert (status, body["error"]["param"]) == (400, param)


async def test_p11_one_token_too_many_is_never_cut(engine: Use, wire: Wire) -> None:
    engine()
    assert len(await vectors(wire, input="x" * 512)) == 1
    status, body = await post(wire, V1, input="x" * 513)
    assert status == 400
    assert (body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]) == (513, 512)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'{"input": null}', 400),
        (b"{}", 400),
        (b'"x"', 400),
        (b"[null]", 400),
        (b'{"input": [{"role": "user"}]}', 400),
        (b'{"input": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400),
        (b'{"input": "' + b"x" * 11_000_000 + b'"}', 413),
    ],
)
async def test_p13_what_is_no_request(engine: Use, wire: Wire, data: bytes, status: int) -> None:
    fake = engine()
    response = await wire.raw(V1, data)
    assert response.status_code == status
    assert "error" in json.loads(response.content)
    assert fake.submitted == []


async def test_half_a_character_is_replaced(engine: Use, wire: Wire) -> None:
    fake = engine()
    response = await wire.raw(V1, b'{"input": "a\\ud83d"}')
    assert response.status_code == 200
    assert fake.submitted[0].inputs[0].text == "a\ufffd"  # type: ignore[attr-defined]
