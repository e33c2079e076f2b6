"""The engine in this process: no queue, no HTTP, the same prompts."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from inference.engine.factory import build_engine
from inference.engine.local import LocalEngine
from inference.engine.pipeline import Pipeline, build_pipeline
from inference.protocol.events import Delta, Failed, Finished
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from inference.protocol.spec import EngineSpec
from llamaweb.lib.ids import new_id
from tests.bench.figures import Answer, BenchError
from tests.bench.target import REQUEST_TIMEOUT_S, OnText, ignore
from tests.bench.workloads import Chat


class LocalTarget:
    """A loaded engine with its text pipeline; close it."""

    name = "engine"

    def __init__(self, engine: LocalEngine, pipeline: Pipeline) -> None:
        self._engine = engine
        self._pipeline = pipeline

    @classmethod
    def load(cls, spec: EngineSpec) -> LocalTarget:
        """Load what `spec` names; returns when the first decode has worked.

        In a thread that ends: one that has decoded keeps threads of its own as long as it lives,
        and with more of them than cores none waits by spinning, unlike in an engine process.
        """
        with ThreadPoolExecutor(1) as loading:
            engine, tokenizer = loading.submit(build_engine, spec).result()
        pipeline = build_pipeline(tokenizer, spec.chat_template)
        return cls(LocalEngine(engine, pipeline.prepare), pipeline)

    async def ask(self, messages: Chat, max_tokens: int, on_text: OnText = ignore) -> Answer:
        """See `Target.ask`."""
        request = _request(messages, max_tokens)
        started_ts = time.perf_counter()
        times: list[float] = []
        texts: list[str] = []
        async for event in self._engine.generate(request):
            if isinstance(event, Delta) and event.text:
                times.append(time.perf_counter() - started_ts)
                texts.append(event.text)
                on_text()
            elif isinstance(event, Finished):
                return Answer(
                    tuple(times),
                    event.usage.completion_tokens,
                    event.usage.prompt_tokens,
                    "".join(texts),
                    started_ts,
                )
            elif isinstance(event, Failed):
                raise BenchError(f"the engine refused: {event.code}: {event.message}")
        raise BenchError("the engine gave no end")

    def render(self, messages: Chat) -> str:
        """The chat as the model's template writes it."""
        return self._pipeline.render(_prompt(messages))

    async def close(self) -> None:
        """Free the model."""
        await self._engine.close()
        self._pipeline.close()


def _request(messages: Chat, max_tokens: int) -> GenerateRequest:
    now = time.time()
    return GenerateRequest(
        generation_id=new_id("gen-"),
        model="bench",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=_prompt(messages),
        seed=1,
        submitted_at=now,
        deadline_at=now + REQUEST_TIMEOUT_S,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        limits=Limits(max_tokens=max_tokens),
    )


def _prompt(messages: Chat) -> ChatPrompt:
    return ChatPrompt(tuple(Message(role, text) for role, text in messages))  # type: ignore[arg-type]
