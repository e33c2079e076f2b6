"""An answer whose engine went away: the other server goes on with it, or it ends as it is."""

from __future__ import annotations

from inference.protocol.events import Failed, Finished
from inference.protocol.fold import text_of
from tests.stack import wait_for
from tests.upstream.conftest import UpstreamBench
from tests.upstream.server import Reply, answer_of, chunk
from tests.worker.conftest import MODEL as NAME
from tests.worker.conftest import WAIT_S, generate
from tests.worker.test_resume import Deaf


def cut_off(bench: UpstreamBench, text: str = "half of ", **spec: object) -> str:
    """A generation with `text` whose engine hears nothing any more."""
    deaf = Deaf(bench)
    frames = [chunk({"content": text})] if text else []
    bench.upstream.give(Reply(frames, holds=True))
    bench.begin(queue=deaf, **spec)  # type: ignore[arg-type]
    gid = bench.submit(generate("the question"))
    wait_for("it is asked", lambda: bench.upstream.asked, WAIT_S)
    wait_for("the text", lambda: text_of(bench.log(gid)) == text, WAIT_S)
    deaf.is_cut = True
    return gid


def test_a_server_that_can_goes_on_with_it(bench: UpstreamBench) -> None:
    gid = cut_off(bench, continues=True)
    bench.upstream.give(Reply(answer_of("the answer")))
    bench.begin(continues=True)
    log = bench.ended(gid)
    assert text_of(log) == "half of the answer"
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.completion_tokens == 5 + 2  # two are estimated of "half of "
    assert bench.upstream.asked[1].body["messages"][-1] == {
        "role": "assistant",
        "content": "half of ",
    }


def test_otherwise_it_ends_and_keeps_its_text(bench: UpstreamBench) -> None:
    gid = cut_off(bench)
    bench.begin()
    log = bench.ended(gid)
    assert text_of(log) == "half of "
    assert isinstance(log.terminal, Failed)
    assert (log.terminal.code, log.terminal.retryable) == ("engine_crashed", True)
    assert len(bench.upstream.asked) == 1


def test_what_nobody_has_seen_is_asked_again(bench: UpstreamBench) -> None:
    gid = cut_off(bench, text="")
    bench.upstream.give(Reply(answer_of("fresh")))
    bench.begin()
    assert text_of(bench.ended(gid)) == "fresh"
    status = bench.queue.status(NAME, gid)
    assert status is not None
    assert status.deaths == 1


def test_draining_closes_the_connection_and_hands_back(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply([], holds=True))
    first = bench.begin()
    gid = bench.submit(generate("the question"))
    wait_for("it is asked", lambda: bench.upstream.asked, WAIT_S)
    first.drain()
    assert bench.upstream.left.wait(WAIT_S)
    bench.begin()
    assert text_of(bench.ended(gid)) == "the question"
    status = bench.queue.status(NAME, gid)
    assert status is not None
    assert status.deaths == 0
