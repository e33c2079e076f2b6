"""An engine under the supervisor that does what it is told at once, and remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.models import ModelConfig
from inference.protocol.reasons import NO_REASON, Reason
from inference.supervisor.placement import State
from inference.supervisor.policy import Restart


class FakeEngine:
    """`asked`: what it was asked to do, in order. `broken`: every look fails."""

    has_engine, pids, doing, ready_ts = True, (), "", 0.0
    unservable_reason: str | None = None

    def __init__(self, config: ModelConfig, _queue: Any, _seat: Any, *, is_placed: bool) -> None:
        assert not is_placed  # there may be no room for it
        self.config, self.is_running, self.restart = config, True, Restart()
        self.state: State = "off"
        self.shares: tuple[int, ...] = ()
        self.looks, self.broken = 0, False
        self.asked: list[str] = []
        self.told: list[str] = []
        self.facts: dict[str, int | str] = {}

    @property
    def is_draining(self) -> bool:
        return self.asked == ["drain"]

    def place(self, shares: tuple[int, ...] = ()) -> None:
        self.state, self.shares = "ready", shares

    def leave(self, _now: float, *, is_evicted: bool = False) -> None:
        self.asked.append("leave")
        self.state = "draining"

    def renew(self, _now: float) -> None:
        self.asked.append("renew")

    def observe(self, _statuses: Any, _now: float) -> None: ...

    def look_after(self, _now: float) -> None:
        self.looks += 1
        if self.broken:
            raise OSError("no more processes")

    def watch(self) -> None:
        if self.broken:
            raise RuntimeError("a reply nobody foresaw")

    def tell(self, why: Reason = NO_REASON, *, facts: Mapping[str, int | str]) -> None:
        self.told.append(why.text)
        self.facts = dict(facts)

    def drain(self, _now: float) -> None:
        if not self.asked:
            self.asked.append("drain")

    def end(self, _now: float) -> None:
        if "end" not in self.asked:
            self.asked.append("end")

    def wait_end(self) -> None: ...
