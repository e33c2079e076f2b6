"""What is asked: the same prompts for every target of a cell, new ones in every cell."""

from __future__ import annotations

import random
from typing import Literal, TypeAlias, cast

Workload: TypeAlias = Literal["distinct", "shared"]
Chat: TypeAlias = tuple[tuple[str, str], ...]  # (role, content)

WORKLOADS: tuple[Workload, ...] = ("distinct", "shared")
MAX_TOKENS = 64
REQUESTS = {1: 4, 2: 8, 4: 12, 8: 16}  # of a cell, by concurrency
WORD_LIST = """
river stone market lantern copper winter garden signal harbor mountain letter engine forest bridge
window silver captain orchard thunder village paper circle desert island candle meadow anchor ribbon
kettle saddle compass feather hammer basket mirror velvet cotton marble timber saffron
"""
WORDS = tuple(WORD_LIST.split())
WORDS_A_SENTENCE = 11
DISTINCT_WORDS = 140  # about 190 tokens
SYSTEM_WORDS = 460  # about 530 tokens
TAIL_WORDS = 12  # about 20 tokens


def num_requests(concurrency: int) -> int:
    """How many requests a cell sends: a fixed number, so every run ends."""
    return REQUESTS.get(concurrency, 2 * concurrency)


def chat(workload: Workload, seed: str, index: int) -> Chat:
    """Prompt `index` of the cell `seed`.

    distinct: about 190 tokens, all different. shared: about 550, of which all but the last 20 are
    one system prompt, new in every cell.
    """
    rng = random.Random(f"{seed}/{index}")
    if workload == "distinct":
        number, text = rng.randrange(10**6), _words(rng, DISTINCT_WORDS)
        return (("user", f"{number} {text} Continue this list of words."),)
    system = _words(random.Random(f"system/{seed}"), SYSTEM_WORDS)
    number, text = rng.randrange(10**6), _words(rng, TAIL_WORDS)
    return (
        ("system", f"You are a careful assistant. {system}"),
        ("user", f"{number} {text} What comes next?"),
    )


def parse_workloads(text: str) -> tuple[Workload, ...]:
    """Names separated by commas; raises ValueError on another name."""
    names = text.split(",")
    unknown = set(names) - set(WORKLOADS)
    if unknown:
        raise ValueError(f"no workload {sorted(unknown)}; there are {', '.join(WORKLOADS)}")
    return cast("tuple[Workload, ...]", tuple(names))


def _words(rng: random.Random, num: int) -> str:
    return " ".join(
        rng.choice(WORDS) + ("." if i % WORDS_A_SENTENCE == WORDS_A_SENTENCE - 1 else "")
        for i in range(num)
    )
