"""The measurement of the parser reads what models write, all of it."""

from __future__ import annotations

from tests.bench import parser_cost, rounds
from tests.bench.__main__ import DOCS
from tests.bench.parser_cost import PROSE, PROSE_TEXT, families, pieces_of
from tests.generated import replaced

SPEC = rounds.engine_spec(rounds.Plan(1, (1, 2), (), "s", threads=1, engine_class="mock"))


def test_pieces_are_the_whole_text_and_about_as_long_as_tokens() -> None:
    for family in families():
        for answer in family.answers:
            assert all(0 < len(piece) <= 8 or piece.isspace() for piece in answer.pieces)
    pieces = pieces_of(PROSE_TEXT)
    assert "".join(pieces) == PROSE_TEXT
    assert 2 < len(PROSE_TEXT) / len(pieces) < 6


def test_every_family_of_the_parser_has_a_row() -> None:
    run = parser_cost.measure(SPEC, (1, 2), rounds=2, seed="s")
    text = parser_cost.render(run)
    for cost in run.costs:
        assert len(cost.token_us) == len(cost.begin_us) == 2
        assert min(*cost.token_us, *cost.begin_us) > 0
        assert f"| {cost.family.name} | {len(cost.family.answers)} |" in text
    assert {PROSE, "hermes", "gpt-oss", "llama", "mistral"} <= {c.family.name for c in run.costs}
    assert set(run.step_ms) == {1, 2}


def test_a_share_is_of_a_step_in_which_every_stream_gets_a_token() -> None:
    family = families()[0]
    cost = parser_cost.ParserCost(family, [40.0], [25.0])
    run = parser_cost.ParserRun(SPEC, [cost], {1: 10.0, 8: 40.0}, [1.0])
    row = f"| {PROSE} | 1 | {family.num_tokens} | 40 (40..40) | 25.0 (25.0..25.0) | 0.25% | 0.50% |"
    assert row in parser_cost.render(run)


def test_the_document_has_the_markers() -> None:
    assert "new" in replaced(DOCS.read_text("utf-8"), parser_cost.COMMAND, "new")
