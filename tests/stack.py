"""A whole server of its own for a test: real processes, a random port, its own data folder.

    with Stack(tmp_path) as stack:
        stack.wait_ready()
        stack.kill("web")
        ...
    assert stack.leftovers() == []

Every wait has a deadline; `stop` and `kill_all` never leave a process behind.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil

from llamaweb.data_dir import DataDir
from tests import seed_database

ROOT = Path(__file__).resolve().parent.parent
READY_S = 90.0
STOP_S = 10.0  # the promise: all ends within that
POLL_S = 0.05
OUTPUT_LINES = 5000
T = TypeVar("T")

# How the processes of an instance are told apart: words that all are in the command line.
MARKS: dict[str, tuple[str, ...]] = {
    "manager": ("llamaweb.run",),
    "supervisord": ("supervisord",),
    "redis": ("valkey",),
    "web": ("llamaweb.run.web",),
    "supervisor": ("runsupervisor",),
    "engine": ("inference.worker",),
    "jobs": ("llamaweb.run.jobs",),
    "beat": ("llamaweb.run.beat",),
}


def wait_for(
    what: str, condition: Callable[[], T | None], timeout_s: float, poll_s: float = POLL_S
) -> T:
    """Poll `condition` until it is true and return its value.

    Raises:
        TimeoutError: naming `what`.
    """
    deadline_ts = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline_ts:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(poll_s)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """One instance, started as `make run` starts it (after the installation).

    Args:
        data_dir: its DATA_DIR; survives `stop`, so a second `start` finds the same data.
        env: more variables; the mock engine is the default.
        port: a free one when 0.
        command: what to run; `python -m llamaweb.run` by default.
        is_bare: it makes its database itself, instead of finding an empty one that was migrated.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        env: Mapping[str, str] | None = None,
        port: int = 0,
        command: list[str] | None = None,
        is_bare: bool = False,
    ) -> None:
        self.data_dir = data_dir
        self.port = port or free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.command = command or [sys.executable, "-m", "llamaweb.run"]
        self.env = _clean_environment() | {
            "LLAMAWEB_DATA_DIR": str(data_dir),
            "LLAMAWEB_PORT": str(self.port),
            "LLAMAWEB_ENGINE": "mock",
            "LLAMAWEB_ENGINE_CALIBRATION": "off",
            "PYTHONUNBUFFERED": "1",
        }
        self.env.update(env or {})
        self.is_bare = is_bare
        self.popen: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._seen: dict[int, psutil.Process] = {}
        self._admins: set[str] = set()

    # --- life

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill_all()

    def start(self) -> None:
        """Start it in a process group of its own, headless; returns at once."""
        self._lines = []
        if not self.is_bare and not DataDir(self.data_dir).database.exists():
            seed_database.copy_to(DataDir(self.data_dir).database)
        self.popen = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self.popen,), daemon=True).start()

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Until GET /health is 200.

        Raises:
            TimeoutError: with the last answer and what the console said.
        """
        with self._output_on_timeout():
            wait_for("/health is 200", self._is_ready_or_dead, timeout_s, 0.1)
        if not self.is_running:
            raise RuntimeError(f"the server ended:\n{self.output}")

    def stop(self, number: int = signal.SIGTERM, *, group: bool = False) -> int:
        """Send a signal to the manager (or its whole group) and wait for its end.

        Returns the exit status; raises TimeoutError past the promised 10 s.
        """
        assert self.popen is not None
        self.snapshot()
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.popen.pid, number)
        return self.wait_end()

    def wait_end(self, timeout_s: float = STOP_S) -> int:
        """Wait until the manager has ended by itself; its exit status."""
        assert self.popen is not None
        popen = self.popen
        with self._output_on_timeout():
            wait_for("the manager ended", lambda: popen.poll() is not None, timeout_s)
        return int(popen.returncode)

    def kill_all(self) -> None:
        """End everything at once, whatever state it is in (clean-up)."""
        self.snapshot()
        for process in [*self._seen.values(), *self._by_environment()]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self.popen is not None:
            self.popen.wait(STOP_S)
        wait_for("all processes are gone", lambda: not self.leftovers(), STOP_S)

    # --- processes

    @property
    def is_running(self) -> bool:
        """Whether the manager lives."""
        return self.popen is not None and self.popen.poll() is None

    def snapshot(self) -> list[psutil.Process]:
        """All living processes of the instance, remembered for `leftovers`."""
        if self.popen is not None:
            with contextlib.suppress(psutil.Error):
                manager = psutil.Process(self.popen.pid)
                for process in [manager, *manager.children(recursive=True)]:
                    self._seen[process.pid] = process
        for process in self._by_environment():
            self._seen[process.pid] = process
        return [process for process in self._seen.values() if _is_alive(process)]

    def processes(self, name: str) -> list[psutil.Process]:
        """The living processes called `name` (see MARKS), oldest first."""
        found = [p for p in self.snapshot() if _is_called(p, name)]
        return sorted(found, key=lambda process: process.create_time())

    def wait_process(self, name: str, timeout_s: float = 30.0) -> psutil.Process:
        """The oldest process called `name`, waiting for it to appear."""
        with self._output_on_timeout():
            return wait_for(f"a {name} process", lambda: self.processes(name), timeout_s)[0]

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to the oldest process called `name`; returns its pid."""
        process = self.wait_process(name)
        process.send_signal(number)
        return int(process.pid)

    def wait_replaced(self, name: str, old_pid: int, timeout_s: float = 30.0) -> psutil.Process:
        """Wait until `name` runs and `old_pid` doesn't; the new process."""

        def replaced() -> list[psutil.Process]:
            found = self.processes(name)
            return [] if any(p.pid == old_pid for p in found) else found

        with self._output_on_timeout():
            return wait_for(f"{name} is started again", replaced, timeout_s)[0]

    def leftovers(self) -> list[str]:
        """Command lines of processes that are still alive."""
        return [_command_line(process) for process in self.snapshot()]

    def wait_gone(self, timeout_s: float = STOP_S) -> None:
        """Wait until nothing of the instance runs any more."""
        with self._output_on_timeout():
            wait_for("nothing is left running", lambda: not self.leftovers(), timeout_s)

    # --- what it says and answers

    @property
    def output(self) -> str:
        """What the console has shown since `start`."""
        return "".join(self._lines)

    def wait_output(
        self, pattern: str, timeout_s: float = 30.0, *, after: int = 0
    ) -> re.Match[str]:
        """Wait for a regular expression in the console's output after its first characters."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self.output[after:], re.MULTILINE)

        with self._output_on_timeout():
            return wait_for(f"the console shows {pattern!r}", found, timeout_s)

    def get(self, path: str, timeout_s: float = 5.0) -> tuple[int, Any]:
        """GET a path of the server: status and body (parsed when it is JSON)."""
        parts = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read().decode(errors="replace")
            with contextlib.suppress(ValueError):
                return response.status, json.loads(body)
            return response.status, body
        finally:
            connection.close()

    def manage(self, *arguments: str, timeout_s: float = 60.0, **env: str) -> str:
        """Run a manage.py command on the instance's data; its standard output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"manage.py {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    @staticmethod
    def password(user: str) -> str:
        """The password of every user that is made here."""
        return f"correct horse {user} battery"

    def create_admin(self, user: str = "alice") -> None:
        """A superuser, unless the user exists already."""
        if user in self._admins:
            return
        self._admins.add(user)
        with contextlib.suppress(RuntimeError):
            self.manage(
                "createsuperuser",
                "--noinput",
                DJANGO_SUPERUSER_USERNAME=user,
                DJANGO_SUPERUSER_EMAIL=f"{user}@example.org",
                DJANGO_SUPERUSER_PASSWORD=self.password(user),
            )

    def create_user(self, user: str) -> None:
        """Somebody without rights."""
        code = (
            "from django.contrib.auth import get_user_model as model; "
            f"model().objects.create_user({user!r}, password={self.password(user)!r})"
        )
        self.manage("shell", "--no-imports", "--command", code)

    def create_key(self, user: str = "alice") -> str:
        """A user (made when missing) and a new API key for it."""
        self.create_admin(user)
        return self.manage("create_api_key", user, "--name", "test").strip().splitlines()[-1]

    # --- inside

    def _read(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdout is not None
        for line in popen.stdout:
            self._lines.append(line)
            del self._lines[:-OUTPUT_LINES]
        popen.stdout.close()

    def _is_ready_or_dead(self) -> bool:
        if not self.is_running:
            return True
        self.snapshot()
        try:
            return self.get("/health", timeout_s=2.0)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _by_environment(self) -> Iterator[psutil.Process]:
        """Processes that were given our data folder, even when they lost their parent."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("LLAMAWEB_DATA_DIR") == str(self.data_dir):
                    yield process

    @contextlib.contextmanager
    def _output_on_timeout(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise TimeoutError(f"{error}\nThe console said:\n{self.output}") from None


def _clean_environment() -> dict[str, str]:
    """This process's environment without what configures an instance."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LLAMAWEB_")
        and name not in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE", "CHILD_OF")
    }


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _command_line(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid}: {' '.join(process.cmdline())}"
    return f"{process.pid}: ended"


def _is_called(process: psutil.Process, name: str) -> bool:
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        is_starter = any(word.endswith("run/child.py") for word in words)
        if name == "manager" and "llamaweb.run" not in words:
            return False
        return not is_starter and all(any(m in word for word in words) for m in MARKS[name])
    return False
