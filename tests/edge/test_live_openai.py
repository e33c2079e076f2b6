"""The official client against a whole server; its mock engine echoes the last message."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import openai
import pytest
from openai import OpenAI

from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]

CONTEXT = 40_000
NUM_SLOTS = 2
LONG = "x" * 30_000  # one token a byte; half a minute of prefill at 1 ms a token
CLIENT_TIMEOUT_S = 30.0
FREE_WITHIN_S = 10.0  # far below what the long prompts would take
FAILING = """
from inference.models import ModelConfig
ModelConfig.objects.create(name="failing", engine_class="tests.fakes.failing_model.failing")
"""


class Server:
    """A running stack, a key and clients for it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.key = stack.create_key("alice")
        self.client = OpenAI(
            base_url=f"{stack.base_url}/v1",
            api_key=self.key,
            max_retries=0,
            timeout=CLIENT_TIMEOUT_S,
        )

    def stream(self, text: str, **fields: Any) -> list[Any]:
        """All chunks of a chat stream."""
        return list(
            self.client.chat.completions.create(
                model="default", messages=[{"role": "user", "content": text}], stream=True, **fields
            )
        )

    def pieces(self, text: str, model: str) -> Iterator[str]:
        """The content of a chat stream as it comes."""
        for chunk in self.client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], stream=True
        ):
            yield chunk.choices[0].delta.content or ""

    def whole(self, text: str, model: str = "default", **fields: Any) -> Any:
        """A whole chat completion."""
        return self.client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], **fields
        )

    def open_stream(self, text: str) -> tuple[httpx.Client, Any]:
        """A raw client with a stream being asked for; close it to drop the connection."""
        client = httpx.Client(timeout=httpx.Timeout(CLIENT_TIMEOUT_S, read=2 * CLIENT_TIMEOUT_S))
        request = client.build_request(
            "POST",
            f"{self.stack.base_url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {self.key}"},
            json={"messages": [{"role": "user", "content": text}], "stream": True},
        )
        return client, client.send(request, stream=True)

    def load(self) -> tuple[int, int]:
        """How many requests wait and run, as /metrics says."""
        token = (self.stack.data_dir / "keys" / "metrics_token").read_text().strip()
        response = httpx.get(
            f"{self.stack.base_url}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        assert response.status_code == 200
        sums = {"llamaweb_requests_waiting": 0.0, "llamaweb_requests_running": 0.0}
        for line in response.text.splitlines():
            name = line.split("{")[0]
            if name in sums:
                sums[name] += float(line.rsplit(" ", 1)[1])
        return int(sums["llamaweb_requests_waiting"]), int(sums["llamaweb_requests_running"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two slots, a large context, slow prefill."""
    env = {
        "LLAMAWEB_ENGINE_SLOTS": str(NUM_SLOTS),
        "LLAMAWEB_ENGINE_CONTEXT": str(CONTEXT),
        "LLAMAWEB_ENGINE_CLASSES": "tests.fakes.failing_model.failing",
        "LLAMAWEB_MOCK_PREFILL_MS_PER_TOKEN": "1",
    }
    with Stack(tmp_path_factory.mktemp("openai") / "data", env=env) as stack:
        stack.wait_ready()
        server = Server(stack)
        yield server
        server.client.close()


def text_of(chunks: list[Any]) -> str:
    """What the chunks of one choice say."""
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


@pytest.mark.parametrize(
    ("said", "stop", "text"),
    [
        ("alpha beta gamma delta", ["beta gamma"], "alpha "),  # T01
        ("why?\nbecause", ["\n"], "why?"),  # T02
        ("a be beta gamm", ["beta gamma"], "a be beta gamm"),  # T03
    ],
)
def test_t01_t02_t03_stop_strings(server: Server, said: str, stop: list[str], text: str) -> None:
    chunks = server.stream(said, stop=stop)
    assert text_of(chunks) == text
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert server.whole(said, stop=stop).choices[0].message.content == text


@pytest.mark.parametrize("said", ["ok 😺 漢字 é", "data: x\r\u2028\u2029\x85y\n\nid: 1"])
def test_t05_t08_any_text_comes_through(server: Server, said: str) -> None:
    chunks = server.stream(said)
    assert text_of(chunks) == said
    assert not any("\ufffd" in (c.choices[0].delta.content or "") for c in chunks)
    assert server.whole(said).choices[0].message.content == said


def test_an_answer_within_a_grammar(server: Server) -> None:
    fields = {"extra_body": {"grammar": 'root ::= "hullo" "!"?'}, "temperature": 0}
    assert text_of(server.stream("hello", **fields)) == "hullo"
    with pytest.raises(openai.BadRequestError) as caught:
        server.whole("hello", extra_body={"grammar": "root ::= ("})
    assert caught.value.param == "grammar"


def test_t10_usage(server: Server) -> None:
    *others, last = server.stream("hello", stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.completion_tokens == 5
    assert last.usage.total_tokens == last.usage.prompt_tokens + 5
    assert all(c.choices and c.usage is None for c in others)
    assert all(c.choices and c.usage is None for c in server.stream("hello"))


def test_cached_tokens_are_told(server: Server) -> None:
    text = "tell me the same thing twice"
    server.whole(text)
    usage = server.whole(text).usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


def test_p07_lengths(server: Server) -> None:
    nothing = server.whole("hello", max_tokens=0)
    assert (nothing.choices[0].message.content, nothing.choices[0].finish_reason) == ("", "length")
    three = server.whole("hello", max_tokens=3)
    assert (three.choices[0].message.content, three.choices[0].finish_reason) == ("hel", "length")
    assert server.whole("hello", max_tokens=10**9).choices[0].message.content == "hello"
    both = server.whole("hello", max_tokens=2, max_completion_tokens=4)
    assert both.choices[0].message.content == "hell"


def test_p11_too_long_for_the_context(server: Server) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            server.whole("x" * CONTEXT, stream=stream)
        body: Any = caught.value.body
        assert body["type"] == "exceed_context_size_error"
        assert body["n_ctx"] == CONTEXT
        assert body["n_prompt_tokens"] > CONTEXT


def test_p01_p03_p04_any_order_of_messages(server: Server) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "system", "content": "Now in German."},
        {"role": "user", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    made = server.client.chat.completions.create(model="default", messages=messages)
    assert made.choices[0].message.content == "three"


WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "clock"}},
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
]
CALLS = (
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
)
CALLED = [("clock", "{}"), ("weather", '{"city": "Zürich 😺"}')]


def calls_of(chunks: list[Any]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call in the chunks of one choice."""
    calls: list[list[str]] = []
    for delta in (d for c in chunks if c.choices for d in c.choices[0].delta.tool_calls or ()):
        if delta.id:
            calls.append([delta.id, delta.function.name, ""])
        calls[delta.index][2] += delta.function.arguments
    return [(call[0], call[1], call[2]) for call in calls]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_s03_tool_calls_streamed_and_whole(server: Server, choice: Any) -> None:
    said = CALLS if choice == "required" else "I look.\n" + CALLS
    whole = server.whole(said, tools=TOOLS, tool_choice=choice, temperature=0).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content == said.removesuffix(CALLS).strip()
    told = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
    assert told == CALLED
    chunks = server.stream(said, tools=TOOLS, tool_choice=choice, temperature=0)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert text_of(chunks) == whole.message.content
    assert [call[1:] for call in calls_of(chunks)] == CALLED
    assert len({call[0] for call in calls_of(chunks)}) == 2


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "clock"}}]
)
def test_s01_a_call_is_made_whatever_is_asked(server: Server, choice: Any) -> None:
    fields: Any = {"tools": TOOLS[:1], "tool_choice": choice, "temperature": 0}
    made = server.whole("Hello, how are you today?", **fields).choices[0]
    assert (made.finish_reason, made.message.content) == ("tool_calls", "")
    assert {call.function.name for call in made.message.tool_calls} == {"clock"}
    assert {call.function.arguments for call in made.message.tool_calls} == {"{}"}


def test_no_calls_where_none_are_wanted(server: Server) -> None:
    made = server.whole(CALLS, tools=TOOLS, tool_choice="none").choices[0]
    assert (made.finish_reason, made.message.tool_calls) == ("stop", None)
    one = server.whole(CALLS, tools=TOOLS, parallel_tool_calls=False).choices[0]
    assert [call.function.name for call in one.message.tool_calls] == ["clock"]


def test_a_schema_that_can_not_be_enforced_is_refused(server: Server) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    function = {"name": "f", "parameters": schema, "strict": True}
    tools: Any = [{"type": "function", "function": function}]
    with pytest.raises(openai.BadRequestError) as caught:
        server.whole("hello", tools=tools, tool_choice="required")
    assert caught.value.param == "tools[0].function.parameters.properties.a.uniqueItems"
    assert server.whole("hello", tools=tools).choices[0].message.content == "hello"


def test_several_choices_and_text_completions(server: Server) -> None:
    made = server.whole("hello", n=2, seed=1)
    assert [c.message.content for c in made.choices] == ["hello", "hello"]
    with pytest.raises(openai.BadRequestError):
        server.whole("hello", n=NUM_SLOTS + 1)
    text = server.client.completions.create(model="default", prompt=["a", "b"], max_tokens=1)
    assert [c.index for c in text.choices] == [0, 1]
    assert text.usage is not None


def test_models(server: Server) -> None:
    (model,) = server.client.models.list().data
    assert server.client.models.retrieve(model.id).id == model.id
    with pytest.raises(openai.NotFoundError):
        server.client.models.retrieve("absent")


def test_p14_keys_in_both_headers(server: Server) -> None:
    key = server.key
    good = [
        {"Authorization": f"Bearer {key}"},
        {"Authorization": f"bearer   {key}"},
        {"X-Api-Key": key},
        {"Authorization": f"Bearer {key}", "X-Api-Key": "wrong"},
    ]
    bad: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer wrong"},
        {"X-Api-Key": "wrong"},
        {"Authorization": "Bearer wrong", "X-Api-Key": key},
    ]
    body = {"messages": [{"role": "user", "content": "x"}]}
    with httpx.Client(base_url=f"{server.stack.base_url}/v1", timeout=CLIENT_TIMEOUT_S) as client:
        for headers in good:
            assert client.get("/models", headers=headers).status_code == 200
            assert client.post("/chat/completions", headers=headers, json=body).status_code == 200
        for headers in bad:
            for response in (
                client.get("/models", headers=headers),
                client.post("/chat/completions", headers=headers, json=body),
            ):
                assert response.status_code == 401
                assert response.json()["error"]["type"] == "authentication_error"


def test_p13_bodies_that_stall_nothing(server: Server) -> None:
    deep = b'{"messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    large = b'{"messages": [{"role": "user", "content": "' + b"x" * 11_000_000 + b'"}]}'
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    url = f"{server.stack.base_url}/v1/chat/completions"
    for data, statuses in ((b"{", {400}), (deep, {400}), (large, {413})):
        response = httpx.post(url, content=data, headers=headers, timeout=CLIENT_TIMEOUT_S)
        assert response.status_code in statuses
        assert "error" in json.loads(response.content)
    assert server.whole("hello").choices[0].message.content == "hello"


def test_c07_leaving_frees_slots_and_queue(server: Server) -> None:
    clients = [server.open_stream(f"{n}{LONG}") for n in range(NUM_SLOTS)]
    wait_for("the long prompts run", lambda: server.load()[1] == NUM_SLOTS, CLIENT_TIMEOUT_S)
    clients.append(server.open_stream(f"queued {LONG}"))
    wait_for("one more waits", lambda: server.load() == (1, NUM_SLOTS), CLIENT_TIMEOUT_S)

    clients[-1][0].close()  # queued
    wait_for("the queue is empty", lambda: server.load() == (0, NUM_SLOTS), FREE_WITHIN_S)
    for client, _response in clients[:-1]:  # in prefill
        client.close()
    left_ts = time.monotonic()
    wait_for("the slots are free", lambda: server.load() == (0, 0), FREE_WITHIN_S)
    assert server.whole("hello").choices[0].message.content == "hello"
    assert time.monotonic() - left_ts < FREE_WITHIN_S * 2


def test_t11_failure_in_the_middle(server: Server) -> None:
    server.stack.manage("shell", "--no-imports", "--command", FAILING)
    texts: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        texts.extend(server.pieces("0123456789abcdef", "failing"))
    body: Any = caught.value.body
    assert {"message", "type", "code"} <= body.keys()
    assert "".join(texts) == "0123456789"
    with pytest.raises(openai.InternalServerError):
        server.whole("0123456789abcdef", "failing")
