"""Long commands: progress without a terminal, failures with their output, a clean end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from llamaweb.run.steps import Phase, Step, StepError, run_step
from tests.stack import ROOT, wait_for


def step(tmp_path: Path, code: str, **more: object) -> Step:
    values: dict[str, object] = {
        "title": "testing",
        "command": [sys.executable, "-u", "-c", code],
        "log": tmp_path / "step.log",
        "cwd": tmp_path,
        "env": dict(os.environ),
    }
    return Step(**(values | more))


def test_says_that_it_goes_on_and_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import pathlib, time; print('Building big thing')\n"
        "while not pathlib.Path('enough').exists(): time.sleep(0.01)"
    )
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            (tmp_path / "enough").touch()

    monkeypatch.setattr("llamaweb.run.steps.say", say)
    phases = (Phase("Building big", "building it (once)"),)
    run_step(step(tmp_path, code, phases=phases), heartbeat_s=0.2)
    assert said[0] == "· testing …"
    assert re.match(r"  building it \(once\) … \d+ s$", said[3])


def test_a_failure_shows_the_end_of_the_output_and_its_file(tmp_path: Path) -> None:
    code = "import sys\nfor i in range(99): print('line', i)\nsys.exit(3)"
    with pytest.raises(StepError) as caught:
        run_step(step(tmp_path, code, hint="  Install a compiler."))
    message = str(caught.value)
    assert "testing failed (exit status 3)" in message
    assert "line 98" in message
    assert "line 20\n" not in message
    assert str(tmp_path / "step.log") in message
    assert message.endswith("Install a compiler.")


def test_a_command_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="can't start"):
        run_step(step(tmp_path, "", command=["/does/not/exist"]))


STOPPED = """
import os, sys
from pathlib import Path
from llamaweb.run.steps import Step, run_step
code = "import subprocess, sys; subprocess.run(['sleep', '300'])"
run_step(Step("waiting", [sys.executable, "-c", code], Path(sys.argv[1]), Path("."), os.environ))
"""


def test_sigterm_ends_the_command_and_its_children(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path / "log")], cwd=ROOT)
    try:
        ours = psutil.Process(process.pid)

        def sleeping() -> list[psutil.Process]:
            return [p for p in ours.children(recursive=True) if p.name() == "sleep"]

        [sleep] = wait_for("the inner command", sleeping, 20)
        process.terminate()
        assert process.wait(20) == 128 + 15
        wait_for("its child has ended", lambda: not sleep.is_running(), 10)
    finally:
        process.kill()
        process.wait()
