"""A bare `llama_decode` loop: what llama.cpp gives for the same batches when nothing is around it.

The contexts are those of `distinct`, the ids dense, each step one token a sequence with its logits.
Nothing is sampled, detokenised or sent. It has a process of its own: threads that wait for each
other by spinning do so for a moment only where one process has more of them than the machine has
cores, and another engine in the process makes that so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import llama_cpp
import psutil

from inference.engine.llama_load import init_library, load_model, make_context
from inference.engine.llama_tokenizer import LlamaTokenizer
from inference.engine.pipeline import build_pipeline
from inference.protocol.requests import ChatPrompt, Message
from inference.protocol.spec import EngineSpec
from tests.bench.figures import Answer, BenchError, Figures, figures_of
from tests.bench.processes import cpu_s
from tests.bench.sides import LOOP
from tests.bench.workloads import Chat, Sizes, Workload, chat

DECODED = "x"  # stands for the text of a token that nobody reads
PROMPT_SEED = "loop"
CONTEXT_LEN = 1024  # holds a prompt of `distinct` and its answer


LOAD_TIMEOUT_S, RUN_TIMEOUT_S, END_TIMEOUT_S = 120.0, 300.0, 10.0


class LoopSide:
    """A process that decodes as many sequences as there are streams; see `Side`. Close it."""

    name = home = LOOP
    workloads: tuple[Workload, ...] = ("distinct",)

    def __init__(self, spec: EngineSpec) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(spec, theirs), daemon=True)
        self._process.start()
        self._usage = psutil.Process(self._process.pid)
        theirs.close()
        self._receive(LOAD_TIMEOUT_S)

    def cpu_s(self) -> float:
        """See `Side.cpu_s`."""
        return cpu_s([self._usage])

    async def measure(
        self, workload: Workload, concurrency: int, seed: str, sizes: Sizes
    ) -> Figures:
        """See `Side.measure`: `sizes.max_tokens` steps, whatever the prompts say."""
        self._pipe.send((concurrency, sizes.max_tokens))
        answers, wall_s = await asyncio.to_thread(self._receive, RUN_TIMEOUT_S)
        return figures_of(answers, wall_s, concurrency)

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(END_TIMEOUT_S)
        self._process.kill()

    def _receive(self, timeout_s: float) -> Any:
        try:
            if self._pipe.poll(timeout_s):
                return self._pipe.recv()
        except EOFError:
            pass
        raise BenchError("the bare loop's process gave no answer")


def _serve(spec: EngineSpec, pipe: Connection) -> None:
    """The process: says that it is ready, then answers (streams, steps) with the answers and the
    seconds they took."""
    loop = _Loop(spec)
    try:
        pipe.send(None)
        while True:
            streams, steps = pipe.recv()
            started_ts = time.perf_counter()
            answers = loop.run(streams, steps, started_ts)
            pipe.send((answers, time.perf_counter() - started_ts))
    except EOFError:
        return
    finally:
        loop.close()


class _Loop:
    """The context with the prompts in it."""

    def __init__(self, spec: EngineSpec) -> None:
        init_library()
        self._model: Any = load_model(spec)
        self._context: Any = make_context(self._model, spec)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch: Any = llama_cpp.llama_batch_init(spec.batch_len, 0, 1)
        self._prompts = self._tokenize(spec)
        for seq_id, tokens in enumerate(self._prompts):
            self._fill([(seq_id, token, pos, False) for pos, token in enumerate(tokens)])
            self._decode()

    def close(self) -> None:
        """Free the model."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def run(self, streams: int, steps: int, started_ts: float) -> list[Answer]:
        """What `streams` answers of `steps` tokens got, from `started_ts` on."""
        prompts = self._prompts[:streams]
        for seq_id, tokens in enumerate(prompts):
            llama_cpp.llama_memory_seq_rm(self._memory, seq_id, len(tokens), -1)
        times = []
        for step in range(steps):
            self._fill(
                [
                    (seq_id, tokens[step % len(tokens)], len(tokens) + step, True)
                    for seq_id, tokens in enumerate(prompts)
                ]
            )
            self._decode()
            llama_cpp.llama_get_logits(self._context)  # waits until they are computed
            times.append(time.perf_counter() - started_ts)
        return [
            Answer(tuple(times), steps, len(tokens), DECODED * steps, started_ts)
            for tokens in prompts
        ]

    def _fill(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """The batch from (sequence, token, position, wants logits)."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for row, (seq_id, token, position, wants_logits) in enumerate(rows):
            batch.token[row] = token
            batch.pos[row] = position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = seq_id
            batch.logits[row] = wants_logits

    def _decode(self) -> None:
        code = llama_cpp.llama_decode(self._context, self._batch)
        if code != 0:
            raise BenchError(f"llama_decode of the bare loop: {code}")

    def _tokenize(self, spec: EngineSpec) -> list[tuple[int, ...]]:
        """A prompt of `distinct` for each slot."""
        tokenizer = LlamaTokenizer(self._model, max_context=spec.context_len)
        pipeline = build_pipeline(tokenizer, spec.chat_template)
        try:
            return [
                pipeline.tokenize(
                    pipeline.render(_prompt(chat("distinct", PROMPT_SEED, index))),
                    add_special=True,
                    parse_special=True,
                )
                for index in range(spec.num_slots)
            ]
        finally:
            pipeline.close()


@asynccontextmanager
async def loop_side(spec: EngineSpec) -> AsyncIterator[LoopSide]:
    """The loop, loaded."""
    side = LoopSide(dataclasses.replace(spec, context_len=CONTEXT_LEN))
    try:
        yield side
    finally:
        side.close()


def _prompt(messages: Chat) -> ChatPrompt:
    return ChatPrompt(tuple(Message(role, text) for role, text in messages))  # type: ignore[arg-type]
