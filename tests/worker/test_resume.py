"""An answer goes on where another engine left it, each character once."""

from __future__ import annotations

from inference.protocol.events import Finished
from inference.protocol.fold import text_of
from inference.protocol.params import SamplingParams
from tests.worker.conftest import MODEL, Bench, generate

TEXT = "naïve 漢字 😺 and some more words to be cut in the middle, é"


class Deaf:
    """A queue whose engine was cut off: it hears nothing and its writes vanish, until the test is
    over, so that its engine learns that it holds no lease any more and stops at once."""

    def __init__(self, bench: Bench) -> None:
        self._queue = bench.queue
        self.is_cut = False
        bench.at_end.append(self.reconnect)

    def reconnect(self) -> None:
        self.is_cut = False

    def __getattr__(self, name: str) -> object:
        if self.is_cut and name in ("append", "beat", "claim", "release", "fold", "restore"):
            from llamaweb.lib.errors import UnavailableError

            def away(*_args: object, **_kwargs: object) -> None:
                raise UnavailableError("cut off")

            return away
        return getattr(self._queue, name)


def test_a_second_engine_goes_on_in_the_middle(bench: Bench) -> None:
    deaf = Deaf(bench)
    bench.start(queue=deaf, delay_ms=10)
    gid = bench.submit(generate(TEXT))
    bench.wait_text(gid, 10)
    deaf.is_cut = True
    before = bench.log(gid)
    bench.start(delay_ms=1)
    log = bench.ended(gid)
    assert text_of(log) == TEXT
    assert len(before.token_ids) < len(TEXT.encode())
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.completion_tokens == len(TEXT.encode())
    assert log.started == before.started
    status = bench.queue.status(MODEL, gid)
    assert status is not None
    assert status.deaths == 1


def test_the_first_engine_wakes_up_and_writes_nothing_twice(bench: Bench) -> None:
    deaf = Deaf(bench)
    bench.start(queue=deaf, delay_ms=10)
    gid = bench.submit(generate(TEXT))
    bench.wait_text(gid, 10)
    deaf.is_cut = True
    bench.start(delay_ms=20)
    bench.wait_text(gid, len(bench.log(gid).token_ids) + 3)
    deaf.is_cut = False
    assert text_of(bench.ended(gid)) == TEXT


def test_draining_hands_back_without_a_death(bench: Bench) -> None:
    first = bench.start(delay_ms=100)
    gid = bench.submit(generate(TEXT * 2))
    bench.wait_text(gid, 5)
    first.drain()
    bench.start(delay_ms=1)
    assert text_of(bench.ended(gid)) == TEXT * 2
    status = bench.queue.status(MODEL, gid)
    assert status is not None
    assert status.deaths == 0


def test_sampled_text_goes_on_with_the_same_draws(bench: Bench) -> None:
    sampling = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    other = Bench()
    other.start()
    undisturbed = text_of(other.ended(other.submit(generate(TEXT, sampling=sampling, seed=5))))
    other.stop()
    deaf = Deaf(bench)
    bench.start(queue=deaf, delay_ms=10)
    gid = bench.submit(generate(TEXT, sampling=sampling, seed=5))
    bench.wait_text(gid, 10)
    deaf.is_cut = True
    bench.start(delay_ms=1)
    assert text_of(bench.ended(gid)) == undisturbed
