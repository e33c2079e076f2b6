"""The readable console: lifecycle lines and warnings of all processes, each with its name.

Everything a process says is in DATA_DIR/logs; the console follows those files, so it can neither
block nor lose a process when nobody reads it.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from llamaweb.run.lifecycle import Lifecycle, News
from llamaweb.run.programs import Program
from llamaweb.run.steps import read_tail, say

NAME_WIDTH = 10
READ_BYTES = 64 * 1024
LINE_CHARS = 2000
LINES_A_POLL = 40  # of one process; the rest is in its log
# Valkey's own format marks its warnings otherwise, and most of them concern big machines.
SILENT = frozenset({"redis"})
JSON_LEVEL = re.compile(r'"level": ?"(\w+)"')
TEXT_LEVEL = re.compile(
    r"\[(?P<bracket>debug|info|warning|error|critical) *\]"
    r"|\b(?P<word>DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|FATAL)\b"
)
LEVEL_CHARS = 300
SHOWN_LEVELS = frozenset({"warning", "error", "critical", "fatal"})


class Follower:
    """New lines of a log file, across rotation, from its end at the time of construction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: io.FileIO | None = None
        self._rest = b""
        self._open(at_end=True)

    def lines(self) -> list[str]:
        """What was written since the last call, complete lines only, at most 64 KiB."""
        if self._stream is None:
            self._open(at_end=False)
        if self._stream is None:
            return []
        data = self._stream.read(READ_BYTES) or b""
        if not data and self._was_rotated():
            self._open(at_end=False)
            return self.lines() if self._stream is not None else []
        *complete, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-LINE_CHARS:]
        return [line.decode(errors="replace")[:LINE_CHARS] for line in complete]

    def close(self) -> None:
        """Let the file go."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self, *, at_end: bool) -> None:
        self.close()
        self._rest = b""
        try:
            self._stream = io.FileIO(self.path)
        except FileNotFoundError:
            return
        if at_end:
            self._stream.seek(0, io.SEEK_END)

    def _was_rotated(self) -> bool:
        assert self._stream is not None
        try:
            ours, current = Path(f"/proc/self/fd/{self._stream.fileno()}").stat(), self.path.stat()
        except FileNotFoundError:
            return False
        return (ours.st_dev, ours.st_ino) != (current.st_dev, current.st_ino)


class Filter:
    """Which lines of a process are worth a person's attention: warnings and errors.

    Of a traceback only the last line is; the frames are in the log.
    """

    def __init__(self) -> None:
        self._in_traceback = False

    def wants(self, line: str) -> bool:
        """Whether to show `line`; lines of one process have to come in order."""
        if line.startswith("Traceback "):
            self._in_traceback = True
            return False
        if self._in_traceback:
            is_frame = line.startswith(" ") or not line.strip()
            self._in_traceback = is_frame
            return not is_frame
        return _level(line) in SHOWN_LEVELS


def _level(line: str) -> str:
    """The level a line says it has; empty when it says none."""
    if line.startswith("{"):
        match = JSON_LEVEL.search(line)
        return match[1].lower() if match else ""
    match = TEXT_LEVEL.search(line[:LEVEL_CHARS])
    return (match["bracket"] or match["word"]).lower() if match else ""


class Console:
    """Follows all logs of an instance; `poll` prints what is new."""

    def __init__(self, logs: Path, control_log: Path, found: tuple[Program, ...], *, verbose: bool):
        self.verbose = verbose
        self.lifecycle = Lifecycle()
        self._control = Follower(control_log)
        names = [name for program in found for name in program.process_names]
        self._followers = {name: Follower(logs / f"{name}.log") for name in names}
        self._filters = {name: Filter() for name in names}
        self._last_shown: dict[str, str] = {}

    def show(self, name: str, text: str) -> None:
        """One line of one process."""
        say(f"{name:<{NAME_WIDTH}} | {text}")

    def poll(self) -> None:
        """Print the new lines of every log."""
        for name, follower in self._followers.items():
            self._show_lines(name, follower.lines())
        for line in self._control.lines():
            news = self.lifecycle.feed(line)
            if news is not None:
                self.show(news.name, news.text)
                self._show_last_words(news)

    def close(self) -> None:
        """Let all files go."""
        for follower in (self._control, *self._followers.values()):
            follower.close()

    def _show_lines(self, name: str, lines: list[str]) -> None:
        wanted = [line for line in lines if self._wants(name, line)]
        for line in wanted[:LINES_A_POLL]:
            self.show(name, line)
            self._last_shown[name] = line
        if len(wanted) > LINES_A_POLL:
            more = len(wanted) - LINES_A_POLL
            self.show(name, f"… {more} more lines in {self._followers[name].path}")

    def _show_last_words(self, news: News) -> None:
        """Why a process ended by itself: the last line it wrote, unless just shown."""
        if not news.is_failure or self.verbose or news.name not in self._followers:
            return
        lines = read_tail(self._followers[news.name].path).split("\n")
        written = [line for line in lines if line.strip()]
        if written and written[-1] != self._last_shown.get(news.name):
            self.show(news.name, written[-1][:LINE_CHARS])

    def _wants(self, name: str, line: str) -> bool:
        if self.verbose:
            return bool(line.strip())
        return name not in SILENT and self._filters[name].wants(line)
