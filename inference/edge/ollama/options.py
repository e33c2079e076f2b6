"""`options`, `format`, `think` and `keep_alive`, and what a reply needs to know of its request."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from inference.edge.ollama.schemas import OllamaGenerationIn, OptionsIn
from inference.edge.openai.schemas import GenerationIn
from inference.edge.schema_form import schema_form
from inference.edge.template_variables import template_variables
from inference.edge.wire_types import MAX_INT32
from inference.protocol.params import Grammar
from llamaweb.lib.errors import InvalidError

ReplyKind: TypeAlias = Literal["chat", "generate"]
LEVELS: Final = ("low", "medium", "high", "max")
# Of the same name and meaning in llama.cpp.
_SAME_NAME: Final = (
    "stop",
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
)
# Go's way to write a duration: "1h30m", "-1s", "0".
_NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DURATION_RE: Final = re.compile(rf"[+-]?(?:0|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h))+)")
_NUMBER_RE: Final = re.compile(_NUMBER)


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """`logprobs`: shown with each token, with `top` rivals."""

    kind: ReplyKind = "chat"
    logprobs: bool = False
    top: int = 0


def options_to_json(options: ReplyOptions) -> str:
    """JSON text."""
    return json.dumps(asdict(options))


def options_from_json(text: str) -> ReplyOptions:
    """The options in `text`."""
    return ReplyOptions(**json.loads(text))


def reply_options(body: OllamaGenerationIn, kind: ReplyKind) -> ReplyOptions:
    """What the reply to `body` needs.

    Raises:
        InvalidError: naming the field.
    """
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidError("top_logprobs requires logprobs to be true", param="top_logprobs")
    return ReplyOptions(kind, body.logprobs, body.top_logprobs or 0)


def generation_of(options: OptionsIn) -> GenerationIn:
    """The same in the names that all families share. Negative `num_predict`: no limit but the
    context's; -1 of `repeat_last_n`: all of it."""
    fields: dict[str, Any] = {name: getattr(options, name) for name in _SAME_NAME}
    if options.num_predict is not None:
        fields["n_predict"] = max(-1, options.num_predict)
    if options.num_keep is not None:
        fields["n_keep"] = options.num_keep
    if options.repeat_last_n is not None:
        fields["repeat_last_n"] = MAX_INT32 if options.repeat_last_n < 0 else options.repeat_last_n
    return GenerationIn(**fields)


def form_of(value: Any) -> Grammar | None:
    """What `format` asks for: "json", a schema, or nothing.

    Raises:
        InvalidError: something else.
    """
    if value is None or value == "":
        return None
    if value == "json":
        return schema_form({}, "format")
    if not isinstance(value, dict):
        raise InvalidError("must be 'json' or a JSON schema", param="format")
    return schema_form(value, "format")


def thinking_of(think: bool | str | None) -> str | None:
    """Template variables for `think`, as JSON; None: the model's own.

    Raises:
        InvalidError: a level that nobody knows.
    """
    if think is None or isinstance(think, bool):
        return template_variables(None, thinking=think)
    if think not in LEVELS:
        raise InvalidError(f"must be true, false or one of {', '.join(LEVELS)}", param="think")
    return template_variables(None, thinking=True, effort=think)


def asks_to_unload(keep_alive: str | float | None) -> bool:
    """Whether `keep_alive`, seconds or a duration in Go's form, is none.

    Raises:
        InvalidError: it is neither.
    """
    if keep_alive is None or isinstance(keep_alive, int | float):
        return keep_alive == 0
    if not _DURATION_RE.fullmatch(keep_alive):
        raise InvalidError(
            "must be seconds, or a duration such as '5m' or '-1s'", param="keep_alive"
        )
    return not any(float(number) for number in _NUMBER_RE.findall(keep_alive))
