"""A bare `llama_decode` loop: what llama.cpp gives for the same batches when nothing is around it.

The contexts are those of `distinct`, the ids dense, each step one token a sequence with its logits.
Nothing is sampled, detokenised or sent.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import llama_cpp

from inference.engine.llama_load import init_library, load_model, make_context
from inference.engine.llama_tokenizer import LlamaTokenizer
from inference.engine.pipeline import build_pipeline
from inference.protocol.requests import ChatPrompt, Message
from inference.protocol.spec import EngineSpec
from tests.bench.figures import Answer, BenchError, Figures, figures_of
from tests.bench.sides import LOOP
from tests.bench.workloads import Chat, Sizes, Workload, chat

DECODED = "x"  # stands for the text of a token that nobody reads
PROMPT_SEED = "loop"
CONTEXT_LEN = 1024  # holds a prompt of `distinct` and its answer


class LoopSide:
    """Decodes as many sequences as there are streams; see `Side`. Close it."""

    name = LOOP
    in_process = True
    workloads: tuple[Workload, ...] = ("distinct",)

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

    def cpu_s(self) -> float:
        """Its process is the engine's, whose time is counted there."""
        return 0.0

    async def measure(
        self, workload: Workload, concurrency: int, seed: str, sizes: Sizes
    ) -> Figures:
        """See `Side.measure`: `sizes.max_tokens` steps, whatever the prompts say."""
        started_ts = time.perf_counter()
        answers = self._run(concurrency, sizes.max_tokens, started_ts)
        return figures_of(answers, time.perf_counter() - started_ts, concurrency)

    def close(self) -> None:
        """Free the model."""
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def _run(self, streams: int, steps: int, started_ts: float) -> list[Answer]:
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
    """The loop with its own copy of the model."""
    side = LoopSide(dataclasses.replace(spec, context_len=CONTEXT_LEN))
    try:
        yield side
    finally:
        side.close()


def _prompt(messages: Chat) -> ChatPrompt:
    return ChatPrompt(tuple(Message(role, text) for role, text in messages))  # type: ignore[arg-type]
