"""The peer's process, acted by a small script in its place, and where its settings come from."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from inference.protocol.spec import EngineSpec
from tests.bench import peer, peer_build
from tests.bench.comparison import OWN_SETTINGS, fitting_mib, with_flash
from tests.bench.figures import BenchError
from tests.bench.peer import ALL_SETTINGS, LlamaServer, PeerSettings, arguments
from tests.bench.peer_side import peer_side, starter, try_all
from tests.bench.trials import FAMILIES, Tried, family_of, pick, pick_one
from tests.bench.workloads import WORKLOADS
from tests.sdist import locked_source
from tests.stack import ROOT

FAST = PeerSettings(flash_attention=True, kv_unified=True)
SPEC = EngineSpec(
    model="bench",
    engine_id="bench",
    redis_url="",
    redis_prefix="",
    model_path="/some/model.gguf",
    num_slots=8,
    context_len=1000,
    threads=3,
    cache_ram_mib=77,
)
ACTOR = f"""#!{sys.executable}
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

arguments = sys.argv[1:]
if "--help" in arguments:
    sys.exit(print("-t, --threads N  (default: 4)\\n-cram, --cache-ram N  set the maximum\\n"
                   "    cache size in MiB (default: 1234, -1 - no limit)"))
if "--version" in arguments:
    sys.exit(print("version: 7 (abc)\\nbuilt with a compiler"))
if "--model" not in arguments:
    sys.exit("no model")

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        for number in range(asked["max_tokens"]):
            self.event({{"choices": [{{"delta": {{"content": "word "}}}}]}})
        self.event({{"choices": [], "usage": {{"completion_tokens": asked["max_tokens"],
                                            "prompt_tokens": 9}}}})

    def event(self, data):
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\\n\\n")

    def log_message(self, *arguments):
        pass

port = int(arguments[arguments.index("--port") + 1])
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "llama-server"
    path.write_text(ACTOR)
    path.chmod(0o700)
    return path


def server(binary: Path, settings: PeerSettings = FAST) -> LlamaServer:
    return LlamaServer(binary, SPEC, settings, binary.parent, has_template=True)


# --- its process


async def test_it_answers_while_it_is_open(binary: Path) -> None:
    others = set(psutil.Process().children())
    with server(binary) as opened:
        answer = await opened.target.ask((("user", "hello"),), 5)
        memory = opened.memory()
        (process,) = set(psutil.Process().children()) - others
    assert (answer.num_tokens, answer.prompt_tokens, answer.text) == (5, 9, "word " * 5)
    assert memory.rss > 0
    assert memory.name == "peer: flash attention on, unified KV"
    assert not process.is_running()


def test_one_that_ends_at_once_says_why(binary: Path) -> None:
    binary.write_text(ACTOR.replace('"--model" not in', '"--model" in'))
    others = set(psutil.Process().children())
    with pytest.raises(BenchError, match="no model"), server(binary):
        pass
    assert set(psutil.Process().children()) == others


def test_its_help_says_what_its_cache_holds(binary: Path) -> None:
    assert peer.default_cache_mib(binary) == 1234
    assert peer.version(binary) == "version: 7 (abc)"
    binary.write_text(f"#!{sys.executable}\nprint('(default: 3)')")
    with pytest.raises(BenchError, match="host cache"):
        peer.default_cache_mib(binary)
    with pytest.raises(BenchError, match="can't be run"):
        peer.version(binary.with_name("nothing"))


# --- its settings


@pytest.mark.parametrize("settings", ALL_SETTINGS, ids=str)
def test_it_gets_the_threads_and_bytes_of_our_engine(settings: PeerSettings) -> None:
    given = arguments(SPEC, settings, 4711, has_template=False)
    pairs = dict(itertools.pairwise(given))
    assert pairs["--threads"] == pairs["--threads-batch"] == "3"
    assert (pairs["--parallel"], pairs["--ctx-size"], pairs["--cache-ram"]) == ("8", "8000", "77")
    assert (pairs["--flash-attn"] == "on") is settings.flash_attention
    assert ("--kv-unified" in given, "--no-kv-unified" in given) == (
        settings.kv_unified,
        not settings.kv_unified,
    )
    assert pairs["--chat-template"] == "chatml"
    assert "--chat-template" not in arguments(SPEC, settings, 4711, has_template=True)


async def test_every_setting_is_tried_and_one_is_measured(binary: Path) -> None:
    start = starter(binary, SPEC, binary.parent, has_template=True)
    said: list[str] = []
    tried = await try_all(start, "s", 1, said.append)
    assert set(tried) == set(FAMILIES)
    assert all(set(by_settings) == set(ALL_SETTINGS) for by_settings in tried.values())
    assert len(said) == len(FAMILIES) * len(ALL_SETTINGS)
    async with peer_side(start, dict.fromkeys(FAMILIES, FAST)) as (side, servers):
        assert [each.settings for each in servers] == [FAST]
        assert side.name == "peer"


async def test_two_picks_are_two_servers(binary: Path) -> None:
    start = starter(binary, SPEC, binary.parent, has_template=True)
    slow = ALL_SETTINGS[0]
    async with peer_side(start, {"distinct": slow, "shared": FAST}) as (_, servers):
        assert {each.settings for each in servers} == {slow, FAST}


def test_the_median_of_the_tries_decides() -> None:
    steady, lucky = ALL_SETTINGS[:2]
    assert pick({lucky: [1.0, 1.0, 99.0], steady: [5.0, 5.0, 5.0]}) == steady


def test_one_setting_for_all_is_the_one_that_gains_most_over_all() -> None:
    off, on = OWN_SETTINGS
    tried: Tried = {
        "distinct": {off: [100.0, 100.0, 1.0], on: [95.0, 95.0, 95.0]},
        "shared": {off: [40.0, 40.0, 40.0], on: [44.0, 44.0, 44.0]},
    }
    assert pick_one(tried) == on
    assert with_flash(SPEC, on).flash_attention == "on"
    assert with_flash(SPEC, off).flash_attention == "off"


def test_only_a_shared_prefix_has_a_trial_of_its_own() -> None:
    assert [name for name in WORKLOADS if family_of(name) == "shared"] == ["shared"]


@pytest.mark.parametrize(
    ("default", "most", "given"),
    [(8192, 9000, 8192), (8192, 8191, 4096), (8192, 1500, 1024), (-1, 1500, 1500), (0, 1500, 0)],
)
def test_its_default_cache_is_halved_until_all_sides_have_room(
    default: int, most: int, given: int
) -> None:
    assert fitting_mib(default, most) == given


# --- its source


def test_it_is_built_from_what_the_library_is_built_from() -> None:
    pin = locked_source((ROOT / "requirements.lock").read_text())
    assert pin.startswith("llama-cpp-python==")
    assert "--hash=sha256:" in pin
    assert "\n\n" not in pin
    with pytest.raises(ValueError, match="isn't locked"):
        locked_source("numpy==1 \\\n    --hash=sha256:0")
    flags = peer_build.compiler_flags((ROOT / "pyproject.toml").read_text())
    assert "-fno-dse" in flags["CXXFLAGS"]


def test_a_build_that_is_there_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def act(folder: Path, title: str, command: list[str], env: dict[str, str]) -> None:
        steps.append(title.partition(" ")[0])
        if steps[-1] == "fetching":
            _pack(folder)
        if steps[-1] == "building":
            (folder / "build" / "bin").mkdir(parents=True)
            (folder / "build" / "bin" / "llama-server").touch()

    monkeypatch.setattr(peer_build, "_step", act)
    folder = tmp_path / "built"
    path = peer_build.build(folder)
    assert steps == ["fetching", "configuring", "building", "starting"]
    assert peer_build.build(folder) == path
    assert len(steps) == 4
    path.unlink()
    peer_build.build(folder)
    assert len(steps) == 8


def _pack(folder: Path) -> None:
    """What a download leaves."""
    tree = folder / "packed" / "llama_cpp_python-1" / "vendor" / "llama.cpp"
    tree.mkdir(parents=True)
    (folder / "source").mkdir()
    archive = folder / "source" / "llama_cpp_python-1.tar.gz"
    subprocess.run(
        ["tar", "-czf", str(archive), "-C", str(folder / "packed"), "llama_cpp_python-1"],
        check=True,
        timeout=30,
    )
