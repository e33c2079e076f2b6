"""A model's Jinja chat template, rendered as Hugging Face renders it, in a sandbox.

The sandbox keeps a template away from Python; it doesn't bound time or memory. So templates that
came with a model are rendered in a child process (`inference.text.render_process`), and this
module is used directly only for templates of our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import jinja2
import jinja2.debug  # jinja2 imports it at the first error: too late in the child
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llamaweb.lib.errors import InvalidError

MAX_RENDERED_CHARS = 16 * 1024 * 1024
MAX_TEMPLATE_CHARS = 1024 * 1024
MAX_SHOWN_REFUSAL_CHARS = 200

# Used when neither the model nor its configuration has a template.
CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# Variables of ours that a caller's template variables can't replace.
RESERVED_VARIABLES = frozenset(
    {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"}
    | {"raise_exception", "strftime_now", "datetime", "date_string"}
)


class TemplateRefusedError(InvalidError):
    """The template raised an error for these messages; another shape of them may pass."""


@dataclass(frozen=True, slots=True)
class RenderJob:
    """One rendering, in plain JSON values. `now_at`: what the template takes for the present."""

    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    now_at: float = 0.0


class _Refusal(Exception):
    """`raise_exception` was called by the template."""


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}`: marks answers for training, means nothing here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: object = "") -> None:
    raise _Refusal(str(message))


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    return environment


class ChatTemplate:
    """A compiled template. Not bound in time or memory; see the module's first lines."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        """Compile `source`.

        Raises:
            InvalidError: it isn't a Jinja template, or longer than `MAX_TEMPLATE_CHARS`.
        """
        if len(source) > MAX_TEMPLATE_CHARS:
            raise InvalidError(f"the chat template is longer than {MAX_TEMPLATE_CHARS} characters")
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise InvalidError(
                f"the model's chat template can't be read: line {error.lineno}"
            ) from error
        except Exception as error:  # the compiler's own limits, such as deep nesting
            raise InvalidError("the model's chat template can't be read") from error
        self._source = source
        self._bos_token = bos_token
        self._eos_token = eos_token

    def render(self, job: RenderJob) -> str:
        """The text of `job`, at most `MAX_RENDERED_CHARS` characters.

        Raises:
            TemplateRefusedError: the template raised an error, its own or one of Jinja's.
            InvalidError: the text is too long, or memory ran out.
        """
        try:
            return self._join(self._variables(job))
        except InvalidError:
            raise
        except _Refusal as refusal:
            raise TemplateRefusedError(self._refusal_text(str(refusal))) from None
        except MemoryError:
            raise InvalidError("the model's chat template needs too much memory") from None
        except Exception as error:
            # The error may quote messages, so only its kind is told.
            raise TemplateRefusedError(
                f"the model's chat template failed on these messages ({type(error).__name__})"
            ) from None

    def _variables(self, job: RenderJob) -> dict[str, Any]:
        now = datetime.fromtimestamp(job.now_at).astimezone()
        strftime_now: Callable[[str], str] = now.strftime
        return {
            "enable_thinking": True,
            **{name: v for name, v in job.variables.items() if name not in RESERVED_VARIABLES},
            "messages": job.messages,
            "tools": job.tools,
            "add_generation_prompt": job.add_generation_prompt,
            "bos_token": self._bos_token,
            "eos_token": self._eos_token,
            "datetime": now.strftime("%b %d %Y"),
            "date_string": now.strftime("%d %b %Y"),
            "strftime_now": strftime_now,
        }

    def _join(self, variables: dict[str, Any]) -> str:
        pieces: list[str] = []
        num_chars = 0
        for piece in self._template.generate(**variables):
            num_chars += len(piece)
            if num_chars > MAX_RENDERED_CHARS:
                raise InvalidError(
                    f"the prompt is longer than {MAX_RENDERED_CHARS} characters as the model's "
                    "chat template writes it"
                )
            pieces.append(piece)
        return "".join(pieces)

    def _refusal_text(self, refusal: str) -> str:
        # Shown only where it stands literally in the template: it could quote a message otherwise.
        shown = refusal.strip()
        if not shown or shown not in self._source:
            return "the model's chat template refuses these messages"
        return (
            f"the model's chat template refuses these messages: {shown[:MAX_SHOWN_REFUSAL_CHARS]}"
        )
