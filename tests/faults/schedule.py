"""Seeded fault schedules: which process is killed when, while answers are being generated."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.stack import ROOT, Stack

TARGETS = ("engine", "web", "jobs", "beat", "supervisor", "redis", "supervisord", "manager")
NUM_ANSWERS = 4
KILLS = 3
TIMEOUT_S = 90.0
KILL_WINDOW_S = 2.5


@dataclass(frozen=True, slots=True)
class Kill:
    """`target` dies `after_s` seconds after the one before."""

    target: str
    after_s: float


def schedule(seed: int, targets: tuple[str, ...] = TARGETS) -> list[Kill]:
    """The kills of one run."""
    rng = random.Random(seed)
    return [Kill(rng.choice(targets), rng.uniform(0.1, KILL_WINDOW_S)) for _ in range(KILLS)]


def begin(stack: Stack, prompts: list[str], max_tokens: int | None = None) -> subprocess.Popen[str]:
    """Start the driver; returns once all generations are committed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.driver"],
        cwd=ROOT,
        env={name: value for name, value in stack.env.items() if "LLAMAWEB" not in name},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    env = stack.env | {"DJANGO_SETTINGS_MODULE": "llamaweb.settings"}
    order = {"env": env, "prompts": prompts, "max_tokens": max_tokens, "timeout_s": TIMEOUT_S}
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if line != "started\n":
        raise RuntimeError(f"{line}{process.communicate()[1][-3000:]}")
    return process


def end(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What became of the generations."""
    try:
        out, errors = process.communicate(timeout=TIMEOUT_S + 60)
    finally:
        process.kill()
    if process.returncode != 0:
        raise RuntimeError(errors[-3000:])
    result: list[dict[str, Any]] = json.loads(out)
    return result


def disturb(stack: Stack, kills: list[Kill]) -> None:
    """Carry the kills out; a dead manager is started again at once, as a service unit would."""
    for kill in kills:
        time.sleep(kill.after_s)
        with contextlib.suppress(TimeoutError):  # it may be starting again from an earlier kill
            stack.kill(kill.target)
        if kill.target == "manager":
            stack.wait_end()
            stack.wait_gone()
            stack.start()


def answer_of(index: int) -> str:
    """A prompt that the mock engine echoes: long enough to be killed in, with split characters."""
    return f"{index}: " + "naïve 漢字 😺 words " * 6 + f"end {index}"


def run(stack: Stack, seed: int, targets: tuple[str, ...] = TARGETS) -> list[str]:
    """One schedule against a running mock instance; returns what went wrong."""
    prompts = [answer_of(i) for i in range(NUM_ANSWERS)]
    driver = begin(stack, prompts)
    kills = schedule(seed, targets)
    disturb(stack, kills)
    stack.wait_ready()
    problems = []
    for prompt, row in zip(prompts, end(driver), strict=True):
        if row["state"] != "finished" or row["stored"] != prompt:
            problems.append(f"seed {seed} {kills}: stored {row['state']} {row['error']!r}")
        elif row["followed"] != prompt:
            problems.append(f"seed {seed} {kills}: the reader saw {row['followed']!r}")
    return problems
