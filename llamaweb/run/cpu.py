"""Which CPU the compiled llama.cpp is for.

A build uses what the CPU offers, so a wheel from another machine may die at its first
instruction. The hash of the CPU's flags is part of the wheel's cache key.
"""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
HASH_CHARS = 16
# x86 says flags, arm64 Features, RISC-V isa, PowerPC cpu.
FLAG_LINES = ("flags", "Features", "isa", "cpu")


def flag_words(cpuinfo: str) -> list[str]:
    """The first CPU's flags, sorted, each once; the line's leading blank counts as an empty word.

    Exactly `grep -m1 '^flags' /proc/cpuinfo | cut -d: -f2 | tr ' ' '\\n' | sort -u`.
    """
    for name in FLAG_LINES:
        for line in cpuinfo.splitlines():
            key, colon, value = line.partition(":")
            if colon and key.strip() == name:
                return sorted(set(value.split(" ")))
    return [platform.machine(), platform.processor()]


def cpu_hash(cpuinfo: str | None = None) -> str:
    """16 hex digits that change when another build of llama.cpp is needed."""
    text = CPUINFO.read_text() if cpuinfo is None else cpuinfo
    words = "".join(f"{word}\n" for word in flag_words(text))
    return hashlib.sha256(words.encode()).hexdigest()[:HASH_CHARS]
