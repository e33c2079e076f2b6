"""API routes on a real model: the in-process server, and a worker that computes its answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.inference_api import FakeInference
from tests.fakes.worked import Worked
from tests.model.conftest import EXACT_ROWS
from tests.worker.conftest import Bench


@contextmanager
def exact_worker(model_path: str, context_len: int) -> Iterator[Bench]:
    """A worker with the model, under settings in which every batch rounds alike."""
    made = Bench()
    made.start(
        engine_class="llama",
        model_path=model_path,
        threads=1,
        context_len=context_len,
        flash_attention="on",
        batch_len=EXACT_ROWS,
        ubatch_len=EXACT_ROWS,
    )
    yield made
    made.stop()


def serve_by(bench: Bench, fake: FakeInference, context_len: int) -> None:
    """Have the worker answer what `fake` is asked."""
    fake.script = Worked(bench).script
    fake.max_context = context_len
