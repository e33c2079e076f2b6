"""`response_format`, `json_schema` and `structured_outputs`: what form an answer must have.

What a schema, an expression or a grammar says is the engine's to read; the field it stands in goes
with it, so that a refusal names the path in the request.
"""

from __future__ import annotations

import json
import re
from typing import Any

from inference.edge.openai.schemas import GenerationIn
from inference.edge.schema_form import form_kind, schema_form
from inference.protocol.params import Grammar
from inference.text.lark import refuse_unbounded
from inference.text.prompts import valid_text
from inference.text.schema.prepare import MAX_SCHEMA_CHARS
from llamaweb.lib.errors import InvalidError

LARK_MARK = "%llguidance"  # a grammar that begins so is Lark, as in llama-server
MAX_TEXT_CHARS = 64 * 1024  # of a regular expression or a grammar
MAX_CHOICES = 1000
KINDS = ("json", "json_object", "regex", "choice", "grammar")


def form_of(body: GenerationIn) -> Grammar | None:
    """The form that a request asks for, but for its `grammar`; None: free text.

    Raises:
        InvalidError: naming the field; two fields ask for a form.
    """
    asked = {
        "response_format": _response_format(body.response_format),
        "json_schema": _json_schema(body.json_schema),
        "structured_outputs": _structured(body.structured_outputs),
    }
    given = [name for name, grammar in asked.items() if grammar is not None]
    if body.grammar:
        given.append("grammar")
    if len(given) > 1:
        raise InvalidError(f"can't be combined with '{given[1]}'", param=given[0])
    return asked.get(given[0]) if given else None


def grammar_text(text: Any, param: str) -> Grammar:
    """A grammar in GBNF, or in Lark if it says so.

    Raises:
        InvalidError: not a text, too long, or of a kind that can't be bounded.
    """
    text = _text(text, param)
    if not text.startswith(LARK_MARK):
        return Grammar(text, param=param)
    refuse_unbounded(text, param=param)
    return Grammar(text, kind="lark", param=param)


def _response_format(value: Any) -> Grammar | None:
    param = "response_format"
    if value is None:
        return None
    kind = form_kind(value, param)
    if kind == "text":
        return None
    if kind == "json_object":
        schema = value.get("schema")
        return schema_form({} if schema is None else schema, f"{param}.schema")
    wrapped = value.get("json_schema")
    if not isinstance(wrapped, dict) or wrapped.get("schema") is None:
        raise InvalidError("must be an object with a 'schema'", param=f"{param}.json_schema")
    if not isinstance(wrapped.get("strict") or False, bool):
        raise InvalidError("must be true or false", param=f"{param}.json_schema.strict")
    return schema_form(wrapped["schema"], f"{param}.json_schema.schema")


def _json_schema(value: Any) -> Grammar | None:
    return None if value is None else schema_form(value, "json_schema")


def _structured(value: Any) -> Grammar | None:
    """vLLM's field: one of several forms."""
    param = "structured_outputs"
    if value is None:
        return None
    given = {}
    if isinstance(value, dict):
        given = {name: item for name, item in value.items() if item is not None}
    if len(given) != 1 or not given.keys() <= set(KINDS):
        raise InvalidError(f"must be an object with one of {', '.join(KINDS)}", param=param)
    ((kind, wanted),) = given.items()
    param = f"{param}.{kind}"
    match kind:
        case "json":
            parsed = _parsed(wanted, param) if isinstance(wanted, str) else wanted
            return schema_form(parsed, param)
        case "json_object":
            if wanted is not True:
                raise InvalidError("must be true", param=param)
            return schema_form({}, param)
        case "regex":
            return Grammar(_text(wanted, param), kind="regex", param=param)
        case "choice":
            return Grammar(_one_of(wanted, param), kind="regex", param=param)
        case _:
            return grammar_text(wanted, param)


def _parsed(text: str, param: str) -> Any:
    if len(text) > MAX_SCHEMA_CHARS:
        raise InvalidError(f"is longer than {MAX_SCHEMA_CHARS} characters", param=param)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidError("is no JSON", param=param) from None


def _one_of(choices: Any, param: str) -> str:
    if (
        not isinstance(choices, list)
        or not 0 < len(choices) <= MAX_CHOICES
        or not all(isinstance(choice, str) and choice for choice in choices)
    ):
        raise InvalidError(f"must be a list of 1 to {MAX_CHOICES} texts", param=param)
    return _text("|".join(map(_literally, choices)), param)


def _literally(text: str) -> str:
    """A regular expression for just `text`."""
    return re.sub(r"[\\.^$*+?()\[\]{}|]", r"\\\g<0>", text)


def _text(text: Any, param: str) -> str:
    if not isinstance(text, str) or not text:
        raise InvalidError("must be a text", param=param)
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidError(
            f"has {len(text)} characters, at most {MAX_TEXT_CHARS} are allowed", param=param
        )
    return valid_text(text)
