"""What chats with a model get that say nothing themselves: a system prompt, template variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from inference.protocol.requests import ChatPrompt, Message
from inference.text.chat_template import RESERVED_VARIABLES
from inference.text.depth import MAX_DEPTH, is_deep
from llamaweb.lib.errors import InvalidError

MAX_SYSTEM_CHARS: Final = 64 * 1024
MAX_VARIABLES: Final = 32
MAX_VARIABLE_CHARS: Final = 64  # of its name
MAX_VARIABLES_CHARS: Final = 16 * 1024  # of all, as JSON
MAX_EFFORT_CHARS: Final = 32
THINKING, EFFORT = "enable_thinking", "reasoning_effort"
FIELDS_OF: Final = {THINKING: "thinking", EFFORT: "reasoning_effort"}
NUL: Final = "\\u0000"  # in JSON; PostgreSQL stores none


@dataclass(frozen=True, slots=True)
class ChatDefaults:
    """`system_prompt`: for a chat without a system message, "" for none. `variables` of the chat
    template, by name."""

    system_prompt: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)

    def fill(self, prompt: ChatPrompt) -> ChatPrompt:
        """`prompt` with what it leaves open; what it says itself stays, of variables each by its
        name. A system message counts as one wherever it stands, and if it is empty."""
        if self.system_prompt and not any(m.role == "system" for m in prompt.messages):
            prompt = replace(
                prompt,
                messages=(Message("system", self.system_prompt), *prompt.messages),
                public_messages=prompt.public_messages + 1,
            )
        if not self.variables:
            return prompt
        own = json.loads(prompt.template_kwargs_json or "{}")
        return replace(
            prompt,
            template_kwargs_json=json.dumps({**self.variables, **own}),
            public_kwargs_json=json.dumps(dict(self.variables)),
        )


def variables_of(
    template_kwargs: Mapping[str, Any], *, thinking: str, reasoning_effort: str
) -> dict[str, Any]:
    """A model's template variables from its fields; `thinking` is auto, on or off."""
    out = dict(template_kwargs)
    if thinking != "auto":
        out[THINKING] = thinking == "on"
    if reasoning_effort:
        out[EFFORT] = reasoning_effort
    return out


def system_check(text: str) -> str:
    """`text`, if it can be a system prompt.

    Raises:
        InvalidError: too long, or no text.
    """
    if len(text) > MAX_SYSTEM_CHARS:
        raise InvalidError(
            f"has {len(text)} characters, at most {MAX_SYSTEM_CHARS} are allowed",
            param="system_prompt",
        )
    if "\0" in text:
        raise InvalidError("holds a NUL character", param="system_prompt")
    return text


def variables_check(values: Any) -> dict[str, Any]:
    """`values`, if they can be given to a template.

    Raises:
        InvalidError: no object, too much, or a name that can't be set here.
    """
    if not isinstance(values, dict):
        raise _wrong('give an object such as {"preserve_thinking": true}')
    if len(values) > MAX_VARIABLES:
        raise _wrong(f"has {len(values)} variables, at most {MAX_VARIABLES} are allowed")
    for name in values:
        if not name.isidentifier() or len(name) > MAX_VARIABLE_CHARS:
            raise _wrong(f"{name[:MAX_VARIABLE_CHARS]!r} can't be a variable of a template")
        if name in RESERVED_VARIABLES:
            raise _wrong(f"{name} can't be set here")
        if name in FIELDS_OF:
            raise _wrong(f"{name} has a field of its own")
    if is_deep(values):
        raise _wrong(f"is nested too deeply, at most {MAX_DEPTH} levels are allowed")
    try:
        text = json.dumps(values, allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError as error:  # half an emoji is one, too
        raise _wrong("holds what JSON has no words for") from error
    if len(text) > MAX_VARIABLES_CHARS:
        raise _wrong(f"is longer than {MAX_VARIABLES_CHARS} characters")
    if NUL in text:
        raise _wrong("holds a NUL character")
    return values


def effort_check(effort: str) -> str:
    """`effort` without what stands around it, if a template can be told so; "" for nothing.

    Raises:
        InvalidError: too long, not printable, or what `thinking` is for.
    """
    effort = effort.strip()
    if len(effort) > MAX_EFFORT_CHARS or not effort.isprintable():
        raise InvalidError(
            f"a word of up to {MAX_EFFORT_CHARS} printable characters", param="reasoning_effort"
        )
    if effort == "none":
        raise InvalidError("turn thinking off instead", param="reasoning_effort")
    return effort


def _wrong(message: str) -> InvalidError:
    return InvalidError(message, param="template_kwargs")
