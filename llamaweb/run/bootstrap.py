"""Install what `make run` needs, once: Python packages, Node, the built front end.

    python3.11 -m llamaweb.run.bootstrap [--dev] [--no-frontend]

Runs on a bare machine (standard library only) and is idempotent: every step has a stamp of its
inputs, so a second run touches neither files nor network. One virtual environment serves
everything: once the development packages are in, they stay.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import cache_from_source
from pathlib import Path

from llamaweb.run.cpu import cpu_hash
from llamaweb.run.stamps import content_hash, read_stamp, write_stamp
from llamaweb.run.steps import HEARTBEAT_S, Phase, Step, StepError, run_step, say

ROOT = Path(__file__).resolve().parents[2]
UV_LOCK = "requirements-uv.lock"
RUN_LOCK = "requirements.lock"
DEV_LOCK = "requirements-dev.lock"
LOCK_WAIT_S = 30 * 60.0
LOCK_POLL_S = 0.2
PYTHON = (3, 11)
OWN_PACKAGES = ("llamaweb", "inference", "conversations", "tools_api")
FRONTEND_INPUTS = (
    "src",
    "public",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "svelte.config.js",
    "tsconfig.json",
)
BUILD_PHASE = Phase(
    "Building llama-cpp-python",
    "building llama.cpp for this machine (about 7 minutes on two cores, once)",
)
BUILD_HINT = (
    "  A missing compiler? Debian: apt-get install g++ cmake make. "
    "No network? The packages come from PyPI and npm."
)


class Bootstrap:
    """The steps, in order, for the checkout at `root`."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.python = self.venv / "bin" / "python"
        self.uv = root / ".uv" / "bin" / "uv"
        self.frontend = root / "frontend"
        self.work = root / ".cache" / "setup"
        self.stamp = self.venv / "llamaweb-stamp.json"
        path = os.pathsep.join([str(self.venv / "bin"), environ.get("PATH", os.defpath)])
        # The wheel's npm works only through the scripts in the environment's bin.
        self.env = {k: v for k, v in environ.items() if k != "VIRTUAL_ENV"} | {"PATH": path}

    def packages(self, *, dev: bool) -> None:
        """Make `.venv` hold exactly a lock's packages, llama.cpp compiled for this CPU."""
        done = read_stamp(self.stamp)
        has_dev = dev or done.get("dev") == "yes"
        lock = DEV_LOCK if has_dev else RUN_LOCK
        wanted = {
            "dev": "yes" if has_dev else "no",
            "lock": content_hash(self.root, [self.root / lock]),
            "uv": _uv_settings(self.root / "pyproject.toml"),
            "cpu": cpu_hash(),
            "bytecode": "yes",
        }
        if not _works(self.python):
            self._make_venv()
            done = {}
        if done == wanted:
            return
        self._install_uv()
        if done and done.get("cpu") != wanted["cpu"]:
            say("This CPU is not the one that llama.cpp was compiled for.")
            self._uv("removing the old llama.cpp", "uninstall", "llama-cpp-python")
        self._uv(
            "installing the Python packages",
            "sync",
            "--require-hashes",
            "--compile-bytecode",
            "--config-settings-package",
            f"llama-cpp-python:cmake.define.LLAMAWEB_CPU={wanted['cpu']}",
            lock,
        )
        write_stamp(self.stamp, wanted)

    def bytecode(self) -> None:
        """Compile our own code, as `packages` does that of others: where nothing may be written
        beside it, each process would compile all of it at each start. It is valid by content, as
        the stamp is: a checkout or a copy gives files other times."""
        pages = sorted(self.frontend.glob("*.py"))  # not what lies in node_modules
        folders = [self.root / name for name in OWN_PACKAGES]
        sources = [path for folder in folders for path in folder.rglob("*.py")]
        mode = "checked-hash"
        wanted = {"inputs": content_hash(self.root, [*sources, *pages]), "mode": mode}
        stamp = self.work / "bytecode.json"
        is_there = all(Path(cache_from_source(str(path))).is_file() for path in [*sources, *pages])
        if is_there and read_stamp(stamp) == wanted:
            return
        names = [str(path.relative_to(self.root)) for path in [*folders, *pages]]
        how = ["-q", "-j", "0", "--invalidation-mode", mode]
        command = [str(self.python), "-m", "compileall", *how, *names]
        self._run("compiling llamaweb", command, "bytecode")
        write_stamp(stamp, wanted)

    def front_end(self) -> None:
        """Install the locked npm packages and build, each only when its inputs changed."""
        node = subprocess.run(
            [str(self.venv / "bin" / "node"), "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        self.node_modules(node)
        inputs = [self.frontend / name for name in FRONTEND_INPUTS]
        wanted = {"inputs": content_hash(self.root, inputs), "node": node}
        stamp = self.work / "frontend-build.json"
        if read_stamp(stamp) == wanted and (self.frontend / "dist" / "manifest.json").is_file():
            return
        self._npm("building the front end", "run", "build")
        write_stamp(stamp, wanted)

    def node_modules(self, node: str) -> None:
        """`npm ci`, when the lock changed."""
        names = ("package.json", "package-lock.json", ".npmrc")
        wanted = {
            "inputs": content_hash(self.root, [self.frontend / name for name in names]),
            "node": node,
        }
        stamp = self.frontend / "node_modules" / ".llamaweb-stamp.json"
        if read_stamp(stamp) == wanted:
            return
        self._npm("installing the front end's packages", "ci")
        write_stamp(stamp, wanted)

    def _make_venv(self) -> None:
        if self.venv.exists():
            say("The virtual environment .venv is broken; it is made again.")
            shutil.rmtree(self.venv)
        command = [_base_python(), "-m", "venv", "--without-pip", str(self.venv)]
        self._run("making the virtual environment", command, "venv")

    def _install_uv(self) -> None:
        stamp = self.root / ".uv" / "llamaweb-stamp.json"
        wanted = {"lock": content_hash(self.root, [self.root / UV_LOCK])}
        if read_stamp(stamp) == wanted and _works(self.uv.with_name("python")):
            return
        folder = self.root / ".uv"
        shutil.rmtree(folder, ignore_errors=True)
        command = [_base_python(), "-m", "venv", "--without-pip", str(folder)]
        self._run("preparing the installer", command, "venv-uv")
        pip = [_base_python(), "-m", "pip", "--python", str(folder / "bin" / "python")]
        install = [*pip, "install", "--quiet", "--require-hashes", "-r", UV_LOCK]
        self._run("installing the installer (uv)", install, "uv")
        write_stamp(stamp, wanted)

    def _uv(self, title: str, verb: str, *arguments: str) -> None:
        command = [str(self.uv), "pip", verb, "--python", str(self.python), *arguments]
        self._run(title, command, f"packages-{verb}", (BUILD_PHASE,), BUILD_HINT)

    def _npm(self, title: str, *arguments: str) -> None:
        command = [str(self.venv / "bin" / "npm"), *arguments]
        log = self.work / f"npm-{arguments[-1]}.log"
        run_step(Step(title, command, log, self.frontend, self.env))

    def _run(
        self,
        title: str,
        command: Sequence[str],
        name: str,
        phases: Sequence[Phase] = (),
        hint: str = "",
    ) -> None:
        log = self.work / f"{name}.log"
        run_step(Step(title, command, log, self.root, self.env, phases, hint))


def _uv_settings(pyproject: Path) -> str:
    """How packages are built; the rest of the file may change without an installation."""
    table = tomllib.loads(pyproject.read_text())["tool"]["uv"]
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _base_python() -> str:
    """The interpreter below an activated environment, which has pip and venv."""
    return str(getattr(sys, "_base_executable", sys.executable))


def _works(python: Path) -> bool:
    """Whether an environment's interpreter exists and is the version wanted."""
    check = f"import sys; raise SystemExit(sys.version_info[:2] != {PYTHON})"
    try:
        done = subprocess.run([str(python), "-I", "-S", "-c", check], check=False, timeout=60)
    except OSError:
        return False
    return done.returncode == 0


@contextlib.contextmanager
def checkout_lock(path: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Let one bootstrap work on a checkout at a time.

    Raises:
        StepError: another one holds the lock for longer than `wait_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    start_ts = time.monotonic()
    next_ts = start_ts
    with path.open("a+") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now_ts = time.monotonic()
                if now_ts - start_ts > wait_s:
                    raise StepError("another installation of this checkout never ended") from None
                if now_ts >= next_ts:
                    say(f"  waiting for another installation here … {now_ts - start_ts:.0f} s")
                    next_ts += HEARTBEAT_S
                time.sleep(LOCK_POLL_S)
        yield


def main(arguments: Sequence[str]) -> int:
    """See the module; the exit status is 1 with a message when a step failed."""
    parser = argparse.ArgumentParser(prog="bootstrap")
    parser.add_argument("--dev", action="store_true", help="development packages, too")
    parser.add_argument("--no-frontend", action="store_true", help="Python packages only")
    options = parser.parse_args(arguments)
    if sys.version_info[:2] != PYTHON:
        say(f"Python 3.11 is needed; this is {sys.version.split()[0]} ({sys.executable}).")
        return 1
    bootstrap = Bootstrap(ROOT, os.environ)
    try:
        with checkout_lock(bootstrap.work / "lock"):
            bootstrap.packages(dev=options.dev)
            bootstrap.bytecode()
            if not options.no_frontend:
                bootstrap.front_end()
    except StepError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
