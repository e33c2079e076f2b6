"""Variables that a request gives to the chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inference.registry.chat_defaults import EFFORT, THINKING
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_VARIABLES_CHARS = 64 * 1024  # as JSON
FIELD = "chat_template_kwargs"


def template_variables(
    given: Mapping[str, Any] | None, *, thinking: bool | None = None, effort: str | None = None
) -> str | None:
    """JSON text of the variables `given` by name, and of what other fields say of `thinking` and
    `effort` where they don't; None without any.

    Raises:
        InvalidError: naming the field.
    """
    variables = dict(given or {})
    if not isinstance(variables.get(THINKING, True), bool):
        raise InvalidError("must be a boolean", param=f"{FIELD}.{THINKING}")
    if thinking is not None:
        variables.setdefault(THINKING, thinking)
    if effort is not None:
        variables.setdefault(EFFORT, valid_text(effort))
    if not variables:
        return None
    text = json.dumps(variables)
    if len(text) > MAX_VARIABLES_CHARS:
        raise InvalidError(f"is longer than {MAX_VARIABLES_CHARS} characters", param=FIELD)
    return text
