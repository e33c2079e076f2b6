"""An engine process loads neither Django nor the database, and every pure package stands alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORBIDDEN = ("django", "channels", "celery", "ninja", "llamaweb.settings", "llamaweb.env")
PURE = (
    *("inference.protocol.codec", "inference.engine.engine", "inference.text.prompts"),
    *("conversations.parts", "conversations.tree", "conversations.turns.machine"),
    *("conversations.contracts", "conversations.titles"),
)


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["inference.worker.__main__", *PURE])
def test_no_framework_is_loaded(module: str) -> None:
    assert loaded_by(module).isdisjoint(FORBIDDEN)


@pytest.mark.parametrize("module", PURE)
def test_pure_packages_know_no_redis(module: str) -> None:
    assert "redis" not in loaded_by(module)


def test_llama_cpp_is_loaded_by_its_door_only() -> None:
    assert "llama_cpp" not in loaded_by("inference.worker.__main__")
