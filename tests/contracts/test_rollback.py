"""The server came back with an older state: the last writes are lost, the rest is there."""

from __future__ import annotations

from typing import Any

from inference.protocol.events import Entry
from inference.protocol.fold import EMPTY, fold
from inference.queues.contract import START, Beat
from tests.contracts.bench import FINISHED, MODEL, STARTED, Bench, delta


def saved(bench: Bench) -> dict[bytes, Any]:
    """All keys of the queue as they are now."""
    client: Any = bench.client
    return {key: client.dump(key) for key in client.keys(f"{bench.prefix}*")}


def roll_back(bench: Bench, state: dict[bytes, Any]) -> None:
    client: Any = bench.client
    client.delete(*client.keys(f"{bench.prefix}*"))
    for key, value in state.items():
        client.restore(key, 0, value)


LOG = fold(EMPTY, [Entry(0, STARTED), Entry(1, delta("a"))])


def test_a_lost_claim_is_taken_back_by_its_engine(server_bench: Bench) -> None:
    bench = server_bench
    bench.submit("g", "h", on_finish="store")
    before = saved(bench)
    (claim,) = bench.claim(1)
    bench.append(claim, 0, STARTED, delta("a"))
    roll_back(bench, before)
    assert bench.append(claim, 2, delta("b")) == "gap"
    beat = Beat("e1", "ready", running=(("g", claim.epoch),))
    assert bench.queue.beat(MODEL, beat).lost == ()
    assert bench.queue.fold(MODEL, "e1", "g", claim.epoch, LOG)
    assert bench.queue.restore("e1", claim, LOG)
    load = bench.queue.load(MODEL)
    assert (load.waiting, load.running, load.waiting_by_owner) == (1, 1, {"alice": 1})
    assert bench.append(claim, 2, delta("b"), FINISHED) == "ok"
    assert bench.claimed_ids(4) == ["h"]


def test_lost_entries_are_written_again(server_bench: Bench) -> None:
    bench = server_bench
    claim = bench.start()
    bench.append(claim, 0, STARTED)
    before = saved(bench)
    bench.append(claim, 1, delta("a"))
    seen = bench.queue.read(MODEL, "g", START).cursor
    roll_back(bench, before)
    assert bench.append(claim, 2, delta("b")) == "gap"
    assert bench.queue.restore("e1", claim, LOG)
    assert bench.append(claim, 2, delta("b")) == "ok"
    read = bench.queue.read(MODEL, "g", seen)
    assert (read.reset, read.entries) == (None, (Entry(2, delta("b")),))


def test_whoever_claims_it_first_has_it(server_bench: Bench) -> None:
    bench = server_bench
    bench.submit("g")
    before = saved(bench)
    (claim,) = bench.claim(1)
    bench.append(claim, 0, STARTED, delta("a"))
    roll_back(bench, before)
    (other,) = bench.claim(1, "e2")
    assert bench.append(claim, 2, delta("b")) == "stale"
    assert not bench.queue.restore("e1", claim, LOG)
    beat = Beat("e1", "ready", running=(("g", claim.epoch),))
    assert bench.queue.beat(MODEL, beat).lost == ("g",)
    assert bench.append(other, 0, STARTED, engine="e2") == "ok"
