"""`make bench`, or one of: `python -m tests.bench [run|chat|gil|steps] --help`."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import chat, lock_share, report, rounds, steps
from tests.bench.figures import BenchError
from tests.bench.workloads import MAX_TOKENS, WORKLOADS, parse_workloads

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
CONCURRENCY = (1, 4, 8)
ROUNDS = 5
CHAT_PART = "-chat"


def main(arguments: Sequence[str]) -> int:
    """Run a command; 1 when nothing could be measured."""
    if not arguments or arguments[0].startswith("--"):
        arguments = ["run", *arguments]
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception: the server ends with us
    try:
        options.act(options)
    except (BenchError, ExceptionGroup, TimeoutError) as error:
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
    run.add_argument("--workload", type=parse_workloads, default=WORKLOADS, help="distinct,shared")
    run.add_argument("--write", action="store_true", help=f"renew the tables in docs/{DOCS.name}")
    chats = _command(commands, "chat", _chat, "what a chat costs: commits, bytes, elements")
    chats.add_argument("--write", action="store_true", help=f"renew the table in docs/{DOCS.name}")
    gil = _command(commands, "gil", _gil, "who holds the interpreter lock of the engine process")
    gil.add_argument("--concurrency", type=int, default=rounds.NUM_SLOTS)
    gil.add_argument("--seconds", type=int, default=30)
    step = _command(commands, "steps", _steps, "Python time of an engine step")
    step.add_argument("--concurrency", type=_numbers, default=(1, rounds.NUM_SLOTS))
    return top


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    act: Callable[[argparse.Namespace], None],
    text: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(act=act)
    command.add_argument("--engine", choices=("llama", "mock"), default="llama")
    command.add_argument("--seed", default=str(random.randrange(10**9)), help="of the prompts")
    command.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    command.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    return command


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _plan(options: argparse.Namespace, **fields: object) -> rounds.Plan:
    values: dict[str, object] = {"rounds": 1, "workloads": WORKLOADS, **fields}
    return rounds.Plan(
        seed=options.seed,
        threads=options.threads,
        engine_class=options.engine,
        max_tokens=options.max_tokens,
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
    _say(f"\n{generated}")
    if options.write:
        report.write(DOCS, generated)


def _chat(options: argparse.Namespace) -> None:
    generated = chat.render(chat.measure(_say))
    _say(f"\n{generated}")
    if options.write:
        report.write(DOCS, generated, CHAT_PART)


def _gil(options: argparse.Namespace) -> None:
    plan = _plan(options, concurrency=(options.concurrency,))
    with tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder:
        _say(lock_share.run(plan, options.seconds, Path(folder)))


def _steps(options: argparse.Namespace) -> None:
    spec = rounds.engine_spec(_plan(options, concurrency=options.concurrency))
    _say(steps.render(steps.measure(spec, options.concurrency, options.seed)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
