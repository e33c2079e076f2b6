"""`make equality`: all prompts, both models, all modes, in two settings; minutes to an hour.

    python -m tests.model.prove_equality --model starter --settings exact

*exact*: kernels that round alike whatever shares a batch. A divergence is a mistake of ours unless
the plain run's two best tokens were nearly equal. *served*: what a default server has. There the
library's own rounding moves with the number of rows, so that a larger gap is held against a
control: the plain loop itself, on the same tokens cut into other batches, has to prefer the
engine's token too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.bench.machine import cpu_model
from tests.generated import renew, table
from tests.model.equality import (
    END,
    MODES,
    NEAR_TIE,
    Divergence,
    Mode,
    Outcome,
    Subject,
    check_mode,
    exact_spec,
    served_spec,
)
from tests.model.equality_prompts import PROMPTS
from tests.model.llama_reference import PlainRun, Shape

DOCS = Path(__file__).resolve().parents[2] / "docs" / "engine-proofs.md"
MAX_TOKENS = 24
SPECS = {"exact": exact_spec, "served": served_spec}
MAX_COPIES = 8
CACHED_LENS = (32, 64, 96, 16)
SHAPES = tuple(
    Shape(copies, piece_len)
    for copies, piece_len in (
        *((8, 0), (1, 1), (8, 8), (1, 7), (2, 0), (5, 13), (1, 32), (3, 32), (8, 1), (7, 9)),
        *((4, 0), (6, 32), (1, 63), (8, 5), (2, 32), (7, 0)),
    )
)


@dataclass(slots=True)
class Finding:
    """One divergence; `least`: the smallest lead of the plain run's token in the shapes tried."""

    place: str
    divergence: Divergence
    least: float | None = None

    @property
    def is_bad(self) -> bool:
        """Whether rounding doesn't explain it."""
        lead = self.divergence.gap if self.least is None else min(self.divergence.gap, self.least)
        return lead >= NEAR_TIE


@dataclass(slots=True)
class Proof:
    """Rows of the table, and every divergence."""

    rows: list[list[str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class Control:
    """The plain loop in other shapes of batches."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._plain = PlainRun(subject.spec, max_copies=MAX_COPIES)

    def least_lead(self, item: Divergence) -> float:
        """By how many logits the plain run's token leads the engine's, where it leads least; no
        more shapes are tried once that is a near tie."""
        prompt = self._subject.tokens[item.prompt]
        choices = self._subject.answers[item.prompt][: item.position]
        said = [choice.token_id for choice in choices]
        least = item.gap
        # The answer so far came token by token, or with the prompt as after a restart.
        for shape, is_resumed in itertools.product((*own_shapes(item), *SHAPES), (False, True)):
            cut = ([*prompt, *said], []) if is_resumed else (prompt, said)
            logits = self._plain.logits(*cut, shape)
            least = min(least, self._value(logits, item.wanted) - self._value(logits, item.got))
            if least < NEAR_TIE:
                break
        return least

    def close(self) -> None:
        """Free what was loaded."""
        self._plain.close()

    def _value(self, logits: NDArray[np.float32], token: int) -> float:
        return float(logits[list(self._subject.ends) if token == END else token].max())


def prove(
    proof: Proof,
    model: str,
    settings: str,
    modes: Sequence[Mode],
    num: int,
    on_row: Callable[[], None],
) -> None:
    """Compare one model in one setting; `on_row` is called with each mode that is done."""
    subject = Subject(SPECS[settings](model), PROMPTS[:num], MAX_TOKENS)
    control = Control(subject)
    for mode in modes:
        started_ts = time.monotonic()
        outcome = subject.compare(mode)
        check_mode(mode, outcome)
        found = [Finding(f"{model}, {settings}, {mode.name}", d) for d in outcome.divergences]
        for finding in found:
            if settings == "served" and finding.divergence.gap >= NEAR_TIE:
                finding.least = control.least_lead(finding.divergence)  # up to minutes
            print("   ", describe(finding), flush=True)
        proof.findings += found
        proof.rows.append([model, settings, mode.name, *_numbers(outcome, found)])
        print(*proof.rows[-1], f"{time.monotonic() - started_ts:.0f} s", sep=" | ", flush=True)
        on_row()
    control.close()


def own_shapes(item: Divergence) -> Iterator[Shape]:
    """The engine's own cut of the prompt, alone and among others; what it had already was somebody
    else's, cut in ways that nobody remembers."""
    before = [(item.cached,), *((length,) * (item.cached // length) for length in CACHED_LENS)]
    for copies, first in itertools.product((1, MAX_COPIES, 2, 4), before if item.cached else [()]):
        rest = item.cached - sum(first)
        yield Shape(copies, 0, (*first, *((rest,) if rest else ()), *item.pieces))


def describe(finding: Finding) -> str:
    """A divergence in a line."""
    item = finding.divergence
    text = f"prompt {item.prompt}, token {item.position}: gap {item.gap:.4f}"
    if finding.least is not None:
        text += f", otherwise cut {finding.least:+.4f}"
    return text + (" — NOT EXPLAINED" if finding.is_bad else "")


def _numbers(outcome: Outcome, found: Sequence[Finding]) -> list[str]:
    stats = outcome.stats
    hits = (stats[f"cache_{tier}_hit_tokens"] for tier in ("slot", "copy", "host"))
    return [
        str(outcome.num_answers),
        " / ".join(map(str, hits)),
        f"{stats['cache_stores']} / {stats['cache_restores']}",
        str(len(found)),
        f"{outcome.worst_gap:.3f}" if found else "–",
        str(sum(finding.is_bad for finding in found)),
    ]


def render(proof: Proof, num_prompts: int, num_rows: int) -> str:
    """Markdown."""
    facts = f"{time.strftime('%Y-%m-%d')}, {cpu_model()}, {num_prompts} prompts, "
    facts += f"{MAX_TOKENS} tokens each."
    if len(proof.rows) < num_rows:
        facts += f" Stopped after {len(proof.rows)} of {num_rows} rows."
    head = ("model", "settings", "mode", "answers", "tokens reused: slot / copy / RAM")
    head = (*head, "stored / restored", "parted", "largest gap", "not explained")
    lines = [f"- {finding.place}: {describe(finding)}" for finding in proof.findings]
    return "\n\n".join((facts, table(head, proof.rows), "Every divergence:", "\n".join(lines)))


def main(arguments: Sequence[str]) -> int:
    """Prove, report; 1 where rounding doesn't explain a divergence."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.prove_equality")
    parser.add_argument("--model", choices=("starter", "gemma"), action="append")
    parser.add_argument("--settings", choices=sorted(SPECS), action="append")
    parser.add_argument("--mode", type=int, action="append", help="numbers of modes, from 0")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--write", action="store_true", help=f"renew docs/{DOCS.name}")
    options = parser.parse_args(arguments)
    modes = [MODES[number] for number in options.mode] if options.mode else list(MODES)
    models = options.model or ("starter", "gemma")
    kinds = options.settings or sorted(SPECS)
    proof = Proof()

    def write() -> None:
        if options.write:
            num_rows = len(models) * len(kinds) * len(modes)
            renew(DOCS, "make equality", render(proof, options.prompts, num_rows))

    for model, settings in itertools.product(models, kinds):
        prove(proof, model, settings, modes, options.prompts, write)
    bad = [finding for finding in proof.findings if finding.is_bad]
    for finding in bad:
        print(f"equality: {finding.place}: {describe(finding)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
