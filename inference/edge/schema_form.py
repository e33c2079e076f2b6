"""A JSON schema that the answer has to follow, in whatever field a family has it."""

from __future__ import annotations

import json
from typing import Any

from inference.protocol.params import Grammar
from inference.text.depth import MAX_DEPTH, is_deep
from inference.text.prompts import valid_text
from inference.text.schema.prepare import MAX_SCHEMA_CHARS
from llamaweb.lib.errors import InvalidError

FORMATS = ("text", "json_object", "json_schema")


def form_kind(form: Any, param: str) -> str:
    """The type of a form of OpenAI's, which stands in the field `param`.

    Raises:
        InvalidError: it is no object, or its type is none of `FORMATS`.
    """
    kind = form.get("type") if isinstance(form, dict) else None
    if not isinstance(kind, str):
        raise InvalidError("must be an object with a 'type'", param=param)
    if kind not in FORMATS:
        raise InvalidError(f"must be one of {', '.join(FORMATS)}", param=f"{param}.type")
    return kind


def schema_form(schema: Any, param: str) -> Grammar:
    """The form that `schema`, which stands in the field `param`, asks for; what it says is the
    engine's to read.

    Raises:
        InvalidError: no object, nested too deeply, or too long.
    """
    if not isinstance(schema, dict):
        raise InvalidError("must be an object", param=param)
    if is_deep(schema):  # one that came as text wasn't looked at yet
        raise InvalidError(
            f"is nested too deeply, at most {MAX_DEPTH} levels are allowed",
            param=param,
            bound="depth",
        )
    text = valid_text(json.dumps(schema, ensure_ascii=False))
    if len(text) > MAX_SCHEMA_CHARS:
        raise InvalidError(
            f"has {len(text)} characters, at most {MAX_SCHEMA_CHARS} are allowed",
            param=param,
            bound="schema",
        )
    return Grammar(text, kind="json_schema", param=param)
