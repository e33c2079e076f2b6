"""What an administrator may have all chats with a model begin with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from inference.models import ModelConfig
from inference.registry.chat_defaults import (
    FIELDS_OF,
    effort_check,
    system_check,
    variables_check,
    variables_of,
)
from inference.text.chat_template import CHATML_TEMPLATE
from inference.upstream_models import Upstream
from llamaweb.lib.errors import InvalidError

CHAT_FIELDS: Final = ("system_prompt", "thinking", "reasoning_effort", "template_kwargs")
# A change of these can make a variable one that nothing reads.
READ_FIELDS: Final = frozenset({"thinking", "reasoning_effort", "template_kwargs", "chat_template"})


def chat_check(config: ModelConfig) -> None:
    """Put the chat fields of `config` as they are kept.

    Raises:
        InvalidError: naming the field.
    """
    config.system_prompt = system_check(config.system_prompt)
    config.template_kwargs = variables_check(config.template_kwargs)
    config.reasoning_effort = effort_check(config.reasoning_effort)


def reads_check(config: ModelConfig) -> None:
    """Whether something comes of each variable: the model's template, where it is known, reads it,
    or the server behind the model takes it.

    Raises:
        InvalidError: naming the field of the one that would change nothing.
    """
    upstream: Upstream | None = getattr(config, "upstream", None)
    if upstream is not None:
        dialect_check(upstream.dialect, config.template_kwargs, param="template_kwargs")
        return
    templates = _templates(config)
    variables = variables_of(
        config.template_kwargs,
        thinking=config.thinking,
        reasoning_effort=config.reasoning_effort,
    )
    for name in variables if templates else ():
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in templates):
            raise InvalidError(
                f"this model's chat template doesn't read {name}, so it would change nothing",
                param=FIELDS_OF.get(name, "template_kwargs"),
            )


def dialect_check(
    dialect: str, template_kwargs: Mapping[str, Any], *, param: str = "dialect"
) -> None:
    """Whether a server of `dialect` can be told template variables.

    Raises:
        InvalidError: there are some, and it can't.
    """
    if dialect == Upstream.Dialect.OPENAI and template_kwargs:
        raise InvalidError("OpenAI's dialect has no field for template variables", param=param)


def _templates(config: ModelConfig) -> list[str]:
    """All that may write its chats; none where nobody has read its file."""
    if config.chat_template:
        return [config.chat_template]
    if config.file is None:
        return []
    return [str(text) for text in config.file.templates.values()] or [CHATML_TEMPLATE]
