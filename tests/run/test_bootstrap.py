"""Which installation steps run when. The commands themselves are recorded, not run."""

from __future__ import annotations

import py_compile
import re
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from llamaweb.run import bootstrap as module
from llamaweb.run.bootstrap import DEV_LOCK, OWN_PACKAGES, RUN_LOCK, Bootstrap, checkout_lock
from llamaweb.run.steps import Step, StepError
from tests.stack import ROOT

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)


class Recorder(Bootstrap):
    """A checkout in a folder of its own; each step only says what it would run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, {"PATH": "/usr/bin"})
        self.commands: list[str] = []


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    (tmp_path / RUN_LOCK).write_text("a==1\n")
    (tmp_path / DEV_LOCK).write_text("a==1\nb==1\n")
    (tmp_path / "requirements-uv.lock").write_text("uv==1\n")
    (tmp_path / "pyproject.toml").write_text("[tool.uv]\nx = 1\n")
    (tmp_path / "frontend" / "src").mkdir(parents=True)
    (tmp_path / "frontend" / "package-lock.json").write_text("{}")
    node = tmp_path / ".venv" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\necho v24.0.0\n")
    node.chmod(0o700)
    recorder = Recorder(tmp_path)

    def run(step: Step) -> None:
        words = [word for word in step.command if not word.startswith("/")]
        recorder.commands.append(" ".join(words))
        if "compileall" in words:
            for path in tmp_path.rglob("*.py"):
                py_compile.compile(str(path), doraise=True)
        if words == ["run", "build"]:
            (tmp_path / "frontend" / "dist").mkdir(exist_ok=True)
            (tmp_path / "frontend" / "dist" / "manifest.json").write_text("{}")

    monkeypatch.setattr(module, "run_step", run)
    monkeypatch.setattr(module, "_works", lambda python: True)
    monkeypatch.setattr(module, "cpu_hash", lambda: "0123456789abcdef")
    return recorder


def syncs(checkout: Recorder) -> list[str]:
    found = [command.split()[-1] for command in checkout.commands if "pip sync" in command]
    checkout.commands.clear()
    return found


def test_the_second_run_does_nothing(checkout: Recorder) -> None:
    for _ in range(2):
        checkout.packages(dev=False)
        checkout.front_end()
    assert [
        command for command in checkout.commands if "sync" in command or "build" in command
    ] == [
        "pip sync --python --require-hashes --compile-bytecode --config-settings-package "
        "llama-cpp-python:cmake.define.LLAMAWEB_CPU=0123456789abcdef requirements.lock",
        "run build",
    ]


def test_own_code_is_compiled_again_when_it_changes(checkout: Recorder) -> None:
    for name in OWN_PACKAGES:
        (checkout.root / name).mkdir()
    (checkout.frontend / "urls.py").write_text("urlpatterns = []\n")
    how = "-q -j 0 --invalidation-mode checked-hash"  # valid by content, as the stamp is
    compiled = f"-m compileall {how} {' '.join(OWN_PACKAGES)} frontend/urls.py"
    for _ in range(2):
        checkout.bytecode()
    assert checkout.commands == [compiled]
    (checkout.root / "llamaweb" / "new.py").write_text("new = 1\n")
    checkout.bytecode()
    assert checkout.commands == [compiled, compiled]
    Path(cache_from_source(str(checkout.root / "llamaweb" / "new.py"))).unlink()
    for _ in range(2):
        checkout.bytecode()
    assert checkout.commands == [compiled] * 3


def test_development_packages_stay_once_they_are_in(checkout: Recorder) -> None:
    checkout.packages(dev=False)
    assert syncs(checkout) == [RUN_LOCK]
    checkout.packages(dev=True)
    assert syncs(checkout) == [DEV_LOCK]
    checkout.packages(dev=False)
    assert syncs(checkout) == []
    (checkout.root / DEV_LOCK).write_text("a==2\nb==1\n")
    checkout.packages(dev=False)
    assert syncs(checkout) == [DEV_LOCK]


def test_only_how_packages_are_built_counts_in_pyproject(checkout: Recorder) -> None:
    checkout.packages(dev=False)
    syncs(checkout)
    (checkout.root / "pyproject.toml").write_text("[tool.uv]\nx = 1\n[tool.ruff]\ny = 1\n")
    checkout.packages(dev=False)
    assert syncs(checkout) == []
    (checkout.root / "pyproject.toml").write_text("[tool.uv]\nx = 2\n")
    checkout.packages(dev=False)
    assert syncs(checkout) == [RUN_LOCK]


def test_another_cpu_gets_another_llama_cpp(
    checkout: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.packages(dev=False)
    checkout.commands.clear()
    monkeypatch.setattr(module, "cpu_hash", lambda: "fedcba9876543210")
    checkout.packages(dev=False)
    assert [" ".join(command.split()[:2]) for command in checkout.commands] == [
        "pip uninstall",
        "pip sync",
    ]
    assert "LLAMAWEB_CPU=fedcba9876543210" in checkout.commands[1]


def test_a_failed_step_is_done_again(checkout: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(step: Step) -> None:
        raise StepError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_step", fail)
        with pytest.raises(StepError, match="no network"):
            checkout.packages(dev=False)
    checkout.packages(dev=False)
    assert syncs(checkout) == [RUN_LOCK]


def test_the_front_end_is_built_again_when_its_source_changes(checkout: Recorder) -> None:
    checkout.front_end()
    (checkout.frontend / "node_modules").mkdir(exist_ok=True)
    checkout.commands.clear()
    (checkout.frontend / "src" / "new.ts").write_text("new")
    checkout.front_end()
    assert checkout.commands == ["run build"]
    (checkout.frontend / "dist" / "manifest.json").unlink()
    checkout.commands.clear()
    checkout.front_end()
    assert checkout.commands == ["run build"]


def test_two_installations_of_one_checkout_take_turns(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        checkout_lock(lock),
        pytest.raises(StepError, match="never ended"),
        checkout_lock(lock, wait_s=0.1),
    ):
        pass
    with checkout_lock(lock, wait_s=0.1):
        pass


def test_development_lock_holds_every_pin_of_the_other() -> None:
    pins = {name: dict(PIN.findall((ROOT / name).read_text())) for name in (RUN_LOCK, DEV_LOCK)}
    assert len(pins[RUN_LOCK]) > 50
    assert pins[RUN_LOCK].items() <= pins[DEV_LOCK].items()


@pytest.mark.parametrize(
    "name", [RUN_LOCK, DEV_LOCK, "requirements-uv.lock", "frontend/package-lock.json"]
)
def test_locks_hold_hashes_and_no_addresses_of_packages(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "sha256:" in text or '"integrity": "sha512-' in text
    assert '"resolved"' not in text
    assert not re.search(r"^--|@ http", text, re.MULTILINE)
