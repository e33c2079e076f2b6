"""Real processes: started as `make run` does, killed in every way, gone when told to go."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from llamaweb.boot import EXIT_BAD_CONFIG
from tests.stack import STOP_S, Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]

PROCESSES = ("redis", "web", "jobs", "beat", "supervisor", "engine", "supervisord")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One server for the tests that leave it running."""
    with Stack(tmp_path_factory.mktemp("running") / "data", is_bare=True) as stack:
        stack.wait_ready()
        yield stack


def answers(stack: Stack) -> bool:
    try:
        return stack.get("/health")[0] == 200
    except OSError:
        return False


def test_prints_the_address_once_it_answers(running: Stack) -> None:
    running.wait_output(rf"llamaweb is ready at {running.base_url}\n")
    running.wait_output(
        rf"first user: {running.base_url}/setup/[\w-]+/ \(works once.*\n.*manage\.py create_api_key"
    )
    assert running.get("/health") == (200, {"status": "ok"})


def test_keeps_its_files_to_itself(running: Stack) -> None:
    readable = [
        str(path)
        for path in running.data_dir.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ]
    assert readable == []


@pytest.mark.parametrize("name", PROCESSES)
def test_a_killed_process_is_started_again_and_said_so(running: Stack, name: str) -> None:
    said_before = len(running.output)
    pid = running.kill(name)
    running.wait_replaced(name, pid)
    if name != "engine":  # the supervisor's to tell, in its log
        running.wait_output(rf"^{name} +\| died \(signal 9", after=said_before)
    running.wait_ready()


@pytest.fixture(scope="module")
def second(running: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Another one beside it, with two web processes; the last of its tests ends it."""
    folder = tmp_path_factory.mktemp("second") / "data"
    with Stack(folder, env={"LLAMAWEB_WEB_WORKERS": "2"}) as stack:
        stack.wait_ready()
        yield stack


def test_a_second_instance_with_two_web_processes_runs_beside_it(
    running: Stack, second: Stack
) -> None:
    second.wait_output(r"^web2 +\| started")
    first, _ = second.processes("web")
    first.send_signal(signal.SIGSTOP)
    wait_for("the other web process answers", lambda: answers(second), 60)
    first.send_signal(signal.SIGCONT)
    assert answers(running)


def test_sigint_to_the_group_ends_everything_also_after_kills(
    running: Stack, second: Stack
) -> None:
    for name in ("supervisor", "redis", "web"):
        second.kill(name)
    assert second.stop(signal.SIGINT, group=True) == 0
    assert second.leftovers() == []
    assert answers(running)


def test_a_second_instance_on_the_same_folder_is_refused(running: Stack) -> None:
    assert running.popen is not None
    second = Stack(running.data_dir)
    second.start()
    assert second.wait_end() == EXIT_BAD_CONFIG
    second.wait_output(rf"LLAMAWEB_DATA_DIR: .* is in use .*\(pid {running.popen.pid}\)")
    assert running.get("/health")[0] == 200


def test_a_busy_port_is_said(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with Stack(tmp_path / "data", port=port) as stack:
            assert stack.wait_end() == EXIT_BAD_CONFIG
            stack.wait_output(rf"LLAMAWEB_PORT: can't listen on 127\.0\.0\.1:{port}")


def test_a_bad_setting_is_said_by_name(tmp_path: Path) -> None:
    with Stack(tmp_path / "data", env={"LLAMAWEB_PROT": "1"}) as stack:
        assert stack.wait_end() == EXIT_BAD_CONFIG
        stack.wait_output(r"LLAMAWEB_PROT: there is no such setting; did you mean LLAMAWEB_PORT")


def test_a_signal_during_the_start_ends_it(tmp_path: Path) -> None:
    with Stack(tmp_path / "data") as stack:
        stack.wait_output("preparing the database")
        stack.stop()
        assert stack.leftovers() == []


def test_nothing_outlives_the_manager_and_its_data_can_be_used_at_once(tmp_path: Path) -> None:
    with Stack(tmp_path / "data") as stack:
        stack.wait_ready()
        stack.snapshot()
        stack.kill("manager")
        stack.wait_end()
        stack.start()
        stack.wait_ready()
        stack.kill("manager")
        stack.wait_gone()


@pytest.mark.parametrize("group", [False, True], ids=["make alone", "the group"])
def test_make_can_be_told_to_stop(tmp_path: Path, group: bool) -> None:
    with Stack(tmp_path / "data", command=["make", "run"], is_bare=True) as stack:
        stack.wait_ready()
        assert stack.popen is not None
        assert stack.processes("manager")[0].ppid() == stack.popen.pid
        stack.kill("supervisord")
        stack.stop(signal.SIGTERM, group=group)
        stack.wait_gone(STOP_S)
        assert "stopped\n" in stack.output
