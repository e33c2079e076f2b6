"""Room for one model, requests for several: no answer is hurt, and nobody waits in the dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.faults import schedule
from tests.faults.swap_host import Host
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

FIRST, SECOND, BROKEN = "mock", "second", "broken"
LONG = "words of a long answer " * 30  # some 17 s: longer than a stream waits to open
ENV = {
    "LLAMAWEB_MOCK_DELAY_MS": "25",
    "LLAMAWEB_MOCK_MEMORY_MIB": "600",
    "LLAMAWEB_ENGINE_MEMORY_MIB": "1000",
    "LLAMAWEB_ENGINE_MAX_LOADED": "1",
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
    long = host.ask(FIRST, LONG)
    wait_for("the long answer runs", lambda: host.queue.load(FIRST).running, 30)
    short = host.ask(SECOND, "hello")
    streamed = host.ask(SECOND, "hello", stream=True)
    expected = f"model {SECOND} waits for memory: {FIRST} is answering 1 request"
    host.wait_reason(SECOND, expected)
    assert not long.is_over
    assert long.text() == LONG.strip() or long.text() == LONG
    assert short.text() == "hello"
    status, stream = streamed.raw()
    assert status == 200
    assert f": {expected}\n\n" in stream
    assert stream.endswith("data: [DONE]\n\n")
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
    """Each request ends once, with its answer or with an error that says why; nothing stays."""
    texts = {f"answer {number} of {seed}": (FIRST, SECOND)[number % 2] for number in range(6)}
    answers = {text: host.ask(model, text) for text, model in texts.items()}
    schedule.disturb(host.stack, schedule.schedule(seed, ("engine", "supervisor", "engine")))
    for text, answer in answers.items():
        status, body = answer.reply()
        if status == 200:
            assert body["choices"][0]["message"]["content"] == text
        else:  # its model was killed twice while it was loaded, or twice under this answer
            assert status in (500, 503)
            assert re.search("can't be loaded|engine", body["error"]["message"])
    for model in (FIRST, SECOND):
        wait_for("no lease is left", lambda m=model: not host.queue.load(m).running, 30)
        assert host.queue.load(model).waiting == 0
    wait_for("one engine at most", lambda: len(host.stack.processes("engine")) <= 1, 30)
    assert host.ask(FIRST, "and goes on").text() == "and goes on"
