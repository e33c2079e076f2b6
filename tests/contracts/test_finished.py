"""Ended generations stay in the finished set until their task has stored them."""

from __future__ import annotations

from inference.queues.contract import START, FinishedEntry
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench


def finish(bench: Bench, generation_id: str, **options: object) -> None:
    claim = bench.start(generation_id, **options)
    assert bench.append(claim, 0, STARTED, FINISHED) == "ok"


def test_oldest_first_until_acknowledged(bench: Bench) -> None:
    for generation_id in ("c", "a", "b"):
        finish(bench, generation_id, on_finish="store")
        bench.advance(1)
    entries = [(MODEL, FinishedEntry(item, "store")) for item in ("c", "a", "b")]
    assert bench.queue.finished() == tuple(entries)
    assert bench.queue.finished(limit=2) == tuple(entries[:2])
    bench.queue.finished_ack(MODEL, "c")
    bench.queue.finished_ack(MODEL, "c")
    assert bench.queue.finished() == tuple(entries[1:])
    assert len(bench.queue.read(MODEL, "c", START).entries) == 2


def test_over_all_models(bench: Bench) -> None:
    finish(bench, "a", on_finish="store")
    bench.advance(1)
    bench.submit("b", model="other", on_finish="store")
    bench.queue.cancel("other", "b", "user")
    assert [model for model, _ in bench.queue.finished()] == [MODEL, "other"]


def test_without_a_task_it_isnt_listed(bench: Bench) -> None:
    finish(bench, "a")
    assert bench.queue.finished() == ()


def test_how_long_logs_live(bench: Bench) -> None:
    config = bench.config
    claim = bench.start("plain")
    bench.append(claim, 0, STARTED)
    assert bench.ttl_s("plain") < 0
    bench.append(claim, 1, FINISHED)
    assert abs(bench.ttl_s("plain") - config.ended_keep_s) < 5
    finish(bench, "stored", on_finish="store")
    assert abs(bench.ttl_s("stored") - config.unfinalised_keep_s) < 5
    bench.queue.finished_ack(MODEL, "stored")
    assert abs(bench.ttl_s("stored") - config.ended_keep_s) < 5
    bench.submit("cancelled")
    bench.queue.cancel(MODEL, "cancelled", "user")
    assert abs(bench.ttl_s("cancelled") - config.ended_keep_s) < 5


def test_answers_that_need_no_slot_live_shorter(bench: Bench) -> None:
    bench.queue.submit(bench.utility("u"))
    (claim,) = bench.claim(0)
    bench.append(claim, 0, FINISHED)
    assert abs(bench.ttl_s("u") - bench.config.utility_keep_s) < 5
    assert bench.config.utility_keep_s < bench.config.ended_keep_s


def test_an_ended_one_keeps_no_prompt(server_bench: Bench) -> None:
    bench = server_bench
    finish(bench, "a", on_finish="store")
    assert bench.client is not None
    for key in bench.client.keys(f"{bench.prefix}*g:a"):  # type: ignore[union-attr]
        assert b"hello" not in b"".join(bench.client.hvals(key))  # type: ignore[arg-type]
