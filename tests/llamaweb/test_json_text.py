"""JSON with half an emoji in it is read; everything else is as strict as before."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.json_text import json_value

HIGH, LOW = "\ud83d", "\ude00"
PIECES = st.sampled_from([HIGH, LOW, "\\", "u", "ud83d", "n", '"', "é", "\n", "\0", "\U0001f600"])


@pytest.mark.parametrize("upper", [False, True])
@given(st.lists(PIECES, max_size=12))
@example([HIGH])
@example([LOW])
@example([HIGH, HIGH, LOW, LOW])
@example(["\\", HIGH])
@example(["\\", "ud83d", LOW])
def test_every_text_that_javascript_can_write_is_read(upper: bool, pieces: list[str]) -> None:
    """`json.dumps` escapes as JSON.stringify does; `valid_text` says what the text must become."""
    text = "".join(pieces)
    sent = json.dumps({"a": [text]})
    if upper:
        sent = sent.replace("\\ud83d", "\\uD83D").replace("\\ude00", "\\uDE00")
        text = json.loads(sent)["a"][0]
    assert json_value(sent.encode()) == {"a": [valid_text(text)]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        rb'{"a": "\ud83d", "b": NaN}',
        rb'{"a": "\ud83d", "b": 1e999}',
        rb'{"a": "\ud83d"',
        rb'{"a": "\ud8"}',
        rb'{"a": "\ud8zz"}',
        b'{"a": "\\ud83d\xff"}',
        b'{"a": "\\ud83d\0"}',
        b'["\\ud83d", ' + b"[" * 2000 + b"]" * 2000 + b"]",
        '{"a": "\\ud83d"}'.encode("utf-16"),
    ],
)
def test_what_else_is_wrong_stays_refused(data: bytes) -> None:
    with pytest.raises(InvalidError, match="the body is not valid JSON"):
        json_value(data)


def test_numbers_are_read_alike_beside_half_an_emoji() -> None:
    number = b"100000000000000000000000"
    assert json_value(rb'["\ud83d", ' + number + b"]")[1] == json_value(b"[" + number + b"]")[0]
