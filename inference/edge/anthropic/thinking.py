"""`thinking`, `output_config` and `output_format`: how hard to think, in what form to answer."""

from __future__ import annotations

from typing import Any

from inference.edge.anthropic.schemas import PromptIn
from inference.edge.schema_form import schema_form
from inference.edge.template_variables import template_variables
from inference.protocol.params import Grammar
from llamaweb.lib.errors import InvalidError

# Whether it thinks. Only "enabled" has a bound, else models here decide for themselves how long.
THINKS = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
DISPLAYS = ("summarized", "omitted")
# The words that templates know.
EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def thinks(body: PromptIn) -> bool | None:
    """Whether the model is to think; None: as its administrator said.

    Raises:
        InvalidError: naming the field.
    """
    config = _object(body.thinking, "thinking")
    if config is None:
        return None
    kind = config.get("type")
    if not isinstance(kind, str) or kind not in THINKS:
        raise InvalidError(f"must be one of {', '.join(THINKS)}", param="thinking.type")
    return THINKS[kind]


def budget_of(body: PromptIn) -> int | None:
    """How many tokens the thoughts may have; None: any number.

    Raises:
        InvalidError: naming the field.
    """
    config = _object(body.thinking, "thinking") or {}
    budget = config.get("budget_tokens")
    if budget is not None and (type(budget) is not int or budget < 0):
        raise InvalidError("must be an integer of at least 0", param="thinking.budget_tokens")
    if config.get("type") != "enabled":
        return None
    if budget is None:
        raise InvalidError("is required with 'enabled'", param="thinking.budget_tokens")
    return int(budget)


def hides_thinking(body: PromptIn) -> bool:
    """Whether thoughts are to be left out of the answer.

    Raises:
        InvalidError: naming the field.
    """
    display = (_object(body.thinking, "thinking") or {}).get("display")
    if display is not None and display not in DISPLAYS:
        raise InvalidError(f"must be one of {', '.join(DISPLAYS)}", param="thinking.display")
    return bool(display == "omitted")


def variables_of(body: PromptIn) -> str | None:
    """What the template is told, as JSON text.

    Raises:
        InvalidError: naming the field.
    """
    effort = (_object(body.output_config, "output_config") or {}).get("effort")
    if effort is not None and (not isinstance(effort, str) or effort not in EFFORTS):
        raise InvalidError(f"must be one of {', '.join(EFFORTS)}", param="output_config.effort")
    return template_variables(
        body.chat_template_kwargs,
        thinking=thinks(body),
        effort=None if effort is None else EFFORTS[effort],
    )


def form_of(body: PromptIn) -> Grammar | None:
    """The form that the answer must have; None: free text.

    Raises:
        InvalidError: naming the field; both fields ask for one.
    """
    config = _object(body.output_config, "output_config") or {}
    newer = _form(config.get("format"), "output_config.format")
    older = _form(body.output_format, "output_format")
    if newer is not None and older is not None:
        raise InvalidError("can't be combined with 'output_config.format'", param="output_format")
    return newer or older


def _form(value: Any, param: str) -> Grammar | None:
    given = _object(value, param)
    if given is None:
        return None
    if given.get("type") != "json_schema":
        raise InvalidError('must be "json_schema"', param=f"{param}.type")
    return schema_form(given.get("schema"), f"{param}.schema")


def _object(value: Any, param: str) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise InvalidError("must be an object", param=param)
    return value
