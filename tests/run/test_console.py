"""What a person sees of the processes' logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamaweb.run.config import START_S
from llamaweb.run.console import Console, Filter, Follower
from llamaweb.run.lifecycle import Lifecycle, plain
from llamaweb.run.programs import Program


@pytest.mark.parametrize(
    ("line", "is_shown"),
    [
        ("2026-11-29T23:26:58Z [error    ] it broke [celery]", True),
        ("2026-11-29T23:26:58Z [warning  ] careful", True),
        ("2026-11-29T23:26:58Z [info     ] no error here", False),
        ('{"event": "x", "level": "error"}', True),
        ('{"event": "ERROR inside", "level": "info"}', False),
        ("[2026-11-29 23:15:11,123: WARNING/MainProcess] hm", True),
        ("[2026-11-29 23:15:11,123: INFO/MainProcess] Connected", False),
        ("just text", False),
    ],
)
def test_only_warnings_and_worse_are_shown(line: str, is_shown: bool) -> None:
    assert Filter().wants(line) is is_shown


def test_of_a_traceback_only_its_last_line() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in <module>',
        "    boom()",
        "ValueError: boom",
        "  an indented line afterwards",
    ]
    filter_ = Filter()
    assert [line for line in lines if filter_.wants(line)] == ["ValueError: boom"]


class TestFollower:
    def test_starts_at_the_end_and_keeps_unfinished_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "x.log"
        path.write_text("old\n")
        follower = Follower(path)
        with path.open("a") as stream:
            stream.write("new\nhal")
        assert follower.lines() == ["new"]
        with path.open("a") as stream:
            stream.write("f\n")
        assert follower.lines() == ["half"]
        follower.close()

    def test_a_file_that_appears_later_is_read_from_its_start(self, tmp_path: Path) -> None:
        follower = Follower(tmp_path / "x.log")
        assert follower.lines() == []
        (tmp_path / "x.log").write_text("first\n")
        assert follower.lines() == ["first"]
        follower.close()

    def test_goes_on_after_a_rotation(self, tmp_path: Path) -> None:
        path = tmp_path / "x.log"
        path.write_text("")
        follower = Follower(path)
        path.write_text("before\n")
        path.rename(tmp_path / "x.log.1")
        path.write_text("after\n")
        assert [*follower.lines(), *follower.lines()] == ["before", "after"]
        follower.close()


class TestLifecycle:
    def test_a_crash_is_said_with_its_signal_and_the_delay(self) -> None:
        lifecycle = Lifecycle()
        log = [
            "2026-11-29 23:00:00,000 INFO spawned: 'web' with pid 10",
            f"INFO success: web entered RUNNING state, process has stayed up for > than {START_S}",
            "WARN exited: web (terminated by SIGKILL; not expected)",
            "INFO spawned: 'web' with pid 11",
            "WARN exited: web (exit status 1; not expected)",
            "INFO spawned: 'web' with pid 12",
            "WARN exited: web (exit status 1; not expected)",
            "INFO reaped unknown pid 99 (exit status 0)",
        ]
        assert [(n.name, n.text) for n in map(lifecycle.feed, log) if n is not None] == [
            ("web", "started (pid 10)"),
            ("web", "died (signal 9, SIGKILL), starting it again"),
            ("web", "started again (pid 11)"),
            ("web", "died (exit status 1), starting it again in 1 s"),
            ("web", "started again (pid 12)"),
            ("web", "died (exit status 1), starting it again in 2 s"),
        ]

    def test_signals_in_words(self) -> None:
        assert plain("terminated by SIGSEGV (core dumped)") == "signal 11, SIGSEGV"
        assert plain("exit status 3") == "exit status 3"


def test_last_words_of_a_process_that_ended_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control = tmp_path / "supervisord.log"
    web = tmp_path / "web.log"
    control.write_text("")
    web.write_text("")
    console = Console(tmp_path, control, (Program("web", ("x",), 1),), verbose=False)
    web.write_text("No module named nothing\n\n")
    control.write_text("WARN exited: web (exit status 1; not expected)\n")
    console.poll()
    console.close()
    assert capsys.readouterr().out.splitlines() == [
        "web        | died (exit status 1), starting it again in 1 s",
        "web        | No module named nothing",
    ]
