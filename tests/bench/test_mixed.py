"""What happens on a shared server, asked of scripted targets and of the mock engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from inference.protocol.spec import EngineSpec, MockSpec
from tests.bench import busy
from tests.bench.cells import run_cell
from tests.bench.figures import Answer, decode_rate, worst_gap_ms
from tests.bench.local_target import LocalTarget
from tests.bench.sides import MOCK_REPLY
from tests.bench.target import OnText, ignore
from tests.bench.workloads import (
    MIXED_STREAMS,
    Chat,
    Sizes,
    Workload,
    long_chat,
    question,
    short_chat,
)

SMALL = Sizes(max_tokens=12, long_words=60, conversations=6, turns=3, turn_tokens=5, busy_s=60.0)


class Recorder:
    """Answers at once; the answer to a chat names its number."""

    name = "recorder"

    def __init__(self) -> None:
        self.asked: list[Chat] = []
        self.finished: list[Chat] = []

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        self.asked.append(messages)
        number = len(self.asked)
        for _ in range(max_tokens):
            await asyncio.sleep(0)
            on_text()
        self.finished.append(messages)
        return Answer((0.1, 0.2), max_tokens, len(messages), f"answer {number} " * 9)


class Stuck(Recorder):
    """Gives three deltas and never ends, until it is cancelled once."""

    was_cancelled = False

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        if self.was_cancelled:
            return await super().ask(messages, max_tokens, on_text)
        try:
            for _ in range(3):
                on_text()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        raise AssertionError


# --- what is asked


def test_prompts_are_the_same_for_every_side_and_new_in_every_cell() -> None:
    assert long_chat("s", 50) == long_chat("s", 50) != long_chat("t", 50)
    assert short_chat("s", 1) == short_chat("s", 1) != short_chat("s", 2)
    assert question("s", 1, 2) == question("s", 1, 2) != question("s", 2, 2)
    assert len(question("s", 1, 0)) > 2 * len(question("s", 1, 1))
    assert len(long_chat("s", 50)[0][1].split()) > 50


async def test_the_long_prompt_comes_when_all_others_are_read() -> None:
    target = Recorder()
    await run_cell(target, "arrive", 8, "s", SMALL)
    assert [len(chat[0][1].split()) > 60 for chat in target.asked] == [False] * 7 + [True]
    assert len(target.finished) == 8


async def test_conversations_grow_by_the_answers_they_got() -> None:
    target = Recorder()
    await run_cell(target, "chats", 4, "s", SMALL)
    assert len(target.asked) == SMALL.conversations * SMALL.turns
    last = [chat for chat in target.asked if len(chat) == 5]
    assert len(last) == SMALL.conversations
    for chat in last:
        assert [role for role, _ in chat] == ["user", "assistant", "user", "assistant", "user"]
        before = target.asked.index(chat[:3])
        assert chat[3][1].startswith(f"answer {before + 1} ")


async def test_an_answer_that_hardly_goes_on_is_cut_and_counted() -> None:
    target = Stuck()
    sizes = Sizes(busy_s=0.2)
    figures = await run_cell(target, "busy", 1, "s", sizes)
    assert target.was_cancelled
    assert len(target.finished) == 1  # asked again, to know that the first one is gone
    assert 0 < figures.tps <= 3 / sizes.busy_s


async def test_the_burner_is_gone_afterwards() -> None:
    with busy.burner(1.0) as process:
        assert process.poll() is None
    assert process.poll() is not None


# --- figures


def test_the_decode_phase_is_where_all_streams_decode() -> None:
    first = Answer((1.0, 2.0, 3.0, 4.0), 4, 10, "x", started_ts=100.0)
    second = Answer((0.5, 1.0, 1.5, 2.0, 9.0), 5, 10, "x", started_ts=101.5)
    # Both decode from 102 to 104: the first gives 3 tokens after that instant, the second 3.
    assert decode_rate([first, second], 2) == pytest.approx(5 / 2)
    assert decode_rate([first], 1) == pytest.approx(3 / 3)
    assert decode_rate([first, second], 3) == 0


def test_merged_deltas_count_as_the_tokens_they_are() -> None:
    assert decode_rate([Answer((1.0, 2.0, 3.0), 12, 10, "x")], 1) == pytest.approx(8 / 2)
    assert decode_rate([Answer((1.0,), 12, 10, "x")], 1) == 0


def test_only_gaps_after_the_arrival_count() -> None:
    answers = [Answer((1.0, 9.0, 9.5, 12.0), 4, 10, "x"), Answer((1.0, 10.0, 11.0), 3, 10, "x")]
    assert worst_gap_ms(answers, since_ts=10.5) == pytest.approx(2500)
    assert worst_gap_ms(answers, since_ts=9.0) == pytest.approx(9000)
    assert worst_gap_ms(answers, since_ts=20.0) == 0


# --- on the mock engine


@pytest.fixture
async def mock_engine() -> AsyncIterator[LocalTarget]:
    engine = LocalTarget.load(
        EngineSpec(
            model="bench",
            engine_id="bench",
            redis_url="",
            redis_prefix="",
            engine_class="mock",
            mock=MockSpec(reply=MOCK_REPLY, delay_ms=1.0),
            num_slots=8,
            context_len=4096,
        )
    )
    yield engine
    await engine.close()


@pytest.mark.parametrize("workload", [*MIXED_STREAMS])
async def test_mixed_workloads_are_measured(mock_engine: LocalTarget, workload: Workload) -> None:
    figures = await run_cell(mock_engine, workload, MIXED_STREAMS[workload], "s", SMALL)
    assert 0 < figures.tps < math.inf
    assert 0 < figures.ttft50 <= figures.e2e95
    assert figures.itl_max > 0
    assert figures.prompt > 0
