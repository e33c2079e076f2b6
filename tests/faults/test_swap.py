"""Room for one model, requests for several: no answer is hurt, and nobody waits in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.faults.swap_host import Host, kill_while_answering
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

FIRST, SECOND, BROKEN = "mock", "second", "broken"
LONG = "words of a long answer " * 30  # some 17 s: longer than a stream waits to open
ENV = {
    "LLAMAWEB_MOCK_DELAY_MS": "25",
    "LLAMAWEB_MOCK_MEMORY_MIB": "600",
    "LLAMAWEB_ENGINE_MEMORY_MIB": "1000",
    "LLAMAWEB_ENGINE_MAX_LOADED": "1",
    "LLAMAWEB_ENGINE_CLASSES": "tests.faults.broken_model.broken",
}
MODELS = f"""
from inference.models import ModelConfig as M
M.objects.create(name="{SECOND}", engine_class="mock")
M.objects.create(name="{BROKEN}", engine_class="tests.faults.broken_model.broken")
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Stack(tmp_path_factory.mktemp("swap"), env=ENV) as stack:
        stack.wait_ready()
        stack.manage("shell", "--no-imports", "--command", MODELS)
        yield Host(stack)


def test_a_long_answer_ends_before_the_swap_and_the_reason_is_seen(host: Host) -> None:
    """C12: five requests alternate behind the one that waits; what it was loaded for stays."""
    before = sum(host.loads().values())
    long = host.ask(FIRST, LONG)
    wait_for("the long answer runs", lambda: host.queue.load(FIRST).running, 30)
    short = host.ask(SECOND, "hello")
    streamed = host.ask(SECOND, "hello", stream=True)
    models = [FIRST, SECOND, FIRST, SECOND, FIRST]
    texts = [f"alternating {number}" for number in range(5)]
    alternating = [host.ask(model, text) for model, text in zip(models, texts, strict=True)]
    expected = rf"model {SECOND} waits for memory: {FIRST} is answering \d requests?"
    wait_for("its reason", lambda: re.fullmatch(expected, host.reason(SECOND)), 30)
    assert not long.is_over
    assert long.text() == LONG.strip() or long.text() == LONG
    assert short.text() == "hello"
    status, stream = streamed.raw()
    assert status == 200
    assert re.search(f": {expected}\n\n", stream)
    assert stream.endswith("data: [DONE]\n\n")
    assert [answer.text() for answer in alternating] == texts
    assert sum(host.loads().values()) - before <= 2
    # The default model is out, and would be brought back.
    wait_for("health", lambda: host.stack.get("/health")[0] == 200, 30)


def test_alternating_requests_do_not_thrash(host: Host) -> None:
    before = sum(host.loads().values())
    models = [SECOND, FIRST, SECOND, FIRST, SECOND]
    answers = [host.ask(model, f"answer {number}") for number, model in enumerate(models)]
    assert [answer.text() for answer in answers] == [f"answer {number}" for number in range(5)]
    wait_for("the loads are told", lambda: sum(host.loads().values()) > before, 30)
    assert sum(host.loads().values()) - before <= 2


def test_a_model_that_cannot_be_loaded_harms_nobody(host: Host) -> None:
    broken = host.ask(BROKEN, "hello")
    wait_for("it waits or is tried", lambda: host.reason(BROKEN), 30)
    fine = host.ask(FIRST, "still here")
    status, body = broken.reply()
    assert status == 503
    assert "the model can't be loaded: it died (exit code 17); twice" in body["error"]["message"]
    assert fine.text() == "still here"


@pytest.mark.parametrize("seed", range(3))
def test_random_kills_while_models_are_swapped(host: Host, seed: int) -> None:
    """What is answered is answered whole."""
    texts = {f"answer {number} of {seed}": (FIRST, SECOND)[number % 2] for number in range(6)}
    answers = [host.ask(model, text) for text, model in texts.items()]
    bodies = kill_while_answering(host, seed, answers)
    found = [body["choices"][0]["message"]["content"] for body in bodies]
    assert len(found) == len(set(found))
    assert set(found) <= set(texts)
    assert host.ask(FIRST, "and goes on").text() == "and goes on"
