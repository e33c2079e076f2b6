"""Templates that came with a model are untrusted code: they are rendered in a child that can be
killed, with bounds on time and memory, no secrets in its environment and no file to open.

Pipe protocol, both ways: 4 bytes of length (big-endian), then that much JSON. The first message
is the template; the child answers `{"awake": true}`, `{"ready": true}`, then one answer a job.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from inference.text.chat_template import ChatTemplate, RenderJob, TemplateRefusedError
from llamaweb.lib.errors import FailedError, InvalidError

RENDER_TIMEOUT_S = 2.0
START_TIMEOUT_S = 60.0  # importing Jinja on a busy machine
MEMORY_BYTES = 512 * 1024 * 1024
MAX_MESSAGE_BYTES = 128 * 1024 * 1024
CPU_SLACK_S = 1  # the kernel's bound stands behind the caller's, for a caller that died
_HEAD_LEN = 4
_PR_SET_PDEATHSIG = 1
_ROOT = Path(__file__).resolve().parents[2]
_WARM_TEMPLATE = (
    "{{ 'é\\n' }}{{ [1] | tojson(indent=2) }}{{ 'a b' | wordwrap(2) }}{{ [1] | pprint }}"
    "{{ strftime_now('%Y') }}{{ messages[0].content + 'x' }}"
)
_TIMED_OUT = "the model's chat template took longer than {:g} s to render this prompt"
_DIED = "the model's chat template needs too much memory or time for this prompt"


class _ChildDiedError(Exception):
    """The pipe ended in the middle of a job."""


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
            except _ChildDiedError:
                self._kill()
                if not is_used:
                    raise InvalidError(_DIED) from None
            try:
                return self._render(message)
            except _ChildDiedError:
                self._kill()
                raise InvalidError(_DIED) from None

    def close(self) -> None:
        """End the child; a later job starts a new one."""
        with self._lock:
            self._kill()

    def _render(self, message: dict[str, Any]) -> str:
        child = self._child or self._start()
        try:
            _send(child.stdin, message, self._timeout_s)
            answer = _receive(child.stdout, self._timeout_s)
        except TimeoutError:
            self._kill()
            raise InvalidError(_TIMED_OUT.format(self._timeout_s)) from None
        return _text_of(answer)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            "PYTHONPATH": str(_ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
        }
        if "TZ" in os.environ:
            environment["TZ"] = os.environ["TZ"]
        child = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "inference.text.render_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            close_fds=True,
            bufsize=0,
        )
        self._child = child
        try:
            _send(child.stdin, self._hello, START_TIMEOUT_S)
            _receive(child.stdout, START_TIMEOUT_S)  # awake
        except (_ChildDiedError, TimeoutError) as error:
            self._kill()
            raise FailedError("the process that renders chat templates didn't start") from error
        try:
            answer = _receive(child.stdout, self._timeout_s)
        except (_ChildDiedError, TimeoutError):
            self._kill()
            raise InvalidError(_DIED) from None
        if "ready" not in answer:
            self._kill()
            _text_of(answer)  # raises what the child found wrong with the template
        return child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.wait()


def _text_of(answer: dict[str, Any]) -> str:
    if "refused" in answer:
        raise TemplateRefusedError(str(answer["refused"]))
    if "invalid" in answer:
        raise InvalidError(str(answer["invalid"]))
    return str(answer.get("text", ""))


def _send(pipe: IO[bytes] | None, message: dict[str, Any], timeout_s: float) -> None:
    assert pipe is not None
    try:
        body = json.dumps(message).encode()
    except RecursionError:
        raise InvalidError("the messages are nested too deeply") from None
    if len(body) > MAX_MESSAGE_BYTES:
        raise InvalidError(f"the messages are longer than {MAX_MESSAGE_BYTES} bytes")
    data = memoryview(len(body).to_bytes(_HEAD_LEN, "big") + body)
    ends_ts = time.monotonic() + timeout_s
    os.set_blocking(pipe.fileno(), False)
    while data:
        _wait(pipe, write=True, ends_ts=ends_ts)
        try:
            data = data[os.write(pipe.fileno(), data) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise _ChildDiedError from error


def _receive(pipe: IO[bytes] | None, timeout_s: float) -> dict[str, Any]:
    assert pipe is not None
    ends_ts = time.monotonic() + timeout_s
    body_len = int.from_bytes(_read(pipe, _HEAD_LEN, ends_ts), "big")
    if body_len > MAX_MESSAGE_BYTES:
        raise _ChildDiedError
    answer = json.loads(_read(pipe, body_len, ends_ts))
    assert isinstance(answer, dict)
    return answer


def _read(pipe: IO[bytes], num_bytes: int, ends_ts: float) -> bytes:
    pieces: list[bytes] = []
    while num_bytes:
        _wait(pipe, write=False, ends_ts=ends_ts)
        piece = os.read(pipe.fileno(), min(num_bytes, 1 << 20))
        if not piece:
            raise _ChildDiedError
        num_bytes -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)


def _wait(pipe: IO[bytes], *, write: bool, ends_ts: float) -> None:
    poller = select.poll()  # select() would fail above 1,024 open files
    poller.register(pipe.fileno(), select.POLLOUT if write else select.POLLIN)
    if not poller.poll(max(0.0, ends_ts - time.monotonic()) * 1000):
        raise TimeoutError


# --- the child


def main() -> None:
    """Serve the parent on standard input and output until either ends."""
    _die_with_parent()
    hello = _next_message()
    if hello is None:
        return
    _warm_up()
    _limit()
    _answer({"awake": True})
    _allow_cpu(hello["timeout_s"])  # compiling evaluates constant expressions already
    try:
        template = ChatTemplate(hello["template"], bos_token=hello["bos"], eos_token=hello["eos"])
    except InvalidError as error:
        _answer({"invalid": error.message})
        return
    _answer({"ready": True})
    while (message := _next_message()) is not None:
        _allow_cpu(hello["timeout_s"])
        _answer(_render_answer(template, message))


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


def _next_message() -> dict[str, Any] | None:
    head = _read_exactly(_HEAD_LEN)
    body = head and _read_exactly(int.from_bytes(head, "big"))
    if not body:
        return None
    message = json.loads(body)
    assert isinstance(message, dict)
    return message


def _read_exactly(num_bytes: int) -> bytes:
    data = sys.stdin.buffer.read(num_bytes)
    return data if len(data) == num_bytes else b""


def _answer(answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    sys.stdout.buffer.write(len(body).to_bytes(_HEAD_LEN, "big") + body)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
