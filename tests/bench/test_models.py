"""The bench of models says what it measured. No figure is ever asserted as a time."""

from __future__ import annotations

from tests.bench.models_bench import COMMAND, DOCS, FILES, FileFigures, ModelsRun
from tests.bench.models_report import render
from tests.generated import markers


def made(rounds: int = 5, load: float = 1.0) -> ModelsRun:
    of = FileFigures("A model", 93.4, [1.0, 3.0, 2.0], [4.0], [0.5], 200.0, [150.0, 250.0])
    return ModelsRun(rounds, 1, {"a": of}, [10.0, 20.0], [13.0, 22.0], [load])


def test_figures_are_medians_with_their_range() -> None:
    text = render(made())
    assert (
        "| A model | 93 | 2.00 (1.00..3.00) | 4.00 (4.00..4.00) | 0.50 (0.50..0.50) | 200 | "
        "200 (150..250) | 1.00 (0.75..1.25) |"
    ) in text
    assert "| difference within a round | 2.5 (2.0..3.0) |" in text
    assert "Provisional" not in text


def test_few_rounds_and_a_busy_machine_are_told() -> None:
    assert "**Provisional: 2 of the 5 rounds that a comparison needs.**" in render(made(rounds=2))
    assert "**Provisional: the machine wasn't quiet.**" in render(made(load=9.0))


def test_three_files_are_measured_and_the_page_has_room_for_it() -> None:
    assert len({model.name for model in FILES}) == len(FILES) == 3
    page = DOCS.read_text("utf-8")
    assert all(mark in page for mark in markers(COMMAND))
