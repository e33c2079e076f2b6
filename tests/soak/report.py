"""Verdict and the generated part of docs/benchmarks.md."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from tests.bench.machine import cpu_model
from tests.generated import table
from tests.soak.soak import Run, Sample

WARM_UP_SHARE = 0.25  # of the samples: allocators and caches find their size
MAX_CHANGE = 0.02
MIN_MEASURED = 8  # samples behind the warm-up; fewer say nothing about memory
MAX_ROWS = 12


def problems(run: Run) -> list[str]:
    """Everything that must not be, memory that grew or shrank included."""
    found = list(run.problems)
    measured = run.samples[round(WARM_UP_SHARE * len(run.samples)) :]
    if len(measured) < MIN_MEASURED:
        return [*found, f"{len(measured)} samples are too few to judge the memory"]
    change = memory_change(run.samples)
    if abs(change) > MAX_CHANGE:
        found.append(f"the memory changed by {change:+.1%} from the first to the last half")
    return found


def memory_change(samples: Sequence[Sample]) -> float:
    """Own memory of the last half of what was measured against the first, as a share."""
    measured = samples[round(WARM_UP_SHARE * len(samples)) :]
    middle = len(measured) // 2
    first = statistics.mean(sample.own for sample in measured[:middle])
    last = statistics.mean(sample.own for sample in measured[middle:])
    return last / first - 1


def render(run: Run) -> str:
    """Facts, samples and verdict as Markdown."""
    spec = run.plan.spec
    facts = [
        ("date", time.strftime("%Y-%m-%d")),
        ("CPU", cpu_model()),
        ("model", spec.model_path.rpartition("/")[2] or spec.engine_class),
        ("slots", f"{spec.num_slots}, {spec.context_len} tokens each"),
        ("RAM cache", f"{spec.cache_ram_mib} MiB"),
        ("seed", str(run.plan.seed)),
        ("duration", f"{run.samples[-1].at_s / 60:.0f} min"),
        ("ends", ", ".join(f"{kind} {num}" for kind, num in sorted(run.ends.items()))),
        ("deletions", str(run.num_purges)),
        ("prefixes", _prefixes(run)),
        ("most at once", ", ".join(f"{kind} {num}" for kind, num in sorted(run.peaks.items()))),
        ("own memory, last half against first", f"{memory_change(run.samples):+.2%}"),
        ("chains, grammars, cells held by nobody", "; ".join(run.problems) or "none"),
    ]
    step = -(-len(run.samples) // MAX_ROWS)
    shown = run.samples[step - 1 :: step]
    rows = [
        [
            f"{sample.at_s / 60:.1f}",
            str(sample.num_requests),
            f"{sample.resident:.1f}",
            f"{sample.own:.1f}",
            str(sample.cells),
            str(sample.host_entries),
            str(sample.threads),
            str(sample.files),
        ]
        for sample in shown
    ]
    head = ("min", "requests", "resident MiB", "own MiB", "cells", "states", "threads", "files")
    return f"{table(('soak', ''), facts)}\n\nWhile nobody asks for anything:\n\n{table(head, rows)}"


def _prefixes(run: Run) -> str:
    names = ("copies", "state_copies", "moves", "stores", "restores", "evicted")
    return ", ".join(f"{name.replace('_', ' ')} {run.stats[f'cache_{name}']}" for name in names)
