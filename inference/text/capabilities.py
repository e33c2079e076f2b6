"""What a chat template can take, found by rendering small chats and looking for their words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from inference.text.chat_template import RenderJob, TemplateRefusedError

RenderFn: TypeAlias = Callable[[RenderJob], str]

SHORT_ID_CHARS = 9  # what Mistral's templates insist on
_CALL_ID = "qvcall0001"
_WORDS = ("qvalpha", "qvbravo", "qvcharlie", "qvdelta", "qvecho")


@dataclass(frozen=True, slots=True)
class TemplateCapabilities:
    """The defaults are the strictest template: user and assistant in turn, nothing else.

    `typed_content`: content must be a list of parts. `system`: one system message at the start;
    `later_system`: anywhere. `role_runs`: several messages of one role in a row.
    `assistant_first`: a chat may start with the assistant. `tool_calls`: how calls of the history
    are written, "object" or "text" arguments, None: not at all; `short_call_ids`: only under ids of
    nine letters and digits. `tools`: definitions of tools are shown.
    """

    typed_content: bool = False
    system: bool = False
    later_system: bool = False
    role_runs: bool = False
    assistant_first: bool = False
    tool_calls: Literal["object", "text"] | None = None
    short_call_ids: bool = False
    tools: bool = False


def probe(render: RenderFn) -> TemplateCapabilities:
    """Find out with up to sixteen renderings.

    Raises:
        InvalidError: a rendering hit a bound of time, memory or length.
    """
    typed = not _shows(render, ("user",)) and _shows(render, ("user",), typed=True)
    found = TemplateCapabilities(
        typed_content=typed,
        system=_shows(render, ("system", "user"), typed=typed),
        later_system=_shows(render, ("system", "user", "assistant", "system", "user"), typed=typed),
        role_runs=_shows(render, ("user", "user", "assistant", "assistant", "user"), typed=typed),
        assistant_first=_shows(render, ("assistant", "user"), typed=typed),
        tools=_shows_tools(render, typed=typed),
    )
    for call_id in (_CALL_ID, _CALL_ID[:SHORT_ID_CHARS]):
        short = len(call_id) == SHORT_ID_CHARS
        if _shows_calls(render, {"qvname": "qvvalue"}, call_id, typed=typed):
            return replace(found, tool_calls="object", short_call_ids=short)
        if _shows_calls(render, '{"qvname": "qvvalue"}', call_id, typed=typed):
            return replace(found, tool_calls="text", short_call_ids=short)
    return found


def _content(word: str, typed: bool) -> Any:
    return [{"type": "text", "text": word}] if typed else word


def _try(render: RenderFn, messages: list[dict[str, Any]], tools: list[Any] | None = None) -> str:
    try:
        return render(RenderJob(messages=messages, tools=tools))
    except TemplateRefusedError:
        return ""


def _shows(render: RenderFn, roles: tuple[str, ...], *, typed: bool = False) -> bool:
    """Whether each message's word is written, once and in order."""
    words = _WORDS[: len(roles)]
    text = _try(
        render,
        [{"role": r, "content": _content(w, typed)} for r, w in zip(roles, words, strict=True)],
    )
    places = [text.find(word) for word in words]
    return (
        -1 not in places
        and places == sorted(places)
        and all(text.count(word) == 1 for word in words)
    )


def _shows_tools(render: RenderFn, *, typed: bool) -> bool:
    parameters = {"type": "object", "properties": {"qvname": {"type": "string"}}}
    function = {"name": "qvtool", "description": "qvsays", "parameters": parameters}
    text = _try(
        render,
        [{"role": "user", "content": _content("qvask", typed)}],
        [{"type": "function", "function": function}],
    )
    return all(word in text for word in ("qvtool", "qvname", "qvask"))


def _shows_calls(render: RenderFn, arguments: object, call_id: str, *, typed: bool) -> bool:
    function = {"name": "qvtool", "arguments": arguments}
    text = _try(
        render,
        [
            {"role": "user", "content": _content("qvask", typed)},
            {
                "role": "assistant",
                "content": _content("", typed),
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {
                "role": "tool",
                "name": "qvtool",
                "tool_call_id": call_id,
                "content": _content("qvresult", typed),
            },
            {"role": "assistant", "content": _content("qvsaid", typed)},
            {"role": "user", "content": _content("qvnext", typed)},
        ],
    )
    # An argument name followed by an escaped quote was encoded twice.
    named = '"qvname":' in text or "'qvname':" in text or "qvname=" in text or "<qvname>" in text
    return named and all(word in text for word in ("qvtool", "qvvalue", "qvresult", "qvnext"))
