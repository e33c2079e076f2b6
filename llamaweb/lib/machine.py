"""What processor and graphics cards this machine has. Linux; unknown elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from llamaweb.lib.cpus import num_cores

PROC = Path("/proc")
# What /proc/cpuinfo calls the processor and what it can do: x86, then ARM.
NAME_FIELDS = ("model name", "CPU implementer", "CPU part", "CPU variant")
ABILITY_FIELDS = ("flags", "Features")


@dataclass(frozen=True, slots=True)
class Hardware:
    """`cpu` and `gpus` for people; `abilities`: digest of the instructions the processor has."""

    cpu: str
    abilities: str
    cores: int
    gpus: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """One line."""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return ", ".join([self.cpu, cores, *self.gpus])


def read_hardware(proc: Path = PROC) -> Hardware:
    """This machine, of which the process may use `cores`."""
    fields = _first_processor(proc / "cpuinfo")
    names = [fields[name] for name in NAME_FIELDS if fields.get(name)]
    abilities = " ".join(sorted(" ".join(fields.get(name, "") for name in ABILITY_FIELDS).split()))
    return Hardware(
        cpu=" ".join(names) or "unknown processor",
        abilities=hashlib.sha256(abilities.encode()).hexdigest(),
        cores=num_cores(),
        gpus=tuple(_gpus(proc)),
    )


def _first_processor(path: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return fields
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return fields


def _gpus(proc: Path) -> list[str]:
    """Models of the graphics cards that NVIDIA's driver knows."""
    found = []
    for path in sorted((proc / "driver/nvidia/gpus").glob("*/information")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return found
