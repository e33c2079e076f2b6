"""The same with real models: the starter model and Gemma, of which one fits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine.starter import find_starter_model
from inference.registry.gguf.process import read_header
from inference.registry.memory import Serving, estimate
from inference.registry.services import STARTER_NAME
from tests.faults.swap_host import Host, kill_while_answering
from tests.gemma import find_gemma
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.model, pytest.mark.timeout(300)]

FIRST, SECOND, BROKEN = STARTER_NAME, "gemma", "broken"
NUM_TOKENS = 900  # of the long answer: seconds on any machine
ENV = {
    "LLAMAWEB_ENGINE": "llama",
    "LLAMAWEB_ENGINE_SLOTS": "2",
    "LLAMAWEB_ENGINE_CONTEXT": "1024",
    "LLAMAWEB_ENGINE_CACHE_MIB": "0",
}
MODELS = """
from inference.models import ModelConfig as M
for name, path in {paths!r}.items():
    M.objects.create(
        name=name, engine_class="llama", model_path=path, num_slots=2, context_len=1024
    )
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("swap")
    budget = {"LLAMAWEB_ENGINE_MEMORY_MIB": str(_budget_mib())}
    with Stack(folder / "data", env=ENV | budget) as stack:
        stack.wait_ready()
        paths = {SECOND: str(find_gemma()), BROKEN: str(_damaged(folder))}
        stack.manage("shell", "--no-imports", "--command", MODELS.format(paths=paths))
        yield Host(stack)


def _budget_mib() -> int:
    """What has room for each of both, and not for both."""
    paths = (find_starter_model(), find_gemma())
    serving = Serving(num_slots=2, context_len=1024)
    needs = [estimate(read_header(Path(path)).facts, serving).host_bytes for path in paths if path]
    return (max(needs) + min(needs) // 2) >> 20


def _damaged(folder: Path) -> Path:
    """A model whose header is whole, so that it is tried, and half of whose weights are missing."""
    source, path = find_starter_model(), folder / "damaged.gguf"
    assert source is not None
    shutil.copyfile(source, path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    return path


def test_a_long_answer_ends_before_the_swap_and_the_reason_is_seen(host: Host) -> None:
    long = host.ask(FIRST, "Count to a thousand.", max_tokens=NUM_TOKENS, ignore_eos=True)
    wait_for("the long answer runs", lambda: host.queue.load(FIRST).running, 30)
    short = host.complete(SECOND, "The sky is", max_tokens=4, ignore_eos=True)
    # Said only while the long one runs, which may be over when this has been read.
    host.wait_reason(SECOND, f"model {SECOND} waits for memory: {FIRST} is answering 1 request")
    status, body = long.reply()
    assert (status, body["usage"]["completion_tokens"]) == (200, NUM_TOKENS)
    assert body["choices"][0]["finish_reason"] == "length"
    assert short.choice()["finish_reason"] == "length"
    assert host.loads()[SECOND] == 1


def test_alternating_requests_do_not_thrash(host: Host) -> None:
    before = sum(host.loads().values())
    models = [SECOND, FIRST, SECOND, FIRST, SECOND]
    answers = [host.complete(model, "One, two,", max_tokens=8) for model in models]
    assert all(answer.choice()["text"] for answer in answers)
    wait_for("the loads are told", lambda: sum(host.loads().values()) > before, 30)
    assert sum(host.loads().values()) - before <= 2


def test_a_model_that_cannot_be_loaded_harms_nobody(host: Host) -> None:
    broken = host.complete(BROKEN, "hello", max_tokens=4)
    wait_for("it waits or is tried", lambda: host.reason(BROKEN), 30)
    fine = host.complete(FIRST, "One, two,", max_tokens=8)
    status, body = broken.reply()
    assert status == 503
    assert (
        "the model can't be loaded: model file 'damaged.gguf' is damaged"
        in (body["error"]["message"])
    )
    assert fine.choice()["text"]


@pytest.mark.parametrize("seed", range(3))
def test_random_kills_while_models_are_swapped(host: Host, seed: int) -> None:
    """What is answered is answered whole, each from where its engine was killed."""
    answers = [
        host.complete((FIRST, SECOND)[number % 2], f"{number}, ", max_tokens=120, ignore_eos=True)
        for number in range(6)
    ]
    for body in kill_while_answering(host, seed, answers):
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["usage"]["completion_tokens"] == 120
    after = host.complete(FIRST, "One, two,", max_tokens=8, ignore_eos=True)
    assert after.choice()["finish_reason"] == "length"
