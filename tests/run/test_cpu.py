"""The hash that decides whether a compiled llama.cpp fits this CPU."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from llamaweb.run.cpu import CPUINFO, cpu_hash

X86 = "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu avx2 sse avx2\nbogomips\t: 1\n"
SHELL = (
    "grep -m1 '^flags' /proc/cpuinfo | cut -d: -f2 | tr ' ' '\\n' | LC_ALL=C sort -u | sha256sum"
)


def test_sorted_unique_words_each_on_a_line() -> None:
    assert cpu_hash(X86) == hashlib.sha256(b"\navx2\nfpu\nsse\n").hexdigest()[:16]


@pytest.mark.parametrize(
    "other",
    [
        X86.replace("fpu avx2 sse avx2", "sse avx2 fpu"),
        X86.replace("model name\t: X", "model name\t: Y"),
        X86 + X86.replace("processor\t: 0", "processor\t: 1"),
    ],
    ids=["order", "name", "more processors"],
)
def test_is_the_same_for_the_same_flags(other: str) -> None:
    assert cpu_hash(other) == cpu_hash(X86)


def test_changes_with_a_flag() -> None:
    assert cpu_hash(X86.replace("sse", "sse amx_tile")) != cpu_hash(X86)


def test_reads_other_architectures() -> None:
    arm = "processor\t: 0\nFeatures\t: fp asimd\n"
    assert cpu_hash(arm) != cpu_hash(arm.replace("asimd", "asimd sve"))
    assert cpu_hash("nothing known here\n") == cpu_hash("")


def test_agrees_with_the_shell_on_this_machine() -> None:
    if "\nflags" not in CPUINFO.read_text():
        return  # another architecture: nothing to compare with
    done = subprocess.run(["bash", "-c", SHELL], capture_output=True, text=True, check=True)
    assert done.stdout[:16] == cpu_hash()
