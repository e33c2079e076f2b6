"""The engine loop: take in, step, hand out. Runs in the process's main thread."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inference.engine.contract import EngineEvent, StepEngine
from inference.engine.errors import failed_event
from inference.protocol.events import Cancelled, Failed, is_terminal
from inference.worker.inbox import Abort, Add, Drop, EndReasoning, Fail, Order, Purge, Wake
from inference.worker.outlet import Outlet
from inference.worker.running import LeaseEvent

log = logging.getLogger(__name__)

IDLE_WAIT_S = 0.5  # longest sleep without work
ENDED_EARLY_KEPT = 256  # far more than can be on their way at once


class Loop:
    """Drives one engine. `steps` and `is_stepping` are read by the heartbeat."""

    def __init__(self, engine: StepEngine[Any], outlet: Outlet) -> None:
        self._engine = engine
        self._outlet = outlet
        self._inbox: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._epochs: dict[str, int] = {}  # leases under which sequences were added
        # Leases that ended on their way here; an `Add` of one of them comes too late.
        self._ended_early: deque[tuple[str, int]] = deque(maxlen=ENDED_EARLY_KEPT)
        self._stopping = threading.Event()
        self.steps = 0
        self.is_stepping = False

    def hand_over(self, order: Order) -> None:
        """Queue an order; never blocks. Safe from every thread."""
        self._inbox.put(order)

    def stop(self) -> None:
        """End `run` after the current step."""
        self._stopping.set()
        self._inbox.put(Wake())

    def run(self) -> None:
        """Until stopped: take in, step, hand out."""
        while not self._stopping.is_set():
            self._take_in()
            if self._engine.has_work:
                self.is_stepping = True
                self._hand_out(self._engine.step())
                self.steps += 1
                self.is_stepping = self._engine.has_work

    def _take_in(self) -> None:
        """Carry out all waiting orders; sleep for one if there is nothing to compute."""
        block = not self._engine.has_work
        try:
            order = self._inbox.get(block=block, timeout=IDLE_WAIT_S if block else None)
            while True:
                self._carry_out(order)
                order = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _carry_out(self, order: Order) -> None:
        match order:
            case Add(request, epoch):
                if (request.generation_id, epoch) not in self._ended_early:
                    self._add(order, request.generation_id, epoch)
            case Abort(generation_id, epoch, by):
                self._abort(generation_id, epoch, Cancelled(by))
            case Fail(generation_id, epoch, failure):
                self._abort(generation_id, epoch, failure)
            case Drop(generation_id, epoch):
                self._drop(generation_id, epoch)
            case EndReasoning(generation_id, epoch):
                if self._epochs.get(generation_id) == epoch:
                    self._engine.end_reasoning(generation_id)
            case Purge(owner_key, conversation):
                self._engine.purge(owner_key=owner_key, conversation=conversation)
            case Wake():
                pass

    def _add(self, order: Add, generation_id: str, epoch: int) -> None:
        held = self._epochs.get(generation_id)
        if held is not None and held > epoch:
            return  # it took so long to prepare that a newer lease came first
        if held is not None:
            self._engine.drop(generation_id)
        self._epochs[generation_id] = epoch
        try:
            self._engine.add(order.request)
        except Exception as error:
            failure = failed_event(error)
            if failure.code == "engine_failed":
                log.exception("sequence %s could not be added", generation_id)
            self._hand_out([EngineEvent(generation_id, failure)])

    def _drop(self, generation_id: str, epoch: int) -> None:
        if self._epochs.get(generation_id) == epoch:
            self._engine.drop(generation_id)
            del self._epochs[generation_id]
        else:
            self._ended_early.append((generation_id, epoch))  # perhaps it isn't added yet

    def _abort(self, generation_id: str, epoch: int, end: Cancelled | Failed) -> None:
        """End a sequence with `end`; the engine knows the usage."""
        held = self._epochs.get(generation_id)
        if held is None:
            # Not added yet, or lost on its way: whoever waits for its end gets it all the same.
            self._ended_early.append((generation_id, epoch))
            self._outlet.put([LeaseEvent(generation_id, epoch, end)])
        elif held == epoch:
            for aborted in self._engine.abort(generation_id, "owner"):
                event = aborted.event
                if isinstance(event, Cancelled):
                    event = replace(end, usage=event.usage)
                self._hand_out([EngineEvent(generation_id, event)])

    def _hand_out(self, events: Sequence[EngineEvent]) -> None:
        out = []
        for item in events:
            epoch = self._epochs.get(item.generation_id)
            if epoch is None:
                continue
            out.append(LeaseEvent(item.generation_id, epoch, item.event))
            if is_terminal(item.event):
                del self._epochs[item.generation_id]
        self._outlet.put(out)
