"""`python -m tests.bench parser`: what it costs to take an answer apart, by family of models.

The answers are those that the parser's tests have for each family, in pieces of about the length
of tokens, read as the worker reads them: a delta in, deltas out. CPU time of this thread, so that
other processes on the machine disturb it little; and the time of a decode step, to compare.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inference.protocol.events import Delta, Event, Finished
from inference.protocol.spec import EngineSpec
from inference.text.answer.families import AnswerFormat
from inference.text.answer.parser import AnswerParser
from inference.text.answer.reader import AnswerReader, call_ids
from tests.bench import steps
from tests.bench.headline import headline, shown
from tests.bench.machine import load_now, machine_facts, today
from tests.bench.report import MIN_ROUNDS, QUIET_LOAD
from tests.generated import table
from tests.stack import ROOT
from tests.text.answer.answers import TOOLS, format_of

COMMAND = "python -m tests.bench parser"
CASES = ROOT / "tests" / "text" / "answer" / "cases"
PIECE = re.compile(r"\s?\w{1,7}|[^\w\s]{1,3}|\s+")  # what a large vocabulary has tokens for
PROSE = "prose"  # answers without a call, of which most texts consist
PROSE_TEXT = (
    "The meeting was moved to Thursday, since two of the five couldn't come. Here is what is left "
    "to do:\n\n1. **Write** the summary (about 200 words).\n2. Ask [Ann](mailto:ann@example.org) "
    "for the numbers: `a < b` and {c: 1}.\n\n"
) * 4
REPEATS = 5  # of a family in a round: its answers are short
US = 1e-3  # of a nanosecond


@dataclass(frozen=True, slots=True)
class Written:
    """An answer in pieces. `opened`: the markup that its prompt ends with."""

    pieces: tuple[str, ...]
    opened: str = ""


@dataclass(frozen=True, slots=True)
class FamilyAnswers:
    """What one family's models write."""

    name: str
    form: AnswerFormat
    answers: tuple[Written, ...]

    @property
    def num_tokens(self) -> int:
        """Of all answers."""
        return sum(len(answer.pieces) for answer in self.answers)


@dataclass(slots=True)
class ParserCost:
    """Microseconds of CPU by round: to begin an answer, and for each token of it."""

    family: FamilyAnswers
    begin_us: list[float] = field(default_factory=list)
    token_us: list[float] = field(default_factory=list)


@dataclass(slots=True)
class ParserRun:
    """What came out. `step_ms`: a decode step, by number of streams."""

    spec: EngineSpec
    costs: list[ParserCost]
    step_ms: dict[int, float]
    load: list[float] = field(default_factory=list)


def families() -> list[FamilyAnswers]:
    """Every family with its answers, and the most common one with text that has no call in it."""
    found = [_family(path) for path in sorted(CASES.glob("*.json"))]
    hermes = next(family for family in found if family.name == "hermes")
    prose = FamilyAnswers(PROSE, hermes.form, (Written(pieces_of(PROSE_TEXT)),))
    return [prose, *found]


def pieces_of(text: str) -> tuple[str, ...]:
    """`text` in pieces such as tokens are."""
    return tuple(PIECE.findall(text))


def measure(spec: EngineSpec, streams: tuple[int, ...], rounds: int, seed: str) -> ParserRun:
    """Read all answers of every family, in an order drawn anew each round; step an engine."""
    step_ms = {cost.streams: cost.wall_ms for cost in steps.measure(spec, streams, seed)}
    run = ParserRun(spec, [ParserCost(family) for family in families()], step_ms)
    for cost in run.costs:
        _read(cost.family)  # patterns are compiled once
    for number in range(rounds):
        order = list(run.costs)
        random.Random(f"{seed}/{number}").shuffle(order)
        for cost in order:
            begin_us, token_us = _read(cost.family)
            cost.begin_us.append(begin_us)
            cost.token_us.append(token_us)
        run.load.append(load_now())
    return run


def render(run: ParserRun) -> str:
    """The result as Markdown."""
    rows = [
        [
            cost.family.name,
            str(len(cost.family.answers)),
            str(cost.family.num_tokens),
            shown(cost.begin_us, 0),
            shown(cost.token_us, 1),
            *(_share(cost, streams, step_ms) for streams, step_ms in run.step_ms.items()),
        ]
        for cost in run.costs
    ]
    shares = [f"of a step, {streams} streams" for streams in run.step_ms]
    head = ["family", "answers", "tokens", "to begin us", "a token us", *shares]
    said = ", ".join(f"{ms:.1f} ms with {streams} streams" for streams, ms in run.step_ms.items())
    about = {
        "date": today(),
        **machine_facts(),
        "threads": str(run.spec.threads),
        "decode step": said,
    }
    above = headline(
        about,
        rounds=len(run.load),
        min_rounds=MIN_ROUNDS,
        load=run.load,
        quiet_load=QUIET_LOAD,
    )
    return f"{above}\n\nMedian (least..most) of the rounds:\n\n{table(head, rows)}"


def _share(cost: ParserCost, streams: int, step_ms: float) -> str:
    """Of a step in which every stream gets a token."""
    token_us = sorted(cost.token_us)[len(cost.token_us) // 2]
    return f"{streams * token_us / (step_ms * 1e3):.2%}"


def _family(path: Path) -> FamilyAnswers:
    told = json.loads(path.read_text("utf-8"))
    form = format_of(told["template"])
    opened = form.opened_by(told.get("prompt", ""))
    answers = tuple(Written(pieces_of(case["text"]), opened) for case in told["cases"])
    return FamilyAnswers(path.stem, form, answers)


def _read(family: FamilyAnswers) -> tuple[float, float]:
    """Microseconds of CPU: to begin an answer, and a token of it."""
    begin_ns = read_ns = 0
    for answer in family.answers * REPEATS:
        events: Sequence[Event] = [
            *(Delta(piece, (number,)) for number, piece in enumerate(answer.pieces)),
            Finished("stop"),
        ]
        started_ns = time.thread_time_ns()
        reader = _reader(family.form, answer.opened)
        begun_ns = time.thread_time_ns()
        for event in events:
            reader.read(event)
        read_ns += time.thread_time_ns() - begun_ns
        begin_ns += begun_ns - started_ns
    num_answers = len(family.answers) * REPEATS
    return begin_ns * US / num_answers, read_ns * US / (family.num_tokens * REPEATS)


def _reader(form: AnswerFormat, opened: str) -> AnswerReader:
    parser = AnswerParser(form, tools=TOOLS, make_id=call_ids("gen-bench"), opened=opened)
    return AnswerReader(parser)
