"""What a model's chat template can take, found out in a process that can be killed."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Final

from inference.protocol.requests import ChatPrompt, Message
from inference.text.capabilities import TemplateCapabilities
from inference.text.chat_renderer import ChatRenderer
from inference.text.chat_template import RenderJob
from inference.text.render_process import TemplateRenderer
from llamaweb.lib.errors import InvalidError, LlamawebError

PROBE_TIMEOUT_S: Final = 10.0  # for the dozen of renderings together
RENDER_TIMEOUT_S: Final = 2.0
WORD: Final = "qvword"


class _Renderer:
    """Renders in a child, for `PROBE_TIMEOUT_S` in all."""

    def __init__(self, template: str) -> None:
        self._renderer = TemplateRenderer(template, timeout_s=RENDER_TIMEOUT_S)
        self._ends_ts = time.monotonic() + PROBE_TIMEOUT_S

    def render_job(self, job: RenderJob) -> str:
        """See `JobRenderer`."""
        if time.monotonic() > self._ends_ts:
            raise InvalidError(f"the chat template takes longer than {PROBE_TIMEOUT_S:g} s")
        return self._renderer.render_job(job)

    def close(self) -> None:
        """End the child."""
        self._renderer.close()


def template_probe(template: str) -> TemplateCapabilities:
    """Render small chats with `template` and look at what comes of them.

    Raises:
        InvalidError: it can't be used: no template, or it needs too much time or memory.
        FailedError: no process could be started for it.
    """
    renderer = ChatRenderer(_Renderer(template))
    try:
        return renderer.capabilities()
    finally:
        renderer.close()


def template_check(template: str) -> None:
    """Whether a model can be given `template` in place of its own; "" for its own.

    Raises:
        InvalidError: it can't be read, needs too much time or memory, or leaves out what people
            say.
        FailedError: no process could be started for it.
    """
    if not template:
        return
    renderer = ChatRenderer(_Renderer(template))
    try:
        text = renderer.render(ChatPrompt((Message("user", WORD),)))
    except InvalidError as error:
        raise InvalidError(error.message, param="chat_template") from error
    finally:
        renderer.close()
    if WORD not in text:
        raise InvalidError("this chat template leaves out what people say", param="chat_template")


def template_facts(templates: dict[str, str]) -> dict[str, Any]:
    """What a row keeps of the main one: `{"can": {…}}`, `{"error": why}`, or nothing."""
    template = templates.get("")
    if not template:
        return {}
    try:
        return {"can": dataclasses.asdict(template_probe(template))}
    except LlamawebError as error:
        return {"error": error.message}
