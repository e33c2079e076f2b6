"""A step's events are written once, by the owner of the lease only, without holes."""

from __future__ import annotations

from inference.protocol.events import Entry, Failed
from inference.queues.contract import START, Append, Cursor
from inference.queues.keys import model_keys
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta, deltas


def test_entries_come_back_in_order(bench: Bench) -> None:
    claim = bench.start()
    assert bench.append(claim, 0, STARTED, delta("a")) == "ok"
    assert bench.append(claim, 2, delta("b")) == "ok"
    read = bench.queue.read(MODEL, "g", START)
    assert read.entries == (Entry(0, STARTED), Entry(1, delta("a")), Entry(2, delta("b")))
    assert read.cursor == Cursor(1, 2)
    assert read.reset is None
    assert bench.queue.read(MODEL, "g", Cursor(1, 1)).entries == (Entry(2, delta("b")),)


def test_a_read_can_be_limited(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, *deltas("abcde"))
    read = bench.queue.read(MODEL, "g", START, limit=2)
    assert [entry.seq for entry in read.entries] == [0, 1]
    assert read.cursor == Cursor(1, 1)


def test_all_slots_of_a_step_go_in_one_call(bench: Bench) -> None:
    bench.submit("a", "b")
    one, other = bench.claim(2)
    batch = [
        Append("a", one.epoch, 1, 0, (STARTED, delta("x"))),
        Append("b", other.epoch - 1, 1, 0, (STARTED,)),
        Append("b", other.epoch, 1, 0, (STARTED,)),
        Append("unknown", other.epoch, 1, 0, (STARTED,)),
    ]
    assert bench.queue.append(MODEL, "e1", batch) == ("ok", "stale", "ok", "stale")
    assert len(bench.queue.read(MODEL, "a", START).entries) == 2
    assert len(bench.queue.read(MODEL, "b", START).entries) == 1


def test_a_retry_writes_nothing_twice(bench: Bench) -> None:
    claim = bench.start()
    assert bench.append(claim, 0, STARTED, delta("a")) == "ok"
    assert bench.append(claim, 0, STARTED, delta("a"), delta("b")) == "ok"
    assert bench.append(claim, 1, delta("a")) == "ok"
    events = [entry.event for entry in bench.queue.read(MODEL, "g", START).entries]
    assert events == [STARTED, delta("a"), delta("b")]


def test_a_hole_is_a_gap(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    assert bench.append(claim, 2, delta("b")) == "gap"
    assert len(bench.queue.read(MODEL, "g", START).entries) == 1


def test_another_engine_is_refused(bench: Bench) -> None:
    claim = bench.start()
    assert bench.append(claim, 0, STARTED, engine="e2") == "stale"


def test_a_stale_owner_is_refused(bench: Bench) -> None:
    """The engine is stopped for twice its lease, and another has taken over."""
    old = bench.start()
    assert bench.append(old, 0, STARTED, delta("a")) == "ok"
    bench.advance(2 * bench.config.lease_s)
    assert bench.queue.reap(MODEL).requeued == ("g",)
    assert bench.append(old, 2, delta("b")) == "stale"
    (new,) = bench.claim(1, "e2")
    assert new.epoch > old.epoch
    assert bench.append(new, 2, delta("b"), engine="e2") == "ok"
    assert bench.append(old, 2, delta("b"), delta("c")) == "stale"
    assert bench.append(old, 3, FINISHED) == "stale"
    assert not bench.queue.release(MODEL, "e1", "g", old.epoch)
    assert len(bench.queue.read(MODEL, "g", START).entries) == 3


def test_the_same_engine_under_an_old_epoch_is_refused(bench: Bench) -> None:
    old = bench.start()
    bench.queue.engine_gone(MODEL, "e1")
    (new,) = bench.claim(1, "e1")
    assert bench.append(old, 0, STARTED) == "stale"
    assert bench.append(new, 0, STARTED) == "ok"


def test_a_terminal_event_ends_it(bench: Bench) -> None:
    claim = bench.start()
    assert bench.append(claim, 0, STARTED, FINISHED) == "ok"
    status = bench.queue.status(MODEL, "g")
    assert status is not None
    assert (status.state, status.last_seq) == ("ended", 1)
    assert bench.queue.load(MODEL).running == 0
    assert bench.append(claim, 2, FINISHED) == "stale"
    assert bench.append(claim, 0, STARTED, FINISHED) == "stale"
    assert len(bench.queue.read(MODEL, "g", START).entries) == 2


def test_a_refusal_may_come_first(bench: Bench) -> None:
    claim = bench.start()
    refusal = Failed("context_length_exceeded", "too long", details=(("n_prompt_tokens", 9),))
    assert bench.append(claim, 0, refusal) == "ok"
    assert bench.queue.read(MODEL, "g", START).entries == (Entry(0, refusal),)


def test_nothing_is_kept_of_a_stranger(bench: Bench) -> None:
    assert bench.queue.read(MODEL, "g", START).gone


def test_stream_ids_are_incarnation_and_seq(server_bench: Bench) -> None:
    bench = server_bench
    claim = bench.start()
    bench.append(claim, 0, STARTED, delta("a"))
    assert bench.client is not None
    key = model_keys(bench.prefix, MODEL).stream("g")
    found = bench.client.xrange(key)
    assert [entry_id for entry_id, _ in found] == [b"1-0", b"1-1"]  # type: ignore[union-attr]
    assert all(list(fields) == [b"e"] for _, fields in found)  # type: ignore[union-attr]


def test_all_keys_of_a_model_share_a_hash_tag(server_bench: Bench) -> None:
    bench = server_bench
    claim = bench.start(on_finish="store", keep=False, reader_id="r")
    bench.submit("b", lane="background", owner="bob")
    bench.append(claim, 0, STARTED, delta("a"))
    assert bench.client is not None
    keys = {key.decode() for key in bench.client.keys(f"{bench.prefix}*")}  # type: ignore[union-attr]
    assert len(keys) > 8
    assert all(f"{bench.prefix}{{{MODEL}}}:" in key for key in keys - {f"{bench.prefix}models"})
