"""From the queue to the engine: claim, render, tokenise, hand over.

A request that can't be served ends here in one terminal event. Requests that need no model
(tokenise, count, render) are answered here too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from inference.engine.errors import failed_event
from inference.engine.serving import Pipeline
from inference.protocol.events import Event, Finished, Result
from inference.protocol.requests import (
    CountRequest,
    DescribeRequest,
    DetokenizeRequest,
    EmbedRequest,
    EngineRequest,
    GenerateRequest,
    RenderRequest,
    RerankRequest,
    TokenizeRequest,
)
from inference.protocol.results import (
    CountResult,
    DetokenizeResult,
    RenderResult,
    TokenizeResult,
    UtilityResult,
)
from inference.queues.contract import Queue
from inference.worker.inbox import Add, EndReasoning, Order
from inference.worker.outlet import Outlet
from inference.worker.running import LeaseEvent, Running, RunningSet
from llamaweb.lib.errors import NotSupportedError, UnavailableError

log = logging.getLogger(__name__)

CONTROL_WAIT_S = 1.0  # longest block on the control mark
IDLE_LOOK_S = 0.5  # how often to look for work when nothing says so (expired leases, ageing)
RETRY_S = 0.2
NUM_PREPARING = 4  # at once of what needs no slot; answers have a thread each
MAX_UTILITIES = 32  # held at once: what needs no slot, texts to embed for the most part


class Intake:
    """Claims from a thread of its own while fewer than `num_slots` answers, or `MAX_UTILITIES`
    requests that need no slot, are held. Each answer can be prepared at once: a template or a
    schema that takes long holds up none that has a slot as well, nor do texts to embed."""

    def __init__(
        self,
        *,
        model: str,
        engine_id: str,
        queue: Queue,
        pipeline: Pipeline,
        running: RunningSet,
        outlet: Outlet,
        num_slots: int,
        hand_over: Callable[[Order], None],
        on_control: Callable[[], None],
    ) -> None:
        self._model = model
        self._engine_id = engine_id
        self._queue = queue
        self._pipeline = pipeline
        self._running = running
        self._outlet = outlet
        self._num_slots = num_slots
        self._hand_over = hand_over
        self._on_control = on_control
        self._look = threading.Event()
        self._stopping = threading.Event()
        self._answers = ThreadPoolExecutor(num_slots, "prepare")
        self._others = ThreadPoolExecutor(NUM_PREPARING, "prepare-other")
        self._threads = [
            threading.Thread(target=self._watch, name="control", daemon=True),
            threading.Thread(target=self._run, name="intake", daemon=True),
        ]

    def start(self) -> None:
        """Start claiming."""
        for thread in self._threads:
            thread.start()

    def look(self) -> None:
        """Something may be claimable now: a slot became free."""
        self._look.set()

    def stop(self) -> None:
        """Claim nothing more; returns when no claim is on its way to the engine."""
        self._stopping.set()
        self._look.set()
        self._threads[1].join()
        self._answers.shutdown()
        self._others.shutdown()

    def _watch(self) -> None:
        """Turn the queue's control mark into wake-ups."""
        mark = ""
        while not self._stopping.is_set():
            try:
                new = self._queue.wait_control(self._model, mark, CONTROL_WAIT_S)
            except UnavailableError:
                time.sleep(RETRY_S)
                continue
            if new != mark:
                mark = new
                self._look.set()
                self._on_control()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._look.clear()
            try:
                took = self._claim()
            except UnavailableError as error:
                log.warning("redis is away: %s", error)
                self._stopping.wait(RETRY_S)
                continue
            except Exception:
                log.exception("intake failed")
                self._stopping.wait(RETRY_S)
                continue
            if not took:
                self._look.wait(IDLE_LOOK_S)

    def _claim(self) -> bool:
        requests = [running.claim.request for running in self._running]
        num_slots_held = sum(isinstance(each, GenerateRequest) for each in requests)
        claims = self._queue.claim(
            self._model,
            self._engine_id,
            slots=max(0, self._num_slots - num_slots_held),
            idle=not requests,
            utilities=max(0, MAX_UTILITIES - (len(requests) - num_slots_held)),
        )
        for claim in claims:
            is_answer = isinstance(claim.request, GenerateRequest)
            pool = self._answers if is_answer else self._others
            pool.submit(self._take, self._running.add(claim))
        return bool(claims)

    def _take(self, running: Running) -> None:
        claim = running.claim
        generation_id = claim.request.generation_id
        try:
            if isinstance(claim.request, GenerateRequest):
                prepared = self._pipeline.prepare(claim.request)
                going_on = prepared.after(claim.resume, alone=claim.alone)
                running.reader = self._pipeline.reader(claim.request, going_on)
                self._hand_over(Add(going_on, claim.epoch))
                if claim.reasoning_ended:
                    self._hand_over(EndReasoning(generation_id, claim.epoch))
                return
            if isinstance(claim.request, EmbedRequest | RerankRequest):
                self._hand_over(Add(self._pipeline.prepare_vectors(claim.request), claim.epoch))
                return
            events: list[Event] = [Result(self._answer(claim.request)), Finished("stop")]
        except Exception as error:
            failure = failed_event(error)
            if failure.code == "engine_failed":
                log.exception("request %s could not be prepared", generation_id)
            events = [failure]
        self._outlet.put([LeaseEvent(generation_id, running.claim.epoch, e) for e in events])

    def _answer(self, request: EngineRequest) -> UtilityResult:
        if isinstance(request, TokenizeRequest):
            tokens = self._pipeline.tokenize(
                request.text,
                add_special=request.add_special,
                parse_special=request.parse_special,
            )
            pieces = self._pipeline.pieces(tokens) if request.with_pieces else ()
            return TokenizeResult(tokens, pieces)
        if isinstance(request, DetokenizeRequest):
            return DetokenizeResult(self._pipeline.detokenize(request.tokens))
        if isinstance(request, DescribeRequest):
            return self._pipeline.describe()
        if isinstance(request, CountRequest):
            return CountResult(self._pipeline.count(request.prompt, now_at=request.submitted_at))
        if isinstance(request, RenderRequest):
            return RenderResult(self._pipeline.render(request.prompt, now_at=request.submitted_at))
        raise NotSupportedError(f"{type(request).__name__} is not served by this engine")
