"""The bench measures what it says it measures. No figure is ever asserted as a time."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import math
import sqlite3
from pathlib import Path

import pytest

from tests.bench import report
from tests.bench.__main__ import CHAT_COMMAND, COMMAND, DOCS
from tests.bench.bundle import first_load
from tests.bench.cells import run_cell
from tests.bench.commits import Commits
from tests.bench.figures import Answer, BenchError, Figures, figures_of, ratios
from tests.bench.lock_share import Watched, lock_samples, thread_names, threads_of
from tests.bench.rounds import Key, Plan, run
from tests.bench.sides import ENGINE, PRODUCT
from tests.bench.target import OnText, ignore
from tests.bench.workloads import Chat, Sizes, Workload, chat, parse_workloads
from tests.generated import markers, replaced

FIVE = Sizes(max_tokens=5)


def answer(*times: float, num_tokens: int = 0, num_chars: int = 100) -> Answer:
    return Answer(times, num_tokens or len(times), 10, "x" * num_chars)


class Scripted:
    """Answers that cost no time; remembers what was asked and how many at once."""

    name = "scripted"

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self.asked: list[Chat] = []
        self.now = self.most = 0

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        self.asked.append(messages)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return answer(*range(1, self.num_tokens + 1))


# --- workloads


@pytest.mark.parametrize("workload", ["distinct", "story"])
def test_distinct_prompts_share_nothing(workload: Workload) -> None:
    texts = [chat(workload, "s", index)[0][1] for index in range(20)]
    assert len({text[:8] for text in texts}) == 20


def test_shared_prompts_share_the_system_prompt_within_a_cell_only() -> None:
    first, second, other = chat("shared", "s", 0), chat("shared", "s", 1), chat("shared", "t", 0)
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert first[0] != other[0]
    assert chat("shared", "s", 0) == first


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ValueError, match="no workload"):
        parse_workloads("distinct,copy")


def test_waves_are_requests_a_stream() -> None:
    assert [Sizes(waves=2).num_requests(streams) for streams in (1, 4, 8)] == [3, 8, 16]
    assert Sizes(waves=2, requests=5).num_requests(8) == 5


# --- cells and figures


@pytest.mark.parametrize("concurrency", [1, 4, 8])
async def test_a_cell_asks_every_prompt_once_at_its_concurrency(concurrency: int) -> None:
    target = Scripted(5)
    await run_cell(target, "distinct", concurrency, "s", FIVE)
    assert len(set(target.asked)) == len(target.asked) == FIVE.num_requests(concurrency)
    assert target.most == concurrency


@pytest.mark.parametrize("num_tokens", [4, 6])
async def test_an_answer_of_another_length_fails_the_cell(num_tokens: int) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_cell(Scripted(num_tokens), "distinct", 1, "s", FIVE)
    assert caught.group_contains(BenchError, match="instead of 5")


@pytest.mark.parametrize("bad", [answer(num_tokens=5), answer(1.0, num_tokens=5, num_chars=2)])
def test_tokens_that_are_only_claimed_fail(bad: Answer) -> None:
    with pytest.raises(BenchError, match="claimed"):
        bad.check(5)


def test_figures() -> None:
    figures = figures_of([answer(0.1, 0.2, 0.4), answer(0.3, 0.4, 0.5)], wall_s=2.0)
    assert figures.tps == 3
    assert figures.ttft95 == pytest.approx(300)
    assert figures.itl50 == pytest.approx(100)
    assert figures.itl99 == pytest.approx(200)
    assert figures.tpot == pytest.approx(125)
    assert figures.e2e95 == pytest.approx(500)
    assert figures.deltas == 1


def test_merged_deltas_show() -> None:
    assert figures_of([answer(0.1, 0.2, num_tokens=8)], wall_s=1.0).deltas == 0.25


def test_ratios_above_one_are_better_in_every_figure() -> None:
    slow = figures_of([answer(0.2, 0.4, 0.6)], wall_s=2.0)
    fast = figures_of([answer(0.1, 0.2, 0.3)], wall_s=1.0)
    for name in set(report.SHOWN) - {"deltas"}:
        assert ratios(name, [fast, fast], [slow, slow]).least == pytest.approx(2), name


# --- the report


def test_prose_around_the_generated_part_stays() -> None:
    begin, end = markers(COMMAND)
    text = f"# Title\n\n{begin}\nold\n{end}\n\nEnd.\n"
    expected = f"# Title\n\n{begin}\nnew\n{end}\n\nEnd.\n"
    assert replaced(text, COMMAND, "new") == expected


@pytest.mark.parametrize("text", ["", *markers(COMMAND)])
def test_a_file_without_markers_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match="markers"):
        replaced(text, COMMAND, "new")


@pytest.mark.parametrize("command", [COMMAND, CHAT_COMMAND])
def test_the_document_has_the_markers(command: str) -> None:
    assert "new" in replaced(DOCS.read_text("utf-8"), command, "new")


# --- the chat


def test_commits_are_counted_when_nobody_keeps_the_database_open(tmp_path: Path) -> None:
    database = tmp_path / "db.sqlite3"

    def write(count: int) -> None:
        connection = sqlite3.connect(database, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
        for _ in range(count):
            connection.execute("INSERT INTO words VALUES ('a')")
        connection.execute("SELECT * FROM words").fetchall()
        connection.close()

    write(1)
    with Commits(database) as commits:
        before = commits.count()
        write(3)
        write(4)
        assert commits.count() - before == 7


def test_the_first_load_is_what_the_entry_imports(tmp_path: Path) -> None:
    manifest = {
        "src/main.ts": {"file": "main.js", "imports": ["_shared.js"], "css": ["main.css"]},
        "_shared.js": {"file": "shared.js"},
        "src/later.ts": {"file": "later.js", "imports": ["_shared.js"]},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    for name in ("main.js", "shared.js", "later.js", "main.css"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    bundle = first_load(tmp_path)
    parts = [len(gzip.compress((tmp_path / n).read_bytes(), 9)) for n in ("main.js", "shared.js")]
    assert bundle.javascript == sum(parts)
    assert bundle.css > 0


# --- the lock


def test_lock_samples_are_counted_by_thread() -> None:
    raw = "thread (12): outlet;run (a b.py:1) 3\nthread (0x7F): MainThread;x;y (z.py:2) 4\n"
    assert lock_samples(raw + "thread (12): outlet;other (c.py:9) 1\n") == {
        "outlet": 4,
        "MainThread": 4,
    }
    with pytest.raises(BenchError, match="understood"):
        lock_samples("something else 1")


def test_shares_are_of_the_time_watched() -> None:
    watched = Watched({"outlet": 10}, {"outlet": 0.5, "idle": 0.0}, 200, 1000, 10.0, "")
    (thread,) = threads_of(watched)
    assert (thread.lock, thread.cpu, thread.cpu_us) == (0.05, 0.05, pytest.approx(500))


def test_threads_are_named_by_the_kernels_ids() -> None:
    dump = '[{"os_thread_id": 7, "thread_name": "outlet"}, {"os_thread_id": null}]'
    assert thread_names(dump) == {7: "outlet"}


# --- all of it, on the mock


def assert_measured(figures: Figures, max_tokens: int) -> None:
    """What holds on any machine at any load, however many deltas were merged on the way."""
    assert all(math.isfinite(value) for value in dataclasses.astuple(figures))
    assert min(figures.tps, figures.prompt) > 0
    assert 0 < figures.ttft50 <= figures.ttft95 <= figures.e2e95
    assert figures.ttft50 <= figures.e2e50 <= figures.e2e95
    assert 0 <= figures.itl50 <= figures.itl95 <= figures.itl99 <= figures.itl_max
    assert figures.tpot >= 0
    assert 1 / max_tokens <= figures.deltas <= 1
    if figures.deltas > 1 / max_tokens:  # else each answer came at once: there are no gaps
        assert figures.itl99 > 0


@pytest.mark.parametrize(
    "answers",
    [
        [answer(0.5, num_tokens=8)],
        [answer(0.5, num_tokens=8), answer(*(0.1 * n for n in range(1, 9)))],
    ],
    ids=["all merged", "one merged"],
)
def test_merged_answers_are_measured_too(answers: list[Answer]) -> None:
    assert_measured(figures_of(answers, wall_s=1.0), 8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tps": 0.0},
        {"prompt": 0.0},
        {"ttft50": 0.0},
        {"itl99": 0.0},
        {"tpot": math.nan},
        {"e2e50": 50.0},
        {"deltas": 0.0},
        {"deltas": 1.5},
    ],
)
def test_what_is_not_measured_shows(wrong: dict[str, float]) -> None:
    figures = figures_of([answer(*(0.1 * n for n in range(1, 9)))], wall_s=1.0)
    assert_measured(figures, 8)
    with pytest.raises(AssertionError):
        assert_measured(dataclasses.replace(figures, **wrong), 8)


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_a_whole_run_measures_engine_and_product_on_the_same_prompts(tmp_path: Path) -> None:
    plan = Plan(
        rounds=1,
        concurrency=(1, 2),
        workloads=("shared",),
        seed="7",
        threads=1,
        engine_class="mock",
        sizes=Sizes(max_tokens=8, requests=3),
    )
    said: list[str] = []
    result = run(plan, tmp_path, said.append)
    assert set(result.cells) == {
        Key("shared", concurrency, target) for concurrency in (1, 2) for target in (ENGINE, PRODUCT)
    }
    assert len(said) == 4
    for figures in (figures for cell in result.cells.values() for figures in cell):
        assert_measured(figures, plan.sizes.max_tokens)
    names = {memory.name for memory in result.memory}
    assert {"web", "engine", "redis", "supervisor", "jobs"} <= names
    text = report.render(result)
    assert "Provisional" in text
    assert text.count("(least..most)") == 1
    assert f"| seed | {plan.seed} |" in text
