"""Memory that is there, of a machine and of a container on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamaweb.lib.ram import Ram, read_ram

MEMINFO = "MemTotal:       8000 kB\nMemFree:  1 kB\nMemAvailable:   6000 kB\n"


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    path = tmp_path / "meminfo"
    path.write_text(MEMINFO)
    return path


def bound(folder: Path, most: str, current: int, files: int) -> Path:
    (folder / "memory.max").write_text(most)
    (folder / "memory.current").write_text(str(current))
    (folder / "memory.stat").write_text(f"anon 5\nactive_file {files}\ninactive_file 0\n")
    return folder


def test_this_machine() -> None:
    ram = read_ram()
    assert ram is not None
    assert 0 < ram.available <= ram.total


def test_a_machine(meminfo: Path, tmp_path: Path) -> None:
    assert read_ram(meminfo, tmp_path) == Ram(8_192_000, 6_144_000)


def test_a_container(meminfo: Path, tmp_path: Path) -> None:
    group = bound(tmp_path, "4000000", 3_000_000, 500_000)
    assert read_ram(meminfo, group) == Ram(4_000_000, 1_500_000)


@pytest.mark.parametrize("most", ["max", "99999999999", "nonsense"])
def test_a_container_without_a_bound(meminfo: Path, tmp_path: Path, most: str) -> None:
    assert read_ram(meminfo, bound(tmp_path, most, 1, 1)) == Ram(8_192_000, 6_144_000)


def test_nobody_can_tell(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("MemTotal: x")
    assert read_ram(tmp_path / "odd") is None
    assert read_ram(tmp_path / "absent") is None
