"""What a machine's files say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamaweb.lib.machine import read_hardware

X86 = """processor\t: 0
model name\t: AMD EPYC
flags\t\t: fpu avx2 amx_tile

processor\t: 1
model name\t: AMD EPYC
flags\t\t: fpu avx2 amx_tile
"""
ARM = """processor\t: 0
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "cpuinfo").write_text(X86)
    return tmp_path


def test_an_x86_processor(proc: Path) -> None:
    hardware = read_hardware(proc)
    assert (hardware.cpu, hardware.gpus) == ("AMD EPYC", ())
    assert hardware.title.startswith("AMD EPYC, ")
    assert hardware.cores >= 1


def test_an_arm_processor(proc: Path) -> None:
    (proc / "cpuinfo").write_text(ARM)
    assert read_hardware(proc).cpu == "0x41 0xd40"


@pytest.mark.parametrize("text", [X86.replace("avx2", "avx"), ARM, ""])
def test_other_instructions_are_told_apart(proc: Path, text: str) -> None:
    before = read_hardware(proc).abilities
    (proc / "cpuinfo").write_text(text)
    assert read_hardware(proc).abilities != before


def test_the_order_of_the_flags_says_nothing(proc: Path) -> None:
    before = read_hardware(proc)
    (proc / "cpuinfo").write_text(X86.replace("fpu avx2", "avx2 fpu"))
    assert read_hardware(proc) == before


def test_graphics_cards_are_named(proc: Path) -> None:
    for number, model in (("1", "H200"), ("0", "H100")):
        folder = proc / "driver/nvidia/gpus" / number
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA {model}\nIRQ: 5\n")
    hardware = read_hardware(proc)
    assert hardware.gpus == ("NVIDIA H100", "NVIDIA H200")
    assert hardware.title.endswith(", NVIDIA H100, NVIDIA H200")


def test_an_unknown_machine(tmp_path: Path) -> None:
    assert read_hardware(tmp_path / "nowhere").cpu == "unknown processor"


def test_this_machine_is_the_same_twice() -> None:
    assert read_hardware() == read_hardware()
