"""`make bench-models`: what it costs to load models, to swap them, and to ask through the product.

Run as `python -m tests.bench.models_bench`. Each file is loaded by a process of its own, then all
are models of one server with a place for one; at last the same short question goes to the server
and to an engine in this process, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from inference.engine.factory import build_engine
from inference.protocol.spec import EngineSpec
from inference.registry.gguf.process import read_header
from inference.registry.memory import Serving, estimate
from inference.supervisor.placement import MIN_RESIDENCE_S
from tests.bench import models_report
from tests.bench.figures import BenchError, percentile_ms
from tests.bench.http_target import HttpTarget
from tests.bench.local_target import LocalTarget
from tests.bench.machine import load_now
from tests.bench.models import MODELS, BenchModel
from tests.bench.processes import memory_of
from tests.bench.sides import product_env
from tests.bench.target import ask_whole
from tests.bench.workloads import short_chat
from tests.faults.swap_host import Host
from tests.gemma import find_gemma
from tests.generated import renew
from tests.model.llama_requantise import requantised
from tests.stack import ROOT, Stack, wait_for

DOCS = ROOT / "docs" / "benchmarks.md"
COMMAND = "make bench-models"
ROUNDS = 5
NUM_SLOTS, CONTEXT_LEN = 4, 2048
ASKED = 30  # short questions a round, of each side
LONG_PROMPT = "word " * 600  # more than a micro-batch: all that is computed in is used once
LOAD_S = 120.0
MIB = 1 << 20
Say = Callable[[str], None]

FILES = (
    *MODELS.values(),
    BenchModel(
        "gemma-q4_1",
        "Gemma 3 270M, requantised to Q4_1",
        False,
        lambda: requantised(find_gemma()),
    ),
)
CREATE = """
from inference.models import ModelConfig as M
for name, path in {paths!r}.items():
    M.objects.create(name=name, engine_class="llama", model_path=path, wanted="auto",
                     num_slots={num_slots}, context_len={context_len}, threads={threads})
M.objects.exclude(name__in={paths!r}).update(wanted="auto")
"""


@dataclass(slots=True)
class FileFigures:
    """Of one file, a value a round. Seconds: `load` in a fresh process until the first decode has
    worked, `swap` from a request to the end of its one token while another model is in memory,
    `loaded` the same request once more. MiB: `expected` of its engine, `taken` by it."""

    title: str
    size_mib: float
    load: list[float] = field(default_factory=list)
    swap: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)
    expected: float = 0.0
    taken: list[float] = field(default_factory=list)


@dataclass(slots=True)
class ModelsRun:
    """What came out. `engine` and `product`: median ms of a short question, a value a round."""

    rounds: int
    threads: int
    files: dict[str, FileFigures]
    engine: list[float] = field(default_factory=list)
    product: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)


def measure(rounds: int, threads: int, folder: Path, say: Say) -> ModelsRun:
    """Measure all of it.

    Raises:
        BenchError: a model's package isn't installed, or an answer isn't what was asked for.
    """
    paths = {model.name: model.path() for model in FILES}
    files = {
        model.name: FileFigures(
            model.title,
            paths[model.name].stat().st_size / MIB,
            expected=_expected_mib(paths[model.name]),
        )
        for model in FILES
    }
    run = ModelsRun(rounds, threads, files)
    specs = {name: _spec(path, threads) for name, path in paths.items()}
    for number in range(rounds):
        for name in _shuffled(specs, number):
            run.files[name].load.append(_load_s(specs[name]))
            say(f"round {number} {name}: loaded in {run.files[name].load[-1]:.2f} s")
        run.load.append(load_now())
    env = product_env(next(iter(specs.values())))
    env |= {"LLAMAWEB_ENGINE_MAX_LOADED": "1", "LLAMAWEB_MODEL": ""}
    with Stack(folder / "data", env=env) as stack:
        stack.wait_ready()
        values = {"num_slots": NUM_SLOTS, "context_len": CONTEXT_LEN, "threads": threads}
        code = CREATE.format(paths={name: str(path) for name, path in paths.items()}, **values)
        stack.manage("shell", "--no-imports", "--command", code)
        host = Host(stack)
        _swaps(run, host, say)
        asyncio.run(_overhead(run, host, next(iter(specs.items())), say))
    return run


def _spec(path: Path, threads: int) -> EngineSpec:
    return EngineSpec(
        model="bench",
        engine_id="bench",
        redis_url="",
        redis_prefix="",
        engine_class="llama",
        model_path=str(path),
        num_slots=NUM_SLOTS,
        context_len=CONTEXT_LEN,
        threads=threads,
        cache_ram_mib=0,
    )


def _expected_mib(path: Path) -> float:
    serving = Serving(num_slots=NUM_SLOTS, context_len=CONTEXT_LEN)
    return estimate(read_header(path).facts, serving).loaded_bytes / MIB


def _shuffled(names: Sequence[str] | dict[str, EngineSpec], number: int) -> list[str]:
    order = list(names)
    random.Random(number).shuffle(order)
    return order


def _load_s(spec: EngineSpec) -> float:
    """Loaded by a process that is new."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_load_here, spec).result(LOAD_S)


def _load_here(spec: EngineSpec) -> float:
    started_ts = time.perf_counter()
    build_engine(spec)
    return time.perf_counter() - started_ts


def _swaps(run: ModelsRun, host: Host, say: Say) -> None:
    """Every model in turn takes the place of the one before; the first round isn't counted: what
    it reads from the disk is in memory afterwards, and the machine is tried."""
    for number in range(-1, run.rounds):
        for name in run.files:
            time.sleep(MIN_RESIDENCE_S + 1.0)  # else it is the hysteresis that is measured
            swap_s = _ask_s(host, name, f"Swap {number} of {name}")
            loaded_s = _ask_s(host, name, f"{name}, round {number}")  # shares nothing with that
            _ask_s(host, name, LONG_PROMPT)
            say(f"round {number} {name}: swapped in {swap_s:.2f} s, loaded {loaded_s:.2f} s")
            if number < 0:
                continue
            figures = run.files[name]
            figures.swap.append(swap_s)
            figures.loaded.append(loaded_s)
            figures.taken.append(_taken_mib(host, name))
        run.load.append(load_now())


def _ask_s(host: Host, model: str, prompt: str) -> float:
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "ignore_eos": True}
    started_ts = time.perf_counter()
    status, text = host.request("POST", "/v1/completions", body, host.key)
    if status != 200:
        raise BenchError(f"model {model}: {status} {text[:300]}")
    return time.perf_counter() - started_ts


def _taken_mib(host: Host, model: str) -> float:
    """RSS of the one engine there is."""
    engines = wait_for(
        f"the engine of {model} is alone", lambda: host.stack.processes("engine"), 10.0
    )
    if len(engines) != 1:
        raise BenchError(f"{len(engines)} engines while only {model} is to be in memory")
    return memory_of(engines[0], model).rss


async def _overhead(run: ModelsRun, host: Host, of: tuple[str, EngineSpec], say: Say) -> None:
    """The same short questions to both sides, one at a time."""
    name, spec = of
    product = HttpTarget(host.stack.base_url, host.key, name)
    engine = LocalTarget.load(replace(spec, cache_ram_mib=0))
    try:
        for target in (engine, product):  # the model comes back, both are warm
            for index in range(3):
                await ask_whole(target, short_chat("warm", index), 1)
        for number in range(run.rounds):
            taken: dict[str, list[float]] = {engine.name: [], product.name: []}
            for index in range(ASKED):
                for target in (engine, product) if index % 2 else (product, engine):
                    answer = await ask_whole(target, short_chat(f"{number}", index), 1)
                    taken[target.name].append(answer.times[-1])
            run.engine.append(percentile_ms(taken[engine.name], 50))
            run.product.append(percentile_ms(taken[product.name], 50))
            run.load.append(load_now())
            say(f"round {number}: engine {run.engine[-1]:.1f} ms, {run.product[-1]:.1f} ms")
    finally:
        await engine.close()


def main(arguments: Sequence[str]) -> int:
    """Run it; 1 when nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.models_bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=max(1, cores - 1))
    parser.add_argument("--write", action="store_true", help=f"renew the table in docs/{DOCS.name}")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception: the server ends with us
    try:
        with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
            run = measure(options.rounds, options.threads, Path(folder), _say)
    except (BenchError, TimeoutError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    generated = models_report.render(run)
    _say(f"\n{generated}")
    if options.write:
        renew(DOCS, COMMAND, generated)
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
