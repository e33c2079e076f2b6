"""OpenAI's client for Node against chats and embeddings, and an engine that fails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.failing_model import FAIL_AFTER
from tests.sdk.anthropic_cases import ANY_TEXT, NODE
from tests.sdk.conftest import FAILING
from tests.stack import ROOT, Stack

OPENAI_SCRIPT = ROOT / "tests" / "sdk" / "openai_client.mjs"
OPENAI_NODE_S = 60.0
TOWN: Any = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
FORECAST: Any = {"type": "function", "function": {"name": "forecast", "parameters": TOWN}}
FORECAST_CALL = (
    '<tool_call>\n{"name": "forecast", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
)
OBJECTS = "from inference.models import ModelConfig; ModelConfig.objects"


@pytest.fixture
def failing(stack: Stack) -> Iterator[str]:
    """A model whose answers break off, which is in no list for other tests."""
    made = f".create(name='failing', engine_class={FAILING!r})"
    stack.manage("shell", "--no-imports", "--command", OBJECTS + made)
    yield "failing"
    stack.manage("shell", "--no-imports", "--command", OBJECTS + ".get(name='failing').delete()")


def test_openai_from_node(stack: Stack, key: str, failing: str) -> None:
    given = {"baseURL": f"{stack.base_url}/v1", "apiKey": key, "text": ANY_TEXT}
    done = subprocess.run(
        [str(NODE), str(OPENAI_SCRIPT)],
        input=json.dumps({**given, "call": FORECAST_CALL, "tool": FORECAST, "failing": failing}),
        capture_output=True,
        text=True,
        timeout=OPENAI_NODE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["whole"] == told["streamed"] == ANY_TEXT
    assert told["calls"] == told["callsInPieces"] == [["forecast", '{"city": "Zürich 😺"}']]
    for packed, plain in zip(told["packed"], told["plain"], strict=True):
        assert packed == pytest.approx(plain)
        assert any(plain)
    assert told["before"] == ANY_TEXT.encode()[:FAIL_AFTER].decode(errors="ignore")
    assert told["broken"]["message"]
    assert (told["broken"]["type"], told["broken"]["code"]) == ("server_error", 500)
    assert (told["brokenWhole"]["status"], told["brokenWhole"]["type"]) == (500, "server_error")
    assert (told["missing"]["status"], told["missing"]["type"]) == (404, "not_found_error")
