"""What a new instance does with what the last one left."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from llamaweb.boot import EXIT_BAD_CONFIG, Boot, boot_from
from llamaweb.env import Env
from llamaweb.run import manager
from llamaweb.run.config import ConfigError
from llamaweb.run.instance import lock_data_dir


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Boot, Path]:
    """An instance that can't be started, and a metric file of the last one."""
    config = boot_from(Env(data_dir=tmp_path / "d"))
    counters = config.data_dir.metrics / "counter_123.db"
    counters.touch()

    def stop_here(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise ConfigError("stop here")

    monkeypatch.setattr(manager, "boot", lambda: config)
    monkeypatch.setattr(manager, "write_config", stop_here)
    return config, counters


def test_counters_start_at_zero(left: tuple[Boot, Path]) -> None:
    config, counters = left
    assert manager.main([]) == EXIT_BAD_CONFIG
    assert not counters.exists()
    assert config.data_dir.metrics.is_dir()


def test_the_counters_of_a_running_instance_stay(left: tuple[Boot, Path]) -> None:
    config, counters = left
    with lock_data_dir(config.data_dir.root, config.data_dir.run):
        assert manager.main([]) == EXIT_BAD_CONFIG
    assert counters.exists()
