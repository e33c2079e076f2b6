"""An engine inside a program: events in order, leaving cancels, waiting is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.local import LocalEngine
from inference.protocol.events import Delta, Event, Failed, Finished, Started
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.protocol.spec import MockSpec
from llamaweb.lib.errors import InvalidError
from tests.engine.driving import ask, make_engine, text_of

DEADLINE_S = 20.0


def request_of(who: str, text: str = "hello", *, expires_in_s: float = 60.0) -> GenerateRequest:
    return GenerateRequest(
        generation_id=who,
        model="mock",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=TextPrompt(text),
        seed=1,
        submitted_at=time.time(),
        deadline_at=time.time() + expires_in_s,
    )


def prepare(request: GenerateRequest) -> SequenceRequest:
    assert isinstance(request.prompt, TextPrompt)
    if request.prompt.text == "bad":
        raise InvalidError("bad", param="prompt")
    endless = request.prompt.text == "endless"
    return ask(
        request.generation_id,
        request.prompt.text,
        sampling=SamplingParams(temperature=0.0, ignore_eos=endless),
        limits=Limits(),
    )


@pytest.fixture
async def make_local() -> AsyncIterator[Callable[..., LocalEngine]]:
    engines: list[LocalEngine] = []

    def make(**kwargs: object) -> LocalEngine:
        engines.append(LocalEngine(make_engine(**kwargs), prepare))  # type: ignore[arg-type]
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()
        assert not engine._thread.is_alive()


async def events_of(engine: LocalEngine, request: GenerateRequest) -> list[Event]:
    async with asyncio.timeout(DEADLINE_S):
        return [event async for event in engine.generate(request)]


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - another thread decides
            await asyncio.sleep(0.005)


async def test_more_requests_than_slots_all_finish(
    make_local: Callable[..., LocalEngine],
) -> None:
    engine = make_local(num_slots=2)
    many = [events_of(engine, request_of(f"g{i}", f"text {i}")) for i in range(7)]
    for index, events in enumerate(await asyncio.gather(*many)):
        assert isinstance(events[0], Started)
        assert text_of(events) == f"text {index}"
        assert isinstance(events[-1], Finished)


async def test_a_refusal_comes_in_place_of_started(
    make_local: Callable[..., LocalEngine],
) -> None:
    engine = make_local(max_context=50)
    (refused,) = await events_of(engine, request_of("a", "bad"))
    assert isinstance(refused, Failed)
    assert (refused.code, refused.param) == ("invalid_request", "prompt")
    (long,) = await events_of(engine, request_of("b", "x" * 50))
    assert isinstance(long, Failed)
    assert long.code == "context_length_exceeded"


async def test_leaving_the_iterator_frees_the_slot(
    make_local: Callable[..., LocalEngine],
) -> None:
    engine = make_local(spec=MockSpec(delay_ms=2.0), num_slots=1)
    async with contextlib.aclosing(engine.generate(request_of("a", "endless"))) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    await wait_for(lambda: engine._engine.free_slots == 1)
    assert text_of(await events_of(engine, request_of("b"))) == "hello"
    assert engine._engine.stats()["cancelled"] == 1


async def test_a_deadline_ends_waiting_and_running(
    make_local: Callable[..., LocalEngine],
) -> None:
    engine = make_local(spec=MockSpec(delay_ms=5.0), num_slots=1)
    running = asyncio.create_task(events_of(engine, request_of("a", "endless", expires_in_s=1.0)))
    await wait_for(lambda: engine._engine.free_slots == 0)
    waiting = await events_of(engine, request_of("b", expires_in_s=0.2))
    assert [event.code for event in waiting if isinstance(event, Failed)] == ["deadline_exceeded"]
    ended = (await running)[-1]
    assert isinstance(ended, Failed)
    assert ended.code == "deadline_exceeded"
    assert engine._engine.free_slots == 1


async def test_closing_ends_what_runs(make_local: Callable[..., LocalEngine]) -> None:
    engine = make_local(spec=MockSpec(delay_ms=2.0), num_slots=1)
    tasks = [
        asyncio.create_task(events_of(engine, request_of(who, "endless"))) for who in ("a", "b")
    ]
    await wait_for(lambda: engine._engine.free_slots == 0)
    await engine.close()
    for task in tasks:
        ended = (await task)[-1]
        assert isinstance(ended, Failed)
        assert ended.code == "model_unavailable"
    (late,) = await events_of(engine, request_of("c"))
    assert isinstance(late, Failed)
