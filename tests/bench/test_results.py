"""Rounds survive the run that measured them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import engine_report, results
from tests.bench.__main__ import DOCS, main
from tests.bench.figures import BenchError
from tests.bench.making import figures, make_record, make_round
from tests.bench.peer import ALL_SETTINGS
from tests.bench.rounds import Key
from tests.bench.sides import ENGINE, LOOP, PEER, PRODUCT
from tests.bench.workloads import Workload
from tests.generated import replaced

CELLS: tuple[tuple[Workload, int], ...] = (
    ("distinct", 1),
    ("distinct", 8),
    ("shared", 8),
    ("arrive", 8),
)


def record(number: int, *, model: str = "smollm2", ours: float = 2.0) -> results.Record:
    cells = {}
    for workload, streams in CELLS:
        for side in (ENGINE, PRODUCT, PEER, LOOP):
            factor = 1.0 if side == PEER else ours
            cells[Key(workload, streams, side)] = figures(
                tps=100 * factor, decode_tps=50.0, itl_max=300 / factor
            )
    return make_record(make_round(number, cells), model=model)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rounds.jsonl"
    written = [record(0), record(1), record(0, model="gemma")]
    for each in written:
        results.append(path, each)
    assert results.read(path) == written


def test_a_run_that_ended_while_it_wrote_keeps_its_rounds(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    for number in range(3):
        results.append(path, record(number))
    whole = path.read_text()
    path.write_text(whole[: whole.rindex('"cells"')])
    assert [each.round.number for each in results.read(path)] == [0, 1]
    results.append(path, record(7))
    assert [each.round.number for each in results.read(path)] == [0, 1, 7]


@pytest.mark.parametrize("text", ["", '{"model": "smol'])
def test_a_file_without_a_whole_round_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(text)
    with pytest.raises(BenchError, match="no whole round"):
        results.read(path)
    with pytest.raises(BenchError, match="no results"):
        results.read(tmp_path / "nothing.jsonl")


def test_rounds_under_other_conditions_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    plain = make_round(0, {})
    results.append(path, make_record(plain, facts=["cache"]))
    results.append(path, make_record(plain, model="gemma"))
    assert len(results.read(path)) == 2
    results.append(path, make_record(plain))
    with pytest.raises(BenchError, match="smollm2 aren't comparable: cache"):
        results.read(path)


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    results.append(path, record(0))
    path.write_text(path.read_text().replace('"itl_max"', '"itl_worst"'))
    with pytest.raises(BenchError, match="another version"):
        results.read(path)


# --- the report


def test_the_report_judges_what_was_measured() -> None:
    text = engine_report.render([record(number) for number in range(9)])
    rows = [line for line in text.splitlines() if line.startswith("| distinct | tokens/s |")]
    assert rows == [
        "| distinct | tokens/s | llama-server | 1 | 1.1 | 0.95 "
        "| 2.00 (2.00..2.00) | goal met | 2.00 (2.00..2.00) | goal met |",
        "| distinct | tokens/s | llama-server | 8 | 1.15 | 1 "
        "| 2.00 (2.00..2.00) | goal met | 2.00 (2.00..2.00) | goal met |",
    ]
    assert "| arrive | worst ITL of the seven | llama-server | 8 | 8 | 3 | 2.00" in text
    assert "| MISSED |" in text
    assert "| distinct | worst stall | step setting | 1 | – | 1 | 1.33 (1.33..1.33)" in text
    assert f"{ALL_SETTINGS[0]} | 205.0 (picked) |" in text
    assert "Provisional" not in text


def test_workloads_that_did_not_run_have_no_rows() -> None:
    text = engine_report.render([record(0)])
    assert "| chats |" not in text
    assert "| distinct | tokens/s | llama-server | 4 |" not in text


def test_too_few_rounds_are_provisional() -> None:
    assert "Provisional: 2 of the 9 rounds" in engine_report.render([record(0), record(1)])


def test_each_model_has_its_part() -> None:
    text = engine_report.render([record(0), record(0, model="gemma")])
    assert text.count("### ") == 2
    assert text.index("### SmolLM2") < text.index("### Gemma")


def test_a_report_is_made_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rounds.jsonl"
    results.append(path, record(0))
    assert main(["engine", "--report", str(path)]) == 0
    assert "### SmolLM2" in capsys.readouterr().out
    assert main(["engine", "--report", str(tmp_path / "nothing")]) == 1


def test_the_document_has_the_markers() -> None:
    text = DOCS.read_text("utf-8")
    assert "new" in replaced(text, engine_report.COMMAND, "new")


def test_the_report_says_what_was_tried_and_what_is_used() -> None:
    text = engine_report.render([record(0)])
    rows = [line for line in text.splitlines() if "(picked)" in line]
    assert rows == [
        f"| llama-server, {ALL_SETTINGS[0]} | 205.0 (picked) | 205.0 (picked) |",
        f"| engine, {ALL_SETTINGS[2]} | 205.0 (picked) | 205.0 (picked) |",
    ]
