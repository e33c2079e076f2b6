"""What the engine says under every load and with every tier, against a plain run.

    make equality                                 # all prompts, both models, all modes
    python -m tests.model.equality --model starter --settings exact

Two ways that round differently may part where the two best tokens are nearly equal, and only there:
each divergence is listed with the gap that the plain run saw, and a larger gap fails.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from inference.engine.contract import SequenceRequest
from inference.engine.costs import CacheCosts
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.sequence import Phase
from inference.protocol.events import Event
from inference.protocol.params import ContextParams, Limits
from inference.protocol.spec import EngineSpec
from tests.engine.driving import GREEDY, ask, collect, finished, ids_of, started
from tests.gemma import find_gemma
from tests.model.conftest import starter_spec
from tests.model.llama_reference import PlainRun
from tests.model.llama_requantise import requantised

NEAR_TIE = 0.05  # logits
LOAD = 8
NUM_OWNERS = 5
END = -1  # any end token
TIGHT_MIB, ROOMY_MIB = 8, 32  # some 400 and 1,600 tokens of these models


@dataclass(frozen=True, slots=True)
class Mode:
    """`load`: sequences at a time, and slots unless `num_slots` says otherwise; `reuse`: prefixes
    that are there are used; `ram_mib`: the second tier."""

    name: str
    load: int
    reuse: bool = True
    ram_mib: int = 0
    num_slots: int = LOAD

    @property
    def num_turns(self) -> int:
        """How often all prompts are asked: once more where they are to come back from memory."""
        return 2 if self.ram_mib else 1


MODES = (
    Mode("alone", 1, reuse=False),
    Mode("alone, prefixes reused", 1),
    Mode("alone, prefixes and RAM", 1, ram_mib=TIGHT_MIB, num_slots=2),
    Mode("8 at once", LOAD, reuse=False),
    Mode("8 at once, prefixes reused", LOAD),
    Mode("8 at once, prefixes and RAM", LOAD, ram_mib=ROOMY_MIB),
)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where an answer parted from the plain run's.

    It is token number `position` of the answer to prompt number `prompt`. `gap`: logits by which
    the plain run's token led. `pieces`: lengths in which the engine computed the prompt, behind the
    `cached` tokens that it had already.
    """

    prompt: int
    position: int
    gap: float
    wanted: int
    got: int
    cached: int = 0
    pieces: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Number, events and pieces of each prompt; see `Outcome`."""

    answers: list[tuple[int, list[Event], tuple[int, ...]]]
    most_held: int
    most_decoded: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a mode gave: answers compared, those that parted, the engine's counters, and the most
    sequences that it had and that got a token in one step."""

    num_answers: int
    divergences: list[Divergence]
    stats: Mapping[str, float | int]
    most_held: int
    most_decoded: int

    @property
    def worst_gap(self) -> float:
        """The largest gap at a divergence, 0 without one."""
        return max((item.gap for item in self.divergences), default=0.0)


def exact_spec(model: str) -> EngineSpec:
    """`model` ("starter", "gemma") where every way to compute a text rounds alike."""
    if model == "starter":
        return starter_spec()
    return starter_spec(model_path=str(requantised(find_gemma())))


def served_spec(model: str) -> EngineSpec:
    """`model` as a server has it: the file as it comes, batches and kernels of a default config."""
    fields: dict[str, object] = {"batch_len": 2048, "ubatch_len": 512}
    if model == "starter":
        return starter_spec(**fields, flash_attention="off")
    return starter_spec(**fields, flash_attention="on", model_path=str(find_gemma()))


class Subject:
    """A model under a spec, its prompts as tokens and what a plain run answers to them."""

    def __init__(self, spec: EngineSpec, prompts: Sequence[str], max_tokens: int) -> None:
        self.spec = dataclasses.replace(spec, yields_cores=False)
        self.max_tokens = max_tokens
        engine, tokenizer = build_engine(dataclasses.replace(self.spec, num_slots=1))
        self.tokens = [
            tuple(tokenizer.tokenize(text, add_special=True, parse_special=True))
            for text in prompts
        ]
        self.ends = tuple(tokenizer.end_tokens)
        engine.close()
        plain = PlainRun(self.spec)
        self.answers = [
            [
                dataclasses.replace(choice, token_id=END)
                if plain.is_end(choice.token_id)
                else choice
                for choice in plain.greedy(tokens, max_tokens)
            ]
            for tokens in self.tokens
        ]
        plain.close()

    def compare(self, mode: Mode) -> Outcome:
        """Ask everything in `mode`."""
        spec = dataclasses.replace(self.spec, num_slots=mode.num_slots, cache_ram_mib=mode.ram_mib)
        with cheap_ways():
            engine, _ = build_engine(spec)
            assert isinstance(engine, Engine)
            try:
                asked = self._ask_all(engine, mode)
                stats = dict(engine.stats())
            finally:
                engine.close()
        found = [self._parted(*answer) for answer in asked.answers]
        return Outcome(
            len(found), [one for one in found if one], stats, asked.most_held, asked.most_decoded
        )

    def _ask_all(self, engine: Engine, mode: Mode) -> _Asked:
        out: dict[str, list[Event]] = {}
        pieces: dict[str, list[int]] = {}
        order = [n for turn in range(mode.num_turns) for n in self._order(turn)]
        waiting = [self._request(place, number, mode) for place, number in enumerate(order)]
        held = decoded = 0
        while waiting or engine.has_work:
            while waiting and len(engine._active) < mode.load:
                engine.add(waiting.pop(0))
            held = max(held, len(engine._active))
            collect(out, engine.step())
            decoded = max(decoded, engine.last_step.num_decode)
            for place, sequence in engine._active.items():
                own = pieces.setdefault(place, [])
                done = min(sequence.slot.length, sequence.prompt_len) - sequence.cached_tokens
                if sequence.phase is not Phase.WAITING and sum(own) < done:
                    own.append(done - sum(own))
        answers = [
            (number, out[str(place)], tuple(pieces.get(str(place), ())))
            for place, number in enumerate(order)
        ]
        return _Asked(answers, held, decoded)

    def _order(self, turn: int) -> list[int]:
        """Back and forth, so that what was put away last is wanted first."""
        order = list(range(len(self.tokens)))
        return order[::-1] if turn else order

    def _request(self, place: int, number: int, mode: Mode) -> SequenceRequest:
        request = ask(
            str(place),
            "-",
            owner=f"user:{place % NUM_OWNERS}",
            scope="group:1",
            sampling=GREEDY,
            limits=Limits(max_tokens=self.max_tokens),
            context=ContextParams(cache_prompt=mode.reuse),
        )
        return dataclasses.replace(request, tokens=self.tokens[number])

    def _parted(
        self, number: int, events: list[Event], pieces: tuple[int, ...]
    ) -> Divergence | None:
        cached = started(events).cached_tokens
        assert finished(events).usage.cached_tokens == cached
        said = ids_of(events)
        for position, choice in enumerate(self.answers[number]):
            got = said[position] if position < len(said) else END
            if got != choice.token_id:
                return Divergence(
                    number, position, choice.gap, choice.token_id, got, cached, pieces
                )
        assert len(said) <= len(self.answers[number]), "it went on behind the plain run's end"
        return None


def check_mode(mode: Mode, outcome: Outcome) -> None:
    """What the mode is there for has happened."""
    stats, hits = outcome.stats, Counter[str]()
    for tier in ("slot", "copy", "host"):
        hits[tier] = int(stats[f"cache_{tier}_hit_tokens"])
    assert stats["failed"] == stats["cancelled"] == 0
    assert outcome.most_held == mode.load
    assert (outcome.most_decoded > 1) == (mode.load > 1)
    assert (hits.total() > 0) == mode.reuse
    if mode.reuse and mode.load == 1:
        assert hits["slot"] > 0
    if mode.reuse and mode.load > 1:
        assert stats["cache_copies"] > 0
        assert hits["copy"] > 0
    if mode.ram_mib:
        assert stats["cache_stores"] > 0
        assert stats["cache_restores"] > 0
        assert hits["host"] > 0
        assert stats["cache_host_bytes"] <= mode.ram_mib << 20
    else:
        assert stats["cache_stores"] == stats["cache_restores"] == 0
    if mode.ram_mib == TIGHT_MIB:
        assert stats["cache_evicted"] > 0


@contextmanager
def cheap_ways() -> Iterator[None]:
    """Every way to get a prefix is taken where there is one, whatever it costs here and now."""
    free = {"copy_s": 0.0, "save_s": 0.0, "restore_s": 0.0}
    with mock.patch.multiple(
        CacheCosts, **{name: lambda *_, value=value: value for name, value in free.items()}
    ):
        yield
