"""The thin mapping from a request to what the engine takes."""

from __future__ import annotations

from contextlib import closing

from inference.engine.contract import SequenceRequest
from inference.engine.pipeline import build_pipeline
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from tests.text.byte_tokenizer import ByteTokenizer


def test_everything_reaches_the_engine() -> None:
    request = GenerateRequest(
        generation_id="g",
        model="m",
        owner_key="key:1",
        cache_scope="user:2",
        prompt=ChatPrompt((Message("user", "x"),)),
        seed=3,
        submitted_at=4.0,
        deadline_at=5.0,
        lane="background",
        sampling=SamplingParams(top_k=7),
        limits=Limits(max_tokens=8, stop=("z",)),
    )
    template = "{{ strftime_now('%S') }}{{ messages[0].content }}"
    with closing(build_pipeline(ByteTokenizer(), template)) as pipeline:
        made = pipeline.prepare(request)
    assert made == SequenceRequest(
        generation_id="g",
        tokens=(256, *b"04x"),
        owner_key="key:1",
        cache_scope="user:2",
        seed=3,
        public_len=3,
        lane="background",
        sampling=request.sampling,
        limits=request.limits,
    )
