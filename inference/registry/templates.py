"""What a model's chat template can take, found out in a process that can be killed."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Final

from inference.text.capabilities import TemplateCapabilities, probe
from inference.text.chat_template import RenderJob
from inference.text.render_process import TemplateRenderer
from llamaweb.lib.errors import InvalidError, LlamawebError

PROBE_TIMEOUT_S: Final = 10.0  # for the dozen of renderings together
RENDER_TIMEOUT_S: Final = 2.0


def template_probe(template: str) -> TemplateCapabilities:
    """Render small chats with `template` and look at what comes of them.

    Raises:
        InvalidError: it can't be used: no template, or it needs too much time or memory.
        FailedError: no process could be started for it.
    """
    renderer = TemplateRenderer(template, timeout_s=RENDER_TIMEOUT_S)
    ends_ts = time.monotonic() + PROBE_TIMEOUT_S

    def render(job: RenderJob) -> str:
        if time.monotonic() > ends_ts:
            raise InvalidError(f"the chat template takes longer than {PROBE_TIMEOUT_S:g} s")
        return renderer.render_job(job)

    try:
        return probe(render)
    finally:
        renderer.close()


def template_facts(templates: dict[str, str]) -> dict[str, Any]:
    """What a row keeps of the main one: `{"can": {…}}`, `{"error": why}`, or nothing."""
    template = templates.get("")
    if not template:
        return {}
    try:
        return {"can": dataclasses.asdict(template_probe(template))}
    except LlamawebError as error:
        return {"error": error.message}
