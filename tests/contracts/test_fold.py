"""At the cap earlier entries become one snapshot, and nothing is lost."""

from __future__ import annotations

from inference.protocol.events import Entry, Snapshot
from inference.protocol.fold import EMPTY, fold, text_of
from inference.queues.contract import START, Claim, Cursor
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta


def fill(bench: Bench, claim: Claim) -> Snapshot:
    """Append until the cap; returns the fold of all that was written."""
    log = fold(EMPTY, [Entry(0, STARTED)])
    assert bench.append(claim, 0, STARTED) == "ok"
    outcome = "ok"
    while outcome == "ok":
        entry = Entry(log.seq + 1, delta("some text, " * 5))
        outcome = bench.append(claim, entry.seq, entry.event)
        log = fold(log, [entry])
        assert log.seq < 100
    assert outcome == "full"
    return log


def test_a_full_stream_is_folded(bench: Bench) -> None:
    claim = bench.start()
    log = fill(bench, claim)
    assert bench.queue.fold(MODEL, "e1", "g", claim.epoch, log)
    read = bench.queue.read(MODEL, "g", START)
    assert read.reset == log
    assert read.entries == ()
    assert read.cursor == Cursor(1, log.seq)
    assert bench.append(claim, log.seq + 1, delta("!")) == "ok"


def test_readers_behind_are_reset_and_others_are_not(bench: Bench) -> None:
    claim = bench.start()
    log = fill(bench, claim)
    before = Cursor(1, log.seq - 1)
    bench.queue.fold(MODEL, "e1", "g", claim.epoch, log)
    bench.append(claim, log.seq + 1, delta("!"), FINISHED)
    tail = (Entry(log.seq + 1, delta("!")), Entry(log.seq + 2, FINISHED))
    read = bench.queue.read(MODEL, "g", before)
    assert (read.reset, read.entries) == (log, tail)
    read = bench.queue.read(MODEL, "g", Cursor(1, log.seq))
    assert (read.reset, read.entries) == (None, tail)
    assert read.cursor == Cursor(1, log.seq + 2)


def test_entries_after_the_snapshot_stay_and_count(bench: Bench) -> None:
    claim = bench.start()
    log = fill(bench, claim)
    early = fold(EMPTY, bench.queue.read(MODEL, "g", START).entries[:3])
    assert bench.queue.fold(MODEL, "e1", "g", claim.epoch, early)
    read = bench.queue.read(MODEL, "g", START)
    assert read.reset == early
    assert fold(early, read.entries) == log
    bench.append(claim, log.seq + 1, *([delta("x" * 60)] * 3))
    assert bench.append(claim, log.seq + 4, delta("x" * 60)) == "full"


def test_only_the_owner_folds(bench: Bench) -> None:
    claim = bench.start()
    log = fill(bench, claim)
    assert not bench.queue.fold(MODEL, "e2", "g", claim.epoch, log)
    assert not bench.queue.fold(MODEL, "e1", "g", claim.epoch - 1, log)
    assert bench.queue.read(MODEL, "g", START).reset is None


def test_a_fold_beyond_the_log_is_ignored(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    assert bench.queue.fold(MODEL, "e1", "g", claim.epoch, Snapshot(seq=5))
    assert bench.queue.read(MODEL, "g", START).entries == (Entry(0, STARTED),)


def test_the_next_engine_gets_snapshot_and_entries_as_one(bench: Bench) -> None:
    claim = bench.start()
    log = fill(bench, claim)
    bench.queue.fold(MODEL, "e1", "g", claim.epoch, log)
    bench.append(claim, log.seq + 1, delta("!"))
    bench.queue.engine_gone(MODEL, "e1")
    (again,) = bench.claim(1, "e2")
    assert again.resume == fold(log, [Entry(log.seq + 1, delta("!"))])
    assert again.resume is not None
    assert text_of(again.resume).endswith("!")


def test_a_cursor_ahead_of_the_log_is_reset(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    read = bench.queue.read(MODEL, "g", Cursor(1, 9))
    assert read.reset == EMPTY
    assert read.entries == (Entry(0, STARTED),)


def test_a_cursor_of_another_incarnation_is_reset(bench: Bench) -> None:
    claim = bench.start()
    bench.append(claim, 0, STARTED, delta("a"))
    read = bench.queue.read(MODEL, "g", Cursor(7, 0))
    assert read.reset == EMPTY
    assert len(read.entries) == 2
    assert read.cursor == Cursor(1, 1)
