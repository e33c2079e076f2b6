"""What supervisord's log says about a process, in a person's words."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

SPAWNED = re.compile(r"spawned: '(?P<name>[^']+)' with pid (?P<pid>\d+)")
RUNNING = re.compile(r"success: (?P<name>\S+) entered RUNNING state")
EXITED = re.compile(r"exited: (?P<name>\S+) \((?P<how>[^;)]+)")
SPAWN_ERROR = re.compile(r"spawnerr: (?P<what>.+)")
KILLED = re.compile(r"killing '(?P<name>[^']+)' \(\d+\) with SIGKILL")


@dataclass(frozen=True, slots=True)
class News:
    """What happened to a process; `is_failure`: it ended by itself, so its log knows why."""

    name: str
    text: str
    is_failure: bool = False


class Lifecycle:
    """Follows every process through the log."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self._running: set[str] = set()
        self._quick_deaths: dict[str, int] = {}

    def feed(self, line: str) -> News | None:
        """What one line of supervisord.log means; None when nobody needs to know."""
        if match := SPAWNED.search(line):
            return self._spawned(match["name"], int(match["pid"]))
        if match := RUNNING.search(line):
            self._running.add(match["name"])
            self._quick_deaths.pop(match["name"], None)
            return None
        if match := EXITED.search(line):
            return self._exited(match["name"], match["how"])
        if match := KILLED.search(line):
            return News(match["name"], "did not end in time and was killed")
        if match := SPAWN_ERROR.search(line):
            return News("supervisord", match["what"])
        return None

    def _spawned(self, name: str, pid: int) -> News:
        again = " again" if name in self.pids else ""
        self.pids[name] = pid
        return News(name, f"started{again} (pid {pid})")

    def _exited(self, name: str, how: str) -> News:
        """supervisord waits one second longer after each death that came before START_S."""
        is_failure = "terminated by" not in how and how != "exit status 0"
        if name in self._running:
            self._running.discard(name)
            return News(name, f"died ({plain(how)}), starting it again", is_failure)
        deaths = self._quick_deaths.get(name, 0) + 1
        self._quick_deaths[name] = deaths
        return News(name, f"died ({plain(how)}), starting it again in {deaths} s", is_failure)


def plain(how: str) -> str:
    """terminated by SIGKILL → signal 9, SIGKILL."""
    match = re.match(r"terminated by (SIG\w+)", how)
    if match is None:
        return how
    try:
        return f"signal {int(signal.Signals[match[1]])}, {match[1]}"
    except KeyError:
        return match[1]
