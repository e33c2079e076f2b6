"""Messages and parameters: reported inputs, as each API family says them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from tests.edge.cases.conftest import Serve
from tests.edge.cases.families import both, post, refused, send, whole
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask, put
from tests.edge.cases.table import each
from tests.edge.events import answer
from tests.fakes.inference_api import FakeInference, scripted

CONTEXT = 4096
USER = {"role": "user", "content": "Hi"}
ROLES = ("system", "user", "assistant", "system", "user")


def prompt_of(fake: FakeInference) -> ChatPrompt:
    """The chat that was asked last."""
    prompt = fake.submitted[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


@each("P01")
async def test_a_system_message_in_between(serve: Serve, family: Family) -> None:
    """P01: it stays in its place, and what stands before it is the same prompt as without it."""
    fake = serve()
    messages = [{"role": role, "content": f"{n} {role}"} for n, role in enumerate(ROLES)]
    await both(family, Ask(messages=[*messages[:3], USER], length=1))
    reply = await whole(family, family.body(Ask(messages=messages, length=1)))
    assert prompt_of(fake).messages == tuple(Message(m["role"], m["content"]) for m in messages)
    chatml = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages[:3])
    assert reply.cached is None or reply.cached >= len(chatml)


@each("P03")
async def test_a_developer(serve: Serve, family: Family) -> None:
    """P03: one is the system, at the start and in between."""
    fake = serve()
    developer = {"role": "developer", "content": "Be brief."}
    for messages in (
        [developer, USER],
        [USER, {"role": "assistant", "content": "a"}, developer, USER],
    ):
        reply = await both(family, Ask(messages=messages))
        assert reply.text == "Hi"
        said = [("system" if m is developer else m["role"], m["content"]) for m in messages]
        assert [(m.role, m.content) for m in prompt_of(fake).messages] == said


@each("P04")
@pytest.mark.parametrize("content", [{"content": None}, {}, {"content": ""}], ids=str)
async def test_calls_without_content(serve: Serve, family: Family, content: Any) -> None:
    """P04: an answer that only called is one with empty text, and its result finds its call."""
    fake = serve()
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    history = [
        USER,
        {"role": "assistant", "tool_calls": [call], **content},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "user", "content": "And now?"},
    ]
    assert (await both(family, Ask(messages=history))).text == "And now?"
    _, called, result, _ = prompt_of(fake).messages
    (made,) = called.tool_calls
    assert (called.content, made.name, json.loads(made.arguments)) == ("", "f", {"a": 1})
    assert (result.role, result.content, result.tool_call_id) == ("tool", "42", made.id)


def asked(request: GenerateRequest) -> Any:
    """All of a request that isn't new each time."""
    return request.prompt, request.sampling, request.limits, request.answer


@each("P06")
async def test_null_is_not_given(fake: FakeInference, family: Family) -> None:
    """P06: in every field at once, and of none alone."""
    fake.script = scripted(*answer("x"))
    plain = {name: value for name, value in family.body(Ask()).items() if "." not in name}
    plain.pop(family.temperature.partition(".")[0], None)
    await whole(family, plain)
    fields = {family.stop, family.temperature, family.length, *family.nullable}
    fields |= {family.seed} if family.seed else set()
    fields -= set(family.always)
    nested = {path for path in fields if "." in path}
    nulls = {**plain, **dict.fromkeys(fields - nested)}
    await whole(family, nulls)
    for path in nested:
        nulls.pop(path.partition(".")[0], None)
    for path in nested:
        put(nulls, path, None)
    await whole(family, nulls)
    first, *others = map(asked, fake.submitted)
    assert others == [first, first]


@each("P07")
async def test_nothing_is_written(serve: Serve, family: Family) -> None:
    """P07: of a length of 0 the prompt is read, and the answer is empty."""
    serve("never")
    reply = await both(family, Ask(length=0))
    assert (reply.text, reply.end, reply.completion_tokens) == ("", "length", 0)
    assert reply.prompt_tokens > 0


@each("P07")
async def test_a_length_is_kept(serve: Serve, family: Family) -> None:
    """P07: and one that is huge ends with the context at the latest."""
    serve()
    reply = await both(family, Ask("hello", length=3))
    assert (reply.text, reply.end, reply.completion_tokens) == ("hel", "length", 3)
    reply = await both(family, Ask("hello", length=10**9))
    assert (reply.text, reply.end) == ("hello", "stop")
    serve("y" * 2 * CONTEXT)
    reply = await whole(family, family.body(Ask("x" * 3900, length=10**9)))
    assert reply.end == "length"
    assert reply.prompt_tokens + reply.completion_tokens <= CONTEXT
    assert reply.text == "y" * len(reply.text) != ""


@each("P07")
@pytest.mark.parametrize("value", [1.5, "10", True, -3])
async def test_a_length_that_is_none(fake: FakeInference, family: Family, value: Any) -> None:
    """P07: it is refused by name."""
    body = family.body(Ask())
    put(body, family.length, value)
    assert (await refused(family, body)).param == family.length
    assert not fake.submitted


@each("P07")
async def test_a_length_of_minus_one(serve: Serve, family: Family) -> None:
    """P07: it is the context's, but refused where the API knows no such number."""
    fake = serve()
    body = family.body(Ask("hello"))
    put(body, family.length, -1)
    if family.name == "messages":
        assert (await refused(family, body)).param == "max_tokens"
        return
    assert (await whole(family, body)).text == "hello"
    assert fake.submitted[-1].limits.max_tokens is None


@each("P07", only=("chat", "text", "native"))
async def test_two_lengths(serve: Serve, family: Family) -> None:
    """P07: the newer name counts, whatever the older one says."""
    serve()
    body = family.body(Ask("hello"))
    lengths = {"max_tokens": 2, "max_completion_tokens": 4}
    assert (await whole(family, {**body, **lengths})).text == "hell"


PARTS: dict[str, tuple[str, str, Any]] = {  # where contents stand, a text's type, an image
    "chat": ("messages[0].content", "text", {"type": "image_url", "image_url": {"url": ""}}),
    "responses": ("input[0].content", "input_text", {"type": "input_image", "image_url": ""}),
    "messages": (
        "messages[0].content",
        "text",
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
    ),
    "ollama": ("messages[0].content", "text", {"type": "image_url", "image_url": {"url": ""}}),
}


@each("P08", only=tuple(PARTS))
async def test_contents_that_are_none(fake: FakeInference, family: Family) -> None:
    """P08: the first that can't be read is named by its path, and an image as one."""
    path, text, image = PARTS[family.name]
    for content, at in (
        ([], ""),
        ([{"type": text, "text": None}], "[0].text"),
        ([{"type": text}], "[0].text"),
        ([{"type": text, "text": "x"}, {"type": "smell"}], "[1].type"),
        ([image], "[0]"),
        ([{"type": text, "text": "x"}, image], "[1]"),
    ):
        body = family.body(Ask(messages=[{"role": "user", "content": content}]))
        refusal = await refused(family, body)
        assert refusal.param == f"{path}{at}"
        assert ("image input is not supported" in refusal.message) == (image in content)
    assert not fake.submitted


IMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "text": (
        {"prompt": {"prompt_string": "x", "multimodal_data": ["aGk="]}},
        "prompt.multimodal_data",
    ),
    "native": (
        {"prompt": {"prompt_string": "x", "multimodal_data": ["aGk="]}},
        "prompt.multimodal_data",
    ),
    "ollama": ({"messages": [{**USER, "images": ["aGk="]}]}, "messages[0].images"),
    "generate": ({"images": ["aGk="]}, "images"),
}


@each("P08", only=tuple(IMAGES))
async def test_images_beside_text(fake: FakeInference, family: Family) -> None:
    """P08: where they have a field of their own, that is named."""
    given, param = IMAGES[family.name]
    assert (await refused(family, {**family.body(Ask()), **given})).param == param
    assert not fake.submitted


@each("P11")
async def test_one_token_too_many(serve: Serve, family: Family) -> None:
    """P11: a prompt is never cut, and both numbers are told."""
    serve()
    around = (await whole(family, family.body(Ask("x", length=0)))).prompt_tokens - 1
    refusal = await refused(family, family.body(Ask("x" * (CONTEXT + 1 - around))))
    assert f"{CONTEXT + 1} " in refusal.message
    assert f"{CONTEXT} " in refusal.message
    assert refusal.kind in ("", "invalid_request_error", "exceed_context_size_error")
    fits = await whole(family, family.body(Ask("x" * (CONTEXT - 11 - around), length=10**6)))
    assert (fits.prompt_tokens, fits.end) == (CONTEXT - 11, "length")
    assert 0 < fits.completion_tokens <= 11


DEEP = b"[" * 10_000 + b"]" * 10_000
BODIES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b"[" * 10_000,
    b'{"nobody_reads": ' + DEEP + b"}",
)


@each("P13")
async def test_bodies_that_are_none(fake: FakeInference, family: Family) -> None:
    """P13: each is the client's mistake, in the shape of the family."""
    for data in (*BODIES, b'{"%b": ' % family.prompt.encode() + DEEP + b"}"):
        response = await post(family.path, data)
        assert response.status_code == 400, data[:20]
        assert family.refusal(json.loads(response.content)).message
    assert not fake.submitted


@each("P13")
async def test_a_large_body(fake: FakeInference, family: Family) -> None:
    """P13: what is over the bound isn't read, and below it a prompt has one of its own."""
    for size, status in ((11_000_000, 413), (5_000_000, 400)):
        response = await post(family.path, json.dumps(family.body(Ask("x" * size))).encode())
        assert response.status_code == status
        assert family.refusal(json.loads(response.content)).message
    assert not fake.submitted


LOADS = ("ollama", "generate")  # a request that says nothing asks there that the model is loaded
PROMPTS: tuple[Any, ...] = (
    *(None, {}, 7, "x", [None], [{"role": "user"}], [{"content": "x"}], [[]]),
)


@each("P13")
async def test_prompts_that_are_none(fake: FakeInference, family: Family) -> None:
    """P13: nothing of another form is taken for a prompt."""
    for prompt in PROMPTS:
        if prompt is None and family.name in LOADS:
            continue
        if isinstance(prompt, str) and family.prompt != "messages":
            continue
        refusal = await refused(family, {**family.body(Ask()), family.prompt: prompt})
        assert refusal.param is not None, prompt
        assert refusal.param.startswith(family.prompt)
    assert not fake.submitted


@each("P13")
async def test_a_mistake_keeps_nobody_waiting(serve: Serve, family: Family) -> None:
    """P13: behind all of them the next request is answered."""
    serve()
    for data in BODIES:
        await post(family.path, data)
    status, body = await send(family.path, family.body(Ask("hello")))
    assert (status, family.reply(body).text) == (200, "hello")
