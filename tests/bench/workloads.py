"""What is asked: the same prompts for every target of a cell, new ones in every cell.

A closed workload is a number of requests by as many callers as there are streams, each of which
asks its next one when it has its answer. The mixed ones are what happens on a server that people
share, and have a number of streams of their own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

Workload: TypeAlias = Literal["distinct", "shared", "story", "arrive", "chats", "busy"]
Chat: TypeAlias = tuple[tuple[str, str], ...]  # (role, content)

CLOSED: tuple[Workload, ...] = ("distinct", "shared")
MIXED_STREAMS: dict[Workload, int] = {"arrive": 8, "chats": 8, "busy": 1}
WORKLOADS: tuple[Workload, ...] = (*CLOSED, *MIXED_STREAMS)
MAX_TOKENS = 64
REQUESTS = {1: 4, 2: 8, 4: 12, 8: 16}  # of a cell, by concurrency
LEAST_REQUESTS = 3  # so that the median of a shared prefix is one that was there already
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
SHORT_WORDS = 30  # about 45 tokens: of the streams that a long prompt meets
OPENING_WORDS = 60  # about 75 tokens
QUESTION_WORDS = 12
WISHES: dict[Workload, str] = {
    "distinct": "Continue this list of words.",
    "story": "Write a long story in which all of these words occur.",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked. `max_tokens` of an answer, but `turn_tokens` in a conversation.

    `requests` of a closed cell, or `waves`: as many for each stream, LEAST_REQUESTS in all (both 0:
    by concurrency). `long_words` of the prompt that arrives.
    `busy_s`: after so long the answer under a foreign load counts as far as it came.
    """

    max_tokens: int = MAX_TOKENS
    requests: int = 0
    waves: int = 0
    long_words: int = 3650  # about 4,000 tokens
    conversations: int = 24
    turns: int = 4
    turn_tokens: int = 12
    busy_s: float = 10.0

    def num_requests(self, concurrency: int) -> int:
        """How many requests a closed cell sends: a fixed number, so every run ends."""
        if self.requests:
            return self.requests
        if self.waves:
            return max(LEAST_REQUESTS, self.waves * concurrency)
        return REQUESTS.get(concurrency, 2 * concurrency)


def chat(workload: Workload, seed: str, index: int) -> Chat:
    """Prompt `index` of the closed cell `seed`.

    distinct: about 190 tokens, all different. story: as many, for an answer that doesn't end soon
    by itself. shared: about 550, of which all but the last 20 are one system prompt, new in every
    cell.
    """
    rng = random.Random(f"{seed}/{index}")
    if workload in WISHES:
        number, text = rng.randrange(10**6), _words(rng, DISTINCT_WORDS)
        return (("user", f"{number} {text} {WISHES[workload]}"),)
    system = _words(random.Random(f"system/{seed}"), SYSTEM_WORDS)
    number, text = rng.randrange(10**6), _words(rng, TAIL_WORDS)
    return (
        ("system", f"You are a careful assistant. {system}"),
        ("user", f"{number} {text} What comes next?"),
    )


def short_chat(seed: str, index: int) -> Chat:
    """Prompt `index` of the streams that decode when a long prompt arrives: about 45 tokens."""
    rng = random.Random(f"short/{seed}/{index}")
    return (("user", f"{rng.randrange(10**6)} {_words(rng, SHORT_WORDS)} Go on."),)


def long_chat(seed: str, num_words: int) -> Chat:
    """The prompt that arrives, of about 1.1 tokens a word."""
    rng = random.Random(f"long/{seed}")
    text = _words(rng, num_words)
    return (("user", f"{rng.randrange(10**6)} {text} Continue this list of words."),)


def question(seed: str, conversation: int, turn: int) -> str:
    """What turn `turn` of a conversation says; the first one is the longest."""
    rng = random.Random(f"{seed}/{conversation}/{turn}")
    text = _words(rng, QUESTION_WORDS if turn else OPENING_WORDS)
    return f"{rng.randrange(10**6)} {text} What comes next?"


def parse_workloads(text: str, known: Sequence[Workload] = WORKLOADS) -> tuple[Workload, ...]:
    """Those of `known` in `text`, separated by commas; raises ValueError on another name."""
    names = text.split(",")
    unknown = set(names) - set(known)
    if unknown:
        raise ValueError(f"no workload {sorted(unknown)}; there are {', '.join(known)}")
    return cast("tuple[Workload, ...]", tuple(names))


def _words(rng: random.Random, num: int) -> str:
    return " ".join(
        rng.choice(WORDS) + ("." if i % WORDS_A_SENTENCE == WORDS_A_SENTENCE - 1 else "")
        for i in range(num)
    )
