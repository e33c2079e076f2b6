"""What another version wrote: readers skip what they don't know, and a claim ends alone."""

from __future__ import annotations

import pytest

from inference.protocol.events import Entry, Failed, Unknown
from inference.protocol.fold import EMPTY, fold
from inference.queues.contract import START
from inference.queues.keys import model_keys
from tests.contracts.bench import MODEL, STARTED, Bench, delta

LATER_EVENT = '{"t":"Thought","depth":3}'


def overwrite_request(bench: Bench, generation_id: str, text: str) -> None:
    assert bench.client is not None
    bench.client.hset(model_keys(bench.prefix, MODEL).generation(generation_id), "request", text)


def overwrite_entry(bench: Bench, generation_id: str, seq: int, text: str) -> None:
    """Let the last entry of a log be `text`."""
    assert bench.client is not None
    key = model_keys(bench.prefix, MODEL).stream(generation_id)
    bench.client.delete(key)
    bench.client.xadd(key, {"e": text}, id=f"1-{seq}")


def assert_unreadable(bench: Bench, generation_id: str, seq: int) -> None:
    status = bench.queue.status(MODEL, generation_id)
    assert status is not None
    assert (status.state, status.last_seq) == ("ended", seq)
    if seq == 0:
        (entry,) = bench.queue.read(MODEL, generation_id, START).entries
        assert isinstance(entry.event, Failed)
        assert entry.event.code == "not_supported"


@pytest.mark.parametrize("text", ["", "{", '{"t":"GenerateRequest","version":2}', '{"t":"New"}'])
def test_an_unreadable_request_ends_alone(server_bench: Bench, text: str) -> None:
    bench = server_bench
    bench.submit("a")
    bench.submit("bad", on_finish="store")
    bench.submit("c")
    overwrite_request(bench, "bad", text)
    assert bench.claimed_ids(3) == ["a", "c"]
    assert_unreadable(bench, "bad", 0)
    assert [entry.generation_id for _, entry in bench.queue.finished()] == ["bad"]
    assert bench.claimed_ids(3) == []


def test_an_unreadable_log_ends_alone(server_bench: Bench) -> None:
    bench = server_bench
    bench.append(bench.start("bad"), 0, STARTED, delta("a"))
    bench.start("b")
    overwrite_entry(bench, "bad", 1, '{"t":"Delta","kind":"smell"}')
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.claimed_ids(3, "e2") == ["b"]
    assert_unreadable(bench, "bad", 2)


def test_an_unreadable_snapshot_ends_alone(server_bench: Bench) -> None:
    bench = server_bench
    assert bench.client is not None
    claim = bench.start("bad")
    bench.append(claim, 0, STARTED, delta("a"))
    log = fold(EMPTY, [Entry(0, STARTED), Entry(1, delta("a"))])
    assert bench.queue.fold(MODEL, "e1", "bad", claim.epoch, log)
    bench.client.set(f"{model_keys(bench.prefix, MODEL).base}n:bad", '{"t":"Else"}')
    bench.start("b")
    bench.queue.engine_gone(MODEL, "e1")
    assert bench.claimed_ids(3, "e2") == ["b"]
    assert_unreadable(bench, "bad", 2)


def test_an_unknown_event_is_read_and_passed_over(server_bench: Bench) -> None:
    bench = server_bench
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    assert bench.client is not None
    key = model_keys(bench.prefix, MODEL)
    bench.client.xadd(key.stream("g"), {"e": LATER_EVENT}, id="1-1")
    bench.client.hset(key.generation("g"), "last", "1")
    bench.append(claim, 2, delta("a"))
    entries = (Entry(0, STARTED), Entry(1, Unknown("Thought")), Entry(2, delta("a")))
    assert bench.queue.read(MODEL, "g", START).entries == entries
    bench.queue.engine_gone(MODEL, "e1")
    (again,) = bench.claim(1, "e2")
    assert again.resume == fold(EMPTY, entries)
