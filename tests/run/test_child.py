"""What is started through child.py can't outlive its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from llamaweb.run.child import EXIT_NOT_FOUND, EXIT_ORPHAN, PARENT_VARIABLE, take_lock
from llamaweb.run.steps import CHILD
from tests.stack import wait_for

STARTER = [sys.executable, "-I", "-S", str(CHILD)]
PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(300)
"""
NOTE_SIGNAL = """
import pathlib, signal, sys, time
def note(number, frame):
    pathlib.Path(sys.argv[1]).write_text(str(number))
    sys.exit()
signal.signal(signal.SIGTERM, note)
pathlib.Path(sys.argv[2]).touch()
time.sleep(300)
"""
TELL = """
import json, os, resource, sys
core = resource.getrlimit(resource.RLIMIT_CORE)
print(json.dumps([os.umask(0), core, os.environ["CHILD_OF"], os.getpid()]))
"""


def environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != PARENT_VARIABLE} | more


@pytest.fixture
def parent_of() -> Iterator[object]:
    """Start a parent that starts a command; (parent, the command's process)."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: str) -> tuple[subprocess.Popen[str], psutil.Process]:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, *command],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        started.append(parent)
        assert parent.stdout is not None
        return parent, psutil.Process(int(parent.stdout.readline()))

    yield start
    for parent in started:
        parent.kill()
        parent.communicate()


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_killed_parent_takes_its_child_along(parent_of) -> None:
    parent, child = parent_of(*STARTER, "--", "sleep", "300")
    wait_for("the command runs", lambda: child.name() == "sleep", 10)
    parent.kill()
    wait_for("the child is gone", lambda: has_ended(child), 5)


def test_the_death_signal_can_be_one_to_save_on(parent_of, tmp_path: Path) -> None:
    note, up = tmp_path / "note", tmp_path / "up"
    command = (sys.executable, "-c", NOTE_SIGNAL, str(note), str(up))
    parent, child = parent_of(*STARTER, "--death-signal", "TERM", "--", *command)
    wait_for("the command runs", up.exists, 10)
    parent.kill()
    wait_for("the child is gone", lambda: has_ended(child), 5)
    assert note.read_text() == str(int(signal.SIGTERM))


def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    done = subprocess.run(
        [*STARTER, "--", "echo", "started"],
        env=environment(**{PARENT_VARIABLE: "1"}),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (EXIT_ORPHAN, "")


def test_a_child_of_the_expected_parent_starts() -> None:
    done = subprocess.run(
        [*STARTER, "--", "echo", "started"],
        env=environment(**{PARENT_VARIABLE: str(os.getpid())}),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (0, "started\n")


def test_no_core_no_readable_files_and_a_name_for_grandchildren() -> None:
    done = subprocess.run(
        [*STARTER, "--", sys.executable, "-c", TELL],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    umask, core, expected_parent, pid = json.loads(done.stdout)
    assert umask == 0o077
    assert core == [0, 0]
    assert expected_parent == str(pid)


def test_the_lock_is_held_as_long_as_the_command_lives(parent_of, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    parent, child = parent_of(*STARTER, "--lock", str(lock), "--", "sleep", "300")
    wait_for("the command runs", lambda: child.name() == "sleep", 10)
    second = subprocess.Popen(
        [*STARTER, "--lock", str(lock), "--", "echo", "mine"],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        waiting = psutil.Process(second.pid)
        wait_for("the second waits", lambda: len(waiting.open_files()) > 0, 10)
        assert second.poll() is None
        parent.kill()
        assert second.communicate(timeout=20) == ("mine\n", None)
    finally:
        second.kill()
        second.wait()


def test_a_lock_that_never_frees_ends_the_wait(tmp_path: Path) -> None:
    assert take_lock(str(tmp_path / "lock"))
    assert not take_lock(str(tmp_path / "lock"), wait_s=0.1)


def test_a_missing_command_is_said() -> None:
    done = subprocess.run(
        [*STARTER, "--", "/does/not/exist"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == EXIT_NOT_FOUND
    assert "can't start /does/not/exist" in done.stderr
