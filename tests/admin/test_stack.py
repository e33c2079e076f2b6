"""Load, drain and unload on real processes: engines come and go, answers and refusals are clear."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.registry import gguf_files
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
WAIT_S = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("admin") / "data"
    (folder / "models").mkdir(parents=True, mode=0o700)
    (folder / "models" / "tiny.gguf").write_bytes(gguf_files.model())
    env = {"LLAMAWEB_MOCK_DELAY_MS": "10", "LLAMAWEB_MOCK_LOAD_MS": "4000"}
    with Stack(folder, env=env) as made:
        made.wait_ready()
        yield made


@pytest.fixture(scope="module")
def key(stack: Stack) -> str:
    return stack.create_key()


def ask(stack: Stack, key: str, text: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=WAIT_S)
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 2000}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def want(stack: Stack, act: str) -> None:
    stack.manage(
        "shell",
        "-c",
        "from inference.models import ModelConfig\n"
        "from inference.registry import wanted as services\n"
        f"services.model_{act}(config=ModelConfig.objects.get(name='mock'))",
    )


def is_refused(stack: Stack, key: str) -> bool:
    status, body = ask(stack, key, "hello")
    return status == 503 and body["error"]["message"] == "model mock is not loaded"


def test_unloading_is_said_at_once_and_loading_brings_it_back(stack: Stack, key: str) -> None:
    assert ask(stack, key, "hello")[0] == 200
    old = stack.wait_process("engine").pid
    want(stack, "unload")
    assert is_refused(stack, key)
    wait_for("the engine is gone", lambda: not stack.processes("engine"), WAIT_S)
    with pytest.raises(RuntimeError, match="model mock is not loaded"):
        stack.manage("generate", "alice", "hello")  # an answer that somebody owns, as in the chat
    status, body = stack.get("/health")
    assert (status, body["error"]["reason"]) == (503, "model mock is not loaded")
    want(stack, "load")
    assert stack.wait_process("engine").pid != old
    wait_for("a part of the load", lambda: 0 < _share(stack, key) < 1, WAIT_S)
    wait_for("answers again", lambda: ask(stack, key, "hello")[0] == 200, WAIT_S)


def test_draining_lets_an_answer_end(stack: Stack, key: str) -> None:
    text = "letter by letter " * 60  # 10 s at the mock's pace: longer than a hurried end takes
    answers: list[tuple[int, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(stack, key, text)))
    thread.start()
    wait_for("it runs", lambda: _running(stack) == 1, WAIT_S)
    want(stack, "drain")
    assert is_refused(stack, key)
    thread.join(WAIT_S)
    ((status, body),) = answers
    assert (status, body["choices"][0]["finish_reason"]) == (200, "stop")
    assert body["choices"][0]["message"]["content"].strip() == text.strip()
    wait_for("the engine is gone", lambda: not stack.processes("engine"), WAIT_S)
    want(stack, "load")
    wait_for("answers again", lambda: ask(stack, key, "hello")[0] == 200, WAIT_S)


def test_what_lies_in_the_models_directory_is_listed_from_the_start(stack: Stack) -> None:
    listed = "from inference.models import ModelFile as F; print(*F.objects.values_list('label'))"
    wait_for("the jobs have looked", lambda: "tiny" in _shell(stack, listed), WAIT_S)


def _share(stack: Stack, key: str) -> float:
    """What of the model the API says is loaded; 0 where it says nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=WAIT_S)
    try:
        connection.request("GET", "/v1/models/mock", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = json.loads(response.read())
    finally:
        connection.close()
    assert response.status == 200
    return float(body["status"].get("progress", {}).get("value", 0.0))


def _running(stack: Stack) -> int:
    return int(
        _shell(stack, "from inference import bus; print(bus.sync_queue().load('mock').running)")
    )


def _shell(stack: Stack, code: str) -> str:
    return (stack.manage("shell", "-v", "0", "-c", code).strip().splitlines() or [""])[-1]
