"""What another server does wrong ends each request once, with a code and no secret."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.upstream import call as call_module
from inference.engine.upstream import chunks, events, trying
from inference.engine.upstream.failures import Trouble, trouble_of_status
from inference.engine.upstream.trying import Patience
from inference.protocol.events import Failed, Finished, Snapshot
from inference.protocol.fold import text_of
from inference.protocol.params import Limits
from tests.stack import wait_for
from tests.upstream.conftest import UpstreamBench
from tests.upstream.server import DONE, KEY, Reply, answer_of, chunk, frame, refusal
from tests.worker.conftest import MODEL as NAME
from tests.worker.conftest import WAIT_S, generate

SECRET = "canary prompt of nobody else"


def failed(log: Snapshot) -> Failed:
    assert isinstance(log.terminal, Failed)
    return log.terminal


def ask(bench: UpstreamBench, **values: Any) -> Snapshot:
    return bench.ended(bench.submit(generate(SECRET, **values)))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (refusal(401), "engine_failed"),
        (refusal(403), "engine_failed"),
        (refusal(402), "engine_failed"),
        (refusal(404), "model_unavailable"),
        (refusal(400), "invalid_request"),
        (refusal(422), "invalid_request"),
        (refusal(302, location="http://169.254.169.254/latest/meta-data"), "engine_failed"),
        (refusal(307, location="http://127.0.0.1:1/v1/chat/completions"), "engine_failed"),
        (refusal(400, {"code": "context_length_exceeded"}), "invalid_request"),
        (Reply([b"<html>"], kind="text/html"), "engine_failed"),
        (Reply([b"data: {nonsense\n\n"]), "engine_failed"),
        (Reply([b"data: []\n\n"]), "engine_failed"),
        (Reply([b"data: " + b"[" * 100_000 + b"\n\n"]), "engine_failed"),
        (Reply([frame({"choices": ["x"]})]), "engine_failed"),
        (Reply([frame({"error": {"code": 400, "message": SECRET}})]), "invalid_request"),
        (Reply([b"data: " + b"x" * (events.MAX_EVENT_BYTES + 10)]), "engine_failed"),
        (Reply([chunk({}, finish="content_filter"), DONE]), "engine_failed"),
    ],
)
def test_what_is_not_tried_again(bench: UpstreamBench, reply: Reply, code: str) -> None:
    bench.upstream.give(reply)
    bench.begin()
    assert failed(ask(bench)).code == code
    assert len(bench.upstream.asked) == 1
    assert text_of(ask(bench)) == SECRET  # the next one is served


def test_numbers_of_a_context_that_is_too_small(bench: UpstreamBench) -> None:
    error = {"type": "exceed_context_size_error", "n_prompt_tokens": 900, "n_ctx": 512}
    bench.upstream.give(refusal(400, error))
    bench.begin()
    end = failed(ask(bench))
    assert end.code == "context_length_exceeded"
    assert dict(end.details) == {"n_prompt_tokens": 900, "n_ctx": 512}


def test_a_refused_field_is_named(bench: UpstreamBench) -> None:
    bench.upstream.give(refusal(400, {"param": "temperature", "code": "unsupported_value"}))
    bench.begin()
    end = failed(ask(bench))
    assert (end.param, "temperature" in end.message) == ("temperature", True)


def test_a_server_that_names_the_length_otherwise_is_asked_so(bench: UpstreamBench) -> None:
    error = {"param": "max_tokens", "code": "unsupported_parameter"}
    bench.upstream.give(refusal(400, error))
    bench.begin()
    for _ in range(2):
        assert text_of(ask(bench, limits=Limits(max_tokens=50))) == SECRET
    bodies = [asked.body for asked in bench.upstream.asked]
    assert [body.get("max_tokens") for body in bodies] == [50, None, None]
    assert [body.get("max_completion_tokens") for body in bodies] == [None, 50, 50]


@pytest.mark.parametrize("status", [500, 501, 599])
def test_its_errors_are_tried_once_more(bench: UpstreamBench, status: int) -> None:
    bench.upstream.give(refusal(status))
    bench.begin()
    assert text_of(ask(bench)) == SECRET
    bench.upstream.give(refusal(status), refusal(status))
    assert failed(ask(bench)).code == "engine_failed"
    assert failed(ask_failed(bench, status)).retryable
    assert len(bench.upstream.asked) == 6


def ask_failed(bench: UpstreamBench, status: int) -> Snapshot:
    bench.upstream.give(refusal(status), refusal(status))
    return ask(bench)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_busy_server_is_asked_until_it_has_time(bench: UpstreamBench, status: int) -> None:
    bench.upstream.give(*[refusal(status)] * 3)
    bench.begin()
    assert text_of(ask(bench)) == SECRET
    assert len(bench.upstream.asked) == 4


def test_patience_grows_keeps_retry_after_and_ends() -> None:
    busy = Trouble(Failed("busy", ""), "patiently")
    patience = Patience()
    pauses = [patience.pause_s(busy) for _ in range(30)]
    known = [pause for pause in pauses if pause is not None]
    assert known == sorted(known)
    assert sum(known) <= trying.PATIENCE_S
    assert pauses[-1] is None
    assert Patience().pause_s(replace(busy, retry_after_s=20.5)) == 20.5
    assert Patience().pause_s(replace(busy, retry_after_s=1e9)) is None
    once, never = Patience(), replace(busy, retry="never")
    assert once.pause_s(replace(busy, retry="once")) is not None
    assert once.pause_s(replace(busy, retry="once")) is None
    assert Patience().pause_s(never) is None


def test_retry_after_reaches_the_patience(bench: UpstreamBench) -> None:
    bench.upstream.give(refusal(429, retry_after="0.05"))
    bench.begin()
    assert text_of(ask(bench)) == SECRET


def test_retry_after_the_deadline_is_busy_at_once(bench: UpstreamBench) -> None:
    bench.upstream.give(refusal(429, retry_after="50"))
    bench.begin()
    end = failed(ask(bench, deadline_at=time.time() + 40))
    assert (end.code, end.retryable) == ("busy", True)


def test_patience_ends(bench: UpstreamBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "PATIENCE_S", 0.05)
    bench.upstream.give(*[refusal(429)] * 20)
    bench.begin()
    assert failed(ask(bench)).code == "busy"


def test_retry_after_may_be_a_date() -> None:
    headers = {"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}
    assert trouble_of_status(429, headers, b"", now_at=70.0).retry_after_s == 30.0
    assert trouble_of_status(429, headers, b"", now_at=500.0).retry_after_s == 0.0
    for text in ("soon", "-3", "9" * 400, "1e400"):
        assert trouble_of_status(429, {"retry-after": text}, b"", now_at=0.0).retry_after_s == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        Reply([chunk({"content": "half"})], cuts=True),
        Reply([chunk({"content": "half"})]),
        Reply([chunk({"content": "half"}), DONE]),
        Reply([chunk({"content": "half"}), frame({"error": {"code": 500, "message": "x"}})]),
    ],
)
def test_an_answer_that_breaks_off_keeps_its_text(bench: UpstreamBench, reply: Reply) -> None:
    bench.upstream.give(reply)
    bench.begin()
    log = ask(bench)
    assert text_of(log) == "half"
    end = failed(log)
    assert (end.code, end.retryable) == ("engine_failed", True)
    assert end.usage.completion_tokens > 0
    assert len(bench.upstream.asked) == 1  # what a reader has seen isn't written again


def test_a_connection_that_breaks_before_any_text_is_tried_once_more(bench: UpstreamBench) -> None:
    begun = [chunk({"role": "assistant", "content": ""})]
    bench.upstream.give(Reply(begun, cuts=True), Reply(answer_of("hi")))
    bench.begin()
    log = ask(bench)
    assert text_of(log) == "hi"
    assert isinstance(log.terminal, Finished)


def test_silence_has_an_end(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply([chunk({"content": "some"})], holds=True))
    bench.begin(idle_s=0.3)
    log = ask(bench)
    assert text_of(log) == "some"
    assert failed(log).code == "engine_failed"
    assert bench.upstream.left.wait(WAIT_S)
    bench.upstream.give(Reply([], holds=True))
    assert failed(ask(bench)).code == "engine_failed"


def test_a_server_that_does_not_hang_up_after_the_end(
    bench: UpstreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "FINISH_S", 0.2)
    bench.upstream.give(Reply(answer_of("all", usage=None)[:-1], holds=True))
    bench.begin()
    log = ask(bench)
    assert isinstance(log.terminal, Finished)
    assert text_of(log) == "all"


@pytest.mark.parametrize(
    ("module", "name", "bound"),
    [(chunks, "MAX_TEXT_CHARS", 20), (call_module, "MAX_ANSWER_BYTES", 500)],
)
def test_an_answer_without_end_is_cut(
    bench: UpstreamBench, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, bound: int
) -> None:
    monkeypatch.setattr(module, name, bound)
    bench.upstream.give(Reply([chunk({"content": "more "})] * 100, holds=True))
    bench.begin()
    log = ask(bench)
    assert failed(log).code == "engine_failed"
    assert text_of(log).startswith("more more ")
    assert bench.upstream.left.wait(WAIT_S)


def test_a_flood_of_tool_calls_is_cut(bench: UpstreamBench) -> None:
    call = {"index": chunks.MAX_TOOL_CALLS, "function": {"name": "x"}}
    bench.upstream.give(Reply([chunk({"tool_calls": [call]}), DONE]))
    bench.begin()
    assert failed(ask(bench)).code == "engine_failed"


def test_numbers_that_are_none(bench: UpstreamBench) -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": 10**30, "prompt_tokens_details": "x"}
    bench.upstream.give(Reply(answer_of("hi", usage=usage)))
    bench.begin()
    log = ask(bench)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.prompt_tokens == 0
    assert log.terminal.usage.completion_tokens == chunks.MAX_TOKENS


def test_half_characters_reach_the_reader_as_marks(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply([b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n']))
    bench.begin()
    assert text_of(ask(bench)) == "a\N{REPLACEMENT CHARACTER}"


def test_neither_key_nor_prompt_is_logged_or_told(
    bench: UpstreamBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.begin()
    bad = frame({"error": {"message": f"{SECRET} {KEY}", "code": f"bad {KEY}"}})
    for reply in (refusal(400, {"param": SECRET}), refusal(401), refusal(500), Reply([bad])):
        bench.upstream.give(reply, reply)
        end = failed(ask(bench))
        assert KEY not in repr(end)
        assert SECRET not in repr(end)
        bench.upstream.replies.clear()
    assert caplog.records
    assert KEY not in caplog.text
    assert SECRET not in caplog.text


def test_a_server_that_goes_away_and_comes_back(bench: UpstreamBench) -> None:
    bench.begin()
    bench.upstream.give(*[refusal(503)] * 2)
    gid = bench.submit(generate("patience"))

    def state(wanted: str, reason: str) -> bool:
        (status,) = bench.queue.engines(NAME)
        return status.state == wanted and reason in str(status.info.get("reason", ""))

    assert text_of(bench.ended(gid)) == "patience"
    wait_for("ready again", lambda: state("ready", ""), WAIT_S)
    bench.upstream.models_status = 503
    bench.upstream.give(refusal(401))
    assert failed(ask(bench)).code == "engine_failed"
    wait_for("not ready", lambda: state("starting", "key"), WAIT_S)
    assert text_of(ask(bench)) == SECRET
    wait_for("ready again", lambda: state("ready", ""), WAIT_S)
