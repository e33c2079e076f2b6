"""A worker whose engine asks a fake server: in-memory queue, real sockets and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inference.engine.upstream import trying
from inference.protocol.spec import UpstreamSpec
from inference.worker.main import Worker
from tests.upstream.server import KEY, MODEL, FakeUpstream
from tests.worker.conftest import Bench


def spec_of(upstream: FakeUpstream, **values: Any) -> UpstreamSpec:
    values = {"url": upstream.url, "model": MODEL, "key": KEY, "allow": ("127.0.0.1",)} | values
    return UpstreamSpec(**values)


class UpstreamBench(Bench):
    """`begin` starts a worker; its requests go to `upstream`."""

    def __init__(self, upstream: FakeUpstream) -> None:
        super().__init__()
        self.upstream = upstream

    def begin(
        self, *, num_slots: int = 4, context_len: int = 0, queue: Any = None, **upstream: Any
    ) -> Worker:
        return self.start(
            queue,
            engine_class="upstream",
            num_slots=num_slots,
            context_len=context_len,
            upstream=spec_of(self.upstream, **upstream),
        )


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as made:
        yield made


@pytest.fixture
def bench(upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch) -> Iterator[UpstreamBench]:
    for name in ("ONCE_AFTER_S", "MIN_PAUSE_S"):
        monkeypatch.setattr(trying, name, 0.01)
    bench = UpstreamBench(upstream)
    yield bench
    bench.stop()
