"""Random requests of every kind, from one seed."""

from __future__ import annotations

import time
from random import Random

from inference.protocol.params import ContextParams, Grammar, GrammarTrigger, Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message, TextPrompt
from inference.queues.contract import CachePurge

MODEL = "soak"
DEADLINE_S = 300.0
OWNERS = tuple(f"user:{number}" for number in range(6))
CONVERSATIONS = ("", *(f"c{number}" for number in range(8)))
WORDS = (
    *("river", "stone", "cloud", "apple", "why", "does", "the", "old", "lamp", "sing", "of"),
    *("漢字", "and", "😺", "under", "a", "green", "moon"),
)
SYSTEMS = (
    "",
    "Answer in one short sentence. " * 4,
    "The library opens at nine. Books may be kept for four weeks, films for one. " * 5,
)
JSON = r"""
root ::= "{" pair ("," pair)* "}"
pair ::= string ":" ([0-9]{1,3} | string)
string ::= "\"" [a-z ]{1,12} "\""
"""
SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(),
    SamplingParams(temperature=0.0, num_probs=5),
    SamplingParams(num_probs=3, post_sampling_probs=True),
    SamplingParams(temperature=1.2, repeat_penalty=1.2, frequency_penalty=0.3, ignore_eos=True),
    SamplingParams(mirostat=1),
    SamplingParams(mirostat=2),
    SamplingParams(dry_multiplier=0.8, presence_penalty=0.5),
    SamplingParams(xtc_probability=0.5, xtc_threshold=0.05, typical_p=0.9, top_n_sigma=2.0),
    SamplingParams(samplers=("top_k", "adaptive_p"), adaptive_target=0.4),
    SamplingParams(grammar=Grammar(JSON)),
    SamplingParams(temperature=0.0, grammar=Grammar('root ::= [a-z ]* "."')),
    SamplingParams(
        grammar=Grammar(JSON, lazy=True, triggers=(GrammarTrigger("word", value='{"a'),))
    ),
)
STOPS = ((), (), ("\n",), (".", "the end"))


class Traffic:
    """Draws everything; nothing but `random` decides, so a seed gives the same requests."""

    def __init__(self, seed: int, context_len: int) -> None:
        self.random = Random(seed)
        self._context_len = context_len
        self._number = 0

    def request(self) -> GenerateRequest:
        """One more request; about one in fifty doesn't fit into the context."""
        draw, now = self.random, time.time()
        self._number += 1
        owner = draw.choice(OWNERS)
        return GenerateRequest(
            f"soak-{self._number}",
            MODEL,
            owner_key=owner,
            cache_scope=draw.choice((owner, owner, "group:1")),
            prompt=self._prompt(),
            seed=draw.randrange(2**32 - 1),
            submitted_at=now,
            deadline_at=now + DEADLINE_S,
            lane=draw.choice(("interactive", "interactive", "background")),
            sampling=SAMPLINGS[self._number % len(SAMPLINGS)],  # soon all of them
            limits=Limits(
                max_tokens=draw.choice((0, 1, 8, 24, 64, None)) if draw.random() < 0.9 else None,
                stop=draw.choice(STOPS),
            ),
            context=ContextParams(
                cache_prompt=draw.random() < 0.9,
                n_cache_reuse=draw.choice((0, 0, 0, 32)),
                conversation=draw.choice(CONVERSATIONS),
            ),
            keep=True,
        )

    def purge(self) -> CachePurge:
        """What a deletion forgets: a conversation or two, an owner, rarely everything."""
        draw = self.random
        if draw.random() < 0.1:
            return CachePurge()
        if draw.random() < 0.5:
            return CachePurge(owner_key=draw.choice(OWNERS))
        return CachePurge(conversations=tuple(draw.sample(CONVERSATIONS[1:], 2)))

    def _prompt(self) -> ChatPrompt | TextPrompt:
        draw = self.random
        size = draw.random()
        if size < 0.02:  # too long
            return TextPrompt(self._words(2 * self._context_len))
        if size < 0.08:  # the context is full after a few tokens
            return TextPrompt(self._words(self._context_len // 3))
        text = self._words(draw.choice((1, 5, 20, 60)))
        if draw.random() < 0.3:
            return TextPrompt(draw.choice(SYSTEMS) + text)
        system = draw.randrange(len(SYSTEMS))
        messages = (Message("system", SYSTEMS[system]), Message("user", text))
        return ChatPrompt(messages if system else messages[1:], public_messages=min(1, system))

    def _words(self, num: int) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(num))
