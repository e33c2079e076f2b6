"""Templates that came with a model are untrusted code: they are rendered in a child that can be
killed, with bounds on time and memory, no secrets in its environment and no file to open.

The first message (`child_pipe`) is the template; the child answers `{"awake": true}`,
`{"ready": true}`, then one answer a job.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import signal
import subprocess
import threading
from typing import Any

from inference.text import child_pipe
from inference.text.chat_template import ChatTemplate, RenderJob, TemplateRefusedError
from inference.text.child_pipe import MAX_MESSAGE_BYTES, ChildDiedError
from llamaweb.lib.errors import FailedError, InvalidError

RENDER_TIMEOUT_S = 2.0
START_TIMEOUT_S = 60.0  # importing Jinja on a busy machine
MEMORY_BYTES = 512 * 1024 * 1024
CPU_SLACK_S = 1  # the kernel's bound stands behind the caller's, for a caller that died
_PR_SET_PDEATHSIG = 1
_WARM_TEMPLATE = (
    "{{ 'é\\n' }}{{ [1] | tojson(indent=2) }}{{ 'a b' | wordwrap(2) }}{{ [1] | pprint }}"
    "{{ strftime_now('%Y') }}{{ messages[0].content + 'x' }}"
)
_TIMED_OUT = "the model's chat template took longer than {:g} s to render this prompt"
_DIED = "the model's chat template needs too much memory or time for this prompt"


class TemplateRenderer:
    """Renders one template in one child, started when first needed and again after a kill.

    Safe to call from several threads; jobs run one after the other.
    """

    def __init__(
        self, template: str, bos: str = "", eos: str = "", timeout_s: float = RENDER_TIMEOUT_S
    ) -> None:
        self._hello = {"template": template, "bos": bos, "eos": eos, "timeout_s": timeout_s}
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def render_job(self, job: RenderJob) -> str:
        """The text of `job`.

        Raises:
            TemplateRefusedError: the template raised an error.
            InvalidError: it isn't a template, or a bound of time, memory or length was hit; the
                child is gone and the next job gets a new one.
            FailedError: no child could be started.
        """
        # Not asdict: it copies, and by recursion.
        message = {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}
        with self._lock:
            # A child left over from earlier jobs may have died since (its parent-death signal
            # also follows the thread that started it): one more try, with a new one.
            is_used = self._child is not None
            try:
                return self._render(message)
            except ChildDiedError:
                self._kill()
                if not is_used:
                    raise InvalidError(_DIED) from None
            try:
                return self._render(message)
            except ChildDiedError:
                self._kill()
                raise InvalidError(_DIED) from None

    def close(self) -> None:
        """End the child; a later job starts a new one."""
        with self._lock:
            self._kill()

    def _render(self, message: dict[str, Any]) -> str:
        child = self._child or self._start()
        try:
            child_pipe.send(child.stdin, _encoded(message), self._timeout_s)
            answer = child_pipe.receive(child.stdout, self._timeout_s)
        except TimeoutError:
            self._kill()
            raise InvalidError(_TIMED_OUT.format(self._timeout_s)) from None
        return _text_of(answer)

    def _start(self) -> subprocess.Popen[bytes]:
        zone = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
        child = child_pipe.start("inference.text.render_process", **zone)
        self._child = child
        try:
            child_pipe.send(child.stdin, _encoded(self._hello), START_TIMEOUT_S)
            child_pipe.receive(child.stdout, START_TIMEOUT_S)  # awake
        except (ChildDiedError, TimeoutError) as error:
            self._kill()
            raise FailedError("the process that renders chat templates didn't start") from error
        try:
            answer = child_pipe.receive(child.stdout, self._timeout_s)
        except (ChildDiedError, TimeoutError):
            self._kill()
            raise InvalidError(_DIED) from None
        if "ready" not in answer:
            self._kill()
            _text_of(answer)  # raises what the child found wrong with the template
        return child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child_pipe.end(child)


def _text_of(answer: dict[str, Any]) -> str:
    if "refused" in answer:
        raise TemplateRefusedError(str(answer["refused"]))
    if "invalid" in answer:
        raise InvalidError(str(answer["invalid"]))
    return str(answer.get("text", ""))


def _encoded(message: dict[str, Any]) -> bytes:
    try:
        body = json.dumps(message).encode()
    except RecursionError:
        raise InvalidError("the messages are nested too deeply") from None
    if len(body) > MAX_MESSAGE_BYTES:
        raise InvalidError(f"the messages are longer than {MAX_MESSAGE_BYTES} bytes")
    return body


# --- the child


def main() -> None:
    """Serve the parent on standard input and output until either ends."""
    _die_with_parent()
    hello = child_pipe.next_message()
    if hello is None:
        return
    _warm_up()
    _limit()
    child_pipe.answer({"awake": True})
    _allow_cpu(hello["timeout_s"])  # compiling evaluates constant expressions already
    try:
        template = ChatTemplate(hello["template"], bos_token=hello["bos"], eos_token=hello["eos"])
    except InvalidError as error:
        child_pipe.answer({"invalid": error.message})
        return
    child_pipe.answer({"ready": True})
    while (message := child_pipe.next_message()) is not None:
        _allow_cpu(hello["timeout_s"])
        child_pipe.answer(_render_answer(template, message))


def _render_answer(template: ChatTemplate, message: dict[str, Any]) -> dict[str, str]:
    try:
        return {"text": template.render(RenderJob(**message))}
    except TemplateRefusedError as error:
        return {"refused": error.message}
    except InvalidError as error:
        return {"invalid": error.message}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop


def _warm_up() -> None:
    """Have Python and Jinja import what they import late: no file can be opened afterwards."""
    template = ChatTemplate(_WARM_TEMPLATE)
    for content in ("x", None):
        with contextlib.suppress(InvalidError):
            template.render(RenderJob([{"content": content}]))
    with contextlib.suppress(InvalidError):
        ChatTemplate("{% for %}")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # No further file or socket: the three standard ones are open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def _allow_cpu(timeout_s: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + timeout_s) + 1 + CPU_SLACK_S
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    main()
