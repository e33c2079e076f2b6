"""One queue under test with its clock, and short ways to ask for what tests ask for often."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import redis

from inference.protocol.events import Delta, Event, Finished, Started
from inference.protocol.requests import (
    GenerateRequest,
    Lane,
    TextPrompt,
    TokenizeRequest,
)
from inference.queues.contract import Append, Claim, Queue, QueueConfig
from inference.queues.keys import model_keys
from inference.queues.memory import MemoryQueue
from inference.queues.redis_queue import RedisQueue
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.ids import new_id

MODEL = "small"
CONFIG = QueueConfig(
    max_queued=60,
    max_queued_per_owner=55,
    max_queued_bytes_per_owner=100_000,
    stream_bytes=2000,
)
HOUR_S = 3600.0
OTHERS_RENEW_S = 1.5


class Shift:
    """Seconds added to a server's clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Bench:
    """`queue` under test. `client` and `prefix` only where it is on a server."""

    queue: Queue
    clock: ManualClock | Shift
    config: QueueConfig
    client: redis.Redis | None = None
    prefix: str = ""
    epochs: dict[str, int] = field(default_factory=dict)
    full: list[bool] = field(default_factory=list)

    def now(self) -> float:
        if isinstance(self.clock, ManualClock):
            return self.clock.now
        return time.time() + self.clock.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass for a queue in use: others look after their own all the while."""
        while seconds > 0:
            self.be_away(min(seconds, OTHERS_RENEW_S))
            self.queue.reader_renew(MODEL, "other", ())
            seconds -= OTHERS_RENEW_S

    def be_away(self, seconds: float) -> None:
        """Let time pass while nobody speaks to the queue."""
        if isinstance(self.clock, ManualClock):
            self.clock.advance(seconds)
        else:
            self.clock.seconds += seconds

    def request(
        self,
        generation_id: str,
        owner: str = "alice",
        *,
        lane: Lane = "interactive",
        keep: bool = True,
        on_finish: str | None = None,
        within_s: float = HOUR_S,
        model: str = MODEL,
    ) -> GenerateRequest:
        return GenerateRequest(
            generation_id=generation_id,
            model=model,
            owner_key=owner,
            cache_scope=owner,
            prompt=TextPrompt("hello"),
            seed=1,
            submitted_at=self.now(),
            deadline_at=self.now() + within_s,
            lane=lane,
            keep=keep,
            on_finish=on_finish,
        )

    def utility(self, generation_id: str, owner: str = "alice") -> TokenizeRequest:
        now = self.now()
        return TokenizeRequest(generation_id, MODEL, owner, now, now + HOUR_S, text="hello")

    def submit(self, *ids: str, **options: Any) -> None:
        """Submit one request for each id."""
        reader_id = options.pop("reader_id", None)
        for generation_id in ids:
            self.queue.submit(self.request(generation_id, **options), reader_id=reader_id)

    def claim(self, slots: int = 1, engine: str = "e1", *, idle: bool = True) -> tuple[Claim, ...]:
        claims = self.queue.claim(MODEL, engine, slots=slots, idle=idle)
        for claim in claims:
            self.epochs[claim.request.generation_id] = claim.epoch
        return claims

    def claimed_ids(self, slots: int = 1, engine: str = "e1", *, idle: bool = True) -> list[str]:
        return [claim.request.generation_id for claim in self.claim(slots, engine, idle=idle)]

    def start(self, generation_id: str = "g", engine: str = "e1", **options: Any) -> Claim:
        """Submit and claim one."""
        self.submit(generation_id, **options)
        (claim,) = self.claim(1, engine)
        assert claim.request.generation_id == generation_id
        return claim

    def append(self, claim: Claim, first_seq: int, *events: Event, engine: str = "e1") -> str:
        item = Append(
            claim.request.generation_id, claim.epoch, claim.incarnation, first_seq, events
        )
        (outcome,) = self.queue.append(MODEL, engine, [item])
        return outcome

    def ttl_s(self, generation_id: str) -> float:
        """How long what is known of a generation is kept from now; -1.0: without end."""
        if self.client is not None:
            keys = model_keys(self.prefix, MODEL)
            ttls_ms = {
                int(self.client.pttl(key))  # type: ignore[arg-type]
                for key in (keys.generation(generation_id), keys.stream(generation_id))
            }
            assert max(ttls_ms) - min(ttls_ms) < 1000
            return -1.0 if min(ttls_ms) < 0 else min(ttls_ms) / 1000
        assert isinstance(self.queue, MemoryQueue)
        expires = self.queue._models[MODEL].generations[generation_id].expires
        return -1.0 if expires is None else expires / 1000 - self.now()


def memory_bench(config: QueueConfig = CONFIG) -> Bench:
    clock = ManualClock()
    full: list[bool] = []
    queue = MemoryQueue(config, clock, is_memory_full=lambda: bool(full))
    return Bench(queue, clock, config, full=full)


def redis_bench(client: redis.Redis, config: QueueConfig = CONFIG) -> Bench:
    shift, prefix = Shift(), f"t{new_id()}:"
    queue = RedisQueue(client, prefix, config, offset_s=shift)
    return Bench(queue, shift, config, client, prefix)


def address_of(bench: Bench) -> str:
    """Where its server is."""
    assert bench.client is not None
    options = bench.client.connection_pool.connection_kwargs
    return (
        f"unix://{options['path']}" if "path" in options else f"redis://127.0.0.1:{options['port']}"
    )


def reconfigured(bench: Bench, **changes: Any) -> Bench:
    """The same queue with other bounds, and nothing in it yet."""
    config = replace(bench.config, **changes)
    return memory_bench(config) if bench.client is None else redis_bench(bench.client, config)


STARTED = Started(prompt_tokens=5, cached_tokens=2)
FINISHED = Finished("stop")


def delta(text: str, *token_ids: int) -> Delta:
    return Delta(text, token_ids or (len(text),), draws=1)


def deltas(texts: Iterable[str]) -> tuple[Delta, ...]:
    return tuple(delta(text) for text in texts)
