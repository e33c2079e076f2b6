"""The measurement of a chat beside vectors, on the mock."""

from __future__ import annotations

import pytest

from tests.bench import embeddings, rounds
from tests.bench.__main__ import DOCS
from tests.bench.embeddings import EmbeddingsRun, Gaps
from tests.generated import replaced

SPEC = rounds.engine_spec(rounds.Plan(1, (1,), (), "s", threads=1, engine_class="mock"))


def gaps(*ms: float, num_vectors: int = 0) -> Gaps:
    return Gaps(tuple(each / 1e3 for each in ms), num_vectors, wall_s=2.0)


def test_chats_are_written_alone_and_beside_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "PER_S", 10_000.0)
    run = embeddings.measure(SPEC, 2, "s")
    assert len(run.alone) == len(run.beside) == len(run.load) == 2
    for side in (run.alone, run.beside):
        assert {len(one.gaps_s) for one in side} == {
            embeddings.NUM_TOKENS - 1 - embeddings.WARM_TOKENS
        }
    assert all(one.num_vectors == 0 for one in run.alone)
    assert all(one.num_vectors > 0 for one in run.beside)


def test_the_setting_is_kept_where_no_round_says_otherwise() -> None:
    run = EmbeddingsRun(SPEC, load=[1.0, 1.0])
    run.alone = [gaps(*[10.0] * 50), gaps(*[20.0] * 50)]
    run.beside = [gaps(*[100.0] * 50, num_vectors=30), gaps(*[400.0] * 50, num_vectors=40)]
    text = embeddings.render(run)
    assert (
        "| alone | 15.0 (10.0..20.0) | 15.0 (10.0..20.0) | 15.0 (10.0..20.0) | 0.0 (0.0..0.0) | "
        "15.00 (10.00..20.00) | floor met |"
    ) in text
    assert "17.5 (15.0..20.0) | 1.25 (0.50..2.00) | not established |" in text
    assert "| step setting | 200 ms |" in text


def test_the_document_has_the_markers() -> None:
    assert "new" in replaced(DOCS.read_text("utf-8"), embeddings.COMMAND, "new")
