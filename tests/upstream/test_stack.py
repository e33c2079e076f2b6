"""A whole server in front of others: of a fake one with faults, and of itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.app_client import AppClient
from tests.stack import Stack, wait_for
from tests.upstream.server import KEY, MODEL, USAGE, FakeUpstream, Reply, answer_of, chunk

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
WAIT_S = 60.0
TEXT = "naïve 漢字 😺"


class Server:
    """A running instance with three models: `mock` here, `far` of the fake server, and `mirror`,
    which is `mock` again by way of this instance's own API."""

    def __init__(self, stack: Stack, fake: FakeUpstream) -> None:
        self.stack, self.fake = stack, fake
        self.key = stack.create_key("alice")
        self.client = OpenAI(
            base_url=f"{stack.base_url}/v1", api_key=self.key, max_retries=0, timeout=WAIT_S
        )
        self.add("far", fake.url, MODEL, KEY, "openai")
        self.add("mirror", f"{stack.base_url}/v1", "mock", self.key, "llama_server")
        for name in ("far", "mirror"):
            wait_for(f"{name} is ready", lambda name=name: self.is_ready(name), WAIT_S)

    def add(self, name: str, url: str, remote_model: str, key: str, dialect: str) -> None:
        self.shell(
            "from inference.registry.upstreams import upstream_add\n"
            f"upstream_add(name={name!r}, url={url!r}, remote_model={remote_model!r}, "
            f"key={key!r}, dialect={dialect!r}, continues={dialect == 'llama_server'}, load=True)"
        )

    def shell(self, code: str) -> str:
        return self.stack.manage("shell", "--no-imports", "-c", code)

    def is_ready(self, name: str) -> bool:
        models = {model.id: model for model in self.client.models.list()}
        return name in models and models[name].to_dict()["meta"] is not None

    def ask(self, model: str, text: str, **fields: Any) -> Any:
        messages = [{"role": "user", "content": text}]
        return self.client.chat.completions.create(
            model=model, messages=messages, **fields
        ).to_dict()

    def pieces(self, model: str, text: str, **fields: Any) -> list[dict[str, Any]]:
        messages = [{"role": "user", "content": text}]
        stream = self.client.chat.completions.create(
            model=model,
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
            **fields,
        )
        return [item.to_dict() for item in stream]

    def followed(self, model: str, generation_id: str) -> str:
        """What a reader has seen of a generation."""
        code = (
            "from inference import bus\nfrom inference.registry.generations import read_all\n"
            f"print(read_all(bus.sync_queue(), {model!r}, {generation_id!r}).parts)"
        )
        return self.shell(code)

    def engine_of(self, model: str) -> int:
        """Process id of the model's engine."""
        code = (
            "from inference import bus\n"
            f"print([e.info['pid'] for e in bus.sync_queue().engines({model!r}) "
            "if e.state == 'ready' and not e.is_silent][0])"
        )
        return int(self.shell(code).split()[-1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("upstream") / "data"
    env = {"LLAMAWEB_OUTBOUND_ALLOW": "127.0.0.1"}
    with FakeUpstream() as fake, Stack(folder, env=env) as stack:
        stack.wait_ready()
        yield Server(stack, fake)


def text_of(chunks: list[dict[str, Any]]) -> str:
    deltas = (c["choices"][0]["delta"] for c in chunks if c["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)


def what_matters(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without what differs from one request to the next: ids, times, what was cached."""
    usage = {name: reply["usage"][name] for name in ("prompt_tokens", "completion_tokens")}
    return {"object": reply["object"], "choices": reply["choices"], "usage": usage}


def test_an_api_client_cannot_tell_the_difference(server: Server) -> None:
    fields: dict[str, Any] = {"seed": 1, "temperature": 0}
    here, there = (server.ask(model, TEXT, **fields) for model in ("mock", "mirror"))
    assert what_matters(here) == what_matters(there)
    here, there = (server.ask(m, "abcdef", max_tokens=3, **fields) for m in ("mock", "mirror"))
    assert what_matters(here) == what_matters(there)
    assert there["choices"][0]["finish_reason"] == "length"
    streams = [server.pieces(model, TEXT, **fields) for model in ("mock", "mirror")]
    assert text_of(streams[0]) == text_of(streams[1]) == TEXT
    assert list(streams[0][-1]) == list(streams[1][-1])
    assert list(streams[0][0]) == list(streams[1][0])


def test_vectors_and_scores_are_the_same_by_way_of_another_server(server: Server) -> None:
    found = {}
    for model in ("mock", "mirror"):
        made = server.client.embeddings.create(model=model, input=["a cat", "a dog"])
        body = {"model": model, "query": "abc", "documents": ["xyz", "abc"]}
        rated: Any = server.client.post("/rerank", cast_to=object, body=body)
        found[model] = ([item.embedding for item in made.data], made.usage, rated["results"])
    assert found["mirror"][0] == [pytest.approx(row, abs=1e-6) for row in found["mock"][0]]
    assert found["mirror"][1:] == found["mock"][1:]
    with pytest.raises(openai.BadRequestError) as caught:
        server.client.embeddings.create(model="mirror", input=[1, 2, 3])
    assert caught.value.param == "input"


def test_errors_are_the_same(server: Server) -> None:
    bodies = []
    for model in ("mock", "mirror"):
        with pytest.raises(openai.BadRequestError) as caught:
            server.ask(model, "x" * 100_000)
        bodies.append(caught.value.body)
    assert bodies[0]["type"] == bodies[1]["type"] == "exceed_context_size_error"  # type: ignore[index]
    assert bodies[0] == bodies[1]


def test_streamed_and_whole_answers_with_the_usage_of_the_server(server: Server) -> None:
    whole = server.ask("far", TEXT)
    assert whole["choices"][0]["message"]["content"] == TEXT
    assert whole["usage"]["prompt_tokens"] == USAGE["prompt_tokens"]
    chunks = server.pieces("far", TEXT)
    assert text_of(chunks) == TEXT
    assert chunks[-1]["usage"]["prompt_tokens_details"] == USAGE["prompt_tokens_details"]
    assert [c["message"]["content"] for c in server.ask("far", "two", n=2)["choices"]] == [
        "two"
    ] * 2
    model = server.client.models.retrieve("far").to_dict()
    assert model["meta"]["n_ctx"] == 4096


def test_what_the_server_has_no_field_for_is_400(server: Server) -> None:
    with pytest.raises(openai.BadRequestError, match="grammar"):
        server.ask("far", "x", extra_body={"grammar": 'root ::= "x"'})
    with pytest.raises(openai.BadRequestError, match="prompt"):
        server.client.completions.create(model="far", prompt=[1, 2, 3])
    limited = server.ask("mirror", "x", extra_body={"grammar": 'root ::= "yes"'})
    assert limited["choices"][0]["message"]["content"] == "yes"


def test_a_client_that_leaves_closes_the_other_connection_too(server: Server) -> None:
    server.fake.left.clear()
    server.fake.give(Reply([chunk({"content": "begin"})], holds=True))
    messages: Any = [{"role": "user", "content": "x"}]
    stream = server.client.chat.completions.create(model="far", messages=messages, stream=True)
    for item in stream:
        if item.choices[0].delta.content:
            break
    stream.close()
    assert server.fake.left.wait(WAIT_S)


def test_a_chat_turn(server: Server) -> None:
    app = AppClient(server.stack.base_url)
    app.sign_in("alice", server.stack.password("alice"))
    body = {"parts": [{"type": "text", "text": TEXT}], "model_name": "far"}
    status, act = app.call("POST", "turns", body)
    assert status == 201

    def answered() -> Any:
        _, state = app.call("GET", f"conversations/{act['conversation_id']}")
        answers = [m for m in state["messages"] if m["id"] == act["answer_id"]]
        return answers[0]["parts"] if answers and answers[0]["parts"] else None

    (part,) = wait_for("the stored answer", answered, WAIT_S)
    assert (part["type"], part["text"]) == ("text", TEXT)


def test_an_answer_that_somebody_owns_survives_its_engine(server: Server) -> None:
    """As far as it can: the other server isn't one that goes on with it, so its text is kept."""
    server.fake.give(Reply([chunk({"content": "half"})], holds=True))
    generation_id = server.stack.manage("generate", "alice", "q", "--model", "far", "--detach")
    generation_id = generation_id.strip().splitlines()[-1]

    def row() -> Any:
        code = (
            "import json\nfrom inference.models import Generation\n"
            f"g = Generation.objects.get(id={generation_id!r})\n"
            "print(json.dumps([g.state, g.parts, g.error_code]))"
        )
        return json.loads(server.shell(code).splitlines()[-1])

    wait_for("it is asked", lambda: not server.fake.replies, WAIT_S)
    wait_for("its text is here", lambda: "half" in server.followed("far", generation_id), WAIT_S)
    os.kill(server.engine_of("far"), signal.SIGKILL)
    wait_for("it ended", lambda: row()[0] != "queued", WAIT_S)
    state, parts, code = row()
    assert (state, parts, code) == ("failed", [["content", "half"]], "engine_crashed")
    wait_for("ready again", lambda: server.is_ready("far"), WAIT_S)


def test_a_refused_key_is_said_to_the_administrator_and_kept_from_all(server: Server) -> None:
    server.fake.key = "another"
    try:
        with pytest.raises(openai.InternalServerError, match="administrator"):
            server.ask("far", "x")
        code = (
            "from inference import bus\n"
            "print([e.info.get('reason') for e in bus.sync_queue().engines('far')])"
        )
        wait_for("the reason", lambda: "refuses the key" in server.shell(code), WAIT_S)
    finally:
        server.fake.key = KEY
    assert server.ask("far", "x")["choices"][0]["message"]["content"] == "x"
    assert KEY not in server.stack.output
    for path in server.stack.data_dir.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    server.fake.give(Reply(answer_of("bye")))
    assert server.ask("far", "x")["choices"][0]["message"]["content"] == "bye"
