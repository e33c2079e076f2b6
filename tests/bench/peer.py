"""llama-server as a process: the peer that the engine is measured against."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from inference.protocol.spec import EngineSpec
from tests.bench import processes
from tests.bench.figures import BenchError
from tests.bench.http_target import HttpTarget
from tests.bench.sides import PEER
from tests.stack import ROOT, free_port, wait_for

CHILD = ROOT / "llamaweb" / "run" / "child.py"
HOST = "127.0.0.1"
READY_S = 120.0
STOP_S = 10.0
HELP_S = 20.0
TAIL_CHARS = 2000
CACHE_RE = re.compile(r"--cache-ram\b.*?\(default: (-?\d+)", re.DOTALL)
# What is given when the model has no template of its own; ours falls back to the same one.
FALLBACK_TEMPLATE = "chatml"


@dataclass(frozen=True, slots=True, order=True)
class PeerSettings:
    """What its operator would try for speed."""

    flash_attention: bool
    kv_unified: bool

    def __str__(self) -> str:
        flash = "on" if self.flash_attention else "off"
        return f"flash attention {flash}, {'unified' if self.kv_unified else 'split'} KV"


ALL_SETTINGS = tuple(PeerSettings(flash, kv) for flash in (False, True) for kv in (False, True))


class LlamaServer:
    """One server for the block it is opened for. It ends with us, whatever ends us.

    Args:
        spec: model, slots, tokens a slot, threads and bytes of host cache, as our engine has them.
        has_template: whether the model brings a chat template.
        folder: where its log goes.
    """

    def __init__(
        self,
        binary: Path,
        spec: EngineSpec,
        settings: PeerSettings,
        folder: Path,
        *,
        has_template: bool,
    ) -> None:
        self.settings = settings
        self._port = free_port()
        self._log = folder / f"llama-server-{self._port}.log"
        self._command = [
            *(sys.executable, "-I", "-S", str(CHILD), "--", str(binary)),
            *arguments(spec, settings, self._port, has_template=has_template),
        ]
        self.target = HttpTarget(f"http://{HOST}:{self._port}", name=PEER)

    def __enter__(self) -> LlamaServer:
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                self._command,
                env={**os.environ, "CHILD_OF": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for("llama-server is ready", self._is_ready, READY_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        return processes.cpu_s([psutil.Process(self._popen.pid)])

    def memory(self) -> processes.Memory:
        """What it holds now."""
        return processes.memory_of(psutil.Process(self._popen.pid), f"{PEER}: {self.settings}")

    def _is_ready(self) -> bool:
        if self._popen.poll() is not None:
            said = self._log.read_text("utf-8", "replace")[-TAIL_CHARS:]
            raise BenchError(f"llama-server ended ({self._popen.returncode}):\n{said}")
        connection = http.client.HTTPConnection(HOST, self._port, timeout=2.0)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _end(self) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(STOP_S)


def arguments(
    spec: EngineSpec, settings: PeerSettings, port: int, *, has_template: bool
) -> list[str]:
    """Its command line: what `spec` says, with the same bytes of KV cache and of host cache.

    The whole sliding window is kept, as ours is (it costs memory, and prefixes can be reused).
    """
    found = ["--model", spec.model_path, "--host", HOST, "--port", str(port), "--offline"]
    found += ["--threads", str(spec.threads), "--threads-batch", str(spec.threads)]
    found += ["--parallel", str(spec.num_slots)]
    found += ["--ctx-size", str(spec.num_slots * spec.context_len), "--swa-full"]
    found += ["--batch-size", str(spec.batch_len), "--ubatch-size", str(spec.ubatch_len)]
    found += ["--cache-ram", str(spec.cache_ram_mib)]
    found += ["--flash-attn", "on" if settings.flash_attention else "off"]
    found += ["--kv-unified" if settings.kv_unified else "--no-kv-unified"]
    if not has_template:
        found += ["--chat-template", FALLBACK_TEMPLATE]
    return found


def version(binary: Path) -> str:
    """What it says of itself, in one line."""
    return _says(binary, "--version").partition("\n")[0].strip()


def default_cache_mib(binary: Path) -> int:
    """Its default bytes of host cache, from its help; raises BenchError when it says nothing."""
    found = CACHE_RE.search(_says(binary, "--help"))
    if found is None:
        raise BenchError("llama-server's help doesn't say how large its host cache is")
    return int(found[1])


def _says(binary: Path, option: str) -> str:
    try:
        done = subprocess.run(
            [str(binary), option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HELP_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"llama-server can't be run: {error}") from error
    return done.stdout
