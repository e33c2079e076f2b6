"""The queue of one model in memory: who waits, who runs, and how it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Literal, TypeAlias

from inference.protocol.codec import encode_request
from inference.protocol.events import Terminal
from inference.queues import terminals
from inference.queues.config import away_ms, busy, ms
from inference.queues.contract import (
    UTILITIES_A_CLAIM,
    Beat,
    CachePurge,
    Claim,
    Position,
    QueueConfig,
    Reaped,
    ReasoningEnd,
    State,
    UsageEntry,
)
from inference.queues.facts import reply_of, snapshot_usage
from inference.queues.fairness import Place, Waiting
from inference.queues.memory_state import Generation

Fate: TypeAlias = Literal["requeued", "failed", "cancelled"]


class Model:
    """State of one model. `now` is given in milliseconds; the caller holds the lock."""

    def __init__(self, config: QueueConfig) -> None:
        self.config = config
        self.generations: dict[str, Generation] = {}
        self.waiting = Waiting()
        self.engines: dict[str, tuple[int, Beat]] = {}  # when, what
        self.number = 0  # of the last submit
        self.active: int | None = None  # when anybody renewed or swept leases last
        self.mark = 0  # grows when engines have something new to look at
        self.purges: deque[CachePurge] = deque(maxlen=config.max_purges)
        self.num_purges = 0  # ever ordered; the kept ones are the last of them
        self.purges_till = 0
        self.usage: deque[UsageEntry] = deque(maxlen=config.max_usage)
        self.num_usage = 0
        self.claimed_at: int | None = None  # the last claim that left others waiting
        self.claim_gap = 0.0  # ms from claim to claim lately, 0 while nobody knows

    def in_state(self, state: State) -> list[Generation]:
        """Those in `state`, in order of submits."""
        found = (item for item in self.generations.values() if item.state == state)
        return sorted(found, key=lambda item: item.number)

    def forget_expired(self, now: int) -> None:
        """Drop ended generations whose time is up."""
        for generation in list(self.generations.values()):
            if generation.expires is not None and generation.expires <= now:
                del self.generations[generation.id]

    def awake(self, now: int) -> None:
        """Called before leases are renewed or ended.

        After a silence in which leases may have run out though their holders live, each gets one
        lease more, once until its holder renews it.
        """
        active, self.active = self.active, now
        if active is None or now - active <= away_ms(self.config):
            return
        lease_till = now + ms(self.config.lease_s)
        reader_till = now + ms(self.config.reader_lease_s)
        for generation in self.generations.values():
            if generation.state != "ended":
                generation.stretch(lease_till, reader_till)

    def held(self, engine_id: str, generation_id: str, epoch: int) -> Generation | None:
        """The generation, if this lease on it is the valid one."""
        generation = self.generations.get(generation_id)
        valid = generation is not None and generation.is_held_by(engine_id, epoch)
        return generation if valid else None

    # --- purges

    def order(self, purge: CachePurge, now: int) -> None:
        """Keep `purge` for every engine."""
        self._forget_purges(now)
        self.purges.append(purge)
        self.num_purges += 1
        self.purges_till = now + ms(self.config.purge_keep_s)

    def purges_since(self, mark: str, now: int) -> tuple[CachePurge, ...]:
        """See `BeatReply.purges`."""
        self._forget_purges(now)
        num_new = self.num_purges - int(mark) if mark else 0
        if num_new > len(self.purges):
            return (CachePurge(),)
        return tuple(self.purges)[len(self.purges) - num_new :]

    def _forget_purges(self, now: int) -> None:
        if self.purges_till <= now:
            self.purges.clear()

    def end_reasoning(self, reply_id: str, owner: str) -> ReasoningEnd:
        """See `Queue.end_reasoning`."""
        outcome: ReasoningEnd = "unknown"
        for item in self.generations.values():
            found, is_allowed = reply_of(item.request)
            if (found, item.owner) == (reply_id, owner) and item.state != "ended":
                item.reasoning_ended = is_allowed
                outcome = "ok" if is_allowed else "not_enabled"
        return outcome

    # --- waiting

    def enqueue(self, generation: Generation, place: Place) -> None:
        """Let it wait at `place`."""
        generation.state, generation.place = "queued", place
        generation.engine, generation.alone = "", False
        self.waiting.push(place, generation.owner, generation.number, generation.id)

    def dequeue(self, generation: Generation) -> None:
        """It waits no longer."""
        self.waiting.remove(generation.place, generation.owner, generation.number, generation.id)

    def refuse_if_busy(self, owner: str, size: int, is_memory_full: bool) -> None:
        """Raises BusyError where a request of `size` bytes finds no room."""
        config, reason = self.config, ""
        owned = [item for item in self.in_state("queued") if item.owner == owner]
        num_bytes = sum(len(encode_request(item.request).encode()) for item in owned) + size
        if len(self.waiting) >= config.max_queued:
            reason = "queue_full"
        elif len(owned) >= config.max_queued_per_owner:
            reason = "owner_queue_full"
        elif num_bytes > config.max_queued_bytes_per_owner:
            reason = "owner_queue_bytes"
        elif is_memory_full:
            reason = "memory"
        if reason:
            raise busy(reason, config, gap_ms=self.claim_gap, waiting=len(self.waiting))

    def position(self, generation: Generation) -> Position:
        """Its place in the queue."""
        place = generation.place
        ahead = self.waiting.ahead(place, generation.owner, generation.number, generation.id)
        return Position(ahead, self.waiting.waiting(place))

    def promote(self, now: int) -> None:
        """Background requests that waited long enough go on as interactive ones."""
        oldest = now - ms(self.config.background_age_s)
        for generation in self.in_state("queued"):
            if generation.place == "background" and generation.submitted <= oldest:
                self.dequeue(generation)
                self.enqueue(generation, "interactive")

    # --- claims

    def claim(
        self, engine_id: str, slots: int, idle: bool, utilities: int, now: int
    ) -> tuple[Claim, ...]:
        """Lease what is next; see `Queue.claim`."""
        held = [item for item in self.in_state("running") if item.engine == engine_id]
        if any(item.alone for item in held):
            slots = 0
        suspect = self._suspect_next() if slots > 0 else None
        if suspect is not None and idle:
            self.dequeue(suspect)
            return (self._give(suspect, engine_id, now, alone=True),)
        if suspect is not None and all(item.lane == "utility" for item in held):
            # While answers are written the engine won't be idle anyhow; then what needs no slot
            # has to run dry, or whoever asks for vectors all the time keeps the suspect out.
            utilities = 0
        found = [
            self.waiting.lanes["utility"].pop() for _ in range(min(utilities, UTILITIES_A_CLAIM))
        ]
        ids = [generation_id for generation_id in found if generation_id is not None]
        while slots > 0 and (next_id := self._pop()) is not None:
            ids.append(next_id)
            slots -= 1
        return tuple(self._give(self.generations[x], engine_id, now, alone=False) for x in ids)

    def _suspect_next(self) -> Generation | None:
        """The first in line, if it has to run alone."""
        if not self.waiting.front:
            return None
        first = self.generations[self.waiting.front[0][1]]
        return first if first.deaths >= self.config.max_deaths else None

    def _pop(self) -> str | None:
        # A suspect waits for an idle engine, and everything behind it waits with it: else a busy
        # engine would never be idle.
        if self._suspect_next() is not None:
            return None
        if self.waiting.front:
            return self.waiting.front.pop(0)[1]
        lanes = self.waiting.lanes
        return lanes["interactive"].pop() or lanes["background"].pop()

    def _give(self, generation: Generation, engine_id: str, now: int, *, alone: bool) -> Claim:
        generation.state, generation.engine, generation.alone = "running", engine_id, alone
        generation.epoch = max(now, generation.epoch + 1)
        generation.renew_lease(now + ms(self.config.lease_s))
        self._note_claim(now)
        return Claim(
            request=generation.request,
            epoch=generation.epoch,
            incarnation=generation.incarnation,
            resume=generation.log,
            alone=alone,
            queued_s=(now - generation.submitted) / 1000,
            reasoning_ended=generation.reasoning_ended,
        )

    def _note_claim(self, now: int) -> None:
        """How fast the queue moves while others wait, for whoever finds it full."""
        if self.claimed_at is not None:
            gap = max(0, now - self.claimed_at)
            last = self.claim_gap
            self.claim_gap = last + (gap - last) / 4 if last else float(gap)
        self.claimed_at = now if len(self.waiting) else None

    # --- ends

    def usage_ack(self, marks: Collection[str]) -> None:
        """These ends are in the ledger."""
        left = [entry for entry in self.usage if entry.mark not in marks]
        self.usage.clear()
        self.usage.extend(left)

    def close(self, generation: Generation, now: int) -> None:
        """Its terminal event is written; the usage ledger learns of it."""
        generation.state, generation.engine, generation.ended = "ended", "", now
        log, account = generation.log, generation.request.account
        if account and log is not None and log.terminal is not None:
            self.num_usage += 1
            mark, ended_at = str(self.num_usage), now / 1000
            entry = UsageEntry(mark, generation.id, account, log.terminal, ended_at)
            self.usage.append(entry)
        config = self.config
        keep_s = config.unfinalised_keep_s if generation.on_finish else config.ended_keep_s
        if generation.lane == "utility":
            keep_s = config.utility_keep_s
        generation.expires = now + ms(keep_s)

    def finish(self, generation: Generation, terminal: Terminal, now: int) -> None:
        """The queue's own end of a generation that no engine holds."""
        generation.write(terminals.with_usage(terminal, generation.usage))
        self.close(generation, now)

    def sweep_waiting(self, now: int) -> Reaped:
        """End what waits past its deadline or without a reader."""
        failed: list[str] = []
        cancelled: list[str] = []
        for generation in self.in_state("queued"):
            if generation.deadline <= now:
                self.dequeue(generation)
                self.finish(generation, terminals.DEADLINE, now)
                failed.append(generation.id)
            elif generation.has_no_reader(now):
                self.dequeue(generation)
                self.finish(generation, terminals.CANCELLED["reader_gone"], now)
                cancelled.append(generation.id)
        return Reaped((), tuple(failed), tuple(cancelled))

    def take_back(self, generation: Generation, now: int, *, died: bool) -> Fate:
        """A lease is over: back to the front, or the end."""
        generation.deaths += died
        by = generation.cancel or ("reader_gone" if generation.has_no_reader(now) else None)
        if by is not None:
            self.finish(generation, terminals.CANCELLED[by], now)
            return "cancelled"
        if generation.deaths > self.config.max_deaths:
            self.finish(generation, terminals.CRASHED, now)
            return "failed"
        if generation.deadline <= now:
            self.finish(generation, terminals.DEADLINE, now)
            return "failed"
        self.enqueue(generation, "utility" if generation.lane == "utility" else "front")
        return "requeued"

    def restore(self, generation: Generation, claim: Claim, now: int) -> None:
        """Renew the lease and the incarnation of `claim`; the log is set already."""
        generation.usage = snapshot_usage(generation.folded)
        generation.incarnation = claim.incarnation
        generation.renew_lease(now + ms(self.config.lease_s))
        if generation.folded.terminal is not None:
            self.close(generation, now)
