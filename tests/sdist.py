"""The source distribution that llama-cpp-python is locked to, for what only it carries.

Its `vendor/llama.cpp/models` has the chat templates of many models and small vocabularies.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "llama-cpp-python"
CACHE = ROOT / ".cache" / "llama-cpp-models"
DOWNLOAD_TIMEOUT_S = 300
MODELS = ("vendor", "llama.cpp", "models")  # behind the distribution's own folder


class SourceMissingError(Exception):
    """The source distribution can't be fetched; the message has the end of pip's output."""


def locked_source(lock: str) -> str:
    """The pin of llama-cpp-python with its hashes, from the text of a lock.

    Raises:
        ValueError: there is none.
    """
    pin = re.search(rf"^{PACKAGE}==\S+(?: \\\n +--hash=\S+)+", lock, re.MULTILINE)
    if pin is None:
        raise ValueError(f"{PACKAGE} isn't locked")
    return pin[0]


def download_command(pin: Path, folder: Path) -> list[str]:
    """The command that puts the distribution of the requirements file `pin` into `folder`."""
    # The base interpreter: the virtual environment has no pip.
    pip = [str(getattr(sys, "_base_executable", sys.executable)), "-m", "pip", "download"]
    options = ["--no-deps", "--no-binary", PACKAGE, "--require-hashes", "--quiet"]
    return [*pip, *options, "--dest", str(folder), "-r", str(pin)]


def llama_models(cache: Path = CACHE) -> Path:
    """llama.cpp's folder `models`, fetched at the first call; safe from several processes.

    Raises:
        SourceMissingError: it can't be fetched.
    """
    pin = locked_source((ROOT / "requirements.lock").read_text("utf-8"))
    models = cache / hashlib.sha256(pin.encode()).hexdigest()[:16]
    if models.is_dir():
        return models
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not models.is_dir():
            draft = cache / f"draft.{os.getpid()}"
            try:
                _fetch(pin, draft)
                (draft / "models").replace(models)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return models


def chat_template(name: str) -> str:
    """The text of one of llama.cpp's chat templates, `name` without its ending."""
    return (llama_models() / "templates" / f"{name}.jinja").read_text("utf-8")


def _fetch(pin: str, draft: Path) -> None:
    draft.mkdir()
    requirements = draft / "source.lock"
    requirements.write_text(pin + "\n")
    done = subprocess.run(
        download_command(requirements, draft / "source"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DOWNLOAD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SourceMissingError(done.stdout[-2000:])
    (archive,) = (draft / "source").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(draft / "models", members=_models_of(packed), filter="data")


def _models_of(packed: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files of llama.cpp's folder `models`, named from there."""
    for member in packed:
        parts = PurePosixPath(member.name).parts
        if member.isfile() and parts[1:4] == MODELS:
            yield member.replace(name=str(PurePosixPath(*parts[4:])), deep=False)
