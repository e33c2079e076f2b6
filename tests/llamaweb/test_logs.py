"""What is logged, and what never is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llamaweb.logs import hide_query

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import logging.config, logging
import structlog
from llamaweb.logs import configure_structlog, logging_config
configure_structlog()
logging.config.dictConfig(logging_config(level="INFO", as_json={as_json}))
structlog.contextvars.bind_contextvars(request_id="req_1")
structlog.get_logger("ours").info("started", generation_id="g1", slot=2)
logging.getLogger("theirs").warning("GET %s?%s", "/v1/models", "key=secret")
logging.getLogger("theirs").debug("too small")
logging.getLogger("django.request").error("Service Unavailable", extra={{"status_code": 503}})
def fail(prompt):
    raise RuntimeError("broken")
try:
    fail("a private prompt")
except RuntimeError:
    structlog.get_logger("ours").exception("failed")
"""


def run(*, as_json: bool) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(as_json=as_json)],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == ""
    return result.stderr.splitlines()


def test_json_has_one_object_a_line() -> None:
    first, second, third = (json.loads(line) for line in run(as_json=True))
    assert first["event"] == "started"
    assert (first["generation_id"], first["slot"], first["request_id"]) == ("g1", 2, "req_1")
    assert (first["level"], first["logger"]) == ("info", "ours")
    assert (second["event"], second["request_id"]) == ("GET /v1/models?…", "req_1")
    assert "RuntimeError: broken" in third["exception"]
    assert "private prompt" not in third["exception"]


def test_text_has_the_same_and_no_local_variables() -> None:
    text = "\n".join(run(as_json=False))
    assert "generation_id=g1" in text
    assert "secret" not in text
    assert "too small" not in text
    assert "Service Unavailable" not in text
    assert "prompt = " not in text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("GET /a?b=c HTTP", "GET /a?… HTTP"),
        ('"/a/b?x=1&y=2"', '"/a/b?…"'),
        ("is this so? yes", "is this so? yes"),
        ("/a?", "/a?"),
        ("GET /setup/Abc-1_2/ HTTP", "GET /setup/…/ HTTP"),
        ("/accounts/password/reset/key/1-abc-def/", "/accounts/password/reset/key/…/"),
    ],
)
def test_queries_are_hidden(text: str, hidden: str) -> None:
    assert hide_query(text) == hidden
