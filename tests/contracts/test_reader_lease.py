"""Requests with `keep` False end soon after their reader has gone."""

from __future__ import annotations

from inference.protocol.events import Cancelled, Entry
from inference.queues.contract import START, Beat, BeatReply
from tests.contracts.bench import FINISHED, MODEL, Bench


def beat(bench: Bench, epoch: int) -> BeatReply:
    return bench.queue.beat(MODEL, Beat("e1", "ready", running=(("g", epoch),)))


def test_queued_ends_when_the_reader_is_gone(bench: Bench) -> None:
    bench.submit("g", keep=False, reader_id="web1")
    bench.advance(bench.config.reader_lease_s + 0.5)
    assert bench.queue.reap(MODEL).cancelled == ("g",)
    assert bench.queue.read(MODEL, "g", START).entries == (Entry(0, Cancelled("reader_gone")),)


def test_a_claim_passes_over_the_readerless(bench: Bench) -> None:
    bench.submit("g", keep=False, reader_id="web1")
    bench.submit("h")
    bench.advance(bench.config.reader_lease_s + 0.5)
    assert bench.claimed_ids(4) == ["h"]
    assert bench.queue.read(MODEL, "g", START).entries == (Entry(0, Cancelled("reader_gone")),)


def test_running_is_told_to_the_engine(bench: Bench) -> None:
    claim = bench.start(keep=False, reader_id="web1")
    assert beat(bench, claim.epoch).cancelled == ()
    bench.advance(bench.config.reader_lease_s + 0.5)
    assert beat(bench, claim.epoch).cancelled == (("g", "reader_gone"),)


def test_renewing_keeps_it(bench: Bench) -> None:
    claim = bench.start(keep=False, reader_id="web1")
    for _ in range(3):
        bench.advance(bench.config.reader_renew_s)
        assert bench.queue.reader_renew(MODEL, "web1", ["g", "nobody"]) == ("nobody",)
        assert beat(bench, claim.epoch) == BeatReply()
    bench.append(claim, 0, FINISHED)
    assert bench.queue.reader_renew(MODEL, "web1", ["g"]) == ("g",)


def test_dead_engine_and_gone_reader(bench: Bench) -> None:
    bench.start(keep=False, reader_id="web1")
    bench.advance(bench.config.lease_s + bench.config.reader_lease_s)
    assert bench.queue.reap(MODEL).cancelled == ("g",)


def test_kept_requests_need_no_reader(bench: Bench) -> None:
    claim = bench.start(keep=True, reader_id="web1")
    assert bench.queue.reader_renew(MODEL, "web1", ["g"]) == ()
    bench.advance(bench.config.reader_lease_s * 3)
    assert beat(bench, claim.epoch) == BeatReply()


def test_the_lease_fits_into_five_seconds(bench: Bench) -> None:
    config = bench.config
    assert config.reader_lease_s + config.heartbeat_s <= 5
    assert config.reader_lease_s >= 2 * config.reader_renew_s
