"""How each family writes a call that it is made to write: where its own parser reads it.

Of the several ways some families have, the one without numbers and with the fewest markers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

# Stand in shapes for a tool's name, a parameter's, and a number of one to three digits.
NAME, KEY, NUMBER = "\0name\0", "\0key\0", "\0number\0"
# For what may be left out: white space, a call's id as a member of JSON, what tells a value's type.
GAP, CALL_ID, KIND = "\0gap\0", "\0id\0", "\0kind\0"
# And for an id as the last member, and one that stands alone.
LAST_ID, BARE_ID = "\0last id\0", "\0bare id\0"
# Where what stands for more than one text is; a split keeps it.
SOFT_PLACE = re.compile(f"({'|'.join((NUMBER, GAP, CALL_ID, LAST_ID, BARE_ID))})")


@dataclass(frozen=True)
class Tags:
    """Arguments one by one, `opener` (with KEY, perhaps KIND) and `closer` around each. A value is
    bare text if it is a string, else JSON. `text_kind`, `json_kinds` (by type): what stands for
    KIND in front of such values."""

    opener: str
    closer: str
    text_kind: str = ""
    json_kinds: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wake:
    """`text` (may have NAME) shows that a call begins, anywhere ("word") or as the answer's first
    text ("start")."""

    text: str
    kind: Literal["word", "start"] = "word"


@dataclass(frozen=True)
class CallShape:
    """`head` (with NAME) and `tail` stand around a call's arguments, which are a JSON object unless
    `tags` says otherwise; `begin` and `end` around all calls, `between` two of them. None: an
    answer has one call only. `needs`: a marker that has to be a token of the vocabulary. `wakes`:
    what shows that a call begins, where that isn't one of the family's openers. Not `awaits`: by
    themselves its models write calls in another way, so that none is held to this one.
    `is_pythonic`: arguments are written as Python's keyword arguments."""

    head: str
    tail: str = ""
    begin: str = ""
    end: str = ""
    between: str | None = None
    tags: Tags | None = None
    needs: str = ""
    wakes: tuple[Wake, ...] = ()
    awaits: bool = True
    is_pythonic: bool = False


def _json(
    begin: str, end: str, *, name: str = "name", arguments: str = "arguments", many: bool = False
) -> CallShape:
    """`{"name": …, "arguments": …}`; `many`: in a list."""
    return CallShape(
        f'{{"{name}": "{NAME}", "{arguments}": ',
        "}",
        begin=begin + "[" * many,
        end="]" * many + end,
        between=", " if many else None,
    )


def _each(begin: str, end: str, between: str = "\n") -> CallShape:
    """As `_json`, each call between markers of its own."""
    shape = _json("", "")
    return CallShape(begin + shape.head, shape.tail + end, between=between)


def _invoke(section: str, prefix: str = "", *, tells_strings: bool = False) -> CallShape:
    kinds = dict.fromkeys(_JSON_TYPES, ' string="false"') if tells_strings else {}
    kind = KIND if tells_strings else ""
    return CallShape(
        f'<{prefix}invoke name="{NAME}">\n',
        f"</{prefix}invoke>\n",
        begin=f"<{section}>\n",
        end=f"</{section}>",
        between="",
        tags=Tags(
            f'<{prefix}parameter name="{KEY}"{kind}>',
            f"</{prefix}parameter>\n",
            text_kind=' string="true"' if tells_strings else "",
            json_kinds=kinds,
        ),
    )


def _function(section: str) -> CallShape:
    return CallShape(
        f"<{section}>\n<function={NAME}>\n",
        f"</function>\n</{section}>",
        between="\n",
        tags=Tags(f"<parameter={KEY}>\n", "\n</parameter>\n"),
    )


def _arg_keys(suffix: str, separator: str) -> CallShape:
    return CallShape(
        f"<tool_call{suffix}>{NAME}{separator}\n",
        f"</tool_call{suffix}>",
        between="\n",
        tags=Tags(
            f"<arg_key{suffix}>{KEY}</arg_key{suffix}>\n<arg_value{suffix}>",
            f"</arg_value{suffix}>\n",
        ),
    )


_JSON_TYPES = ("null", "boolean", "integer", "number", "object", "array")
_HERMES = _each("<tool_call>\n", "\n</tool_call>")
_DSML = "｜DSML｜"
# The first whose `needs` the vocabulary has.
SHAPES: Mapping[str, tuple[CallShape, ...]] = {
    "hermes": (_HERMES,),
    "generic": (_HERMES,),
    "qwen3-coder": (_function("tool_call"),),
    "seed-oss": (_function("seed:tool_call"),),
    "llama": (
        replace(
            _json("", "", arguments="parameters"),
            wakes=(Wake(f'{{"name": "{NAME}", "parameters":', "start"),),
        ),
    ),
    "mistral": (
        CallShape(f"[TOOL_CALLS]{NAME}[ARGS]", between="", needs="[ARGS]"),
        replace(_json("[TOOL_CALLS]", "", many=True), tail=f"{LAST_ID}}}"),
    ),
    "deepseek-v3": (
        CallShape(
            f"<｜tool▁call▁begin｜>{NAME}<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            begin="<｜tool▁calls▁begin｜>",
            end="<｜tool▁calls▁end｜>",
            between="",
        ),
    ),
    "deepseek-dsml": (_invoke(f"{_DSML}function_calls", _DSML, tells_strings=True),),
    "command-r7b": (
        CallShape(
            f'{{{CALL_ID}"tool_name": "{NAME}", "parameters": ',
            "}",
            begin=f"<|START_ACTION|>[{GAP}",
            end=f"{GAP}]<|END_ACTION|>",
            between=f",{GAP}",
        ),
    ),
    "command-r": (
        CallShape(
            f'{{{GAP}"tool_name": "{NAME}",{GAP}"parameters": ',
            f"{GAP}}}",
            begin=f"Action:\n```json\n[{GAP}",
            end=f"{GAP}]\n```",
            between=f",{GAP}",
        ),
    ),
    "granite": (_json("<|tool_call|>", "", many=True),),
    "glm": (_arg_keys("", ""),),
    "hunyuan-3": (_arg_keys(":opensource", "<tool_sep:opensource>"),),
    "kimi-k2": (
        CallShape(
            f"<|tool_call_begin|>functions.{NAME}:{NUMBER}<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            begin="<|tool_calls_section_begin|>",
            end="<|tool_calls_section_end|>",
            between="",
        ),
    ),
    "kimi-k3": (
        CallShape(
            f'<|open|>call tool="{NAME}" index="{NUMBER}"<|sep|>',
            "<|close|>call<|sep|>",
            begin="<|open|>tools<|sep|>",
            end="<|close|>tools<|sep|>",
            between="",
            tags=Tags(
                f'<|open|>argument key="{KEY}"{KIND}<|sep|>',
                "<|close|>argument<|sep|>",
                text_kind=' type="string"',
                json_kinds={
                    **{name: f' type="{name}"' for name in _JSON_TYPES},
                    "integer": ' type="number"',
                },
            ),
        ),
    ),
    "minimax-m2": (_invoke("minimax:tool_call"),),
    "tool-calls-tag": (replace(_json("<tool_calls>\n", "</tool_calls>"), between="\n"),),
    "functionary-v3.1": (CallShape(f"<function={NAME}>", "</function>", between=""),),
    "functionary-v3.2": (CallShape(f">>>{NAME}\n", wakes=(Wake(f">>>{NAME}\n"),)),),
    "gpt-oss": (
        # No "<|call|>" behind it: it ends the answer.
        CallShape(
            f"<|channel|>commentary to=functions.{NAME} <|constrain|>json<|message|>",
            wakes=(Wake("<|channel|>commentary to=functions."),),
        ),
    ),
    "lfm2": (_json("<|tool_call_start|>", "<|tool_call_end|>", many=True),),
    "gemma-4": (
        # Models write `<|"|>` in the place of quotes.
        CallShape(f"<|tool_call>call:{NAME}", "<tool_call|>", between="", awaits=False),
    ),
    "nemotron-nano-v2": (_json("<TOOLCALL>", "</TOOLCALL>", many=True),),
    "apertus": (
        CallShape(
            f'{{"{NAME}": ',
            "}",
            begin="<|tools_prefix|>[",
            end="]<|tools_suffix|>",
            between=", ",
        ),
    ),
    "solar-open": (
        CallShape(
            f"<|tool_call:begin|>{BARE_ID}<|tool_call:name|>{NAME}<|tool_call:args|>",
            "<|tool_call:end|>",
        ),
    ),
    "firefunction": (replace(_json("functools", "", many=True), wakes=(Wake("functools[{"),)),),
    "gigachat-3": (
        CallShape(_json("", "").head, "}", begin="<|function_call|>", needs="<|function_call|>"),
        CallShape(_json("", "").head, "}", begin="function call<|role_sep|>\n"),
    ),
}


def _pythonic(begin: str, end: str, *, wakes: bool = True) -> CallShape:
    """A list of calls; `wakes`: by its first name, since other lists may stand there."""
    wake = Wake(f"{begin}{NAME}(", "word" if begin.strip("[") else "start")
    return CallShape(
        f"{NAME}(",
        ")",
        begin=begin,
        end=end,
        between=f",{GAP}",
        wakes=(wake,) if wakes else (),
        is_pythonic=True,
    )


# What models write by themselves beside these.
BESIDE: Mapping[str, tuple[CallShape, ...]] = {
    "llama": (
        _pythonic("[", "]"),
        # Behind the tag stands code as well, but then nothing is called this way.
        CallShape(
            f"<|python_tag|>{NAME}.call(",
            ")",
            wakes=(Wake(f"<|python_tag|>{NAME}.call("),),
            is_pythonic=True,
        ),
        _pythonic("<|python_tag|>[", "]"),
        _pythonic("<|python_start|>[", "]<|python_end|>"),
    ),
    "deepseek-dsml": (_invoke(f"{_DSML}tool_calls", _DSML, tells_strings=True),),  # V4
    "deepseek-v3": (
        CallShape(  # R1
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{NAME}\n```json\n",
            "\n```<｜tool▁call▁end｜>",
            begin="<｜tool▁calls▁begin｜>",
            end="<｜tool▁calls▁end｜>",
            between="",
        ),
    ),
    "tool-calls-tag": (_json("<tool_calls>", "</tool_calls>", many=True),),  # Apriel
    "hunyuan-3": (
        replace(
            _arg_keys(":opensource", "<tool_sep:opensource>"),
            begin="<tool_calls:opensource>\n",
            end="</tool_calls:opensource>",
        ),
    ),
    "lfm2": (_pythonic("<|tool_call_start|>[", "]<|tool_call_end|>", wakes=False),),
}
