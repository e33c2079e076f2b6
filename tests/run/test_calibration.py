"""A new server measures its model once, says so meanwhile, and not again after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.model, pytest.mark.timeout(300)]
ENV = {"LLAMAWEB_ENGINE": "llama", "LLAMAWEB_ENGINE_CALIBRATION": "on"}
READY_S = 150.0
ROWS = (
    "import json; from inference.models import Calibration, MachineProbe; "
    "print(json.dumps([[[row.key, row.error, row.measured] for row in Calibration.objects.all()], "
    "MachineProbe.objects.count()]))"
)


def rows(stack: Stack) -> Any:
    return json.loads(stack.manage("shell", "--no-imports", "--command", ROWS).splitlines()[-1])


def health(stack: Stack) -> str:
    try:
        _, body = stack.get("/health")
    except OSError:
        return ""
    return str(body.get("error", {}).get("reason", ""))


def test_a_new_server_measures_its_model_once(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "data", env=ENV)
    with stack:
        wait_for("it says why", lambda: "is being measured" in health(stack), 90.0)
        stack.wait_ready(READY_S)
        (calibration,), num_machines = rows(stack)
        assert (calibration[1], num_machines) == ("", 1)
        assert calibration[2]["choice"]["threads"] >= 1
        stack.stop()
    with stack:
        stack.wait_ready(READY_S)
        assert "is being measured" not in stack.output
        assert rows(stack) == [[calibration], 1]
