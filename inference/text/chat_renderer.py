"""From messages to the prompt's text: capabilities, normaliser, template, prefill."""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import replace
from typing import Any, Protocol

from inference.protocol.requests import ChatPrompt, Message
from inference.text.answer.detect import answer_format
from inference.text.answer.families import AnswerFormat
from inference.text.capabilities import TemplateCapabilities, probe
from inference.text.chat_template import (
    CHATML_TEMPLATE,
    RESERVED_VARIABLES,
    ChatTemplate,
    RenderJob,
    TemplateRefusedError,
)
from inference.text.normalise import normalise, template_messages
from inference.text.render_process import RENDER_TIMEOUT_S, TemplateRenderer
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError


class JobRenderer(Protocol):
    """Whatever renders plain jobs; see `TemplateRenderer.render_job`."""

    def render_job(self, job: RenderJob) -> str:
        """The text of `job`."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class InProcessRenderer:
    """Renders here, without bounds of time and memory: for templates of our own, and tests."""

    def __init__(self, template: str = CHATML_TEMPLATE, bos: str = "", eos: str = "") -> None:
        self._template = ChatTemplate(template, bos_token=bos, eos_token=eos)

    def render_job(self, job: RenderJob) -> str:
        """See `ChatTemplate.render`."""
        return self._template.render(job)

    def close(self) -> None:
        """Nothing to free."""


def renderer_for(
    tokenizer: Tokenizer, override: str | None = None, timeout_s: float = RENDER_TIMEOUT_S
) -> ChatRenderer:
    """The renderer of a model with the template `template_of` says."""
    template = template_of(tokenizer, override)
    jobs = TemplateRenderer(template, tokenizer.bos_token, tokenizer.eos_token, timeout_s)
    return ChatRenderer(jobs, answer_format(template))


def template_of(tokenizer: Tokenizer, override: str | None = None) -> str:
    """A model's template: its configuration's, else its own, else ChatML."""
    return override or tokenizer.chat_template or CHATML_TEMPLATE


class ChatRenderer:
    """Writes a chat as the model's template wants it. Safe to call from several threads."""

    def __init__(self, jobs: JobRenderer, form: AnswerFormat | None = None) -> None:
        """`form`: how the model writes reasoning, None: nobody knows."""
        self._jobs = jobs
        self._lock = threading.Lock()
        self._can: TemplateCapabilities | None = None
        self._opener = form.reasoning_start if form is not None else ""

    def capabilities(self) -> TemplateCapabilities:
        """What the template takes; found at the first call.

        Raises:
            InvalidError: the template can't be used at all.
        """
        with self._lock:
            if self._can is None:
                self._can = probe(self._jobs.render_job)
            return self._can

    def close(self) -> None:
        """Free the template's process; a later call starts it again."""
        self._jobs.close()

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The prompt's text; `now_at` is the present for templates that write the date.

        A template that refuses its messages is given them once more in the strictest form.

        Raises:
            InvalidError: `param` says which field; never a template's trace.
        """
        if prompt.continue_reasoning and (self._opener or not prompt.continue_either):
            return self._thinking_on(prompt, now_at)
        if not prompt.continue_final:
            return self._rendered(prompt, now_at, "")
        mark = secrets.token_hex(16)
        last = _last_answer(prompt)
        return self._rendered(
            _with_last(prompt, replace(last, content=last.content + mark)), now_at, mark
        )

    def _thinking_on(self, prompt: ChatPrompt, now_at: float) -> str:
        """The prompt up to where the reasoning of its last message breaks off: as the template
        writes it, else as the model itself would have."""
        opener = self._opener
        if not opener:
            raise InvalidError(
                "this model's chats have no reasoning to go on with", param="continue_final_message"
            )
        last = _last_answer(prompt)
        thoughts, mark = last.reasoning.rstrip(), secrets.token_hex(16)
        marked = _with_last(prompt, replace(last, reasoning=thoughts + mark))
        try:
            text = self._rendered(marked, now_at, mark)
        except TemplateRefusedError:  # it leaves out what was thought
            text = ""
        if _is_inside(text, opener, thoughts):
            return text
        before = replace(prompt, messages=prompt.messages[:-1])
        text = self._rendered(before, now_at, "")
        if text.rstrip().endswith(opener.rstrip()):
            return text + thoughts
        line = "\n" if opener.endswith(">") and not opener.endswith("|>") else ""
        return text + opener + line + thoughts

    def _rendered(self, prompt: ChatPrompt, now_at: float, mark: str) -> str:
        """The prompt, up to the last `mark` if there is one: what the template adds behind it is
        cut."""
        can = self.capabilities()
        variables = _variables(prompt.template_kwargs_json)
        tools = _described(json.loads(prompt.tools_json)) if prompt.tools_json else []
        strict = TemplateCapabilities(typed_content=can.typed_content)

        def attempt(shape: TemplateCapabilities) -> str:
            shown = tools if tools and shape.tools else None
            messages = template_messages(normalise(prompt.messages, shape, tools), shape)
            text = self._jobs.render_job(RenderJob(messages, shown, variables, not mark, now_at))
            if mark and mark not in text:
                raise TemplateRefusedError("the model's chat template can't continue an answer")
            return text[: text.rindex(mark)] if mark else text

        try:
            return attempt(can)
        except TemplateRefusedError as error:
            error.param = "messages"
            if can == strict:
                raise
            try:
                return attempt(strict)
            except TemplateRefusedError:
                raise error from None


def _is_inside(text: str, opener: str, thoughts: str) -> bool:
    """Whether a prompt ends in reasoning that is open."""
    head = text.removesuffix(thoughts)
    return head != text and head.rstrip().endswith(opener.rstrip())


def _last_answer(prompt: ChatPrompt) -> Message:
    """The message that is to be continued."""
    last = prompt.messages[-1] if prompt.messages else None
    if last is None or last.role != "assistant":
        raise InvalidError(
            "the last message must be the assistant's to be continued", param="messages"
        )
    if last.tool_calls:
        raise InvalidError("an answer with tool calls can't be continued", param="messages")
    return last


def _with_last(prompt: ChatPrompt, message: Message) -> ChatPrompt:
    return replace(prompt, messages=(*prompt.messages[:-1], message))


def _described(tools: list[Any]) -> list[Any]:
    """Templates read the description without a look; `strict` isn't for the model."""
    shown = []
    for tool in tools:
        function = {"description": "", **tool["function"]}
        function.pop("strict", None)
        shown.append({**tool, "function": function})
    return shown


def _variables(kwargs_json: str | None) -> dict[str, Any]:
    if not kwargs_json:
        return {}
    variables = json.loads(kwargs_json)
    if not isinstance(variables, dict):
        raise InvalidError("must be an object", param="chat_template_kwargs")
    for name in sorted(RESERVED_VARIABLES & variables.keys()):
        raise InvalidError(f"'{name}' can't be set here", param=f"chat_template_kwargs.{name}")
    return variables
