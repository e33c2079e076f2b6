"""Pointers into a schema, and what an answer's text may be where one leads."""

from __future__ import annotations

from typing import Any

import pytest

from inference.text.answer.bare_texts import bare_texts
from inference.text.answer.references import MAX_REFERENCE_CHARS, resolved

ROOT: dict[str, Any] = {
    "type": "object",
    "foo": {"type": "null"},
    "anyOf": [{"const": "a"}, {"const": "b"}],
    "$defs": {"a/b": {"const": 1}, "m~n": {"const": 2}, "ü %": {"const": 3}, "": {"const": 4}},
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/foo/type", "null"),
        ("#/$defs/a~1b/const", 1),
        ("#/$defs/m~0n/const", 2),
        ("#/%24defs/%C3%BC%20%25/const", 3),
        ("#/$defs//const", 4),
        ("#/anyOf/1", {"const": "b"}),
        ("#/anyOf/2", None),
        ("#/anyOf/-1", None),
        ("#/anyOf/x", None),
        ("#/foo/type/more", None),
        ("#foo", None),  # an anchor
        ("foo", None),
        ("", None),
        ("https://example.com/schema#/foo", None),
        ("#/" + "x/" * MAX_REFERENCE_CHARS, None),
    ],
)
def test_a_pointer_leads_into_the_schema_or_nowhere(reference: str, found: object) -> None:
    assert resolved(reference, ROOT) == found


def test_where_nothing_is_known_any_text_is_allowed() -> None:
    assert bare_texts({"$ref": "#foo"}, ROOT) is None
    assert bare_texts({"$ref": "#/nowhere"}, ROOT) is None
    assert bare_texts({"$ref": "#/foo"}, ROOT) == ()
    assert bare_texts({"anyOf": [{"$ref": f"#/anyOf/{n}"} for n in (1, 0)]}, ROOT) == ("b", "a")
    assert bare_texts({"$ref": "#/loop"}, {"loop": {"$ref": "#/loop"}}) is None
