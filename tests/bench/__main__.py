"""`make bench`, or `python -m tests.bench COMMAND`; `--help` lists the commands."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from llamaweb.run.steps import StepError
from tests.bench import (
    chat,
    comparison,
    constrained,
    embeddings,
    engine_report,
    families,
    families_report,
    lock_share,
    parser_cost,
    peer_build,
    report,
    results,
    rounds,
    steps,
)
from tests.bench.figures import BenchError
from tests.bench.models import MODELS, parse_models
from tests.bench.sides import PEER
from tests.bench.workloads import CLOSED, MAX_TOKENS, WORKLOADS, Sizes, parse_workloads
from tests.generated import renew

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / ".cache" / "bench"
CONCURRENCY = (1, 4, 8)
ROUNDS = 5
TRIES = 2
COMMAND, CHAT_COMMAND = "make bench", "make bench-chat"
SERVER_VARIABLE = "LLAMA_SERVER"
BOTH = "both"


def main(arguments: Sequence[str]) -> int:
    """Run a command; 1 when nothing could be measured."""
    if not arguments or arguments[0].startswith("--"):
        arguments = ["run", *arguments]
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception: the server ends with us
    try:
        options.act(options)
    except (BenchError, StepError, ExceptionGroup, TimeoutError) as error:
        print(f"bench: {error} {getattr(error, 'exceptions', '')}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    top.set_defaults(act=_run)
    commands = top.add_subparsers()
    run = _command(commands, "run", _run, "engine and product, side by side (the default)")
    run.add_argument("--rounds", type=int, default=ROUNDS)
    run.add_argument("--concurrency", type=_numbers, default=CONCURRENCY, help="1,4,8")
    run.add_argument("--workload", type=parse_workloads, default=CLOSED, help=",".join(WORKLOADS))
    run.add_argument("--write", action="store_true", help=f"renew the tables in docs/{DOCS.name}")
    _engine_command(commands)
    chats = _command(commands, "chat", _chat, "what a chat costs: commits, bytes, elements")
    chats.add_argument("--write", action="store_true", help=f"renew the table in docs/{DOCS.name}")
    gil = _command(commands, "gil", _gil, "who holds the interpreter lock of the engine process")
    gil.add_argument("--concurrency", type=int, default=rounds.NUM_SLOTS)
    gil.add_argument("--seconds", type=int, default=30)
    step = _command(commands, "steps", _steps, "Python time of an engine step")
    step.add_argument("--concurrency", type=_numbers, default=(1, rounds.NUM_SLOTS))
    bound = _command(commands, "constrained", _constrained, "decoding under a schema, against free")
    bound.add_argument("--concurrency", type=_numbers, default=(1, rounds.NUM_SLOTS))
    _documented(bound)
    parsing = _command(commands, "parser", _parser, "taking answers apart, by family of models")
    parsing.add_argument("--concurrency", type=_numbers, default=(1, rounds.NUM_SLOTS))
    _documented(parsing)
    vectors = _command(commands, "embeddings", _embeddings, "a chat's gaps beside 20 vectors/s")
    _documented(vectors)
    text = "HTTP over the engine in-process, by API family"
    paths = _command(commands, "families", _families, text, engines=(BOTH, *families.ENGINES))
    _documented(paths, num_rounds=families.ROUNDS)
    return top


def _documented(command: argparse.ArgumentParser, *, num_rounds: int = ROUNDS) -> None:
    """Options of what is measured in rounds and has a part of the page."""
    command.add_argument("--rounds", type=int, default=num_rounds)
    command.add_argument(
        "--write", action="store_true", help=f"renew the table in docs/{DOCS.name}"
    )


def _engine_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "engine, product, llama-server and a bare loop, side by side"
    command = _command(commands, "engine", _engine, text)
    command.set_defaults(threads=len(os.sched_getaffinity(0)))
    command.add_argument("--rounds", type=int, default=engine_report.MIN_ROUNDS)
    command.add_argument("--concurrency", type=_numbers, default=CONCURRENCY, help="1,4,8")
    command.add_argument("--workload", type=parse_workloads, default=WORKLOADS)
    command.add_argument("--model", type=parse_models, default=[*MODELS.values()])
    command.add_argument("--targets", type=_targets, default=comparison.TARGETS)
    command.add_argument(
        "--waves", type=int, default=0, help="requests a stream; 0: by concurrency"
    )
    command.add_argument("--tries", type=int, default=TRIES, help="of each setting")
    command.add_argument("--cache-mib", type=int, default=0, help="0: llama-server's default")
    command.add_argument("--results", type=Path, help="append rounds to this file")
    command.add_argument("--report", type=Path, help="only show what is in this file")
    command.add_argument("--write", action="store_true", help=f"into docs/{DOCS.name}")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[argparse.Namespace], None],
    text: str,
    engines: Sequence[str] = ("llama", "mock"),
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(act=act)
    command.add_argument("--engine", choices=engines, default=engines[0])
    command.add_argument("--seed", default=str(random.randrange(10**9)), help="of the prompts")
    command.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    command.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    return command


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _targets(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(comparison.TARGETS):
        raise ValueError(f"no target {sorted(unknown)}")
    return names


def _plan(options: argparse.Namespace, **fields: object) -> rounds.Plan:
    sizes = Sizes(max_tokens=options.max_tokens, waves=getattr(options, "waves", 0))
    values: dict[str, object] = {"rounds": 1, "workloads": CLOSED, "sizes": sizes, **fields}
    return rounds.Plan(
        seed=options.seed,
        threads=options.threads,
        engine_class=options.engine,
        **values,  # type: ignore[arg-type]
    )


def _say(text: str) -> None:
    print(text, flush=True)


def _run(options: argparse.Namespace) -> None:
    plan = _plan(
        options,
        rounds=options.rounds,
        concurrency=options.concurrency,
        workloads=options.workload,
    )
    with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
        generated = report.render(rounds.run(plan, Path(folder), _say))
    _report(options, COMMAND, generated)


def _engine(options: argparse.Namespace) -> None:
    path = options.report or _compare(options)
    _report(options, engine_report.COMMAND, engine_report.render(results.read(path)))


def _compare(options: argparse.Namespace) -> Path:
    """Measure; returns the file with the rounds."""
    path: Path = options.results or RESULTS / f"engine-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    known = {record.model: record for record in results.read(path)} if path.is_file() else {}
    _say(f"results: {path}")
    compared = comparison.Comparison(
        _plan(
            options,
            rounds=options.rounds,
            concurrency=options.concurrency,
            workloads=options.workload,
        ),
        options.targets,
        _llama_server() if PEER in options.targets else None,
        options.tries,
        options.cache_mib,
    )
    with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
        comparison.run(
            compared,
            options.model,
            Path(folder),
            _say,
            lambda record: results.append(path, record),
            known,
        )
    return path


def _llama_server() -> Path:
    named = os.environ.get(SERVER_VARIABLE)
    return Path(named) if named else peer_build.build()


def _chat(options: argparse.Namespace) -> None:
    _report(options, CHAT_COMMAND, chat.render(chat.measure(_say)))


def _gil(options: argparse.Namespace) -> None:
    plan = _plan(options, concurrency=(options.concurrency,))
    with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
        _say(lock_share.run(plan, options.seconds, Path(folder)))


def _steps(options: argparse.Namespace) -> None:
    spec = rounds.engine_spec(_plan(options, concurrency=options.concurrency))
    _say(steps.render(steps.measure(spec, options.concurrency, options.seed)))


def _constrained(options: argparse.Namespace) -> None:
    spec = rounds.engine_spec(_plan(options, concurrency=options.concurrency))
    run = constrained.measure(spec, options.concurrency, options.rounds, options.seed)
    _report(options, constrained.COMMAND, constrained.render(run))


def _parser(options: argparse.Namespace) -> None:
    spec = rounds.engine_spec(_plan(options, concurrency=options.concurrency))
    run = parser_cost.measure(spec, options.concurrency, options.rounds, options.seed)
    _report(options, parser_cost.COMMAND, parser_cost.render(run))


def _embeddings(options: argparse.Namespace) -> None:
    spec = rounds.engine_spec(_plan(options, concurrency=(1,)))
    run = embeddings.measure(spec, options.rounds, options.seed)
    _report(options, embeddings.COMMAND, embeddings.render(run))


def _families(options: argparse.Namespace) -> None:
    runs = []
    with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
        for number, pace in enumerate(families.PACES):
            if options.engine in (pace.engine_class, BOTH):
                plan = pace.plan(rounds=options.rounds, seed=options.seed, threads=options.threads)
                runs.append(families.measure(pace, plan, Path(folder) / str(number), _say))
    _report(options, families_report.COMMAND, families_report.render(runs))


def _report(options: argparse.Namespace, command: str, generated: str) -> None:
    _say(f"\n{generated}")
    if options.write:
        renew(DOCS, command, generated)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
