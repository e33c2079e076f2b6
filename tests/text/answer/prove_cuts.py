"""`make cuts`: every recorded output, cut in two in every way there is, on all cores; minutes."""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from canitoolcall.fixtures import Fixture, load_fixtures

from tests.generated import renew
from tests.text.answer.recorded import RecordedOutput, changed_by

COMMAND = "make cuts"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "engine-proofs.md"
MAX_SHOWN = 5  # cuts of an output


@dataclass(frozen=True, slots=True)
class Proof:
    """Of one output: how many cuts there are, and those that change what it means."""

    name: str
    num_cuts: int
    changed: list[int]


@functools.cache
def outputs() -> list[Fixture]:
    """All of them, in an order that is always the same."""
    return load_fixtures()


def prove(number: int) -> Proof:
    """All cuts of the output of that number."""
    fixture = outputs()[number]
    output = RecordedOutput(fixture)
    cuts = range(1, len(output.text))
    return Proof(fixture.id, len(cuts), changed_by(output, cuts))


def render(proofs: Sequence[Proof], cpu_s: float) -> str:
    """Markdown."""
    bad = [proof for proof in proofs if proof.changed]
    num_cuts = sum(proof.num_cuts for proof in proofs)
    facts = f"{time.strftime('%Y-%m-%d')}: {len(proofs)} outputs, {num_cuts:,} cuts, "
    facts += f"{sum(len(proof.changed) for proof in bad)} of them change what is read; "
    lines = [f"- {proof.name}: at {proof.changed[:MAX_SHOWN]}" for proof in bad]
    return "\n".join([facts + f"{cpu_s:.0f} s of a core.", *lines])


def main(arguments: Sequence[str]) -> int:
    """Prove, report; 1 where a cut changes something."""
    parser = argparse.ArgumentParser(prog="python -m tests.text.answer.prove_cuts")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help=f"renew docs/{DOCS.name}")
    options = parser.parse_args(arguments)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        # The longest first, so that no core has one left when the others are through.
        lengths = [len(fixture.raw_output) for fixture in outputs()]
        order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        proofs = list(pool.map(prove, order))
    used = os.times()
    generated = render(proofs, used.children_user + used.children_system)
    print(generated)
    if options.write:
        renew(DOCS, COMMAND, generated)
    return 1 if any(proof.changed for proof in proofs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
