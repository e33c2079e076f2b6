"""A host with room for one model, and requests to it that take their time."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Collection
from typing import Any

import psutil

from llamaweb.data_dir import DataDir
from tests.faults import schedule
from tests.faults.conftest import queue_of
from tests.stack import Stack, wait_for

ANSWER_S = 120.0


class Host:
    """A running instance with several models, and a key for it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.key = stack.create_key()
        self.queue = queue_of(stack)

    def ask(self, model: str, text: str, **fields: Any) -> Answer:
        """A chat request, answered in a thread of its own; `fields` are more of its body."""
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return Answer(self, "/v1/chat/completions", {"model": model, **body})

    def complete(self, model: str, prompt: str, **fields: Any) -> Answer:
        """As `ask`, for models without a chat template."""
        return Answer(self, "/v1/completions", {"model": model, "prompt": prompt, **fields})

    def reason(self, model: str) -> str:
        """Why it isn't there, as administrators are told; "" if it is."""
        said = (str(e.info.get("reason", "")) for e in self.queue.engines(model) if not e.is_silent)
        return next(filter(None, said), "")

    def loads(self) -> dict[str, float]:
        """How often each model was loaded."""
        return self.metric("llamaweb_model_loads_total")

    def metric(self, name: str) -> dict[str, float]:
        """One that is told by model, from /metrics."""
        token = DataDir(self.stack.data_dir).key("metrics_token")
        _, text = self.request("GET", "/metrics", None, token)
        found = re.findall(rf'^{name}{{model="([^"]+)"}} (\S+)$', text, re.MULTILINE)
        return {model: float(number) for model, number in found}

    def wait_reason(self, model: str, expected: str) -> None:
        """Until that is said."""
        wait_for(f"the reason {expected!r}", lambda: self.reason(model) == expected, 30)

    def request(self, method: str, path: str, body: Any, key: str) -> tuple[int, str]:
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=120)
        try:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def kill_while_answering(host: Host, seed: int, answers: Collection[Answer]) -> list[Any]:
    """Kill engines and the supervisor as the schedule of `seed` says while `answers` are waited
    for; the bodies of those that came. Each has ended once, with an answer or an error that says
    why; no lease, no request, and no engine but the supervisor's one that has room is left."""
    targets = ("engine", "supervisor", "engine")
    schedule.disturb(host.stack, schedule.schedule(seed, targets))
    bodies = []
    for answer in answers:
        status, body = answer.reply()
        if status == 200:
            bodies.append(body)
        else:  # its model was killed twice while it was loaded, or twice under this answer
            assert status in (500, 503)
            assert re.search("can't be loaded|engine", body["error"]["message"]), body
    for model in {answer.model for answer in answers}:
        wait_for("no lease is left", lambda m=model: not host.queue.load(m).running, 30)
        assert host.queue.load(model).waiting == 0
    wait_for("one engine at most", lambda: len(host.stack.processes("engine")) <= 1, 30)
    wait_for("no orphan is left", lambda: not _orphans(host.stack), 30)
    return bodies


def _orphans(stack: Stack) -> list[int]:
    """Engines that no living supervisor looks after."""
    supervisors = {process.pid for process in stack.processes("supervisor")}
    found = []
    for engine in stack.processes("engine"):
        with contextlib.suppress(psutil.NoSuchProcess):
            if engine.ppid() not in supervisors:
                found.append(engine.pid)
    return found


class Answer:
    """A request from a thread of its own."""

    def __init__(self, host: Host, path: str, body: dict[str, Any]) -> None:
        self._host, self._path, self._body = host, path, body
        self._reply: tuple[int, str] | None = None
        self.model = str(body["model"])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._reply is not None

    def _run(self) -> None:
        self._reply = self._host.request("POST", self._path, self._body, self._host.key)

    def raw(self) -> tuple[int, str]:
        """Status and body, when it has ended."""
        self._thread.join(ANSWER_S)
        assert self._reply is not None
        return self._reply

    def reply(self) -> tuple[int, Any]:
        """As `raw`, the body parsed."""
        status, body = self.raw()
        return status, json.loads(body)

    def choice(self) -> dict[str, Any]:
        """The first choice of an answer that came."""
        status, body = self.reply()
        assert status == 200, body
        choice: dict[str, Any] = body["choices"][0]
        return choice

    def text(self) -> str:
        """Of a chat's answer that came."""
        return str(self.choice()["message"]["content"])
