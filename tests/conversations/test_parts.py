"""Parts say the same in JSON and as values, and hold people to their bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations import parts as p
from llamaweb.lib.errors import InvalidError

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PARTS = st.one_of(
    st.builds(p.TextPart, TEXTS),
    st.builds(p.ReasoningPart, TEXTS),
    st.builds(p.ToolCallPart, TEXTS, TEXTS, TEXTS),
    st.builds(p.ToolResultPart, TEXTS, TEXTS, st.booleans()),
    st.builds(p.AttachmentPart, TEXTS, TEXTS, TEXTS, st.integers(0, 9)),
)


@given(st.lists(PARTS))
def test_json_and_back(parts: list[p.Part]) -> None:
    assert p.parts_from_json(json.loads(json.dumps(p.parts_to_json(parts)))) == tuple(parts)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("text", "parts"),
        ([1], "parts[0]"),
        ([{"type": "text", "text": "a"}, {"type": "nothing"}], "parts[1].type"),
        ([{"text": "a"}], "parts[0].type"),
        ([{"type": ["text"], "text": "a"}], "parts[0].type"),
        ([{"type": "text"}], "parts[0].text"),
        ([{"type": "text", "text": None}], "parts[0].text"),
        ([{"type": "text", "text": "a", "more": 1}], "parts[0]"),
        ([{"type": "text", "text": "a\0"}], "parts[0].text"),
        ([{"type": "text", "text": "a\ud800"}], "parts[0].text"),
        ([{"type": "reasoning", "text": "a"}], "parts[0].type"),
        ([{"type": "text", "text": " \n"}], "parts"),
        ([], "parts"),
        (
            [{"type": "attachment", "attachment_id": "a", "name": "n", "mime": "m", "size": True}],
            "parts[0].size",
        ),
        (
            [{"type": "attachment", "attachment_id": "a", "name": "n", "mime": "m", "size": -1}],
            "parts[0].size",
        ),
    ],
)
def test_a_mistake_names_its_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        p.parts_from_client(value)
    assert caught.value.param == param


def test_the_number_of_parts_is_bounded() -> None:
    part = {"type": "text", "text": "a"}
    assert len(p.parts_from_client([part] * p.MAX_PARTS)) == p.MAX_PARTS
    with pytest.raises(InvalidError, match=str(p.MAX_PARTS)):
        p.parts_from_client([part] * (p.MAX_PARTS + 1))


def test_the_length_of_all_text_is_bounded() -> None:
    half = p.TextPart("a" * (p.MAX_TEXT_CHARS // 2))
    p.parts_check([half, half])
    with pytest.raises(InvalidError, match=str(p.MAX_TEXT_CHARS)):
        p.parts_check([half, half, p.TextPart("a")])


def test_a_generation_loses_nothing() -> None:
    call = '{"id": "1", "name": "n", "arguments": "{}"}'
    cut = '{"id": "2", "name": "n", "arguments": "{\\"a", "broken": true}'
    runs = [("reasoning", "r"), ("content", "c"), ("tool_call", call), ("tool_call", "[broken")]
    runs += [("tool_call", cut), ("tool_call", "[1]")]
    assert p.parts_from_runs(runs) == (
        p.ReasoningPart("r"),
        p.TextPart("c"),
        p.ToolCallPart("1", "n", "{}"),
        p.TextPart("[broken"),
        p.TextPart(cut),
        p.TextPart("[1]"),
    )
