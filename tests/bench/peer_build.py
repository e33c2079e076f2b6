"""`make llama-server`: llama-server from the very source that llama-cpp-python is locked to.

The same compiler flags as the library has (docs/adr/0006-llama-cpp-build.md), without what a
benchmark doesn't need. Prints where the binary is; a second call has nothing to do.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from llamaweb.run.cpu import cpu_hash
from llamaweb.run.stamps import read_stamp, write_stamp
from llamaweb.run.steps import Step, StepError, run_step, say
from tests.sdist import PACKAGE, download_command, locked_source

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "llama-server"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
NICENESS = 5
HINT = "  A missing compiler? Debian: apt-get install g++ cmake make."


def compiler_flags(pyproject: str) -> dict[str, str]:
    """Environment variables that the library is built with, from the text of pyproject.toml."""
    uv = tomllib.loads(pyproject)["tool"]["uv"]
    return dict(uv["extra-build-variables"][PACKAGE])


def build(folder: Path = FOLDER) -> Path:
    """The binary in `folder`, built when source, flags or CPU changed (about 8 minutes).

    Raises:
        StepError: a step failed; its log is in `folder`.
    """
    source = locked_source((ROOT / "requirements.lock").read_text("utf-8"))
    flags = compiler_flags((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = {
        "source": source,
        "flags": " ".join(f"{name}={value}" for name, value in sorted(flags.items())),
        "options": " ".join(OPTIONS),
        "cpu": cpu_hash(),
    }
    binary, stamp = folder / "build" / "bin" / "llama-server", folder / "stamp.json"
    if read_stamp(stamp) == wanted and binary.is_file():
        return binary
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tree = _fetch(folder, source)
    _step(
        folder,
        "configuring llama-server",
        ["cmake", "-S", str(tree), "-B", str(folder / "build"), *OPTIONS],
        flags,
    )
    jobs = str(len(os.sched_getaffinity(0)))
    _step(
        folder,
        "building llama-server (about 8 minutes on two cores, once)",
        [
            *("nice", "-n", str(NICENESS)),
            *("cmake", "--build", str(folder / "build")),
            *("--target", "llama-server", "--parallel", jobs),
        ],
        flags,
    )
    _step(folder, "starting llama-server", [str(binary), "--version"], {})
    shutil.rmtree(folder / "source")
    write_stamp(stamp, wanted)
    return binary


def _fetch(folder: Path, source: str) -> Path:
    """llama.cpp as the locked source distribution of the binding brings it."""
    pin, download = folder / "source.lock", folder / "source"
    pin.write_text(source + "\n")
    _step(folder, f"fetching the source of {PACKAGE}", download_command(pin, download), {})
    (archive,) = download.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(download, filter="data")
    (tree,) = download.glob("*/vendor/llama.cpp")
    return tree


def _step(folder: Path, title: str, command: Sequence[str], env: dict[str, str]) -> None:
    log = folder / f"{title.partition(' ')[0]}.log"
    run_step(Step(title, command, log, ROOT, {**os.environ, **env}, hint=HINT))


if __name__ == "__main__":
    try:
        say(str(build()))
    except StepError as error:
        say(str(error))
        raise SystemExit(1) from None
